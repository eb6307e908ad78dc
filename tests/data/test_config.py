"""Invalid settings of data and tokenizer."""

from __future__ import annotations

import pytest

from data.config import DataConfig, TokenizerConfig
from training.config import TrainConfig, problems


@pytest.mark.parametrize("task", ["gpt", "translate"])
def test_the_defaults_have_no_problem(task: str) -> None:
    """Guards the first command of a new user."""
    assert problems(TrainConfig(task)) == []


@pytest.mark.parametrize(
    ("data", "tokenizer", "task", "key"),
    [
        ({"source": "web"}, {}, "gpt", "data.source"),
        ({"source": "text"}, {}, "gpt", "data.path"),
        ({"source": "text", "path": "a"}, {}, "translate", "data.source"),
        ({"source": "pairs", "path": "a"}, {}, "gpt", "data.source"),
        ({"rows": "page"}, {}, "gpt", "data.rows"),
        ({"split": "components"}, {}, "gpt", "data.split"),
        ({"split": "middle"}, {}, "gpt", "data.split"),
        ({"streaming": True}, {}, "gpt", "data.streaming"),
        ({"source": "pairs", "path": "a", "streaming": True}, {}, "translate", "data.streaming"),
        ({"source": "text", "path": "a", "streaming": True, "split": "random"}, {}, "gpt", "data.split"),
        ({"path": "a"}, {}, "gpt", "data.path"),
        ({"valid_path": "a"}, {}, "gpt", "data.valid_path"),
        ({"valid_fraction": 1.0}, {}, "gpt", "data.valid_fraction"),
        ({"valid_fraction": 0.6, "test_fraction": 0.5}, {}, "gpt", "data.valid_fraction"),
        ({"max_rows": 0}, {}, "gpt", "data.max_rows"),
        ({"batch_tokens": 0}, {}, "translate", "data.batch_tokens"),
        ({"length_multiple": 0}, {}, "translate", "data.length_multiple"),
        ({"split_seed": -1}, {}, "gpt", "data.split_seed"),
        ({}, {"kind": "word"}, "gpt", "tokenizer.kind"),
        ({}, {"normalization": "nmt"}, "gpt", "tokenizer.normalization"),
        ({}, {"vocab_size": 200, "byte_fallback": True}, "gpt", "tokenizer.vocab_size"),
        ({}, {"vocab_size": 3}, "gpt", "tokenizer.vocab_size"),
        ({}, {"character_coverage": 0.0}, "gpt", "tokenizer.character_coverage"),
        ({}, {"character_coverage": 0.97}, "gpt", "tokenizer.character_coverage=0.97: must be from 0.98 to 1"),
        ({"valid_tokens": 0}, {}, "gpt", "data.valid_tokens=0: must be at least 1; null evaluates all"),
        ({}, {"sampling": 2.0, "kind": "unigram"}, "translate", "tokenizer.sampling"),
        ({}, {"sampling": 0.1}, "translate", "tokenizer.sampling"),
        ({}, {"sampling": 0.1, "kind": "unigram"}, "gpt", "tokenizer.sampling"),
    ],
)
def test_each_impossible_setting_is_named_by_its_key(data: dict, tokenizer: dict, task: str, key: str) -> None:
    """Guards the report before a run: one line per problem, which begins with the key."""
    result = problems(TrainConfig(task, data=DataConfig(**data), tokenizer=TokenizerConfig(**tokenizer)))
    assert any(line.startswith(key) for line in result)
    assert all(line.startswith(("data.", "tokenizer.")) for line in result)


def test_all_problems_are_told_together() -> None:
    """Guards against a report of only the first problem."""
    result = problems(
        TrainConfig(
            "gpt", data=DataConfig(source="text", rows="page", batch_tokens=0), tokenizer=TokenizerConfig("word")
        )
    )
    assert len(result) == 4
