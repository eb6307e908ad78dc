"""Public corpora load with a minimal config, exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from data.config import DataConfig, TokenizerConfig
from data.sources.splits import normalised
from data.token_cache import prepare
from tests.data.conftest import load_rows

Config = Callable[..., DataConfig]
Real = Callable[[str], str]


def test_tinyshakespeare_is_split_as_the_reference_does(real: Real, text_config: Config) -> None:
    """Guards comparability with published results: characters, vocabulary, and the position of the split."""
    text = (Path(real("tinyshakespeare")) / "input.txt").read_text("utf-8")
    config = text_config(real("tinyshakespeare"))
    data = prepare("gpt", config, TokenizerConfig(kind="char"), 64, seed=0)
    assert (data.size("train"), data.size("valid")) == (1_003_855, 111_541)  # the eos before each
    assert data.tokenizer.vocab_size == 65 + 4
    assert sum(batch.target_tokens for batch in data.evaluation("valid", 12)) == data.bytes("valid") == 111_540
    rows = load_rows(config, "gpt")
    assert rows["train"]["text"][0] + rows["valid"]["text"][0] == text
    direct = prepare("gpt", replace(config, path=f"{config.path}/input.txt"), TokenizerConfig(kind="char"), 64, seed=0)
    assert direct.tokenizer.fingerprint == data.tokenizer.fingerprint


def test_wikitext2_has_its_published_token_count(real: Real, text_config: Config) -> None:
    """Guards word-level comparisons: 245,569 test and 217,646 validation tokens, counting one end-of-line per line."""
    rows = load_rows(text_config(real("wikitext2"), rows="line"), "gpt")
    counts = {split: sum(len(line.split()) + 1 for line in rows[split]["text"][:]) for split in ("valid", "test")}
    assert counts == {"valid": 217_646, "test": 245_569}
    assert list(rows) == ["train", "valid", "test"]


def test_gutenberg_loads_whole(real: Real, text_config: Config) -> None:
    """Guards a 25 MB file: no text is lost between the file and its row (or its paragraphs, on request)."""
    folder = Path(real("gutenberg"))
    rows = load_rows(text_config(folder), "gpt")
    for split in ("train", "valid", "test"):
        assert rows[split]["text"][:] == [(folder / f"{split}.txt").read_text("utf-8")]
    paragraphs = load_rows(text_config(folder, rows="paragraph"), "gpt")["valid"]["text"][:]
    assert "\n\n".join(paragraphs) == rows["valid"]["text"][0].strip("\n")


def test_tatoeba_has_its_rows_and_leaks_nothing(real: Real, pairs_config: Config) -> None:
    """Guards 72,706 / 1,000 / 1,000 pairs: literal quotes, duplicates kept, no test sentence in training."""
    folder = Path(real("tatoeba_enja"))
    rows = load_rows(pairs_config(folder), "translate")
    assert {split: len(result) for split, result in rows.items()} == {"train": 72_706, "valid": 1_000, "test": 1_000}
    lines = (folder / "train.tsv").read_text("utf-8").splitlines()
    assert [f"{row['source']}\t{row['target']}" for row in rows["train"].select(range(5000))] == [
        "\t".join(field.strip() for field in line.split("\t")[:2]) for line in lines[:5000]
    ]
    for side in ("source", "target"):
        train, test = ({normalised(sentence) for sentence in rows[split][side][:]} for split in ("train", "test"))
        assert not train & test


def test_small_parallel_enja_by_its_suffixes(real: Real, pairs_config: Config) -> None:
    """Guards aligned files in a folder: 50,000 / 500 / 500 pairs, aligned line by line."""
    config = pairs_config(real("small_parallel_enja"), source_column="en", target_column="ja")
    rows = load_rows(config, "translate")
    assert {split: len(result) for split, result in rows.items()} == {"train": 50_000, "valid": 500, "test": 500}
    assert rows["valid"][0] == {"source": "show your own business .", "target": "自分 の 事 を しろ 。"}


def test_a_component_split_of_tatoeba_is_free_of_leaks(real: Real, pairs_config: Config) -> None:
    """Guards data.split=components on a corpus in which a sentence has many translations."""
    config = pairs_config(f"{real('tatoeba_enja')}/train.tsv", split="components", valid_fraction=0.02)
    rows = load_rows(config, "translate")
    assert abs(len(rows["valid"]) - 0.02 * 72_706) < 5
    for side in ("source", "target"):
        train, valid = ({normalised(sentence) for sentence in rows[split][side][:]} for split in ("train", "valid"))
        assert not train & valid
