"""A training batch, and the resumable stream of batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

IGNORED = -100
"""Target id that the loss ignores (torch's default ignore_index)."""


@dataclass
class Batch:
    """One batch on one device. B rows, T target or text length, S source length; all ids are int64."""

    inputs: Tensor
    """Decoder input, [B,T]; for translation: bos and the target."""

    targets: Tensor
    """Token to predict at each position, [B,T]; for translation: the target and eos. -100 at positions without loss."""

    source: Tensor | None = None
    """Source ids ending with eos, [B,S], zero-padded on the right; translation only."""

    source_mask: Tensor | None = None
    """True at non-padding source tokens, bool [B,S]; None if no row is padded, so that attention needs no mask."""

    rows: NDArray[np.int64] | None = None
    """Where the rows come from, [B], to report a batch: row numbers of the split, or the first tokens of windows."""

    @property
    def model_inputs(self) -> tuple[Tensor | None, ...]:
        """Return the arguments of the model's forward: (inputs,) or (source, inputs, source_mask)."""
        return (self.inputs,) if self.source is None else (self.source, self.inputs, self.source_mask)

    @property
    def target_tokens(self) -> int:
        """Return the number of predictions in the loss."""
        return int((self.targets != IGNORED).sum())

    @property
    def source_tokens(self) -> int:
        """Return the number of source tokens without padding."""
        if self.source_mask is not None:
            return int(self.source_mask.sum())
        return 0 if self.source is None else self.source.numel()

    def select(self, rows: Tensor) -> Batch:
        """Return some rows of the batch; rows: indices, on its device."""
        tensors = {name: tensor[rows] for name, tensor in vars(self).items() if isinstance(tensor, Tensor)}
        return replace(self, **tensors, rows=None)

    def to(self, device: torch.device | str) -> Batch:
        """Return the batch on another device; copies to a GPU asynchronously from page-locked memory."""
        device = torch.device(device)
        tensors = {field.name: getattr(self, field.name) for field in fields(self)}
        tensors = {name: tensor for name, tensor in tensors.items() if isinstance(tensor, Tensor)}
        if device.type == "cuda" and self.inputs.device.type == "cpu":
            moved = {name: tensor.pin_memory().to(device, non_blocking=True) for name, tensor in tensors.items()}
        else:
            moved = {name: tensor.to(device) for name, tensor in tensors.items()}
        return replace(self, **moved)


class BatchStream(ABC):
    """An endless stream of batches. The order is a function of (seed, epoch); the state is three integers.

    Several processes advance through the same order and divide each step's batches among themselves (`share`), so that
    the state does not depend on their number.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._epoch, self._position = 0, 0

    @property
    @abstractmethod
    def epoch_batches(self) -> int:
        """Return the number of batches in one epoch, rounded up."""

    @property
    @abstractmethod
    def epoch(self) -> float:
        """Return the number of epochs so far: 1.5 is the middle of the second."""

    @abstractmethod
    def next_batch(self) -> Batch:
        """Return the next batch."""

    def skip_batch(self) -> None:
        """Advance by one batch; subclasses do so without reading it."""
        self.next_batch()

    def share(self, count: int, rank: int = 0, world: int = 1) -> list[Batch]:
        """Advance by `count` batches -> every `world`-th of them, from number `rank` on: the part of one process."""
        batches = []
        for number in range(count):
            if number % world == rank:
                batches.append(self.next_batch())
            else:
                self.skip_batch()
        return batches

    def state_dict(self) -> dict[str, int]:
        """Return the position of the stream, as plain integers."""
        return {"seed": self.seed, "epoch": self._epoch, "position": self._position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Resume at a saved position, with exactly the batches that would have followed it. Raises ValueError if it is
        none."""
        if not all(type(state[name]) is int and state[name] >= 0 for name in ("seed", "epoch", "position")):
            raise ValueError("the position in the data is not a number")
        self.seed, self._epoch, self._position = state["seed"], state["epoch"], state["position"]

    def restart_epoch(self) -> None:
        """Go back to the beginning of the current epoch: after a resume with other data, the saved position is one in
        another order, and the rest of the epoch would leave out an arbitrary part of them."""
        self._position = 0


class FirstBatches(BatchStream):
    """The batches of another stream's first step, over and over: a model must be able to learn them by heart."""

    def __init__(self, stream: BatchStream) -> None:
        super().__init__(stream.seed)
        self.stream = stream
        self.batches: list[Batch] | None = None

    @property
    def epoch_batches(self) -> int:
        """As in BatchStream."""
        return self.stream.epoch_batches

    @property
    def epoch(self) -> float:
        """As in BatchStream; it stays that of the first step."""
        return self.stream.epoch

    def next_batch(self) -> Batch:
        """Not used: `share` repeats whole steps."""
        raise NotImplementedError

    def share(self, count: int, rank: int = 0, world: int = 1) -> list[Batch]:
        """As in BatchStream, always with the same result."""
        if self.batches is None:
            self.batches = self.stream.share(count, rank, world)
        return self.batches

    def state_dict(self) -> dict[str, int]:
        """As in BatchStream."""
        return self.stream.state_dict()

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Nothing: a resumed run repeats the first step's batches as well."""
