"""Compare `generate.py`, process start included, with a small program that uses CTranslate2 alone.

A step is a process that loads the model of a run, decodes, prints and ends: it translates a file of sentences by beam
search, or continues a prompt greedily. The exports are written before, as on the first use of a run.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.contender import Benchmark, Comparison, Contender
from benchmarks.harness import ROOT, MeasureSettings, measure
from benchmarks.inputs import existing
from configs.errors import UserError
from data.processes import cores

ENGINES = {
    "ours, engine=torch": ["engine=torch"],
    "ours, engine=ctranslate2": ["engine=ctranslate2"],
    "ours, engine=ctranslate2 in int8": ["engine=ctranslate2", "quantize=int8"],
}
"""Settings of `generate.py`."""

PEER = ROOT / "benchmarks" / "peers" / "ctranslate_program.py"


@dataclass
class EndToEndSettings(MeasureSettings):
    """Settings of `end_to_end`."""

    run: str = ""
    """Run folder of a translator or a GPT that CTranslate2 can compute. `generate.py` adds its export to it."""

    sentences: str = ""
    """A translator's input: a text file, one sentence per line."""

    beam_size: int = 5
    """A translator's number of hypotheses per step."""

    prompt: str = "Once upon a time"
    """A GPT's input."""

    new_tokens: int = 100
    """Tokens to continue the prompt by; with it they fit in the context, which CTranslate2 cannot exceed."""


def end_to_end(settings: EndToEndSettings) -> None:
    """Measure whole processes: `generate.py` with both engines, and CTranslate2 alone."""
    from training.run_folder.saved_config import load_config

    run = existing("run", settings.run, "folder")
    task = load_config(run).task
    if task == "translate":
        sentences = existing("sentences", settings.sentences)
        text, ours = sentences.read_text(encoding="utf-8"), [f"beam_size={settings.beam_size}"]
    else:
        text, ours = settings.prompt, ["temperature=0", f"max_tokens={settings.new_tokens}"]
    with tempfile.TemporaryDirectory() as place:
        export(run, Path(place) / "export")
        (Path(place) / "input.txt").write_text(text, encoding="utf-8")
        measure(benchmark(run, task, Path(place), settings, ours), settings)


def export(run: Path, folder: Path) -> None:
    """Write the model of a run for the peer. Raises UserError if CTranslate2 cannot compute it."""
    command = [sys.executable, str(ROOT / "export.py"), f"run={run}", f"to={folder}", "format=ctranslate2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"run={run}: {done.stderr.strip()}")


def benchmark(run: Path, task: str, place: Path, settings: EndToEndSettings, ours: list[str]) -> Benchmark:
    """Return the benchmark. place: a folder with `input.txt` and the folder `export`. ours: settings of our rows."""
    input, count = str(place / "input.txt"), 1
    last = ["0", str(settings.new_tokens), start_of_texts(run)]
    title = f"generate.py, process start included: {settings.new_tokens} tokens of text, greedily"
    if task == "translate":
        count, last = len((place / "input.txt").read_text(encoding="utf-8").splitlines()), [str(settings.beam_size)]
        title = f"generate.py, process start included: {count} sentences, beam of {settings.beam_size}"

    def contender(label: str, command: list[str], ours: bool = False) -> Contender:
        arguments: dict[str, Any] = {"command": command, "input": input, "count": count}
        return Contender(label, f"{__name__}:Program", arguments, ours)

    generate = [str(ROOT / "generate.py"), f"run={run}", *ours]
    available = cores()
    workers = {"1 worker": 1} | ({f"{available} workers": available} if task == "translate" else {})
    peers = [
        contender(f"CTranslate2 {compute}, {use}", [str(PEER), str(place / "export"), compute, str(number), *last])
        for compute in ("float32", "int8")
        for use, number in workers.items()
    ]
    contenders = [*(contender(label, [*generate, *more], True) for label, more in ENGINES.items()), *peers]
    names = [one.name for one in peers]
    eight = [name for name in names if "int8" in name]
    rest = [name for name in names if name not in eight]
    torch, engine, rounded = ENGINES
    what = "Translating a file" if task == "translate" else "Continuing a prompt"
    comparisons = (
        Comparison(f"{what}, process start included", (torch, engine), tuple(rest)),
        Comparison("the same in int8", (rounded,), tuple(eight)),
    )
    unit = "sentences" if task == "translate" else "texts"
    return Benchmark(f"end_to_end_{task}", title, unit, tuple(contenders), engine, comparisons)


def start_of_texts(run: Path) -> str:
    """Return the piece with which texts of a GPT begin."""
    from training.run_folder.tokenizers import load_tokenizers

    tokenizer = load_tokenizers(run)[0]
    return tokenizer.spellings[tokenizer.start_id]


@dataclass
class Program:
    """A step that runs a program on the file `input` and counts `count` units. It raises RuntimeError unless a
    translator prints as many lines."""

    command: list[str]
    input: str
    count: int

    def __call__(self) -> int:
        """Run the program once."""
        lines = printed(self.command, self.input)
        if self.count > 1 and len(lines) != self.count:
            raise RuntimeError(f"expected {self.count} translations, got {len(lines)} lines")
        return self.count

    def peak_memory(self) -> int:
        """Return the peak memory in bytes of the largest program that has ended: this process only starts them."""
        largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        return largest if sys.platform == "darwin" else 1024 * largest


def printed(command: list[str], input: str) -> list[str]:
    """Return the lines that a Python program prints with the file `input` as its standard input. Raises RuntimeError if
    it fails or prints nothing."""
    with Path(input).open("rb") as stream:
        done = subprocess.run([sys.executable, *command], stdin=stream, capture_output=True, check=False)
    lines = done.stdout.decode().splitlines()
    if done.returncode or not lines:
        raise RuntimeError(f"exit code {done.returncode}: {done.stderr.decode().strip()[-200:]}")
    return lines
