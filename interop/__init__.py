"""Formats of other programs: our models in Hugging Face transformers and in inference engines, and theirs in ours."""
