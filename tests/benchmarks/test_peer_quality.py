"""benchmarks/training/peer_quality.py: models of Hugging Face transformers on the data of our runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks.training.peer_quality import PeerQualitySettings, learning_rates, peer_quality
from configs.errors import UserError
from tests.conftest import TINY, train_command

TRANSLATION = [
    "task=translate",
    "tokenizer=bpe",
    "data.sentences=200",
    "trainer.beam_size=2",
    "tokenizer.vocab_size=700",
]


@pytest.mark.slow
@pytest.mark.parametrize("settings", [[], TRANSLATION], ids=["gpt", "translate"])
def test_a_peer_is_trained_and_scored_like_the_run(
    settings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards the whole command: sizes, trials, the weights that are evaluated, and the scores of both tasks."""
    pytest.importorskip("transformers", reason="transformers is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["train.py", *TINY, *settings, "name=run", "trainer.steps=2"])
    train_command()
    own = json.loads(Path("runs/run/test.json").read_text(encoding="utf-8"))
    peer_quality(
        PeerQualitySettings(run="runs/run", minutes=0.04, trial_minutes=0.01, rates="1e-3,1e-2", to="peer.json")
    )
    found = json.loads(Path("peer.json").read_text(encoding="utf-8"))
    assert found["rate"] == float(min(found["trials"], key=found["trials"].__getitem__))
    assert found["steps"] > 2
    names = {"char_bleu", "chrf", "exact"} if settings else {"bits_per_byte"}
    assert set(found["scores"]) == {"loss", *names}
    if not settings:  # the same unit: both losses are of the same tokens of the same bytes
        per_loss = own["test/bits_per_byte"] / own["test/loss"]
        assert found["scores"]["bits_per_byte"] == pytest.approx(found["scores"]["loss"] * per_loss, rel=1e-3)
    assert f"{found['steps']} steps" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "fast", "1e-3,", "0", "1e-3,-1", "inf", "nan"])
def test_learning_rates_are_numbers(text: str) -> None:
    """Guards against a traceback, and a rate that trains nothing."""
    with pytest.raises(UserError, match=f"rates={text}: must be numbers above 0"):
        learning_rates(text)
