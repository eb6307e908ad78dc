"""Generate text or a translation from a model and a prompt: sampling, beam search, streaming."""
