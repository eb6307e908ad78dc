"""Train GPT-2 with llm.c, compiled from a checkout with the flags of its Makefile, starting from our weights."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.contender import Skipped, Step
from benchmarks.device import device
from benchmarks.instructions import restricted_to
from benchmarks.peers.gpt import random_windows
from benchmarks.peers.weights import position_table
from benchmarks.shape import Shape
from benchmarks.zipf import zipf_ids
from model.gpt import GPT

FLAGS = "-Ofast -fopenmp -DOMP -w -shared -fPIC".split()
ARCHITECTURES = {"native": "native", "avx512": "x86-64-v4", "avx2": "x86-64-v3"}
"""Values of -march by the instruction set to which the contenders are restricted."""

SOURCE = b"""
#define TESTING  /* leaves out llm.c's own main */
#include "train_gpt2.c"
static GPT2 model;
void load(const char *path) { gpt2_build_from_checkpoint(&model, path); }
float step(int *inputs, int *targets, int rows, int length, float lr, int number) {
    gpt2_forward(&model, inputs, targets, rows, length);
    gpt2_zero_grad(&model);
    gpt2_backward(&model);
    gpt2_update(&model, lr, 0.9f, 0.999f, 1e-8f, 0.0f, number);
    return model.mean_loss;
}
"""
"""Calls the functions of llm.c in the order of its training loop."""

LEARNING_RATE = 1e-4
VOCABULARY_MULTIPLE = 128  # llm.c pads the vocabulary
MAGIC, VERSION = 20240326, 3  # of llm.c's float32 checkpoints


@dataclass(frozen=True)
class Task(Shape):
    """Size and batch of a GPT-2 that learns tokens of a Zipf distribution."""

    vocabulary: int
    batch_size: int


def llmc(checkout: str, **values: Any) -> Step:
    """Return a training step of llm.c with all cores. Raises Skipped without a checkout or a C compiler."""
    task = Task(**values)
    train = trainer(checkout, gpt2(task))
    batches = random_windows(zipf_ids(task.vocabulary), task.batch_size, task.context)

    def step() -> int:
        inputs, targets = next(batches)
        train(inputs, targets, LEARNING_RATE)
        return targets.numel()

    return step


def gpt2(task: Task) -> GPT:
    """Return a GPT-2 with random weights, as llm.c computes it: with biases and the GELU by tanh."""
    from model.config import ModelConfig

    torch.manual_seed(1)
    size: Any = task.size
    config = ModelConfig(**size, norm="layer", position="learned", activation="gelu_tanh", qk_norm=False, bias=True)
    return GPT(config, task.vocabulary)


def trainer(checkout: str | Path, model: GPT) -> Callable[[Tensor, Tensor, float], float]:
    """Compile llm.c and load the weights -> a function of inputs, targets [B, T] int64 and learning rate that makes a
    step of AdamW and returns the loss of the batch."""
    if not checkout or not (Path(checkout) / "train_gpt2.c").is_file():
        raise Skipped(f"{Path(checkout) / 'train_gpt2.c'}: no such file; set llmc= to a checkout of karpathy/llm.c")
    if device().type != "cpu":
        raise Skipped("train_gpt2.c of llm.c runs on a CPU only")
    with tempfile.TemporaryDirectory() as folder:
        library = compiled(Path(checkout), Path(folder) / "llmc.so")
        write_checkpoint(model, Path(folder) / "model.bin")
        library.load(str(Path(folder) / "model.bin").encode())
    library.step.restype = ctypes.c_float
    count = 0

    def train(inputs: Tensor, targets: Tensor, lr: float) -> float:
        nonlocal count
        count += 1
        arrays = [np.ascontiguousarray(part.numpy(), dtype=np.int32) for part in (inputs, targets)]
        addresses = [array.ctypes.data_as(ctypes.c_void_p) for array in arrays]
        loss: float = library.step(*addresses, *inputs.shape, ctypes.c_float(lr), count)
        return loss

    return train


def compiled(checkout: Path, target: Path) -> ctypes.CDLL:
    """Compile `SOURCE` with `$CC`, else `cc`, and load it. Raises Skipped without a compiler."""
    compiler = os.environ.get("CC", "cc")
    if not shutil.which(compiler):
        raise Skipped(f"no C compiler: {compiler}")
    architecture = f"-march={ARCHITECTURES[restricted_to()]}"
    command = [compiler, *FLAGS, architecture, "-I", str(checkout), "-x", "c", "-", "-o", str(target), "-lm"]
    done = subprocess.run(command, input=SOURCE, stderr=subprocess.PIPE)
    if done.returncode:
        raise RuntimeError(f"llm.c does not compile: {done.stderr.decode(errors='replace')[-150:]}")
    return ctypes.CDLL(str(target))


@torch.no_grad()
def write_checkpoint(model: GPT, path: Path) -> None:
    """Write the weights of a GPT-2 with biases as llm.c reads them: 256 int32 of header, then the tensors in float32,
    those of all layers together, all matrices as [out, in]."""
    config, vocabulary = model.config, model.vocab_size
    padding = -vocabulary % VOCABULARY_MULTIPLE
    header = np.zeros(256, dtype=np.int32)
    sizes = (config.context, vocabulary, config.layers, config.heads, config.width, vocabulary + padding)
    header[:8] = (MAGIC, VERSION, *sizes)
    blocks: list[Any] = list(model.blocks)
    layers = [
        [getattr(part, kind) for part in parts]
        for parts in (
            [block.attention_norm for block in blocks],
            [block.attention.query_key_value for block in blocks],
            [block.attention.output for block in blocks],
            [block.feed_forward_norm for block in blocks],
            [block.feed_forward.expand for block in blocks],
            [block.feed_forward.project for block in blocks],
        )
        for kind in ("weight", "bias")
    ]
    words: NDArray[np.float32] = model.output_weight[:vocabulary].numpy()
    norm: Any = model.norm
    with path.open("wb") as file:
        header.tofile(file)
        words.tofile(file)
        np.zeros((padding, config.width), dtype=np.float32).tofile(file)
        for tensor in (position_table(model.embedding), *(each for layer in layers for each in layer)):
            tensor.numpy().tofile(file)
        for tensor in (norm.weight, norm.bias):
            tensor.numpy().tofile(file)
