"""Train a GPT with nanoGPT (from a checkout) and with GPT2LMHeadModel of Hugging Face transformers.

nanoGPT's model and optimiser run in a loop with the same steps as its `train.py` (random windows, forward, loss, next
batch, backward, clipping at 1, AdamW). The transformers model runs in the same loop, as is common among its users.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.contender import Skipped, Step
from benchmarks.device import device
from benchmarks.inputs import Shape, zipf_ids

LEARNING_RATE, BETAS, WEIGHT_DECAY, CLIP = 1e-3, (0.9, 0.99), 0.1, 1.0


@dataclass(frozen=True)
class Task(Shape):
    """GPT size and training data, common to both peers."""

    text: str
    dropout: float
    batch_size: int
    bf16: bool = False
    """Use autocast to bf16."""
    compiled: bool = False
    """Use `torch.compile` with default options, as in nanoGPT's train.py."""
    vocabulary: int = 0
    """If positive, train on tokens from a Zipf distribution over this many ids instead of a text."""

    def tokens(self) -> tuple[np.ndarray, int]:
        """Return the training tokens [N] uint16 and the vocabulary size."""
        if self.vocabulary:
            return zipf_ids(self.vocabulary), self.vocabulary
        ids = characters(self.text)
        return ids, int(ids.max()) + 1

    def step(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, ids: np.ndarray, loss_of: Callable[..., Tensor]
    ) -> Step:
        """Return a training step, counted in target tokens. loss_of(model, inputs, targets) computes the loss."""
        forward = torch.compile(model) if self.compiled else model

        def loss(batch: tuple[Tensor, Tensor]) -> tuple[Tensor, int]:
            return loss_of(forward, *batch), batch[1].numel()

        return training_step(model, optimizer, random_windows(ids, self.batch_size, self.context), loss, self.bf16)


def training_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Iterator[Any],
    loss_of: Callable[[Any], tuple[Tensor, int]],
    bf16: bool = False,
) -> Step:
    """Return a step of a plain training loop; loss_of(batch) computes the loss and the number of tokens. As in nanoGPT,
    the next batch is loaded before the backward pass."""
    model.train()
    waiting = [next(batches)]

    def step() -> int:
        with torch.autocast(device().type, torch.bfloat16, enabled=bf16):
            loss, tokens = loss_of(waiting.pop())
        waiting.append(next(batches))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return tokens

    return step


def adamw(parameters: Any, rate: float = LEARNING_RATE, betas: tuple[float, float] = BETAS) -> torch.optim.AdamW:
    """Return torch's AdamW for parameters or groups of them, fused; the default on a CPU is a loop over them."""
    return torch.optim.AdamW(parameters, lr=rate, betas=betas, weight_decay=WEIGHT_DECAY, fused=True)


def characters(path: str) -> np.ndarray:
    """Encode the first 90 % of a text as indices into its sorted characters, [N] uint16."""
    text = Path(path).read_text(encoding="utf-8")
    numbers = {character: number for number, character in enumerate(sorted(set(text)))}
    return np.array([numbers[character] for character in text[: int(0.9 * len(text))]], dtype=np.uint16)


def random_windows(ids: np.ndarray, batch_size: int, context: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield endless batches (inputs, targets), both [B, T] int64, from random positions."""
    while True:
        starts = torch.randint(len(ids) - context, (batch_size,)).tolist()
        rows = torch.stack([torch.from_numpy(ids[start : start + context + 1].astype(np.int64)) for start in starts])
        if device().type == "cuda":
            rows = rows.pin_memory()
        rows = rows.to(device(), non_blocking=True)
        yield rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def nanogpt_model(checkout: str | Path, size: Any, vocabulary: int, dropout: float, bias: bool) -> Any:
    """Create the model of a nanoGPT checkout. `size` has the fields of `Shape`. Raises Skipped without `model.py`."""
    path = Path(checkout) / "model.py"
    if not checkout or not path.is_file():
        raise Skipped(f"{path}: no such file; set nanogpt= to a checkout of github.com/karpathy/nanoGPT")
    # Imported by path: the checkout is not a package, and our own package is also called `model`.
    spec = importlib.util.spec_from_file_location("nanogpt_model", path)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and torch.compile look it up by name
    spec.loader.exec_module(module)
    config = module.GPTConfig(
        block_size=size.context,
        vocab_size=vocabulary,
        n_layer=size.layers,
        n_head=size.heads,
        n_embd=size.width,
        dropout=dropout,
        bias=bias,
    )
    return module.GPT(config)


def nanogpt(checkout: str, **values: Any) -> Step:
    """Return a training step of nanoGPT, without biases as in its recipes. A large vocabulary is rounded up to a
    multiple of 64, as in its train.py."""
    task = Task(**values)
    ids, size = task.tokens()
    torch.manual_seed(1)
    vocabulary = -(-size // 64) * 64 if size > 1000 else size
    model = nanogpt_model(checkout, task, vocabulary, task.dropout, bias=False).to(device())
    optimizer = model.configure_optimizers(WEIGHT_DECAY, LEARNING_RATE, BETAS, device().type)
    return task.step(model, optimizer, ids, lambda forward, inputs, targets: forward(inputs, targets)[1])


def transformers_gpt2(**values: Any) -> Step:
    """Return a training step of GPT2LMHeadModel with torch's AdamW."""
    from benchmarks.peers.hugging_face import gpt2_model

    task = Task(**values)
    ids, size = task.tokens()
    torch.manual_seed(1)
    dropouts = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), task.dropout)
    model: nn.Module = gpt2_model(task, size, **dropouts, use_cache=False, bos_token_id=0, eos_token_id=0)
    model.to(device())
    optimizer = adamw(model.parameters())

    def loss(forward: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(forward(inputs).logits.flatten(0, 1), targets.flatten())

    return task.step(model, optimizer, ids, loss)
