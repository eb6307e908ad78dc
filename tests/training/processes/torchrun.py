"""Start real workers with torchrun on this machine."""

from __future__ import annotations

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
    return subprocess.run(
        command(processes, script, *arguments, options=options),
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
