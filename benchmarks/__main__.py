"""Ours beside the peers from the command line: `python -m benchmarks --help`."""

from __future__ import annotations

import importlib
import signal
import sys
from typing import Any

from configs.errors import UserError
from configs.program import exit_code_of, importing
from configs.settings import CommandError, describe, parse
from data.errors import DataError

HELP = """Measure this project beside its peers. Every contender runs in a process of its own, in turns; medians count.

  python -m benchmarks train_gpt nanogpt=CHECKOUT data=input.txt    training steps of a GPT
  python -m benchmarks train_translator data=FOLDER                 training steps of an encoder-decoder
  python -m benchmarks sample model=10.7M batch=32 nanogpt=CHECKOUT  sampling from a GPT
  python -m benchmarks beam run=RUN sentences=test.en               translating by beam search
  python -m benchmarks data text=input.txt pairs=FOLDER             batches, without a model
  python -m benchmarks recording                                    attention maps of one example
  python -m benchmarks scaling data=input.txt                       speed and memory by width, depth, context, batch
  python -m benchmarks curves data=input.txt                        loss curves: bf16, compiled, float32
  python -m benchmarks peak                                         the matrix peak of this machine
  python -m benchmarks gpu text=T.txt pairs=DIR nanogpt=CHECKOUT    all of it on a GPU, in stages: gpu_machine, …
  python -m benchmarks table                                        results into README.md and docs/

Nothing else should run meanwhile. `python -m benchmarks train_gpt --help` lists the settings of `train_gpt`."""

COMMANDS = {
    "train_gpt": ("training.train_gpt", "train_gpt", "TrainGPTSettings"),
    "train_translator": ("training.train_translator", "train_translator", "TrainTranslatorSettings"),
    "sample": ("decoding.sample", "sample", "SampleSettings"),
    "beam": ("decoding.beam", "beam", "BeamSettings"),
    "data": ("training.data_loading", "data_loading", "DataLoadingSettings"),
    "recording": ("attention.recording", "recording", "RecordingSettings"),
    "scaling": ("training.scaling", "scaling", "ScalingSettings"),
    "curves": ("training.curves", "curves", "CurvesSettings"),
    "peak": ("peak", "peak", "PeakSettings"),
    "gpu": ("gpu.run", "gpu", "GPUSettings"),
    "gpu_machine": ("gpu.machine", "machine", "StageSettings"),
    "gpu_tests": ("gpu.tests", "tests", "StageSettings"),
    "gpu_attention": ("gpu.attention", "attention", "StageSettings"),
    "gpu_training": ("gpu.training", "training", "StageSettings"),
    "gpu_text": ("gpu.quality", "text", "StageSettings"),
    "gpu_kernels": ("gpu.kernels", "kernels", "StageSettings"),
    "gpu_decoding": ("gpu.decoding", "decoding", "StageSettings"),
    "gpu_maps": ("gpu.maps", "maps", "StageSettings"),
    "gpu_translation": ("gpu.quality", "translation", "StageSettings"),
    "table": ("table", "table", "TableSettings"),
}
"""Per command its module, function and settings; only the one asked for is imported."""


def main(arguments: list[str]) -> None:
    """Run one command. Raises CommandError."""
    if not arguments or arguments[0] in ("--help", "-h", "help"):
        print(HELP)
        return
    command, *rest = arguments
    if command not in COMMANDS:
        raise CommandError(f"{command}: no such command; there are {', '.join(COMMANDS)}")
    module, name, settings_name = COMMANDS[command]
    with importing():
        found = importlib.import_module(f"benchmarks.{module}")
    function, schema = getattr(found, name), getattr(found, settings_name)
    if "--help" in rest or "-h" in rest:
        print("\n".join(described(command, function, schema)))
        return
    settings, problems = parse(schema, rest)
    if problems:
        raise CommandError(*problems)
    function(settings)


def described(command: str, function: Any, schema: type) -> list[str]:
    """What a command does, and its settings."""
    heading = str(function.__doc__).partition("\n")[0]
    return [
        heading,
        "",
        f"  python -m benchmarks {command} key=value …",
        "",
        "Settings (key=value):",
        *describe(schema),
    ]


def guarded(arguments: list[str]) -> int:
    """`main` with its exit code: what can be mended is one line on standard error for each problem, and code 2."""
    return exit_code_of(lambda: main(arguments), CommandError, DataError, UserError)


if __name__ == "__main__":
    signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # ends as Ctrl-C does: nothing is left running or lying about
    raise SystemExit(guarded(sys.argv[1:]))
