"""Training on windows of several documents, from the command line to a loaded run."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from model.gpt import GPT
from run import Run
from tests.conftest import TINY
from training.config import TrainConfig, problems

Program = Callable[..., "subprocess.CompletedProcess[str]"]

RECIPE = [*TINY, "data=text", "data.path=book.txt", "data.rows=line", "tokenizer=char", "trainer.test=false"]


def losses(run: Path) -> list[float]:
    """Return training and validation loss of every evaluation."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [record[key] for record in records for key in ("train/loss", "val/loss") if record.get(key) is not None]


def test_a_run_with_masked_documents_learns_resumes_and_loads(in_process: Program, book: Path, tmp_path: Path) -> None:
    """Guards against a setting that training, validation, maps and a loaded run do not share, or that a checkpoint
    loses."""
    done = in_process("train.py", *RECIPE, "model.mask_documents=true", "name=masked")
    assert done.returncode == 0, done.stderr
    masked = losses(tmp_path / "runs" / "masked")
    assert all(0 < loss < 10 for loss in masked)
    assert OmegaConf.load(tmp_path / "runs" / "masked" / "config.yaml").model.mask_documents

    run = Run(tmp_path / "runs" / "masked")
    assert isinstance(run.model, GPT)
    assert run.model.config.mask_documents
    assert run.model.eos_id == run.tokenizers[0].eos_id

    resumed = in_process("train.py", "resume=runs/masked", "trainer.steps=8")
    assert resumed.returncode == 0, resumed.stderr
    assert len(losses(tmp_path / "runs" / "masked")) > len(masked)

    refused = in_process("train.py", "resume=runs/masked", "model.mask_documents=false")
    assert refused.returncode == 2
    assert "model.mask_documents: cannot change on resume" in refused.stderr

    written = in_process("generate.py", "run=runs/masked", "prompt=The", "max_tokens=8")
    assert written.returncode == 0, written.stderr


@pytest.mark.parametrize("task", ["gpt", "translate"])
def test_only_a_gpt_has_documents_to_mask(task: str) -> None:
    """Guards against a setting without effect in translation."""
    config = TrainConfig(task=task)
    config.model.mask_documents = True
    assert [problem for problem in problems(config) if "mask_documents" in problem] == (
        []
        if task == "gpt"
        else ["model.mask_documents: only windows of a GPT hold several documents; leave it out for task=translate"]
    )
