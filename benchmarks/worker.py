"""The process of one contender: builds its step, then repeats it whenever the harness asks for a turn.

Requests and answers are lines of JSON on standard input and output. Between turns the process sleeps in a read, so that
the others have the machine to themselves.
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
from pathlib import Path
from typing import Any

from benchmarks.contender import Skipped, Step


def main() -> None:
    """Answer until standard input ends: the first request builds and warms up, each further one is a turn."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # prints of a peer go to standard error, not between the answers

    def answer(message: dict[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    request = json.loads(sys.stdin.readline())
    try:
        started = time.perf_counter()
        step = build(request["build"], request["arguments"])
        turn(step, request["seconds"])
        if gpu := gpu_in_use():  # the first step compiled, the next may record a graph
            turn(step, request["seconds"])
            gpu.reset_peak_memory_stats()  # without the memory of compilation
        answer({"set_up_seconds": time.perf_counter() - started})
        for line in sys.stdin:
            step()  # not counted: wakes the threads, and allocates again what was returned
            answer(turn(step, json.loads(line)["seconds"]) | {"peak_memory": peak_memory()})
    except Skipped as reason:
        answer({"skipped": str(reason)})
    except ImportError as error:
        answer({"failed" if request["ours"] else "skipped": str(error)})
    except Exception as error:
        traceback.print_exc()
        answer({"failed": f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]})


def build(target: str, arguments: dict[str, Any]) -> Step:
    """The step that `module:function` returns."""
    module, _, function = target.partition(":")
    step: Step = getattr(importlib.import_module(module), function)(**arguments)
    return step


def turn(step: Step, seconds: float) -> dict[str, float]:
    """Repeat `step` until `seconds` have passed, at least once -> how long it really took, steps and units done."""
    steps, units = 0, 0
    queued = Queued()
    started = time.perf_counter()
    while steps == 0 or time.perf_counter() - started < seconds:
        units += step()
        steps += 1
        queued.add()
    wait_for_device()
    took = time.perf_counter() - started
    give_memory_back()
    return {"seconds": took, "steps": steps, "units": units}


class Queued:
    """Steps queued on a GPU, at most `AHEAD` of them: with more the turn would end long after its time."""

    AHEAD = 8

    def __init__(self) -> None:
        self.ends: deque[Any] = deque()

    def add(self) -> None:
        """Count one more, and wait for the one that came `AHEAD` before it."""
        if not (gpu := gpu_in_use()):
            return
        end = gpu.Event()
        end.record()
        self.ends.append(end)
        if len(self.ends) > self.AHEAD:
            self.ends.popleft().synchronize()


def gpu_in_use() -> Any:
    """`torch.cuda` where this process computes on a GPU, else None; never imports torch by itself."""
    torch = sys.modules.get("torch")
    return torch.cuda if torch and torch.cuda.is_initialized() else None


def wait_for_device() -> None:
    """Wait until a GPU has finished what was queued."""
    if gpu := gpu_in_use():
        gpu.synchronize()


def give_memory_back() -> None:
    """Return freed memory to the GPU, and to the system when less than a third of it is left: otherwise a dozen idle
    contenders that keep a large step's activations may not fit.

    Ours, which keeps its memory in huge pages, is 2-5 % slower for a while after that.
    """
    if gpu := gpu_in_use():
        gpu.empty_cache()
    if sys.platform == "linux" and platform.libc_ver()[0] == "glibc" and available_memory() < 1 / 3:
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def available_memory() -> float:
    """The share of main memory that is available (Linux)."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    sizes = {name: int(rest.split()[0]) for name, rest in (line.split(":") for line in lines)}
    return sizes["MemAvailable"] / sizes["MemTotal"]


def peak_memory() -> int:
    """Peak memory of this process in bytes: on a GPU since the set-up, otherwise of main memory (VmHWM)."""
    if gpu := gpu_in_use():
        return int(gpu.max_memory_reserved())
    status = Path("/proc/self/status")
    if status.exists() and (found := re.search(r"VmHWM:\s+(\d+) kB", status.read_text())):
        return 1024 * int(found[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main()
