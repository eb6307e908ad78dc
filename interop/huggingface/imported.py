"""Write a model that came from transformers (`init_from`), fine-tuned here, as the architecture that it was."""

from __future__ import annotations

from pathlib import Path

import transformers
from transformers import PreTrainedModel

from configs.errors import UserError
from data.tokens.pretrained_tokenizer import PretrainedTokenizer
from data.tokens.tokenizer import Tokenizer
from interop.export_input import Trained
from interop.huggingface.generation import translating, writing
from interop.pretrained.architecture import Shapes
from interop.pretrained.writing import architecture_for, write_folder, write_tokenizers
from model.gpt import GPT


def is_imported(trained: Trained) -> bool:
    """Whether the model, or the one that it was initialised from, came with its tokenizer from transformers."""
    return isinstance(trained.tokenizers[0], PretrainedTokenizer)


def write_imported(trained: Trained, folder: Path) -> type[PreTrainedModel]:
    """Write config, weights, tokenizer files as they came, and generation settings -> the class of the model."""
    model, tokenizers = trained.model, trained.tokenizers
    gpt = isinstance(model, GPT)
    shapes = Shapes(model.config, tokenizers[0].vocab_size, tokenizers[-1].vocab_size)
    architecture = architecture_for("gpt" if gpt else "translate", shapes)
    if architecture is None:
        raise UserError(f"{trained.run}: config.yaml is not that of a model of transformers any more: not exported")
    ids = gpt_ids(tokenizers[0]) if gpt else translator_ids(tokenizers[-1])
    write_folder(architecture, shapes, dict(model.named_parameters()), ids, folder)
    write_tokenizers(tokenizers, model.config.context, folder)
    never = tokenizers[-1].never_written
    generation = (
        writing(model.config, never, ids) if gpt else translating(model.config, never, trained.config["trainer"], ids)
    )
    generation.save_pretrained(folder)
    model_class: type[PreTrainedModel] = getattr(transformers, architecture.class_name)
    return model_class


def gpt_ids(tokenizer: Tokenizer) -> dict[str, int]:
    """Return the special ids of a language model, as its config.json names them."""
    return {"bos_token_id": tokenizer.start_id, "eos_token_id": tokenizer.eos_id, "pad_token_id": tokenizer.pad_id}


def translator_ids(tokenizer: Tokenizer) -> dict[str, int]:
    """Return the special ids of a translator, as its config.json names them."""
    return {
        "decoder_start_token_id": tokenizer.bos_id,
        "bos_token_id": tokenizer.bos_id,
        "eos_token_id": tokenizer.eos_id,
        "pad_token_id": tokenizer.pad_id,
    }
