"""A script for torchrun: print the loss of every step of a small trainer, as JSON.

Arguments: task, micro-batches per step, steps.
"""

import json
import sys

from tests.training.tiny_trainer import pairs, trainer
from training.processes.processes import opened_processes
from training.progress import Interval


def main() -> None:
    accumulate, steps = map(int, sys.argv[1:])
    with opened_processes() as processes:
        each = trainer(pairs(), processes=processes, accumulate=accumulate)
        for group in each.optimizer.optimizers[0].param_groups:
            group["peak"] = 1e-3  # 1e-2, the tiny trainer's, amplifies rounding errors
        losses = []
        for _ in range(steps):
            each.step()
            losses.append(each.since_log.mean_loss)
            each.since_log = Interval()
        if processes.is_main:
            print(json.dumps(losses))


if __name__ == "__main__":
    main()
