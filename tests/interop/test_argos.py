"""A package of Argos Translate: its layout, and translations as Argos Translate makes them."""

from __future__ import annotations

import json
import zipfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from torch import nn

from configs.errors import UserError
from data.config import DataConfig, TokenizerConfig
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from generation.config import TranslationConfig
from generation.translation import best_translations
from generation.translation_result import longest_target
from interop.settings import ExportSettings
from interop.trained import Trained
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from training.config import TrainConfig

pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")
import ctranslate2

from interop.argos import write_argos

CONFIG = ModelConfig(layers=1, heads=2, width=32, context=48)
PAIRS = {
    "the dog runs": "犬が走る。",
    "a fox": "狐",
    "the fox and the dog run over the red hill": "狐と犬が赤い丘を走る。",
}
SENTENCES = [*PAIRS, "a dog and a fox", "the red fox runs over the dog", "the hill"]


@pytest.fixture(scope="module")
def translator() -> Trained:
    """Return a translator that has learned three pairs, and its tokenizer, as an exporter gets them."""
    torch.manual_seed(0)
    tokenizer = SentencePieceTokenizer.train([*PAIRS, *PAIRS.values()], TokenizerConfig(kind="char"))
    model = EncoderDecoder(CONFIG, tokenizer.vocab_size, tokenizer.vocab_size, shared=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(60):
        for source, target in PAIRS.items():
            ids = tokenizer.encode(target)
            inputs = torch.tensor([[tokenizer.bos_id, *ids]])  # [1, T]
            logits = model(torch.tensor([[*tokenizer.encode(source), tokenizer.eos_id]]), inputs)  # [1, T, V]
            nn.functional.cross_entropy(logits[0], torch.tensor([*ids, tokenizer.eos_id])).backward()
        optimizer.step()
        optimizer.zero_grad()
    config = asdict(replace(TrainConfig(task="translate"), model=CONFIG))
    return Trained(model.eval(), [tokenizer], Path("runs/enja"), 7, config)


def test_a_package_is_laid_out_and_translates_as_argos_translate_does(translator: Trained, tmp_path: Path) -> None:
    """Guards against files that Argos Translate does not find (argostranslate/package.py), a source without its end,
    and pieces that its tokenizer does not have."""
    write_argos(translator, tmp_path, ExportSettings(to=str(tmp_path), format="argos", languages="en,ja"))
    assert {path.name for path in tmp_path.iterdir()} == {"README.md", "translate-en_ja-1_0.argosmodel"}
    installed = tmp_path / "installed"
    with zipfile.ZipFile(tmp_path / "translate-en_ja-1_0.argosmodel") as archive:
        archive.extractall(installed)
    (package,) = installed.iterdir()  # one root folder
    metadata = json.loads((package / "metadata.json").read_text(encoding="utf-8"))
    assert metadata["type"] == "translate"
    languages = [metadata[key] for key in ("from_code", "from_name", "to_code", "to_name")]
    assert languages == ["en", "English", "ja", "Japanese"]
    assert "language: [en, ja]\n" in (tmp_path / "README.md").read_text(encoding="utf-8")

    # As argostranslate/translate.py: its settings, its tokenizer. Only the limits of length are ours; their default
    # excludes an empty hypothesis, which ours counts among those that have ended.
    processor = sentencepiece.SentencePieceProcessor(model_file=str(package / "sentencepiece.model"))
    peer = ctranslate2.Translator(str(package / "model"), device="cpu", intra_threads=1)
    options = {"replace_unknowns": True, "max_batch_size": 32, "batch_type": "tokens", "beam_size": 4}
    options |= {"num_hypotheses": 1, "length_penalty": 0.2, "return_scores": True}
    found = []
    for sentence in SENTENCES:
        pieces = processor.encode(sentence, out_type=str)
        limit = longest_target(len(pieces) + 1, CONFIG.context)
        (result,) = peer.translate_batch([pieces], min_decoding_length=0, max_decoding_length=limit, **options)
        found.append(processor.decode_pieces(result.hypotheses[0]))
    settings = TranslationConfig(beam_size=4, length_penalty=0.2)
    ours = best_translations(translator.model, translator.tokenizers, SENTENCES, settings)
    assert found[:2] == ["犬が走る。", "狐"]
    assert found == [one.text for one in ours]


def test_texts_longer_than_the_context_are_translated(translator: Trained, tmp_path: Path) -> None:
    """Guards against a table of positions that ends before Argos Translate's limits, 1024 pieces in and 256 out."""
    (tokenizer,) = translator.tokenizers
    shape = replace(CONFIG, position="sinusoidal", norm="layer", qk_norm=False)
    model = EncoderDecoder(shape, tokenizer.vocab_size, tokenizer.vocab_size, shared=True).eval()
    write_argos(replace(translator, model=model), tmp_path, ExportSettings(to="out", format="argos", languages="en,ja"))
    with zipfile.ZipFile(tmp_path / "translate-en_ja-1_0.argosmodel") as archive:
        archive.extractall(tmp_path)
    peer = ctranslate2.Translator(str(tmp_path / "translate-en_ja-1_0" / "model"), device="cpu", intra_threads=1)
    pieces = [tokenizer.spellings[token] for token in tokenizer.encode("the dog " * 400)]
    (result,) = peer.translate_batch([pieces], beam_size=1, min_decoding_length=250)
    assert len(pieces) > 2000
    assert 250 <= len(result.hypotheses[0]) <= 256


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokenizers": 2}, "tokenizer.shared=false"),
        ({"position": "learned"}, "model.position=learned"),
        ({"task": "gpt"}, "format=argos: it translates"),
        ({"source": "pairs"}, "needs the codes of the languages"),
    ],
)
def test_what_a_package_cannot_have_is_refused_by_name(
    translator: Trained, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    """Guards against a package that fails in Argos Translate."""
    size = translator.tokenizers[0].vocab_size
    if "tokenizers" in change:
        translator = replace(translator, tokenizers=translator.tokenizers * 2)
    if "position" in change:
        translator = replace(translator, model=EncoderDecoder(replace(CONFIG, **change), size, size))
    if "task" in change:
        translator = replace(translator, model=GPT(CONFIG, size))
    if "source" in change:
        translator = replace(translator, config={"data": asdict(DataConfig(**change))})
    with pytest.raises(UserError, match=message):
        write_argos(translator, tmp_path, ExportSettings(to=str(tmp_path), format="argos"))
    assert list(tmp_path.iterdir()) == []
