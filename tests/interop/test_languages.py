"""The languages of a translator: from the names of its data, and checked by the scripts of its characters."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from configs.errors import UserError
from data.config import DataConfig, TokenizerConfig
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from interop.languages import direction
from interop.trained import Trained
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from training.config import TrainConfig

ENGLISH = "The quick brown fox jumps over the lazy dog, THE QUICK BROWN FOX JUMPS OVER THE LAZY DOG."
JAPANESE = "すばやい茶色の狐がのろまな犬を飛び越える。アメリカ人とAさん。"
CHINESE = "敏捷的棕色狐狸跳过了那只懒狗。我们都很喜欢吃苹果和香蕉。"
GREEK = "Η γρήγορη καφέ αλεπού πηδάει πάνω από το τεμπέλικο σκυλί."
MODEL = EncoderDecoder(ModelConfig(layers=1, heads=1, width=8), 9, 9, shared=True)


def trained(folder: Path, sources: str, targets: str, **data: Any) -> Trained:
    """Return a run with the alphabet of its sources and a tokenizer of both sides."""
    (folder / "source_alphabet.txt").write_text("".join(sorted(set(sources))) + "\n", encoding="utf-8")
    tokenizer = SentencePieceTokenizer.train([sources, targets], TokenizerConfig("char"))
    settings = DataConfig(**{"source": "pairs", "path": "pairs.tsv", **data})
    return Trained(MODEL, [tokenizer], folder, 7, asdict(replace(TrainConfig("translate"), data=settings)))


@pytest.mark.parametrize(
    ("data", "known"),
    [
        ({"source": "primer", "path": None}, ("en", "ja")),
        ({"path": "data/train.en,data/train.ja"}, ("en", "ja")),
        ({"path": "corpus.de-fr.fr,corpus.de-fr.de"}, ("fr", "de")),
        ({"path": "en.txt,el.txt"}, ("en", "el")),
        ({"source_column": "Japanese", "target_column": "english"}, ("ja", "en")),
        ({"source_column": "translation.nb", "target_column": "translation.zt"}, ("no", "zh")),
        ({"source_column": "1", "target_column": "2"}, None),
        ({"path": "a.src,b.tgt"}, None),
        ({"path": "no-tabs.src,no-tabs.tgt"}, None),
    ],
)
def test_the_names_of_the_data_say_the_direction(
    data: dict[str, Any], known: tuple[str, str] | None, tmp_path: Path
) -> None:
    """Guards against a package that says it translates the other way, and names that are not languages."""
    run = trained(tmp_path, "a", "b", **data)
    if known is None:
        with pytest.raises(UserError, match="needs the codes of the languages"):
            direction(None, run)
        assert direction("sw,tlh", run) == ("sw", "tlh")
        return
    assert direction(None, run) == direction(",".join(known), run) == known
    for wrong in (known[::-1], ("sw", known[1])):
        with pytest.raises(UserError, match=f"the run translates from .*: languages={','.join(known)}$"):
            direction(",".join(wrong), run)


def test_a_code_of_argos_translate_may_be_more_exact(tmp_path: Path) -> None:
    """Guards against a refusal of Argos's own codes."""
    run = trained(tmp_path, "a", "b", path="train.pt,train.zh")
    assert direction("pb,zt", run) == ("pb", "zt")
    assert direction("pt-BR,zh", run) == ("pt-BR", "zh")


@pytest.mark.parametrize(
    ("sources", "targets", "right", "wrong"),
    [
        (ENGLISH, JAPANESE, ["en,ja", "de,ja", "sw,ja"], ["ja,en", "en,de", "en,zh", "en,ko", "ru,ja"]),
        (JAPANESE, ENGLISH, ["ja,en", "ja,fr"], ["en,ja", "ja,ru", "zh,en"]),
        (ENGLISH, CHINESE, ["en,zh", "en,zt"], ["zh,en", "en,ja", "en,it"]),
        (GREEK, CHINESE, ["el,zh"], ["zh,el", "en,zh"]),
        (ENGLISH, ENGLISH, ["en,de", "nl,en"], ["el,en"]),
        (JAPANESE + "ABCDEFGH", ENGLISH + CHINESE, ["ja,en"], []),  # quotations; rare characters of the sources
    ],
)
def test_scripts_other_than_those_of_the_languages_are_refused(
    sources: str, targets: str, right: list[str], wrong: list[str], tmp_path: Path
) -> None:
    """Guards against a package in the other direction, and the refusal of a right one."""
    run = trained(tmp_path, sources, targets)
    for each in right:
        assert direction(each, run) == tuple(each.split(","))
    for each in wrong:
        with pytest.raises(UserError, match=r"is written in .* characters, but the ") as refused:
            direction(each, run)
        assert all(message.startswith(f"languages={each}: ") for message in refused.value.args)
    (tmp_path / "source_alphabet.txt").unlink()
    assert [direction(each, run) for each in wrong] == [tuple(each.split(",")) for each in wrong]
