"""A script for several processes: print the loss of every step of a small trainer, as JSON.

Arguments: steps, micro-batches per step (several trainers, one after the other).
"""

import json
import sys

from tests.training.tiny_trainer import pairs, trainer
from training.counters import Interval
from training.processes.join_group import opened_processes
from training.processes.single_process import SINGLE, Processes


def step_losses(accumulate: int, steps: int, processes: Processes = SINGLE) -> list[list[float]]:
    """Return loss and gradient norm of every step."""
    each = trainer(pairs(), processes=processes, accumulate=accumulate)
    for group in each.optimizer.optimizers[0].param_groups:
        group["lr"] = 1e-3  # 1e-2, the tiny trainer's, amplifies rounding errors
    result = []
    for _ in range(steps):
        each.step()
        result.append([each.since_log.mean_loss or 0.0, float(each.gradient_norm)])
        each.since_log = Interval()
    return result


def main() -> None:
    steps, *counts = map(int, sys.argv[1:])
    with opened_processes() as processes:
        result = [step_losses(accumulate, steps, processes) for accumulate in counts]
        if processes.is_main:
            print(json.dumps(result))


if __name__ == "__main__":
    main()
