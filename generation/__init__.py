"""From a model and a prompt to text or a translation: sampling, beam search, streaming."""
