"""Stop at a gradient that contains NaN or infinity: keep the batch, and with `+debug=nan` name the module that made it.

To find it, the step is repeated uncompiled, with hooks on every module.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from configs.atomic_file import write_whole
from configs.errors import DIVERGED
from data.batches.batch import Batch
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from training.checkpoints.loading import resume_hint
from training.guided_alignment.guidance import Guidance
from training.hardware.compilation import eagerly
from training.hardware.reproducibility import random_state, restore_random_state
from training.loss import TrainingLoss, batch_loss
from training.processes.single_process import Processes
from training.run_folder.loaded_run import Model

BAD_BATCH = "bad_batch.json"


@dataclass
class NonFinite:
    """A step whose gradient is not finite."""

    step: int
    loss: float
    """Nats per target token."""
    norm: float
    batches: list[Batch]
    """Of this process."""
    cause: str | None = None
    """The first non-finite value in this process, once it has been searched for."""
    searched: bool = False

    def find_cause(self, model: Model, loss: TrainingLoss, targets: int, state: dict[str, Any]) -> None:
        """Search for the first non-finite value; arguments as in `first_non_finite`."""
        self.cause = first_non_finite(model, self.batches, targets, loss.smoothing, state, loss.guidance)
        self.searched = True

    def report(self, run: Path, processes: Processes) -> str:
        """Write the batch of all processes to the run folder -> a message with the cause and the way on. Collective."""
        parts = processes.gather(lambda: (self._micro_batches(), self.cause))
        if processes.is_main:
            content = {  # numbers as text, since JSON has no NaN
                "step": self.step,
                "loss": f"{self.loss:.4f}",
                "gradient_norm": str(self.norm),
            }
            batches = [batch for batches, _ in parts for batch in batches]
            write_whole(run / BAD_BATCH, f"{json.dumps(content | {'batches': batches}, allow_nan=False)}\n".encode())
        causes = [f"{cause}, in process {rank}" if cause and rank else cause for rank, (_, cause) in enumerate(parts)]
        if self.searched:
            nothing = "all values of the uncompiled model are finite on its batch: its compiled form fails"
            what = "; ".join(cause for cause in causes if cause) or nothing
        else:
            what = f"the gradient is not finite (loss {self.loss:.4f}, norm {self.norm}); +debug=nan names the module"
        batch_file = f"the batch of step {self.step} is in {run / BAD_BATCH}"
        return f"step {self.step}, {what}; {batch_file}; {DIVERGED}; {resume_hint(run)}"

    def _micro_batches(self) -> list[dict[str, list | None]]:
        """Return where the rows of this process's micro-batches come from, and their token ids, as in `Batch`."""
        return [
            {name: None if ids is None else ids.tolist() for name, ids in vars(batch).items() if name != "source_mask"}
            for batch in self.batches
        ]


class _Found(Exception):
    """Raised at the first non-finite value, with the finding and the tensor that contains it."""

    def __init__(self, finding: str, tensor: Tensor | None = None) -> None:
        super().__init__(finding)
        self.tensor = tensor


def first_non_finite(
    model: Model,
    batches: Sequence[Batch],
    targets: int,
    smoothing: float,
    state: dict[str, Any],
    guidance: Guidance | None = None,
) -> str | None:
    """Repeat the forward and backward passes of a step -> one sentence on the first non-finite value, or None.

    batches: of this process, on the model's device or the CPU. targets: target tokens of the whole step, the divisor of
    the loss. state: `random_state` before the step, so that dropout is repeated. guidance: that of the training model.
    The model's gradients are dropped, and the current random state is kept.
    """
    if guidance is not None and guidance.model is not model:  # the weights are divided among processes
        assert isinstance(model, EncoderDecoder)
        guidance = Guidance(model, guidance.table, guidance.weight)
    device = next(model.parameters()).device
    random = random_state(device)
    try:
        with warnings.catch_warnings(), eagerly(True), watched(model):
            warnings.filterwarnings("ignore", "Full backward hook is firing")  # token ids have no gradient
            restore_random_state(state, device)
            for number, batch in enumerate(batches, 1):
                try:
                    search_batch(model, batch.to(device), targets, smoothing, guidance)
                except _Found as found:
                    return f"{found} (micro-batch {number} of {len(batches)}{examples(model, batch, found)})"
            norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
    finally:
        model.zero_grad()
        restore_random_state(random, device)
    if not norm.isfinite():
        return "all gradients are finite, but their norm exceeds the range of float32"
    return None


