"""Train for many steps and watch the process from outside: memory, open files, threads, CPU time, sizes of files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import ROOT, environment
from benchmarks.machine import cpu_seconds, describe_machine, versions
from configs.errors import UserError
from configs.program import expanded

COMMON = """
name=run model.layers=1 model.heads=2 model.width=32 trainer.batch_size=4 trainer.compile=off trainer.precision=float32
trainer.threads=1 trainer.limit_evaluations=false trainer.samples=1 trainer.log_every=10 trainer.evaluate_sentences=8
trainer.ema=0.99 model.dropout=0.1 attention.examples=2 attention.scored=8 attention.keep=50
""".split()
RECIPES = {
    "gpt": [*COMMON, *"model.context=64 data.stories=300 tokenizer.vocab_size=300".split()],
    "translate": [
        *COMMON,
        *"""task=translate tokenizer=unigram tokenizer.sampling=0.1 model.context=64 data.sentences=400
        tokenizer.vocab_size=480 data.batch_tokens=256 trainer.beam_size=2""".split(),
    ],
}
"""Small models, so that minutes are enough for many steps: what leaks does so per step, evaluation or epoch."""

WARM_UP = 0.25
"""Part of the run before the judged part: buffers, caches and the allocator fill up."""

FILES = {"log.txt": "log.txt", "metrics.jsonl": "metrics.jsonl", "event files": "**/events.out*", "maps": "attention/*"}
"""Growing files of a run folder."""

QUANTITIES = {
    "memory_mb": ("memory", "MB", 0.02),
    "open_files": ("open files", "", 0.05),
    "threads": ("threads", "", 0.05),
    "step_ms": ("CPU time of a step, with its share of evaluations", "ms", 0.05),
}
"""What is judged: name, unit, and the rise that is tolerated, as a fraction of the median."""


@dataclass
class LongRunSettings:
    """Settings of `long_run`."""

    steps: int = 20_000
    """Steps of each task."""

    evaluations: int = 40
    """Evaluations of each task, each with samples, maps, an image and a checkpoint."""

    to: str = "benchmarks/results/long_run"
    """Output folder of the JSON file."""

    picture: str = "docs/images/long_run.svg"
    """Output file of the plot."""


@dataclass
class Watched:
    """Samples of one run, by step."""

    task: str
    samples: list[dict[str, float]] = field(default_factory=list)
    files: dict[str, int] = field(default_factory=dict)
    """Sizes at the end, in bytes."""
    log_lines: int = 0
    evaluations: int = 0

    def verdict(self, name: str) -> Verdict:
        """Judge one quantity after the warm-up."""
        first = WARM_UP * self.samples[-1]["step"]
        judged = [sample for sample in self.samples if sample["step"] >= first]
        return judge([s["step"] for s in judged], [s[name] for s in judged], QUANTITIES[name][2])


@dataclass(frozen=True)
class Verdict:
    """Whether a quantity stays flat."""

    level: float
    """Median."""
    rise: float
    """Slope times the length of the judged part."""
    noise: float
    """1.4826 times the median absolute deviation from the line."""
    tolerated: float

    @property
    def flat(self) -> bool:
        """Whether the rise is neither above the tolerated one nor above twice the noise; a fall is flat."""
        return self.rise <= max(self.tolerated, 2 * self.noise)


def judge(steps: Sequence[float], values: Sequence[float], tolerated: float) -> Verdict:
    """Fit a line by the median of the slopes of all pairs of points (Theil 1950, Sen 1968), which ignores outliers.

    tolerated: rise as a fraction of the median.
    """
    x, y = np.asarray(steps, dtype=float), np.asarray(values, dtype=float)
    i, j = np.triu_indices(len(x), 1)
    apart = x[j] > x[i]
    slope = float(np.median((y[j] - y[i])[apart] / (x[j] - x[i])[apart])) if apart.any() else 0.0
    residuals = y - slope * x
    noise = 1.4826 * float(np.median(np.abs(residuals - np.median(residuals))))
    return Verdict(float(np.median(y)), slope * float(x[-1] - x[0]), noise, tolerated * float(np.median(y)))


def long_run(settings: LongRunSettings) -> None:
    """Train a small model of each task for many steps, sample memory, open files, threads, CPU time and file sizes
    about 200 times, and print whether each stays flat: after the first quarter, the rise of a robust line must not
    exceed a tolerance or twice the noise. Exit code 1 if anything is not flat."""
    runs = [watch(task, settings) for task in RECIPES]
    result = {"machine": describe_machine(), "versions": versions(), "runs": [asdict(run) for run in runs]}
    file, picture = expanded(settings.to) / "long_run.json", expanded(settings.picture)
    for path in (file, picture):
        path.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    draw(runs, picture)
    print("\n".join(map(report, runs)), f"\n{file}, {picture}")
    if not all(run.verdict(name).flat for run in runs for name in QUANTITIES):
        raise SystemExit(1)


def watch(task: str, settings: LongRunSettings) -> Watched:
    """Train one task in a process of its own, and sample it."""
    every = settings.steps // settings.evaluations
    budget = [f"trainer.steps={settings.steps}", f"trainer.evaluate_every={every}", "trainer.test=false"]
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "runs" / "run"
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "train.py"), *RECIPES[task], *budget, f"data.cache={folder}/cache"],
            cwd=folder,
            env=environment({"OMP_NUM_THREADS": "1"}),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        watched = Watched(task)
        try:
            before = 0.0, 0.0
            for step in reported_steps(process, run / "log.txt", settings.steps // 200):
                used = cpu_seconds(process.pid)
                sample = {"step": step, "step_ms": round(1000 * (used - before[1]) / (step - before[0]), 3)}
                before = step, used
                watched.samples.append(sample | usage(process.pid))
            _, errors = process.communicate()
        finally:
            process.kill()
        if process.returncode:
            raise UserError(f"training of {task} failed: {errors.strip()[-500:]}")
        text = (run / "log.txt").read_text(encoding="utf-8")
        watched.log_lines, watched.evaluations = text.count("\nstep "), text.count("\nvalidation at step")
        watched.files = {name: sum(f.stat().st_size for f in run.glob(glob)) for name, glob in FILES.items()}
    return watched


def reported_steps(process: subprocess.Popen, log: Path, every: int) -> Iterator[int]:
    """Yield the step about every `every` steps, as the log reports it."""
    position, last = 0, 0
    while process.poll() is None:
        text = log.read_bytes()[position:] if log.exists() else b""
        text = text[: text.rfind(b"\n") + 1]
        position += len(text)
        steps = re.findall(rb"^step (\d+)/", text, re.MULTILINE)
        if steps and int(steps[-1]) >= last + every:
            last = int(steps[-1])
            yield last
        time.sleep(0.02)


def usage(pid: int) -> dict[str, float]:
    """Return resident memory in MB, open file handles and threads of a process (Linux)."""
    process = Path(f"/proc/{pid}")
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    return {
        "memory_mb": round(int(status["VmRSS"].split()[0]) / 1024, 2),
        "open_files": len(os.listdir(process / "fd")),  # noqa: PTH208 (Path.iterdir opens it too)
        "threads": int(status["Threads"]),
    }


def report(run: Watched) -> str:
    """Return the verdicts and the sizes of the files as text."""
    lines = [f"{run.task}: {run.samples[-1]['step']:.0f} steps, {len(run.samples)} samples"]
    for name, (title, unit, _) in QUANTITIES.items():
        found = run.verdict(name)
        lines.append(
            f"  {title}: {'flat' if found.flat else 'NOT FLAT'}: median {found.level:.4g} {unit}, rise"
            f" {found.rise:+.3g}, noise {found.noise:.2g}, tolerated {max(found.tolerated, 2 * found.noise):.2g}"
        )
    sizes = ", ".join(f"{name} {size / 1000:.0f} kB" for name, size in run.files.items())
    return "\n".join([*lines, f"  after {run.log_lines} log lines and {run.evaluations} evaluations: {sizes}"])


def draw(runs: Sequence[Watched], path: Path) -> None:
    """Plot every quantity by step, as SVG."""
    import matplotlib
    from matplotlib.figure import Figure

    style: Any = {"svg.hashsalt": "long_run", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(7, 4.2), layout="constrained")
        for axis, (name, (title, unit, _)) in zip(figure.subplots(2, 2).flat, QUANTITIES.items(), strict=True):
            for run in runs:
                steps, values = ([sample[key] for sample in run.samples] for key in ("step", name))
                axis.plot(steps, values, label=run.task, linewidth=1.2)
            axis.set_ylim(bottom=0)
            axis.set_title(f"{title}, {unit}" if unit else title)
        axis.legend(frameon=False)
        figure.supxlabel("step")
        figure.savefig(path, metadata={"Date": None})
