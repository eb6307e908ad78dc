"""The command line of the benchmarks: `python -m benchmarks --help`."""

from __future__ import annotations

import signal
import sys

from configs.commands import run_command
from configs.program import run_guarded

HELP = """Compare the speed of this project with its peers: separate processes that take turns; results are medians.

  python -m benchmarks train_gpt nanogpt=CHECKOUT data=input.txt    training steps of a GPT
  python -m benchmarks train_translator data=FOLDER                 training steps of an encoder-decoder
  python -m benchmarks sample model=10.7M batch=32                  sampling from a GPT
  python -m benchmarks beam run=RUN sentences=test.en               translation by beam search
  python -m benchmarks shakespeare nanogpt=CHECKOUT data=input.txt  loss in the same training time as nanoGPT's recipe
  python -m benchmarks gpu text=T.txt pairs=DIR nanogpt=CHECKOUT    everything on a GPU
  python -m benchmarks peak                                         peak matrix throughput of this machine
  python -m benchmarks table                                        write the results to README.md and docs/

Run nothing else at the same time. `python -m benchmarks train_gpt --help` lists the settings of `train_gpt`."""

COMMANDS = {
    "train_gpt": ("train_gpt", "train_gpt", "TrainGPTSettings"),
    "train_translator": ("train_translator", "train_translator", "TrainTranslatorSettings"),
    "sample": ("sample", "sample", "SampleSettings"),
    "beam": ("beam", "beam", "BeamSettings"),
    "shakespeare": ("shakespeare", "shakespeare", "ShakespeareSettings"),
    "peak": ("machine", "peak", "PeakSettings"),
    "table": ("table", "table", "TableSettings"),
    "gpu": ("gpu.run", "gpu", "GPUSettings"),
    "gpu_stage": ("gpu.run", "gpu_stage", "StageSettings"),
}
"""Module, function and settings of each command; only the module of the chosen command is imported."""


if __name__ == "__main__":
    # SIGTERM acts like Ctrl-C: child processes are stopped and temporary folders are removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    run_guarded(lambda: run_command("benchmarks", HELP, COMMANDS, sys.argv[1:]))
