"""Write a trained model as a folder of Hugging Face transformers."""

from __future__ import annotations

from pathlib import Path

from transformers import GenerationConfig
from transformers.utils import logging

from configs.errors import UserError
from data.tokens.tokenizer import Tokenizer
from interop.huggingface.gpt import causal_lm
from interop.settings import ExportSettings
from interop.trained import Trained
from model.gpt import GPT


def write_huggingface(trained: Trained, folder: Path, settings: ExportSettings) -> list[str]:
    """Write config, weights and generation settings; as `interop.formats.Exporter`."""
    logging.disable_progress_bar()
    model = trained.model
    if not isinstance(model, GPT):
        raise UserError("format=huggingface: translators are not supported yet")
    special = {"bos_token_id": Tokenizer.eos_id, "eos_token_id": Tokenizer.eos_id, "pad_token_id": Tokenizer.pad_id}
    theirs = causal_lm(model, special)
    theirs.generation_config = GenerationConfig(
        do_sample=True,
        temperature=0.8,
        top_k=0,
        max_new_tokens=min(200, model.config.context // 2),
        suppress_tokens=trained.tokenizers[0].never_written,
        **special,
    )
    theirs.save_pretrained(folder)
    return [f"wrote {theirs.config.model_type} for transformers"]
