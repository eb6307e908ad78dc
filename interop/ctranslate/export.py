"""Write a trained model as a folder for CTranslate2: its model, the SentencePiece tokenizers, and a model card."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ctranslate2.specs import TransformerDecoderModelSpec, TransformerSpec

from configs.errors import UserError
from data.tokens.marian_tokenizer import MarianTokenizer
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from data.tokens.tokenizer import Tokenizer
from interop.ctranslate.model import generator_spec, translator_spec
from interop.ctranslate.usage import usage
from interop.export_input import Trained
from interop.model_card import model_card
from interop.settings import ExportSettings
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT

ONE, TWO = ("sentencepiece.model",), ("sentencepiece.source.model", "sentencepiece.target.model")
"""Names of the tokenizer files: of a run with one tokenizer, and with two."""


def write_ctranslate2(trained: Trained, folder: Path, settings: ExportSettings) -> list[str]:
    """Write model, tokenizers and model card; as `interop.formats.Exporter`."""
    pieces: list[bytes] = []
    for tokenizer in trained.tokenizers:
        if isinstance(tokenizer, MarianTokenizer):
            pieces.append(tokenizer.sentencepiece_model)
        elif isinstance(tokenizer, SentencePieceTokenizer):
            pieces.append(tokenizer.model)
        else:
            fix = "use format=huggingface, and ct2-transformers-converter on that folder"
            raise UserError(f"format=ctranslate2: the tokenizer came with a model of transformers (init_from): {fix}")
    write_model(trained.model, trained.tokenizers, folder)
    names = ONE if len(trained.tokenizers) == 1 else TWO
    for name, model in zip(names, pieces, strict=True):
        (folder / name).write_bytes(model)
    (folder / "README.md").write_text(model_card(trained, usage(trained, names), []), encoding="utf-8")
    kind = "Generator" if isinstance(trained.model, GPT) else "Translator"
    return [
        f"{settings.to}: a model for CTranslate2, in float32; compute_type='int8' rounds it while it is loaded",
        f"ctranslate2.{kind}({str(settings.to)!r}) takes and returns the pieces of {' and '.join(names)}",
        "README.md: how to use it",
    ]


def write_model(model: GPT | EncoderDecoder, tokenizers: Sequence[Tokenizer], folder: Path) -> None:
    """Write a model, in float32, into an existing folder. Its tokens are the pieces of the tokenizers.

    Raises UserError naming each option that CTranslate2 does not have.
    """
    source, target = tokenizers[0], tokenizers[-1]
    spec: TransformerDecoderModelSpec | TransformerSpec
    special = {"start": target.start_id, "bos": target.bos_id, "eos": target.eos_id, "unk": target.unk_id}
    if isinstance(model, GPT):
        spec = generator_spec(model, target.spellings, special, target.never_written)
    else:
        spec = translator_spec(model, source.spellings, target.spellings, special, target.never_written)
    save(spec, folder)


def save(spec: TransformerDecoderModelSpec | TransformerSpec, folder: Path) -> None:
    """Write a specification into an existing folder. Equal matrices are written once: tied embeddings, and gate and
    value of relu2."""
    spec.validate()
    spec.optimize()
    spec.save(str(folder))
