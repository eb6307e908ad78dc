"""A script for two processes: the gradient of the last process is not finite in step 2. Print what all do, as JSON.

Argument: the folder of the run.
"""

import json
import sys
from pathlib import Path
from typing import Any

from torch import Tensor

from configs.errors import UserError
from tests.training.tiny_trainer import pairs, trainer
from training.processes.processes import opened_processes
from training.run_folder.log import RunLog


def main() -> None:
    folder = Path(sys.argv[1])
    with opened_processes() as processes:
        each = trainer(pairs(), processes=processes, accumulate=2, find_nan=True)

        def overflow(module: Any, inputs: Any, output: Tensor) -> Tensor | None:
            return output * 1e38 * 1e38 if each.progress.step and processes.rank == processes.world - 1 else None

        each.model.decoder[0].register_forward_hook(overflow)  # type: ignore[union-attr,operator]
        each.step()
        before = each.weights.flat_masters.clone()
        each.step()
        unchanged = bool((each.weights.flat_masters == before).all())
        message = ""
        try:
            each.skipped.report(RunLog(folder, 0) if processes.is_main else QuietLog(), folder)  # type: ignore[arg-type]
        except UserError as error:
            message = error.args[0]
        found = processes.gather(lambda: [each.progress.skipped_steps, unchanged, message])
        if processes.is_main:
            print(json.dumps(found))


class QuietLog:
    """The log of a process that does not write."""

    def line(self, message: str) -> None:
        """Write nothing."""


if __name__ == "__main__":
    main()
