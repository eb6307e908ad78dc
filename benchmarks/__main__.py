"""The command line of the benchmarks: `python -m benchmarks --help`."""

from __future__ import annotations

import signal
import sys

from configs.commands import run_command
from configs.program import run_guarded

HELP = """Compare the speed of this project with its peers: separate processes that take turns; results are medians.

  python -m benchmarks train_gpt nanogpt=CHECKOUT data=input.txt    training steps of a GPT
  python -m benchmarks train_gpt2 llmc=CHECKOUT                     training steps of GPT-2 124M
  python -m benchmarks train_translator data=FOLDER                 training steps of an encoder-decoder
  python -m benchmarks sample model=10.7M batch=32 nanogpt=CHECKOUT  sampling from a GPT
  python -m benchmarks beam run=RUN sentences=test.en               translation by beam search
  python -m benchmarks end_to_end run=RUN sentences=test.en         generate.py, process start included
  python -m benchmarks data text=input.txt pairs=FOLDER             data loading, without a model
  python -m benchmarks recording                                    recording the attention maps of one example
  python -m benchmarks shakespeare nanogpt=CHECKOUT data=input.txt  loss in the same training time as nanoGPT's recipe
  python -m benchmarks peer_quality run=RUN minutes=60              GPT-2 or Marian on the data of a run: loss, scores
  python -m benchmarks gpu text=T.txt pairs=DIR nanogpt=CHECKOUT    everything on a GPU, in stages: gpu_text, …
  python -m benchmarks table                                        write the results to README.md and docs/

Without peers:

  python -m benchmarks scaling data=input.txt                       speed and memory by width, depth, context, batch
  python -m benchmarks curves data=input.txt                        loss curves: bf16, compiled, float32
  python -m benchmarks recording_cost                               attention maps: fraction of the training time
  python -m benchmarks callback_cost                                attention maps of transformers' Trainer: the cost
  python -m benchmarks tab                                          Attention tab: files and server
  python -m benchmarks tab_drawing                                  Attention tab: redraw times in a browser
  python -m benchmarks tab_run run=RUN                              Attention tab: a run's recordings, story, questions
  python -m benchmarks many_runs                                    TensorBoard with a hundred runs
  python -m benchmarks processes_equal                              several processes: losses and memory against one
  python -m benchmarks kftt run=RUN folder=KFTT                     alignment error rate of a run on KFTT
  python -m benchmarks long_run                                     20,000 steps: memory, open files, threads, step time
  python -m benchmarks checkpoint_cost                              checkpoints: blocked time, memory, resume
  python -m benchmarks processes                                    two processes against one; an all-reduce
  python -m benchmarks peak                                         peak matrix throughput of this machine

Run nothing else at the same time. `python -m benchmarks train_gpt --help` lists the settings of `train_gpt`."""

COMMANDS = {
    "train_gpt": ("training.train_gpt", "train_gpt", "TrainGPTSettings"),
    "train_gpt2": ("training.train_gpt2", "train_gpt2", "TrainGPT2Settings"),
    "train_translator": ("training.train_translator", "train_translator", "TrainTranslatorSettings"),
    "sample": ("decoding.sample", "sample", "SampleSettings"),
    "beam": ("decoding.beam", "beam", "BeamSettings"),
    "end_to_end": ("decoding.end_to_end", "end_to_end", "EndToEndSettings"),
    "data": ("training.data_loading", "data_loading", "DataLoadingSettings"),
    "recording": ("attention.recording", "recording", "RecordingSettings"),
    "table": ("table", "table", "TableSettings"),
    "scaling": ("training.scaling", "scaling", "ScalingSettings"),
    "curves": ("training.curves", "curves", "CurvesSettings"),
    "shakespeare": ("training.shakespeare", "shakespeare", "ShakespeareSettings"),
    "peer_quality": ("training.peer_quality", "peer_quality", "PeerQualitySettings"),
    "recording_cost": ("attention.recording_cost", "recording_cost", "NoSettings"),
    "callback_cost": ("attention.callback_cost", "callback_cost", "CallbackCostSettings"),
    "tab": ("attention.tab", "tab", "NoSettings"),
    "tab_drawing": ("attention.tab_drawing", "tab_drawing", "NoSettings"),
    "tab_run": ("attention.tab_run", "tab_run", "TabRunSettings"),
    "many_runs": ("attention.many_runs", "many_runs", "ManyRunsSettings"),
    "kftt": ("attention.kftt", "kftt", "KFTTSettings"),
    "long_run": ("training.long_run", "long_run", "LongRunSettings"),
    "checkpoint_cost": ("training.checkpoint_cost", "checkpoint_cost", "CheckpointCostSettings"),
    "processes": ("training.processes", "processes", "ProcessesSettings"),
    "processes_equal": ("training.processes_equal", "processes_equal", "ProcessesEqualSettings"),
    "peak": ("peak", "peak", "PeakSettings"),
    "gpu": ("gpu.run", "gpu", "GPUSettings"),
    "gpu_text": ("gpu.quality", "text", "StageSettings"),
    "gpu_gradients": ("gpu.gradients", "gradients", "StageSettings"),
    "gpu_tests": ("gpu.tests", "tests", "StageSettings"),
    "gpu_training": ("gpu.training", "training", "StageSettings"),
    "gpu_machine": ("gpu.machine", "machine", "StageSettings"),
    "gpu_attention": ("gpu.attention", "attention", "StageSettings"),
    "gpu_decoding": ("gpu.decoding", "decoding", "StageSettings"),
    "gpu_maps": ("gpu.maps", "maps", "StageSettings"),
    "gpu_kernels": ("gpu.kernels", "kernels", "StageSettings"),
    "gpu_sizes": ("gpu.training", "sizes", "StageSettings"),
    "gpu_translation": ("gpu.quality", "translation", "StageSettings"),
}
"""Module, function and settings of each command; only the module of the chosen command is imported."""


if __name__ == "__main__":
    # SIGTERM acts like Ctrl-C: child processes are stopped and temporary folders are removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    run_guarded(lambda: run_command("benchmarks", HELP, COMMANDS, sys.argv[1:]))
