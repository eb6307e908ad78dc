"""Start real workers on this machine: with torchrun, or as torchrun does, but several times as fast."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.conftest import environment


def command(processes: int, script: Path, *arguments: str, options: tuple[str, ...] = ()) -> list[str]:
    """Return the command line `torchrun --nproc-per-node=… script …`."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", *options]
    return [*launch, str(script), *arguments]


def torchrun(
    processes: int, script: Path, *arguments: str, folder: Path, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a script in several processes, in `folder`, and return their output."""
    return _finished(command(processes, script, *arguments, options=options), folder)


def forked(processes: int, script: Path, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """As `torchrun`, but the processes are forks of one that has imported torch: most of the CPU time of a short launch
    is the imports of every process and of torchrun. For tests that do not concern torchrun itself."""
    launcher = [sys.executable, "-m", "tests.training.processes.launcher", str(processes)]
    return _finished([*launcher, str(script), *arguments], folder)


def _finished(launch: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    process = subprocess.Popen(
        launch,
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output = process.communicate(timeout=180)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # also the workers, which may wait for each other
        raise
    return subprocess.CompletedProcess(launch, process.returncode, *output)
