"""A folder that `export.py` wrote of a run comes back by `init_from`: the same weights, the same ids."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from configs.errors import UserError
from data.config import TokenizerConfig
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from data.tokens.tokenizer import Tokenizer
from interop.export_input import Trained
from interop.huggingface.export import write_huggingface
from interop.pretrained.conversion import load_weights
from interop.pretrained.folder import read_folder
from interop.pretrained.tokenizers import OWN, imported_tokenizers, tokenizer_config
from interop.settings import ExportSettings
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from tests.data.conftest import made_text
from tests.interop.conftest import sharpened
from tests.interop.huggingface.test_gpt import HOLDERS
from training.config import TrainConfig
from training.run_folder.init_from import read_origin

SIZE = {"layers": 2, "heads": 2, "width": 32, "context": 48}
TOKENIZERS = {
    "char": TokenizerConfig("char"),
    "bpe": TokenizerConfig("bpe", 120),
    "unigram": TokenizerConfig("unigram", 120),
    "char with bytes": TokenizerConfig("char", byte_fallback=True),
    "bpe with bytes": TokenizerConfig("bpe", 400, byte_fallback=True),
    "unigram with bytes": TokenizerConfig("unigram", 400, byte_fallback=True),
}
TEXTS = ["Line 7: the\told </s>\n\n", "猫 <unk> ▁ \ufdd0 é <|endoftext|>", "", "   \0\r\n"]


def exported(folder: Path, flavour: ModelConfig, tokenizer: Tokenizer) -> GPT:
    """Write a GPT with random weights, with two unused rows of its matrices, as `export.py` does."""
    config = replace(flavour, **SIZE, vocab_multiple=8)
    model = sharpened(GPT(config, tokenizer.vocab_size, tokenizer.eos_id))
    assert isinstance(model, GPT)
    folder.mkdir()
    trained = Trained(model, [tokenizer], folder.parent, 5, asdict(TrainConfig(model=config)))
    write_huggingface(trained, folder, ExportSettings(to=str(folder)))
    return model


def check(folder: Path, model: GPT, tokenizer: Tokenizer) -> None:
    """Assert that a folder is the model and the tokenizer."""
    source = read_folder(folder)
    (result,) = imported_tokenizers(source)
    assert result.model == tokenizer.model
    assert [result.encode(text) for text in TEXTS] == [tokenizer.encode(text) for text in TEXTS]
    assert (result.special_ids, result.stop_ids) == (tokenizer.special_ids, tokenizer.stop_ids)
    again = GPT(source.config, result.vocab_size, result.eos_id).eval()
    weights = load_weights(source)
    again.load_state_dict({name: weights.get(name, tensor) for name, tensor in again.state_dict().items()})
    ids = torch.tensor([tokenizer.encode(made_text())[: SIZE["context"]]])
    with torch.no_grad():
        torch.testing.assert_close(again(ids), model(ids), rtol=1e-4, atol=1e-5)
    if model.config.position != "sinusoidal":  # which become a table of learned positions
        for name, weight in dict(model.named_parameters()).items():
            assert torch.equal(weights[name][: len(weight)], weight[: len(weights[name])])


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_tokenizers_come_back(kind: str, tmp_path: Path) -> None:
    """Guards against refused or renumbered pieces, and a kind in the config that `tokenizer.sampling` would believe."""
    tokenizer = SentencePieceTokenizer.train([made_text(), "猫é"], TOKENIZERS[kind])
    model = exported(tmp_path / "out", HOLDERS["llama"], tokenizer)
    check(tmp_path / "out", model, tokenizer)
    read = tokenizer_config(read_folder(tmp_path / "out"))
    given = TOKENIZERS[kind]
    assert read == TokenizerConfig(given.kind, tokenizer.vocab_size, byte_fallback=given.byte_fallback)


@pytest.mark.parametrize("architecture", HOLDERS)
def test_every_flavour_comes_back(architecture: str, tmp_path: Path) -> None:
    """Guards against an architecture that is written but not read."""
    tokenizer = SentencePieceTokenizer.train([made_text()], TOKENIZERS["bpe"])
    model = exported(tmp_path / "out", HOLDERS[architecture], tokenizer)
    assert read_folder(tmp_path / "out").architecture.model_type == architecture
    check(tmp_path / "out", model, tokenizer)


def test_what_does_not_come_back_is_refused_with_a_way_on(tmp_path: Path) -> None:
    """Guards against a dead end, and a tokenizer that is not the one of the model beside it."""
    folder = tmp_path / "out"
    tokenizer = SentencePieceTokenizer.train([made_text()], TOKENIZERS["bpe"])
    exported(folder, HOLDERS["llama"], tokenizer)
    SentencePieceTokenizer.train([made_text() + "x"], TokenizerConfig("bpe", 120)).save(folder / OWN)
    with pytest.raises(UserError, match=f"{OWN}: is not the tokenizer of tokenizer.json and config.json"):
        imported_tokenizers(read_folder(folder))
    (folder / OWN).write_bytes(b"damaged")
    with pytest.raises(UserError, match="its tokenizer is damaged"):
        imported_tokenizers(read_folder(folder))
    (folder / OWN).unlink()
    with pytest.raises(UserError, match=f"is an export without {OWN}; export the run again"):
        tokenizer_config(read_folder(folder))

    flavour = ModelConfig(**SIZE)
    translator = sharpened(EncoderDecoder(flavour, tokenizer.vocab_size, tokenizer.vocab_size, shared=True))
    assert isinstance(translator, EncoderDecoder)
    config = asdict(TrainConfig(task="translate", model=flavour))
    (tmp_path / "translator").mkdir()
    write_huggingface(
        Trained(translator, [tokenizer], tmp_path, 5, config), tmp_path / "translator", ExportSettings(to="out")
    )
    assert json.loads((tmp_path / "translator" / "config.json").read_text())["model_type"] == "chumoku"
    with pytest.raises(UserError, match="of a run that was exported, give the run: init_from=runs/NAME"):
        read_origin(str(tmp_path / "translator"))
