"""A script for several processes: train small models for a few more steps in run folders that other numbers of
processes began.

Arguments: the folder of all runs, the steps at which this launch ends, and `name=shard` for each form of the runs.
"""

import sys
from pathlib import Path

import torch

from tests.training.processes.sharded_steps import batches, new_trainer
from training.checkpoints.files import load_state, load_weights
from training.checkpoints.loading import checkpoint_path
from training.loss import token_losses
from training.processes.join_group import opened_processes
from training.processes.single_process import Processes
from training.run_folder.log import NoLog, RunLog
from training.trainer import Trainer


def held_out(trainer: Trainer, step: int, record: dict) -> float:
    """Return the loss of the evaluated weights on one batch."""
    batch = batches(trainer.config.task)[0]
    with torch.no_grad():
        losses = token_losses(trainer.model, batch.model_inputs, batch.targets)
    record["val/loss"] = float(losses.sum()) / batch.target_tokens
    return record["val/loss"]


def go_on(folder: Path, trainer: Trainer, processes: Processes) -> None:
    """Train from the last checkpoint in `folder`, if there is one."""
    resumes = processes.broadcast(folder.exists)
    if processes.is_main and resumes:
        checkpoint = checkpoint_path(folder, "last")
        trainer.restore(load_weights(checkpoint), load_state(checkpoint))
    folder.mkdir(parents=True, exist_ok=True)
    processes.barrier()
    log = RunLog(folder, trainer.progress.step, trainer.progress.evaluated_step) if processes.is_main else NoLog(folder)
    try:
        trainer.train(folder, log, lambda step, record: held_out(trainer, step, record))
    finally:
        log.close()


def go_on_all(runs: Path, steps: int, forms: list[str], processes: Processes) -> None:
    """Train both tasks in every form, until `steps`."""
    for form in forms:
        name, shard = form.split("=")
        for task, kind in (("gpt", "scion"), ("translate", "adamw")):
            settings = {"accumulate": 3, "steps": steps, "evaluate_every": 3, "early_weights": True}
            trainer = new_trainer(shard, task, kind, processes, **settings)
            go_on(runs / f"{name}-{task}", trainer, processes)


def main() -> None:
    with opened_processes() as processes:
        go_on_all(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:], processes)


if __name__ == "__main__":
    main()
