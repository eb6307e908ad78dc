"""Run one contender in its own process: build the step, then repeat it for each turn that the harness requests.

Requests and answers are JSON lines on standard input and output. Between turns the process blocks on a read and leaves
the machine to the other contenders.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import platform
import re
import resource
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.contender import Skipped, Step

AHEAD = 8
"""Maximum number of steps queued on a GPU, so that a turn does not end long after its time."""


def main() -> None:
    """Answer requests until standard input ends: the first builds the step and warms up, each further one is a turn."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # redirects a peer's prints to standard error, away from the answers

    def answer(message: dict[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    request = json.loads(sys.stdin.readline())
    try:
        step = imported(request["build"])(**request["arguments"])
        first = turn(step, 0.0)
        gpu = gpu_in_use()
        # The first step compiles; on a GPU the next may capture a CUDA graph, and a whole warm-up follows.
        remaining = request["seconds"] - (0.0 if gpu else first["seconds"])
        if remaining > 0:
            turn(step, remaining)
        if gpu:
            gpu.reset_peak_memory_stats()  # excludes the memory of compilation
        answer({})
        for line in sys.stdin:
            step()  # not counted: wakes the threads and reallocates memory released after the last turn
            synchronize()
            answer(turn(step, json.loads(line)["seconds"]) | {"peak_memory": peak_memory()})
    except Skipped as reason:
        answer({"skipped": str(reason)})
    except ImportError as error:
        answer({"failed" if request["ours"] else "skipped": str(error)})
    except Exception as error:
        traceback.print_exc()
        answer({"failed": f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]})


def imported(target: str) -> Callable[..., Step]:
    """Return the function `module:function`, which builds a step."""
    module, _, function = target.partition(":")
    build: Callable[..., Step] = getattr(importlib.import_module(module), function)
    return build


def turn(step: Step, seconds: float) -> dict[str, float]:
    """Repeat `step` for `seconds`, at least once -> elapsed seconds, number of steps, number of units."""
    steps = units = 0
    ends: deque[Any] = deque()  # events of the steps queued on a GPU
    started = time.perf_counter()
    while steps == 0 or time.perf_counter() - started < seconds:
        units += step()
        steps += 1
        if gpu := gpu_in_use():
            ends.append(gpu.Event())
            ends[-1].record()
            if len(ends) > AHEAD:
                ends.popleft().synchronize()
    synchronize()
    took = time.perf_counter() - started
    release_memory()
    return {"seconds": took, "steps": steps, "units": units}


def gpu_in_use() -> Any:
    """Return `torch.cuda` if this process uses a GPU, else None, without importing torch."""
    torch = sys.modules.get("torch")
    return torch.cuda if torch and torch.cuda.is_initialized() else None


def synchronize() -> None:
    """Wait until the GPU, if this process uses one, has finished its queued work."""
    if gpu := gpu_in_use():
        gpu.synchronize()


def release_memory() -> None:
    """Release cached GPU memory, and return freed main memory to the system if less than a third is available.

    Otherwise a dozen idle contenders, each with the activations of a large step, may not fit. Our trainer, which uses
    huge pages, is 2-5 % slower for a while after this.
    """
    if gpu := gpu_in_use():
        gpu.empty_cache()
    if sys.platform == "linux" and platform.libc_ver()[0] == "glibc":
        sizes = dict(re.findall(r"(\w+):\s+(\d+)", Path("/proc/meminfo").read_text()))
        if int(sizes["MemAvailable"]) < int(sizes["MemTotal"]) / 3:
            ctypes.CDLL("libc.so.6").malloc_trim(0)


def peak_memory() -> int:
    """Return the peak memory of this process in bytes: GPU memory reserved since set-up, or main memory (VmHWM)."""
    if gpu := gpu_in_use():
        return int(gpu.max_memory_reserved())
    status = Path("/proc/self/status")
    if status.exists() and (peak := re.search(r"VmHWM:\s+(\d+) kB", status.read_text())):
        return 1024 * int(peak[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main()
