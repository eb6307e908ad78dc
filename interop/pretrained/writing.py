"""Write a model that came from transformers, or is built like one that did, as a folder of transformers again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from data.tokens.huggingface_tokenizer import HuggingFaceTokenizer
from data.tokens.marian_tokenizer import MarianTokenizer
from data.tokens.tokenizer import Tokenizer
from interop.pretrained.architecture import Architecture, Shapes
from interop.pretrained.config_values import Values
from interop.pretrained.conversion import to_theirs
from interop.pretrained.folder import ARCHITECTURES, CONFIG, WEIGHTS, settled
from interop.pretrained.tokenizers import FAST

IRRELEVANT = ("dropout", "attention_dropout", "vocab_multiple", "mask_documents")
"""Settings that do not change what a trained model computes."""


def architecture_for(task: str, shapes: Shapes) -> Architecture | None:
    """Return an architecture that computes a model exactly: one whose config.json, read back, gives the same config."""
    irrelevant = {name: getattr(shapes.config, name) for name in IRRELEVANT}
    for architecture in ARCHITECTURES.values():
        if architecture.task != task:
            continue
        try:
            values = Values(CONFIG, architecture.write(shapes))
        except KeyError:  # an activation that it lacks
            continue
        config = settled(replace(architecture.read(values), **irrelevant))
        if not values.problems and config == settled(shapes.config):
            return architecture
    return None


def write_folder(
    architecture: Architecture, shapes: Shapes, weights: Mapping[str, Tensor], ids: Mapping[str, Any], folder: Path
) -> None:
    """Write config.json and model.safetensors into an existing folder. ids: `bos_token_id` and others."""
    values = {
        "model_type": architecture.model_type,
        "architectures": [architecture.class_name],
        "dtype": "float32",
        **architecture.write(shapes),
        **ids,
    }
    (folder / CONFIG).write_text(f"{json.dumps(values, indent=2)}\n", encoding="utf-8")
    save_file(to_theirs(architecture.pieces(shapes), weights), folder / WEIGHTS, metadata={"format": "pt"})


def write_tokenizers(tokenizers: Sequence[Tokenizer], context: int, folder: Path) -> None:
    """Write the files of imported tokenizers as they came, into an existing folder. context: of the model."""
    first, last = tokenizers[0], tokenizers[-1]
    if isinstance(first, HuggingFaceTokenizer):
        names = {"bos_token": first.start_id, "eos_token": first.eos_id, "pad_token": first.pad_id}
        content: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
        content |= {role: first.spellings[token] for role, token in names.items()}
        (folder / FAST).write_text(json.dumps(first.content["tokenizer"], ensure_ascii=False), encoding="utf-8")
    else:
        assert isinstance(first, MarianTokenizer)
        assert isinstance(last, MarianTokenizer)
        separate = first.vocabulary != last.vocabulary
        content = {"tokenizer_class": "MarianTokenizer", "separate_vocabs": separate}
        for side, tokenizer in (("source", first), ("target", last)):
            (folder / f"{side}.spm").write_bytes(tokenizer.sentencepiece_model)
        for name, tokenizer in {"vocab.json": first, **({"target_vocab.json": last} if separate else {})}.items():
            (folder / name).write_text(json.dumps(tokenizer.vocabulary, ensure_ascii=False), encoding="utf-8")
    content |= {"model_max_length": context, "clean_up_tokenization_spaces": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(content, indent=2, ensure_ascii=False), encoding="utf-8")
