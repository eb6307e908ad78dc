"""Record the attention of models of the library transformers."""
