"""Final test of a run: evaluate the best checkpoint on the test splits."""

from __future__ import annotations

from pathlib import Path

import torch

from training.evaluation.evaluators import Evaluator
from training.hardware.compilation import eagerly
from training.hardware.gpu_attention import evaluation_kernels
from training.run_folder.checkpoints import checkpoint_path, checkpoint_step, load_weights
from training.run_folder.loaded_run import Model, load_into
from training.run_folder.test_results import tested_step


def final_test(run: Path, model: Model, evaluator: Evaluator, device: torch.device, compiled: bool) -> None:
    """Load the best checkpoint into the model and test it, unless `test.json` already covers it; a resume repeats an
    interrupted test. compiled: whether training compiled the model."""
    with eagerly(compiled), evaluation_kernels(device):
        best = checkpoint_path(run, "best")
        step = checkpoint_step(best)
        if tested_step(run) != step:
            load_into(model.float().eval(), load_weights(best), best)
            evaluator.test(step)
