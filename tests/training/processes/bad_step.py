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
from training.processes.join_group import opened_processes


def main() -> None:
    folder = Path(sys.argv[1])
    with opened_processes() as processes:
        each = trainer(pairs(), processes=processes, accumulate=2, find_nan=True)

        def overflow(module: Any, inputs: Any, output: Tensor) -> Tensor | None:
            return output * 1e38 * 1e38 if each.progress.step and processes.rank == processes.world - 1 else None

        each.model.decoder[0].register_forward_hook(overflow)  # type: ignore[union-attr,operator]
        each.run = folder
        each.step()
        before = each.weights.flat_masters.clone()
        message = ""
        try:
            each.step()
        except UserError as error:
            message = error.args[0]
        unchanged = bool((each.weights.flat_masters == before).all())
        results = processes.gather(lambda: [unchanged, message])
        if processes.is_main:
            print(json.dumps(results))


if __name__ == "__main__":
    main()
