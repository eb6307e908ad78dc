"""Peers that train a GPT: nanoGPT from a checkout, and GPT2LMHeadModel of Hugging Face transformers.

nanoGPT's model and optimiser are those of its checkout, in a loop with the steps of its `train.py` (random windows,
forward, loss, the next batch, backward, clipping at 1, AdamW); transformers' model runs in the same loop, which is what
its users write.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.contender import Skipped, Step
from benchmarks.device import device
from benchmarks.training.zipf import zipf_ids

LEARNING_RATE, BETAS, WEIGHT_DECAY, CLIP = 1e-3, (0.9, 0.99), 0.1, 1.0


@dataclass(frozen=True)
class Task:
    """A GPT and its training data, the same for both peers."""

    text: str
    layers: int
    heads: int
    width: int
    context: int
    dropout: float
    batch_size: int
    bf16: bool = False
    """Autocast to bf16."""
    compiled: bool = False
    """`torch.compile` with its defaults, as nanoGPT's train.py and users of transformers call it."""
    vocabulary: int = 0
    """Learn tokens drawn by Zipf's law from a vocabulary of this size, instead of the characters of the text."""

    def tokens(self) -> tuple[np.ndarray, int]:
        """Training tokens [N] uint16 and the size of their vocabulary."""
        if self.vocabulary:
            return zipf_ids(self.vocabulary), self.vocabulary
        ids = characters(self.text)
        return ids, int(ids.max()) + 1

    def loop(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, ids: np.ndarray, loss_of: Callable[..., Tensor]
    ) -> Step:
        """One update per step, counted in target tokens. loss_of(model, inputs, targets) calls the model."""
        model.train()
        forward = torch.compile(model) if self.compiled else model
        batches = random_windows(ids, self.batch_size, self.context)
        waiting = [next(batches)]

        def step() -> int:
            inputs, targets = waiting.pop()
            with precision(self.bf16):
                loss = loss_of(forward, inputs, targets)
            waiting.append(next(batches))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            return targets.numel()

        return step


def precision(bf16: bool) -> AbstractContextManager[Any]:
    """Autocast to bf16, or nothing."""
    return torch.autocast(device().type, torch.bfloat16) if bf16 else nullcontext()


def characters(path: str) -> np.ndarray:
    """The first 90 % of a text as indices into its sorted characters, [N] uint16."""
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


def nanogpt_module(checkout: str | Path) -> Any:
    """`model.py` of a checkout of nanoGPT, which is no package. Raises Skipped where there is none."""
    path = Path(checkout) / "model.py"
    if not checkout or not path.is_file():
        raise Skipped(f"{path}: no such file; nanogpt=CHECKOUT is a checkout of github.com/karpathy/nanoGPT")
    # By path, because our package has the name `model` too.
    spec = importlib.util.spec_from_file_location("nanogpt_model", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and the compiler look it up by name
    spec.loader.exec_module(module)
    return module


def nanogpt(checkout: str, **values: Any) -> Step:
    """nanoGPT's model and optimiser, without biases as in its recipes. A large vocabulary is rounded up to a multiple
    of 64, as in its train.py."""
    task, module = Task(**values), nanogpt_module(checkout)
    ids, size = task.tokens()
    torch.manual_seed(1)
    config = module.GPTConfig(
        block_size=task.context,
        vocab_size=-(-size // 64) * 64 if size > 1000 else size,
        n_layer=task.layers,
        n_head=task.heads,
        n_embd=task.width,
        dropout=task.dropout,
        bias=False,
    )
    model = module.GPT(config).to(device())
    optimizer = model.configure_optimizers(WEIGHT_DECAY, LEARNING_RATE, BETAS, device().type)
    return task.loop(model, optimizer, ids, lambda forward, inputs, targets: forward(inputs, targets)[1])


def transformers_gpt2(**values: Any) -> Step:
    """GPT2LMHeadModel with torch's own AdamW."""
    from transformers import GPT2Config, GPT2LMHeadModel

    task = Task(**values)
    ids, size = task.tokens()
    torch.manual_seed(1)
    config = GPT2Config(
        vocab_size=size,
        n_positions=task.context,
        n_embd=task.width,
        n_layer=task.layers,
        n_head=task.heads,
        activation_function="gelu",
        **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), task.dropout),
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
    )
    model: nn.Module = GPT2LMHeadModel(config)
    model.to(device())
    options = {"lr": LEARNING_RATE, "betas": BETAS, "weight_decay": WEIGHT_DECAY, "fused": device().type == "cuda"}
    optimizer = torch.optim.AdamW(model.parameters(), **options)

    def loss(forward: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(forward(inputs).logits.flatten(0, 1), targets.flatten())

    return task.loop(model, optimizer, ids, loss)
