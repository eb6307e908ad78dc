"""Splitting off validation and test data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from data.config import DataConfig
from data.sources.splits import component_split, contiguous_bounds, normalised
from tests.data.conftest import load_rows


def test_contiguous_bounds_match_the_reference() -> None:
    """Guards comparability with nanoGPT on tinyshakespeare, to the character."""
    assert contiguous_bounds(1_115_394, {"valid": 0.1}) == {"train": (0, 1_003_854), "valid": (1_003_854, 1_115_394)}
    assert contiguous_bounds(100, {"valid": 0.1, "test": 0.2}) == {
        "train": (0, 70),
        "valid": (70, 80),
        "test": (80, 100),
    }
    assert contiguous_bounds(7, {}) == {"train": (0, 7)}


def leaky_pairs(seed: int) -> list[tuple[str, str]]:
    """Return pairs of a few sentences in several spellings, so that most pairs share a side with another pair."""
    random = np.random.default_rng(seed)
    return [
        (
            f"{'Hello' if n % 2 else 'hello'} {random.integers(200)}{'!' if n % 3 else ''}",
            f"こんにちは{random.integers(400)}。",
        )
        for n in range(300)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_components_share_no_sentence(seed: int) -> None:
    """Guards the test score: no sentence, in any spelling, occurs in two splits; every row is in one split."""
    pairs = leaky_pairs(seed)
    sources, targets = zip(*pairs, strict=True)
    parts = component_split(sources, targets, {"valid": 0.05, "test": 0.05}, seed)
    assert sorted(np.concatenate(list(parts.values())).tolist()) == list(range(300))
    for first in parts:
        for second in set(parts) - {first}:
            for side in (sources, targets):
                mine, theirs = ({normalised(side[row]) for row in parts[split]} for split in (first, second))
                assert not mine & theirs
    assert 0 < len(parts["valid"]) <= 15
    assert 0 < len(parts["test"]) <= 15


def test_pairs_connected_over_a_chain_stay_together() -> None:
    """Guards transitive connections: a-1, b-1, b-2, c-2 is one component although its ends share nothing."""
    parts = component_split(list("abbc") + list("xyz"), list("1122") + list("789"), {"valid": 3 / 7}, seed=0)
    assert parts["train"].tolist() == [0, 1, 2, 3]
    assert parts["valid"].tolist() == [4, 5, 6]


def test_normalised_sentences_compare_equal() -> None:
    """Guards the definition of duplicates: width, case, spacing and final punctuation are ignored."""
    assert normalised("Hello,  World!") == normalised("hello, world") == normalised("Ｈｅｌｌｏ, world。")
    assert normalised("!?") == "!?"
    assert normalised("Yes, he is") != normalised("Yes, she is")


def test_random_and_component_splits_follow_their_seed(tmp_path: Path, pairs_config: Callable[..., DataConfig]) -> None:
    """Guards comparable runs: the split depends on data.split_seed, not on the run; rows keep their order, and none is
    lost."""
    path = tmp_path / "all.tsv"
    path.write_text("".join(f"cat {n}\t猫{n}\n" for n in range(100)), "utf-8")

    def valid(**settings: object) -> list[str]:
        rows = load_rows(pairs_config(path, test_fraction=0.1, **settings), "translate")
        assert sorted(text for split in rows.values() for text in split["source"][:]) == sorted(
            f"cat {n}" for n in range(100)
        )
        assert len(rows["valid"]) == len(rows["test"]) == 10
        return rows["valid"]["source"][:]

    for split in ("random", "components"):
        assert valid(split=split) == valid(split=split)
        assert valid(split=split) != valid(split=split, split_seed=1)
        assert valid(split=split) != valid()
