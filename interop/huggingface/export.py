"""Write a trained model as a folder of Hugging Face transformers."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerFast
from transformers.utils import logging

from data.tokens.tokenizer import Tokenizer
from interop.export_input import Trained
from interop.huggingface.check import check_exported
from interop.huggingface.generation import GPT_SPECIAL_IDS, translating, writing
from interop.huggingface.gpt import causal_lm
from interop.huggingface.imported import is_imported, write_imported
from interop.huggingface.tokenizer import convert
from interop.huggingface.translator import seq2seq_lm
from interop.huggingface.usage import usage
from interop.model_card import model_card
from interop.pretrained.tokenizers import OWN
from interop.settings import ExportSettings
from model.gpt import GPT

TARGET_TOKENIZER = "target_tokenizer"
"""Folder of the target's tokenizer, if it is not that of the source."""


def write_huggingface(trained: Trained, folder: Path, settings: ExportSettings) -> list[str]:
    """Write config, weights, tokenizer, generation settings and model card; as `interop.formats.Exporter`."""
    target = None
    if is_imported(trained):
        quiet()
        kind = write_imported(trained, folder)
    else:
        theirs = in_transformers(trained)
        kind = type(theirs)
        theirs.save_pretrained(folder)
        target = save_tokenizers(trained, folder)
    shutil.copymode(folder / "config.json", folder / "model.safetensors")  # which would be readable by its owner only

    checks = check_exported(trained, folder, kind)
    use = usage(trained, kind.config_class.model_type, target)
    (folder / "README.md").write_text(model_card(trained, use, checks), encoding="utf-8")
    return [f"{settings.to}: {kind.__name__} of transformers", *checks, "README.md: how to use it"]


def quiet() -> None:
    """Silence transformers."""
    logging.disable_progress_bar()
    logging.set_verbosity_error()  # it warns of texts longer than the context


def in_transformers(trained: Trained) -> PreTrainedModel:
    """Return the model as one of transformers, with its generation settings; transformers is quiet from now on."""
    quiet()
    model, never = trained.model, trained.tokenizers[-1].never_written
    if isinstance(model, GPT):
        theirs = causal_lm(model, GPT_SPECIAL_IDS)
        theirs.generation_config = writing(model.config, never)
    else:
        theirs = seq2seq_lm(model)
        theirs.generation_config = translating(model.config, never, trained.config["trainer"])
    return theirs


def save_tokenizers(trained: Trained, folder: Path) -> str | None:
    """Write the tokenizer; that of the target, if it is another, into a folder of its own, whose name is returned."""
    source, target = trained.tokenizers[0], trained.tokenizers[-1]
    save_tokenizer(source, folder, trained)
    if target is source:
        return None
    save_tokenizer(target, folder / TARGET_TOKENIZER, trained)
    return TARGET_TOKENIZER


def save_tokenizer(ours: Tokenizer, folder: Path, trained: Trained) -> None:
    """Write `tokenizer.json` and `tokenizer_config.json`, and for `init_from` the model of SentencePiece. Words of a
    text such as </s> remain text."""
    gpt = isinstance(trained.model, GPT)
    theirs = convert(ours, before=gpt)
    names: dict[str, Any] = {
        "pad_token": theirs.id_to_token(ours.pad_id),
        "bos_token": theirs.id_to_token(ours.eos_id if gpt else ours.bos_id),
        "eos_token": theirs.id_to_token(ours.eos_id),
    }
    PreTrainedTokenizerFast(
        tokenizer_object=theirs,
        model_max_length=trained.model.config.context,
        padding_side="left" if gpt else "right",
        split_special_tokens=True,
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
        **names,
    ).save_pretrained(folder)
    ours.save(folder / OWN)
