"""Our models as folders of Hugging Face transformers."""
