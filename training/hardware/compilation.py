"""torch.compile where it pays: when, and what is compiled."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from data.batches.batch import Batch
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from model.size import count_parameters
from training.config import TrainConfig
from training.hardware.device import Hardware
from training.hardware.gpu_attention import allowed_kernels
from training.hardware.number_format import instruction_set
from training.hardware.out_of_memory import is_out_of_memory
from training.loss import batch_loss, loss_and_gradient

BatchLoss = Callable[..., Tensor]
"""`batch_loss` or a compiled form of it."""

_MINUTES = 5.0
"""Shortest run that is compiled on a CPU. On two cores compiling a GPT of 4 to 6 layers takes 5 s where it was done
before and 25-35 s where not, a translator 18 and 43 s; steps then take 0.65 to 0.75 times as long."""

_MINUTES_PER_LAYER = 0.5
"""A GPT's code takes 6 s a layer to make."""

_GRAPH_PARAMETERS = 30_000_000
"""Below so many the kernels of a GPU's step are so short that starting them takes longer: a CUDA graph starts all at
once."""

_TRIAL_CALLS = 3
"""Calls that show whether compiled code works: the first makes it, CUDA graphs are recorded in the second and played in
the third."""

_CPU_FLOPS = {torch.bfloat16: 0.6e12, torch.float32: 0.1e12}
"""What training uses of two cores, to guess from the size of a run how long it takes. A guess, not a measurement: a run
that is resumed has to come to the same decision."""


class TrainingLoss:
    """`training.loss.batch_loss` of a micro-batch with its gradients; compiled where that pays.

    A compilation that fails on this machine is given up with one line.
    """

    def __init__(
        self, config: TrainConfig, model: GPT | EncoderDecoder, hardware: Hardware, flops_per_token: float
    ) -> None:
        self.model, self.smoothing = model, config.trainer.label_smoothing
        self.compiling, self.because = decide(config, hardware, flops_per_token)
        self.compiled = False
        self.calls = 0
        self.batch_loss: BatchLoss = batch_loss
        self.say: Callable[[str], None] = print

    def backward(self, batch: Batch, targets: int) -> Tensor:
        """Add the gradients of a micro-batch to the parameters' -> its summed loss, scalar float32, detached.

        targets: real tokens of the whole step, by which the loss is divided: 4 x 1 equals 1 x 4 with padding too.
        """
        if not self.compiling or self.calls >= _TRIAL_CALLS:
            return self._backward(batch, targets)
        if not self.compiled:
            self.compiled, self.batch_loss = True, compiled_loss(self.model)
        self.calls += 1
        try:
            return self._backward(batch, targets)
        except Exception as error:  # the compiler raises whatever its backend raises: no headers, no disk space
            if is_out_of_memory(error):
                raise
            reason = str(error).strip().splitlines() or [type(error).__name__]
            self.say(f"torch.compile failed ({reason[0][:120]}): training goes on without it")
        undo(self.model)
        self.compiling, self.compiled, self.batch_loss = False, False, batch_loss
        self.model.zero_grad()
        return self._backward(batch, targets)

    def _backward(self, batch: Batch, targets: int) -> Tensor:
        if self.compiled and batch.source is not None and batch.source_mask is None:
            # One form of the blocks instead of two: compiling costs more than masks of batches that need none.
            batch = replace(batch, source_mask=torch.ones_like(batch.source, dtype=torch.bool))
        loss = self.batch_loss(self.model, batch.model_inputs, batch.targets, self.smoothing)
        (loss / targets).backward()
        return loss.detach()


def decide(config: TrainConfig, hardware: Hardware, flops_per_token: float) -> tuple[bool, str]:
    """Whether to compile, and why, in words for the log."""
    choice, device = config.trainer.compile, hardware.device.type
    if choice != "auto":
        return choice == "on", f"trainer.compile={choice}"
    if device == "cuda":
        steps = config.trainer.steps
        return steps is None or steps >= 1000, "on a GPU runs of 1,000 steps and more"
    if device != "cpu":
        return False, f"not on {device}"
    minutes = expected_minutes(config, hardware.dtype, flops_per_token)
    shortest = max(_MINUTES, _MINUTES_PER_LAYER * config.model.layers if config.task == "gpt" else 0.0)
    if minutes < shortest:
        return False, f"a run of about {minutes:.1f} minutes is too short to repay compilation"
    if not has_compiler():
        return False, "there is no C++ compiler here"
    return True, f"a run of about {minutes:.1f} minutes repays compilation"


