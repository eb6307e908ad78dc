"""Run nanoGPT's CPU recipe for Shakespeare, then our recipes with the same tokens and in the same wall time.

Print one table: whole-process seconds, nanoGPT's own estimate of the validation loss, and full-pass validation loss.
Like our models, nanoGPT's checkpoint is evaluated over the whole held-out text in windows of its own context.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import ROOT
from benchmarks.inputs import existing

RECIPE = """config/train_shakespeare_char.py --device=cpu --compile=False --eval_iters=20 --log_interval=100
    --block_size=64 --batch_size=12 --n_layer=4 --n_head=4 --n_embd=128
    --max_iters=2000 --lr_decay_iters=2000 --dropout=0.0""".split()
"""The CPU command from nanoGPT's README."""

FULL_PASS = """
import pickle, sys, numpy as np, torch
sys.path.insert(0, ".")
from model import GPT, GPTConfig
saved = torch.load("out-shakespeare-char/ckpt.pt", map_location="cpu", weights_only=False)
model = GPT(GPTConfig(**saved["model_args"])).eval()
model.load_state_dict(saved["model"])
ids = torch.from_numpy(np.fromfile("data/shakespeare_char/val.bin", dtype=np.uint16).astype(np.int64))
total, count = 0.0, 0
with torch.no_grad():
    for start in range(0, len(ids) - 1, 64):
        window = ids[start : start + 65]
        _, loss = model(window[None, :-1], window[None, 1:])
        total, count = total + float(loss) * (len(window) - 1), count + len(window) - 1
print(total / count)
"""
"""Program to run in the copy of nanoGPT: prints the mean loss over all characters of its validation file."""


@dataclass
class ShakespeareSettings:
    """Settings of `shakespeare`."""

    data: str = "input.txt"
    """The text file of tinyshakespeare."""

    nanogpt: str = ""
    """A nanoGPT checkout."""


def shakespeare(settings: ShakespeareSettings) -> None:
    """Compare nanoGPT's CPU recipe with our recipes, with the same tokens and in the same time: seconds and loss."""
    checkout, text = existing("nanogpt", settings.nanogpt, "folder"), existing("data", settings.data)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        peer_seconds, estimate, peer_loss = nanogpt(checkout, text, folder)
        budget, outside, budget_loss = ours(text, folder, "same_tokens", "+experiment=shakespeare_cpu")
        # The peer's time includes start, end and a further evaluation (at most 2 seconds) of our process.
        limit = f"trainer.minutes={(peer_seconds - outside - 2) / 60:.3f}"
        same, _, same_loss = ours(text, folder, "same_time", "+experiment=shakespeare_minute", limit)
    print("| recipe | time of the whole process, s | full-pass validation loss |")
    print("|---|---|---|")
    print(f"| nanoGPT, CPU recipe (its own estimate {estimate:.4f}) | {peer_seconds:.1f} | {peer_loss:.4f} |")
    print(f"| ours, same shape and tokens (shakespeare_cpu) | {budget:.1f} | {budget_loss:.4f} |")
    print(f"| ours, same time (shakespeare_minute) | {same:.1f} | {same_loss:.4f} |")


def nanogpt(checkout: Path, text: Path, folder: Path) -> tuple[float, float, float]:
    """Train nanoGPT's recipe in a copy of the checkout -> (seconds, nanoGPT's last loss estimate, full-pass loss)."""
    copy = folder / "nanogpt"
    shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns(".git"))
    shutil.copy(text, copy / "data" / "shakespeare_char" / "input.txt")
    (copy / "requests.py").write_text("# not needed: the text is already there\n", encoding="utf-8")
    python([str(copy / "data/shakespeare_char/prepare.py")], copy, {"PYTHONPATH": str(copy)})
    started = time.perf_counter()
    log = python(["train.py", *RECIPE], copy)
    seconds = time.perf_counter() - started
    full = python(["-c", FULL_PASS], copy)
    return seconds, float(re.findall(r"val loss ([\d.]+)", log)[-1]), float(full.split()[-1])


def ours(text: Path, folder: Path, name: str, *settings: str) -> tuple[float, float, float]:
    """Train one of our recipes -> (total seconds, seconds outside the training loop, full-pass loss)."""
    started = time.perf_counter()
    python([str(ROOT / "train.py"), f"data.path={text}", f"name={name}", *settings], folder)
    seconds = time.perf_counter() - started
    lines = (folder / "runs" / name / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    evaluations = [json.loads(line) for line in lines]
    outside = seconds - evaluations[-1]["seconds"]
    return seconds, outside, min(evaluation["val/loss"] for evaluation in evaluations)


def python(arguments: list[str], folder: Path, environment: dict[str, str] | None = None) -> str:
    """Run Python in a folder and return its standard output. Raises CalledProcessError if it fails."""
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True).stdout
