"""Peers that train a GPT: nanoGPT from a checkout, and GPT2LMHeadModel of Hugging Face transformers.

Each in its own words: nanoGPT's model and optimiser as its checkout has them, in a loop that does what its `train.py`
does in a step (random windows, forward, loss, the next batch, backward, clipping at 1, AdamW); transformers' model in
the loop that its users write.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.contender import Skipped, Step
from benchmarks.training.zipf import zipf_ids
from configs.program import expanded

LEARNING_RATE, BETAS, WEIGHT_DECAY, CLIP = 1e-3, (0.9, 0.99), 0.1, 1.0


def device() -> torch.device:
    """Where peers compute: the device that the project chooses too."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def precision(bf16: bool) -> AbstractContextManager[Any]:
    """Autocast to bf16, or nothing."""
    return torch.autocast(device().type, torch.bfloat16) if bf16 else nullcontext()


def characters(path: str) -> np.ndarray:
    """The first 90 % of a text as numbers of its sorted characters, uint16."""
    text = Path(path).read_text(encoding="utf-8")
    numbers = {character: number for number, character in enumerate(sorted(set(text)))}
    return np.array([numbers[character] for character in text[: int(0.9 * len(text))]], dtype=np.uint16)


def random_windows(ids: np.ndarray, batch_size: int, context: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Endless (inputs, targets), both [B, T] int64, at random places."""
    while True:
        starts = torch.randint(len(ids) - context, (batch_size,)).tolist()
        rows = torch.stack([torch.from_numpy(ids[start : start + context + 1].astype(np.int64)) for start in starts])
        if device().type == "cuda":
            rows = rows.pin_memory()
        rows = rows.to(device(), non_blocking=True)
        yield rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def tokens(text: str, vocabulary: int) -> tuple[np.ndarray, int]:
    """What is learnt, and the size of its vocabulary: the characters of a text, or `vocabulary` numbers drawn by Zipf's
    law."""
    if vocabulary:
        return zipf_ids(vocabulary), vocabulary
    ids = characters(text)
    return ids, int(ids.max()) + 1


def compiled_form(model: nn.Module) -> nn.Module:
    """`torch.compile(model)` with its defaults, as nanoGPT's train.py and users of transformers write it."""
    compiled: nn.Module = torch.compile(model)
    return compiled


def training_loop(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Iterator[tuple[Tensor, Tensor]],
    loss_of: Callable[[Tensor, Tensor], Tensor],
    bf16: bool,
) -> Step:
    """One update per step, counted in target tokens."""
    model.train()
    waiting = [next(batches)]

    def step() -> int:
        inputs, targets = waiting.pop()
        with precision(bf16):
            loss = loss_of(inputs, targets)
        waiting.append(next(batches))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return targets.numel()

    return step


def nanogpt(
    checkout: str,
    text: str,
    layers: int,
    heads: int,
    width: int,
    context: int,
    dropout: float,
    batch_size: int,
    bf16: bool = False,
    compiled: bool = False,
    vocabulary: int = 0,
) -> Step:
    """nanoGPT's model and optimiser; without biases, as in its recipes. A large vocabulary is rounded up to 64, as its
    train.py does."""
    if not checkout:
        raise Skipped("nanogpt=CHECKOUT was not given")
    file = expanded(checkout) / "model.py"
    if not file.exists():
        raise Skipped(f"{file} does not exist")
    # By path: its name is that of a package of ours.
    spec = importlib.util.spec_from_file_location("nanogpt_model", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # the compiler looks it up by name
    spec.loader.exec_module(module)
    ids, size = tokens(text, vocabulary)
    torch.manual_seed(1)
    shape = module.GPTConfig(
        block_size=context,
        vocab_size=-(-size // 64) * 64 if size > 1000 else size,
        n_layer=layers,
        n_head=heads,
        n_embd=width,
        dropout=dropout,
        bias=False,
    )
    model = module.GPT(shape).to(device())
    optimizer = model.configure_optimizers(WEIGHT_DECAY, LEARNING_RATE, BETAS, device().type)
    forward = compiled_form(model) if compiled else model
    batches = random_windows(ids, batch_size, context)
    return training_loop(model, optimizer, batches, lambda inputs, targets: forward(inputs, targets)[1], bf16)


def transformers_gpt2(
    text: str,
    layers: int,
    heads: int,
    width: int,
    context: int,
    dropout: float,
    batch_size: int,
    bf16: bool = False,
    compiled: bool = False,
    vocabulary: int = 0,
) -> Step:
    """GPT2LMHeadModel with torch's own AdamW."""
    from transformers import GPT2Config, GPT2LMHeadModel

    ids, size = tokens(text, vocabulary)
    torch.manual_seed(1)
    config = GPT2Config(
        vocab_size=size,
        n_positions=context,
        n_embd=width,
        n_layer=layers,
        n_head=heads,
        activation_function="gelu",
        resid_pdrop=dropout,
        embd_pdrop=dropout,
        attn_pdrop=dropout,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
    )
    model: nn.Module = GPT2LMHeadModel(config)
    model.to(device())
    fused = device().type == "cuda"
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=LEARNING_RATE, betas=BETAS, weight_decay=WEIGHT_DECAY, fused=fused
    )
    forward = compiled_form(model) if compiled else model

    def loss(inputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(forward(inputs).logits.flatten(0, 1), targets.flatten())

    return training_loop(model, optimizer, random_windows(ids, batch_size, context), loss, bf16)
