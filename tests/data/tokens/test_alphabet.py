"""Detection of text that is not in a translator's source language."""

import pytest
from datasets import Dataset

from data.config import DataConfig
from data.tokens.alphabet import foreign_characters, source_alphabet
from tests.data.conftest import load_rows


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dataset]:
    config = DataConfig(sentences=2000, cache=str(tmp_path_factory.mktemp("cache")))
    return load_rows(config, "translate")


@pytest.mark.slow
@pytest.mark.parametrize(("source", "target"), [("source", "target"), ("target", "source")])
def test_the_other_language_is_noticed_and_the_own_one_is_not(
    corpus: dict[str, Dataset], source: str, target: str
) -> None:
    """Guards both directions: English has 26 letters, Japanese thousands, many of which occur once in a corpus."""
    pairs = {
        split: Dataset.from_dict({"source": rows[source], "target": rows[target]}) for split, rows in corpus.items()
    }
    alphabet = frozenset(source_alphabet(pairs["train"]))
    assert [text for text in pairs["valid"]["source"] if foreign_characters(text, alphabet)] == []
    assert [text for text in pairs["valid"]["target"] if not foreign_characters(text, alphabet)] == []


def test_sources_that_quote_the_other_language_do_not_make_it_theirs() -> None:
    """Guards real corpora: a few target characters in the sources once hid whole target sentences."""
    sources = ["It costs 7 euros (€)."] + ["Thank you."] * 60 + ["He said ありがとう to me."]
    targets = ["7ユーロです。"] + ["ありがとう。"] * 60 + ["彼はありがとうと言った。"]
    alphabet = frozenset(source_alphabet(Dataset.from_dict({"source": sources, "target": targets})))
    assert foreign_characters("ありがとう", alphabet) == ["あ", "り", "が", "と", "う"]
    for own in ("7 €.", "He said ありがとう to me.", "", "  ", "I met 田中さん."):
        assert foreign_characters(own, alphabet) == []
    for strange in ("Привет!", "お茶 tea が好き", "2047年。"):
        assert foreign_characters(strange, alphabet)


@pytest.mark.parametrize("line", ["2047", "¿?!", "🎉", "NASA", "Ok!", "ok, 99 %", "ÉTÉ", "İki"])
def test_digits_signs_and_capitals_that_no_source_has_are_no_other_language(line: str) -> None:
    """Guards short inputs to a translator with a small corpus against false warnings about numbers and capitals."""
    assert foreign_characters(line, frozenset("nasokiété")) == []


def test_an_empty_side_is_no_error() -> None:
    """Guards against a division by zero."""
    assert source_alphabet(Dataset.from_dict({"source": ["a b"], "target": [""]})) == "ab"
