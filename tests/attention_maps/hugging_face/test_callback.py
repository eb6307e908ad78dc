"""Recordings during a run of transformers' Trainer."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments

from attention_maps.base.errors import UserError
from attention_maps.files.store import load, steps
from attention_maps.hugging_face import AttentionCallback, record_texts
from tests.attention_maps.hugging_face.models import TEXTS, made, tokenizer_of


class Sentences(Dataset):  # type: ignore[type-arg]
    """The same few sentences, 16 tokens each."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        ids = tokenizer_of("gpt2")(TEXTS[index % 3])["input_ids"][:14]
        return {"input_ids": ids, "labels": ids}


def train(folder: Path, callbacks: list[Any], **how: Any) -> Trainer:
    """Train GPT-2 for 8 steps with evaluations at 4 and 8."""
    settings: dict[str, Any] = {"max_steps": 8, "eval_steps": 4, "eval_strategy": "steps", "report_to": ["tensorboard"]}
    arguments = TrainingArguments(
        output_dir=str(folder), per_device_train_batch_size=2, per_device_eval_batch_size=8, use_cpu=True, seed=1,
        save_strategy="no", disable_tqdm=True, logging_steps=4, **settings | how,
    )  # fmt: skip
    trainer = Trainer(made("gpt2"), arguments, train_dataset=Sentences(), eval_dataset=Sentences(), callbacks=callbacks)
    trainer.train()
    return trainer


@pytest.mark.slow
def test_a_run_is_recorded_beside_its_events(tmp_path: Path) -> None:
    """Guards against recordings that the tab shows as another run, and against a callback that disturbs training."""
    recorder = AttentionCallback(TEXTS[:2], tokenizer_of("gpt2"), every=2, layers=[0, 2], share=math.inf)
    trainer = train(tmp_path / "with", [recorder])
    (events,) = (tmp_path / "with").rglob("events.out.tfevents*")
    recorded = steps(events.parent)
    assert list(recorded) == [0, 2, 4, 6, 8]
    first, last = load(recorded[0]), load(recorded[8])
    assert len(first.samples) == 2
    assert first.layer_numbers == {"decoder": (0, 2)}
    assert first.loss is not None
    assert last.loss is not None
    assert last.loss < first.loss
    fresh = record_texts(trainer.model, tokenizer_of("gpt2"), TEXTS[:2], layers=[0, 2])
    assert (fresh.samples[0].weights["decoder", 1] == last.samples[0].weights["decoder", 1]).all()
    plain = train(tmp_path / "without", [])
    for parameter, other in zip(trainer.model.parameters(), plain.model.parameters(), strict=True):
        assert torch.equal(parameter, other)


@pytest.mark.slow
def test_recordings_over_the_time_share_are_skipped(tmp_path: Path) -> None:
    """Guards against a callback that takes more than its share; the first and the last recording are always made."""
    recorder = AttentionCallback(TEXTS[:1], tokenizer_of("gpt2"), every=1, logdir=tmp_path / "here", share=0)
    train(tmp_path, [recorder])
    assert list(steps(tmp_path / "here")) == [0, 8]
    assert recorder.left_out == set(range(1, 9))


@pytest.mark.slow
def test_old_steps_are_thinned_and_later_ones_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against two histories in one folder, and a folder that grows without end."""
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "events"))
    train(tmp_path, [AttentionCallback(TEXTS[:1], tokenizer_of("gpt2"), every=1, keep=3, share=math.inf)])
    assert len(steps(tmp_path / "events")) == 3
    assert {0, 8} < steps(tmp_path / "events").keys()
    train(tmp_path, [AttentionCallback(TEXTS[:1], tokenizer_of("gpt2"))], max_steps=2, report_to=[])
    assert list(steps(tmp_path / "events")) == [0, 2]


def test_wrong_settings_are_refused(tmp_path: Path) -> None:
    """Guards against a run that records nothing."""
    with pytest.raises(UserError, match="give a list of texts"):
        AttentionCallback([], tokenizer_of("gpt2"))
    with pytest.raises(UserError, match="texts='Emi likes apples': give a list of texts"):
        AttentionCallback("Emi likes apples", tokenizer_of("gpt2"))
    with pytest.raises(UserError, match="give a list of texts"):
        record_texts(made("gpt2"), tokenizer_of("gpt2"), "Emi likes apples")
    with pytest.raises(UserError, match="share=-1: must be at least 0"):
        AttentionCallback(TEXTS, tokenizer_of("gpt2"), share=-1)
    recorder = AttentionCallback(TEXTS, tokenizer_of("gpt2"))
    with pytest.raises(UserError, match="FSDP"):
        recorder.on_train_begin(type("Arguments", (), {"fsdp": ["full_shard"]})(), None, None)  # type: ignore[arg-type]


def test_texts_of_every_kind_of_model() -> None:
    """Guards against a source without its translation, and a pair for a model of single texts."""
    labels = tokenizer_of("marian")
    model = made("marian").train()
    recording = record_texts(model, labels, [(TEXTS[0], TEXTS[1]), TEXTS[1]], max_tokens=12)
    reference, translated = recording.samples
    assert model.training
    assert reference.reads.ids[1:] == tuple(labels(TEXTS[1])["input_ids"][:11])
    assert 1 < len(translated.reads) <= 12
    assert translated.source is not None
    assert len(translated.source) == 12
    assert len(translated.predictions) == len(translated.reads)
    with pytest.raises(UserError, match="reads single texts"):
        record_texts(made("gpt2"), tokenizer_of("gpt2"), [("one", "two")])
    with pytest.raises(UserError, match="has no tokens"):
        record_texts(made("gpt2"), tokenizer_of("gpt2"), [""])