def search_batch(model: Model, batch: Batch, targets: int, smoothing: float, guidance: Guidance | None) -> None:
    """Add the gradients of a micro-batch; raises _Found at a non-finite value."""
    loss = batch_loss(model, batch.model_inputs, batch.targets, smoothing)
    if not loss.isfinite():
        raise _Found(f"forward pass: the loss is {float(loss)}, computed from finite features")
    if guidance is not None:
        guided = guidance.loss(batch)
        if not guided.isfinite():
            cause = f"the loss of guided alignment is {guided.item()} (trainer.guided_alignment)"
            raise _Found(f"forward pass: {cause}")
        loss = loss + guided
    (loss / targets).backward()
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and not parameter.grad.isfinite().all():
            raise _Found(f"backward pass: the gradient of {name} is not finite: {statistics(parameter.grad)}")


@contextmanager
def watched(model: nn.Module) -> Iterator[None]:
    """Inside the context every module of a model raises _Found at its first non-finite value."""
    names = {module: name or type(model).__name__ for name, module in model.named_modules()}
    handles = []
    for module, name in names.items():
        module_name = f"{name} ({type(module).__name__})"
        for register, hook in (
            (module.register_forward_pre_hook, before_forward),
            (module.register_forward_hook, after_forward),
            (module.register_full_backward_hook, after_backward),
        ):
            handles.append(register(_bound(hook, module_name)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _bound(hook: Callable[..., None], module_name: str) -> Callable[..., None]:
    return lambda module, *values: hook(module_name, *values)


def before_forward(module_name: str, inputs: tuple) -> None:
    """Check the input of a module, which a function outside of all modules may have computed."""
    for tensor in floats(inputs):
        if not tensor.isfinite().all():
            raise _Found(f"forward pass: the input of {module_name} is not finite: {statistics(tensor)}", tensor)


def after_forward(module_name: str, inputs: tuple, output: Any) -> None:
    """Check the output of a module, whose input is finite."""
    for tensor in floats(output):
        if not tensor.isfinite().all():
            received = "; ".join(map(statistics, floats(inputs))) or "token ids"
            raise _Found(f"forward pass: {module_name} makes {statistics(tensor)} from {received}", tensor)


def after_backward(module_name: str, gradient_in: tuple, gradient_out: tuple) -> None:
    """Check the gradients of a module: of its output, computed by what follows, and of its input."""
    for tensor in floats(gradient_out):
        if not tensor.isfinite().all():
            raise _Found(f"backward pass: the gradient that {module_name} receives is {statistics(tensor)}", tensor)
    for tensor in floats(gradient_in):
        if not tensor.isfinite().all():
            received = "; ".join(map(statistics, floats(gradient_out)))
            raise _Found(
                f"backward pass: {module_name} makes the gradient {statistics(tensor)} from {received}", tensor
            )


def floats(values: Any) -> list[Tensor]:
    """Return the floating-point tensors in a tensor, or in a nested sequence."""
    if isinstance(values, Tensor):
        return [values.detach()] if values.dtype.is_floating_point else []
    return [tensor for value in values for tensor in floats(value)] if isinstance(values, tuple | list) else []


def statistics(tensor: Tensor) -> str:
    """Return shape, dtype, range of the finite values and number of the others."""
    finite = tensor[tensor.isfinite()].float()
    between = (
        f"values from {float(finite.min()):.3g} to {float(finite.max()):.3g}" if len(finite) else "no finite value"
    )
    nan, infinite = int(tensor.isnan().sum()), int(tensor.isinf().sum())
    bad = ", ".join(f"{count} {what}" for count, what in ((nan, "NaN"), (infinite, "infinite")) if count)
    return f"{list(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}, {bad + ', ' if bad else ''}{between}"


def examples(model: Model, batch: Batch, finding: _Found) -> str:
    """Return which rows of a micro-batch hold the non-finite values, and where they come from in the training data."""
    tensor = finding.tensor
    if tensor is None or not tensor.dim() or len(tensor) != len(batch.inputs):
        return ""
    rows = (~tensor.isfinite()).flatten(1).any(dim=1).nonzero().flatten().tolist()
    numbers = ", ".join(map(str, rows[:10])) + (", …" if len(rows) > 10 else "")
    if batch.rows is None:
        return f", rows {numbers}"
    what = "windows at tokens" if isinstance(model, GPT) else "pairs"
    places = ", ".join(str(int(batch.rows[row])) for row in rows[:10])
    return f", rows {numbers}: {what} {places} of the training data"