def expected_minutes(config: TrainConfig, dtype: torch.dtype, flops_per_token: float) -> float:
    """How long the run will take on two cores, by its budget of minutes or by its floating-point operations."""
    trainer = config.trainer
    budgets = [] if trainer.minutes is None else [trainer.minutes]
    if trainer.steps is not None:
        batch = trainer.batch_size * config.model.context if config.task == "gpt" else config.data.batch_tokens
        flops = trainer.steps * trainer.accumulate * batch * flops_per_token
        budgets.append(flops / _CPU_FLOPS[dtype] / 60)
    return min(budgets)


def has_compiler() -> bool:
    """Whether there is a C++ compiler, which code for a CPU needs."""
    return any(shutil.which(name) for name in (os.environ.get("CXX", "g++"), "g++", "clang++"))


def compiled_loss(model: GPT | EncoderDecoder) -> BatchLoss:
    """`batch_loss` in compiled form; the code is made at its first use. For evaluation see `eagerly`.

    A GPT's batches have one shape: all of it becomes one piece of code. Lengths of sentences vary, which makes code for
    any length, and slow to compile: a translator is compiled block by block, in place, those of a kind at once.
    """
    import torch._dynamo
    import torch.compiler.config

    device = next(model.parameters()).device
    options = cpu_options() if device.type == "cpu" else {}
    # Code on disk is found again by what it computes, not by what it was made for: attention kernels, or vectors of a
    # CPU. Loops for short vectors, translated again for long ones, write beyond their buffers.
    torch.compiler.config.cache_key_tag = allowed_kernels() if device.type == "cuda" else vectors()
    torch._dynamo.reset()  # an earlier run of a sweep left code of other shapes, of which there may be eight
    if isinstance(model, GPT):
        if not uses_graphs(model, device):
            return torch.compile(batch_loss, fullgraph=True, dynamic=False, options=options)
        return _replayed(
            torch.compile(batch_loss, fullgraph=True, dynamic=False, options={**options, "triton.cudagraphs": True})
        )
    # Some lengths get code of their own (1, multiples of 8 for some masks): 14 in a trial of 33 shapes; at the limit a
    # run would end.
    torch._dynamo.config.recompile_limit = 64
    for block in [*model.encoder, *model.decoder]:
        block.compile(fullgraph=True, dynamic=True, options=options)
    return partial(batch_loss, kernel=torch.compile(loss_and_gradient, dynamic=True))


def vectors() -> str:
    """What code for a CPU is written for here: the vectors that the compiler takes and what its libraries may use."""
    from torch._inductor.cpu_vec_isa import pick_vec_isa

    return f"{pick_vec_isa()}, {instruction_set()}"


def cpu_options() -> dict[str, Any]:
    """Options of torch.compile for a CPU, where dropout masks are computed again in the backward pass.

    By default they are kept as bytes, which are slow to read; computing them again is cheap: a fifth of the step (torch
    2.13). They then need a seed that both passes share: `fallback_random`. A GPU's compiler does so by itself.
    """
    import torch._functorch.config as partitioner

    partitioner.ban_recompute_used_far_apart = False
    partitioner.ban_recompute_long_fusible_chains = False
    return {"fallback_random": True}


def uses_graphs(model: GPT | EncoderDecoder, device: torch.device) -> bool:
    """Whether the step is recorded as a CUDA graph: a small model whose batches all have one shape."""
    return device.type == "cuda" and isinstance(model, GPT) and count_parameters(model) < _GRAPH_PARAMETERS


def _replayed(compiled: BatchLoss) -> BatchLoss:
    """`compiled`, whose every call may overwrite what the last one returned: gradients have been collected by then."""

    def batch_loss(*arguments: Any) -> Tensor:
        torch.compiler.cudagraph_mark_step_begin()
        return compiled(*arguments)

    return batch_loss


def undo(model: GPT | EncoderDecoder) -> None:
    """Make `model` what it was before `compiled_loss`."""
    for module in model.modules():
        module._compiled_call_impl = None


@contextmanager
def eagerly(compiled: bool) -> Iterator[None]:
    """Within: no compiled code runs. An evaluation has other shapes in another mode, which are not worth compiling.

    Where nothing is compiled, torch's compiler is not even imported: 70 MB and 0.7 s.
    """
    if not compiled:
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield
