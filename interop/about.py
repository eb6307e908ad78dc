"""What is known of a trained run, in sentences: for the model card, for exported pages and for recordings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from configs.program import expanded
from interop.export_input import Trained
from model.encoder_decoder import EncoderDecoder
from model.size import count_parameters


def about(trained: Trained) -> dict[str, str]:
    """Return what a page or a recording made now says of a run: title, model, data, command, date and licence, which is
    "" unless the config states it."""
    config = trained.config
    return {
        "title": config.get("title") or trained.run.resolve().name,
        "model": introduction(trained),
        "data": data(config["data"], config["task"]),
        "command": recipe(config),
        "date": datetime.now(UTC).date().isoformat(),
        "licence": config.get("licence") or "",
    }


def introduction(trained: Trained) -> str:
    """Return what the model is: task, size, tokens, steps."""
    model, settings = trained.model, trained.config
    shape = model.config
    if isinstance(model, EncoderDecoder):
        kind = f"A translator (encoder-decoder) of {shape.encoder_depth} + {shape.layers} layers"
    else:
        kind = f"A language model (GPT) of {shape.layers} layer{'s' if shape.layers > 1 else ''}"
    sizes = " and ".join(f"{tokenizer.vocab_size:,}" for tokenizer in trained.tokenizers)
    return (
        f"{kind}, {shape.heads} heads and width {shape.width}, with a context of {shape.context} tokens: "
        f"{count_parameters(model):,} parameters, {settings['tokenizer']['kind']} vocabulary of {sizes}. "
        f"Trained with Chumoku; these are the weights of step {trained.step:,}."
    )


def data(settings: Mapping[str, Any], task: str) -> str:
    """Return what the model was trained on. Of local files only the names are given."""
    source, path = settings["source"], settings["path"]
    if source == "primer":
        what = "sentence pairs, English and Japanese" if task == "translate" else "stories in English"
        size = settings["sentences"] if task == "translate" else settings["stories"]
        text = f"The built-in corpus of Chumoku: {size:,} synthetic {what}, generated from a grammar."
    elif source == "hub" and not is_folder(path):
        parts = {"subset": "subset", "revision": "revision", "train_split": "split"}
        named = "".join(f", {word} `{settings[key]}`" for key, word in parts.items() if settings.get(key))
        text = f"[{path}](https://huggingface.co/datasets/{path}){named}."
    else:
        # The query of a URL may be a signature with which anyone can download the file, and contain commas.
        files = re.split(r",(?=\w+://)" if "://" in str(path) else ",", str(path))
        names = ", ".join(f"`{Path(urlsplit(file).path if '://' in file else file).name}`" for file in files)
        text = f"{'Sentence pairs' if task == 'translate' else 'Text'} from {names}."
    both = " Trained in both directions: a source is translated the other way if the id of bos stands before its ids."
    return text + (both if settings["both_directions"] and task == "translate" else "")


def is_folder(path: str) -> bool:
    """Whether a dataset of `data=hub` is a folder of this machine, and not `owner/name`."""
    return not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", path) or expanded(path).is_dir()


def recipe(settings: Mapping[str, Any]) -> str:
    """Return the command that trains such a run, without the settings that were changed."""
    chosen = f"+experiment={settings['experiment']}" if settings.get("experiment") else f"task={settings['task']}"
    return f"python train.py {chosen}"
