"""State that a torchrun launch keeps across restarts of its workers: the run folder, or that the run has ended.

torchrun starts all workers again, with the same arguments, when one of them has failed or been killed
(`--max-restarts`). Without this state, a new run would find its name taken by itself.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from configs.atomic_file import write_whole
from configs.program import expanded


class Launch:
    """One launch, which may be restarted. Nothing is written unless it may be."""

    def __init__(self, arguments: Sequence[str]) -> None:
        """arguments: of the command line, which name the folder of all runs."""
        self.attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
        self.last_attempt = int(os.environ["TORCHELASTIC_MAX_RESTARTS"])
        name = os.environ["TORCHELASTIC_RUN_ID"]
        if name == "none":  # the default of a launch on fixed machines
            name = f"{os.environ['MASTER_ADDR']}-{os.environ['MASTER_PORT']}"
        runs = [argument.removeprefix("runs=") for argument in arguments if argument.startswith("runs=")]
        self.path = expanded(runs[-1] if runs else "runs") / f".torchrun-{name.replace('/', '_')}.json"

    def read(self) -> dict:
        """Return what earlier attempts have remembered."""
        if not self.attempt or not self.path.exists():
            return {}
        return json.loads(self.path.read_text("utf-8"))

    @property
    def exit_code(self) -> int | None:
        """The exit code of an earlier attempt for a reason that excludes a restart: an error of the user, a signal."""
        return self.read().get("exit_code")

    def arguments(self, arguments: list[str]) -> list[str]:
        """Return the arguments with which this attempt continues the run of an earlier attempt, if there is one."""
        from training.checkpoints.loading import has_checkpoint

        if (remembered := self.read().get("run")) is None:
            return arguments
        run = Path(remembered)
        if has_checkpoint(run):
            return [f"resume={run}"]
        return [*(argument for argument in arguments if not argument.startswith("name=")), f"name={run.name}"]

    def remember(self, **values: str | int) -> None:
        """Keep values for the next attempt, if there may be one."""
        if self.attempt == self.last_attempt:
            self.forget()
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.path, json.dumps(self.read() | values).encode())

    def forget(self) -> None:
        """Delete what is remembered, when the run has ended."""
        self.path.unlink(missing_ok=True)
