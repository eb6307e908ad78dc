"""Decide whether a run repays torch.compile, and compile its training step."""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from configs.errors import UserError
from data.batches.batch import Batch
from model.blocks import blocks_of
from model.gpt import GPT
from model.size import count_parameters
from training.config import TrainConfig
from training.guided_alignment.guidance import Guidance
from training.hardware.bfloat16 import instruction_set
from training.hardware.compiled_check import WrongGradient, largest_difference, masks_of_compiled_code
from training.hardware.device import Hardware
from training.hardware.gpu_attention import allowed_kernels
from training.hardware.out_of_memory import is_out_of_memory
from training.hardware.reproducibility import random_state, restore_random_state
from training.loss import TrainingLoss, batch_loss, loss_and_gradient
from training.optimizer.update import Optimizer
from training.optimizer.weights_gradients_ema import Weights
from training.processes.single_process import Processes
from training.run_folder.loaded_run import Model

UNCOMPILED = "continues uncompiled"
"""End of the warnings about compiled code that fails."""

BatchLoss = Callable[..., Tensor]
"""`batch_loss` or its compiled form."""

_MINUTES = 5.0
"""Minimum run length for compilation on a CPU, in minutes. On two cores, compiling a GPT of 4 to 6 layers takes 5 s
with a warm cache and 25-35 s with a cold one, a translator 18 and 43 s, and the update of the weights, with a cold one,
up to 20 s more; steps then take 0.65 to 0.75 times as long, with Muon less."""

_MINUTES_PER_LAYER = 0.5
"""Minimum run length per layer of a GPT, in minutes; a layer takes 6 s to compile."""

_GRAPH_PARAMETERS = 30_000_000
"""Parameters below which a GPU's kernels are shorter than their launches; a CUDA graph launches all of them at once."""

_PARTS = 8
"""Parts of a micro-batch that are computed uncompiled, one after the other, to compare with compiled code."""

_CPU_FLOPS = {torch.bfloat16: 0.6e12, torch.float32: 0.1e12}
"""FLOP/s of training on two cores, to estimate the duration of a run; not measured, so that a resumed run decides
equally."""


class CompiledLoss(TrainingLoss):
    """The loss of a training step and its gradients, compiled.

    The first micro-batch of compiled code is compared with uncompiled code (`compiled_check`). If it computes something
    else, or if compilation fails, now or for a shape that a later batch brings, one line is logged and training
    continues uncompiled.
    """

    def __init__(self, weights: Weights, smoothing: float, guidance: Guidance | None) -> None:
        super().__init__(weights, smoothing, guidance)
        self.sharded = is_sharded(self.model)
        self.checked = False
        """Whether a micro-batch of compiled code has been compared with uncompiled code."""

    def gradients(self, batch: Batch, targets: int) -> tuple[Tensor, list[Tensor]]:
        """As in TrainingLoss."""
        if self.failed:
            return self.computed(batch, targets)
        try:
            if not self.compiled:
                self.compiled, self.batch_loss = True, compiled_loss(self.model)
            if not self.checked:
                self.check(batch, targets)
            return self.computed(batch, targets)
        except WrongGradient as wrong:
            if self.sharded:
                raise UserError(f"{wrong}: use trainer.compile=off") from wrong
            self.fall_back(str(wrong))
        except Exception as error:  # the compiler's backend may raise anything: missing headers, no disk space
            if is_out_of_memory(error):
                raise
            reason = reason_of(error)
            if self.sharded:  # the other processes wait for this one's part of the blocks
                from training.processes.failure import is_broken_connection

                if is_broken_connection(error):
                    raise
                raise UserError(f"torch.compile failed ({reason}): use trainer.compile=off") from error
            self.fall_back(f"torch.compile failed ({reason})")
        return self.computed(batch, targets)

    def check(self, batch: Batch, targets: int) -> None:
        """Compute a micro-batch with compiled and with uncompiled code, with the same dropout. Keeps the random state.
        Raises WrongGradient if they differ by more than rounding."""
        device, started = batch.inputs.device, time.perf_counter()
        state = random_state(device)
        try:
            with masks_of_compiled_code():
                loss, gradients = self.computed(batch, targets)
                float(loss)  # waits for the device
                compiled = time.perf_counter()
                try:
                    # A CUDA graph reuses its outputs.
                    loss, gradients = loss.clone(), [gradient.clone() for gradient in gradients]
                    restore_random_state(state, device)
                    expected = self.uncompiled(batch, targets)
                    worst = largest_difference(list(self.weights.layout.shapes), (loss, gradients), expected)
                except Exception as error:
                    if self.sharded or not is_out_of_memory(error):  # sharded: other processes wait for this one
                        raise
                    self.checked = True
                    self.log("the compiled step is not compared with the uncompiled one, which does not fit in memory")
                    return
        finally:
            restore_random_state(state, device)
            if device.type == "cuda":
                torch.cuda.empty_cache()  # a CUDA graph cannot use what the comparison has left
        self.checked = worst is not None or self.sharded  # sharded: of all processes or of none
        if worst is None:
            self.log("the compiled step is not compared yet: the loss or a gradient of this batch is not finite")
            return
        largest = f"{100 * worst.error:.2g} % in {worst.where}"
        if worst.is_wrong(self.weights.dtype):
            raise WrongGradient(f"torch {torch.__version__} miscompiles this model (an error of {largest})")
        seconds = f"compilation {compiled - started:.1f} s, comparison {time.perf_counter() - compiled:.1f} s"
        self.log(f"compiled step: equals the uncompiled one within rounding (at most {largest}; {seconds})")

    def uncompiled(self, batch: Batch, targets: int) -> tuple[Tensor, list[Tensor]]:
        """Return the results of `computed` without compiled code. It needs more memory, so a few rows at a time; with
        dropout all rows at once, since a mask depends on the shape of the batch."""
        rows = len(batch.inputs)
        parts = 1 if self.sharded or uses_dropout(self.model) else min(rows, _PARTS)
        total = torch.zeros((), device=batch.inputs.device)
        sums: list[Tensor] = []
        with eagerly(True):
            for part in torch.arange(rows, device=batch.inputs.device).tensor_split(parts):
                loss, gradients = self.computed(batch.select(part), targets)
                total += loss
                wide = [gradient.float() for gradient in gradients]
                sums = [first + second for first, second in zip(sums, wide, strict=True)] if sums else wide
        return total, sums

    def compile_update(self, optimizer: Optimizer, processes: Processes) -> None:
        """Compile the update of the weights too, if all processes compute with compiled code.

        A compiled update rounds differently, so that copies of the weights in several processes would drift apart if
        only some of them compiled it: there a failure is a UserError, otherwise a warning.
        """
        (uncompiled,) = processes.max_over_processes(not self.compiled)
        if uncompiled or self.weights.divided:
            return

        def failed(reason: str) -> None:
            message = f"torch.compile failed for the update of the weights ({reason})"
            if processes.world > 1:
                raise UserError(f"{message}: use trainer.compile=off")
            self.log(f"warning: {message}, which {UNCOMPILED}")

        compile_update(optimizer, failed)

    def fall_back(self, reason: str) -> None:
        """Continue without compilation, and say why."""
        self.log(f"warning: {reason}; training {UNCOMPILED}")
        for module in self.model.modules():  # undo `compiled_loss`
            module._compiled_call_impl = None
        self.compiled, self.failed, self.batch_loss = False, True, batch_loss

    def computed(self, batch: Batch, targets: int) -> tuple[Tensor, list[Tensor]]:
        """Run the forward and the backward pass; arguments and result as in `gradients`."""
        if self.compiled and batch.source is not None and batch.source_mask is None:
            # Always pass a mask: an unneeded mask costs less than compiling the blocks a second time without one.
            batch = replace(batch, source_mask=torch.ones_like(batch.source, dtype=torch.bool))
        return super().gradients(batch, targets)


def reason_of(error: Exception) -> str:
    """Return the first line of an error of the compiler that says why: torch's own begins with "backend=… raised:"."""
    if type(error).__name__ == "FailOnRecompileLimitHit":  # its message speaks of `fullgraph`
        return "the batches have more shapes than torch._dynamo.config.recompile_limit"
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and not line.endswith("raised:")]
    return lines[0][:120] if lines else type(error).__name__


def uses_dropout(model: Model) -> bool:
    """Whether a forward pass in training draws random numbers."""
    config = model.config
    return max(config.dropout, config.attention_dropout) > 0


def training_loss(
    config: TrainConfig, weights: Weights, hardware: Hardware, flops_per_token: float, guidance: Guidance | None
) -> tuple[TrainingLoss, str]:
    """Return the loss of a run, compiled if the run repays compilation, and a line for the log."""
    compiling, because = decide(config, hardware, flops_per_token)
    if config.trainer.compile == "auto" and is_sharded(weights.training_model):
        compiling, because = False, "trainer.shard=weights compiles with trainer.compile=on only"
    form = CompiledLoss if compiling else TrainingLoss
    loss = form(weights, config.trainer.label_smoothing, guidance)
    return loss, f"torch.compile: {'on' if compiling else 'off'} ({because})"


def decide(config: TrainConfig, hardware: Hardware, flops_per_token: float) -> tuple[bool, str]:
    """Return whether to compile, and the reason for the log."""
    choice, device = config.trainer.compile, hardware.device.type
    if choice != "auto":
        return choice == "on", f"trainer.compile={choice}"
    if device == "cuda":
        steps = config.trainer.steps
        return steps is None or steps >= 1000, "on a GPU only runs of at least 1,000 steps are compiled"
    if device != "cpu":
        return False, f"not used on {device}"
    minutes = expected_minutes(config, hardware.dtype, flops_per_token)
    shortest = max(_MINUTES, _MINUTES_PER_LAYER * config.model.layers if config.task == "gpt" else 0.0)
    if minutes < shortest:
        return False, f"a run of about {minutes:.1f} minutes is too short to repay compilation"
    if not has_compiler():
        return False, "no C++ compiler found"
    return True, f"a run of about {minutes:.1f} minutes repays compilation"


def expected_minutes(config: TrainConfig, dtype: torch.dtype, flops_per_token: float) -> float:
    """Estimate the duration of the run on two cores, from its time budget or its floating-point operations."""
    trainer = config.trainer
    budgets = [] if trainer.minutes is None else [trainer.minutes]
    if trainer.steps is not None:
        batch = trainer.batch_size * config.model.context if config.task == "gpt" else config.data.batch_tokens
        flops = trainer.steps * trainer.accumulate * batch * flops_per_token
        budgets.append(flops / _CPU_FLOPS[dtype] / 60)
    return min(budgets)


def has_compiler() -> bool:
    """Whether a C++ compiler is installed, which compilation for a CPU requires."""
    return any(shutil.which(name) for name in (os.environ.get("CXX", "g++"), "g++", "clang++"))


def compiled_loss(model: Model) -> BatchLoss:
    """Return the compiled form of `batch_loss`, which compiles on first use. For evaluation see `eagerly`.

    All batches of a GPT have one shape, so the whole loss is compiled into one graph. Sentence lengths vary, and graphs
    of dynamic shapes compile slowly: a translator is compiled in place, once for each kind of block.
    """
    import torch._dynamo
    import torch.compiler.config

    device = next(model.parameters()).device
    options: dict[str, Any] = {"fallback_random": True}  # the seeds of dropout masks are those of uncompiled code
    if device.type == "cpu":
        recompute_dropout_masks()
    # The key of torch's disk cache lacks the target: the attention kernels, or the vector width of a CPU. Loops written
    # for short vectors and recompiled for long ones write beyond their buffers.
    torch.compiler.config.cache_key_tag = allowed_kernels() if device.type == "cuda" else vectors()
    logging.getLogger("torch._dynamo.convert_frame").setLevel(logging.ERROR)  # `fall_back` says it in one line
    torch._dynamo.reset()  # drops the shapes of an earlier run of a sweep; torch's limit is eight
    if is_sharded(model):
        # Between the blocks, hooks collect the parameters, also those of norms inside a block: several graphs.
        for block in blocks_of(model):
            block.forward = torch.compile(block.forward, dynamic=not isinstance(model, GPT), options=options)
        return partial(batch_loss, kernel=torch.compile(loss_and_gradient, dynamic=True))
    if isinstance(model, GPT):
        if not uses_graphs(model, device):
            return torch.compile(batch_loss, fullgraph=True, dynamic=False, options=options)
        return _replayed(
            torch.compile(batch_loss, fullgraph=True, dynamic=False, options={**options, "triton.cudagraphs": True})
        )
    # Some lengths are specialised (1, multiples of 8 for some masks): 14 for 33 shapes in a trial. Beyond the limit,
    # training continues uncompiled.
    torch._dynamo.config.recompile_limit = 64
    for block in blocks_of(model):
        block.compile(fullgraph=True, dynamic=True, options=options)
    return partial(batch_loss, kernel=torch.compile(loss_and_gradient, dynamic=True))


def compile_update(optimizer: Optimizer, failed: Callable[[str], None]) -> None:
    """Compile what happens between two batches: sum and norm of the gradients, clipping, the optimisers, the copies of
    the weights. If this fails, `failed` gets the reason, and all of it continues uncompiled.

    On a GPU these are some dozens of launches, not a CUDA graph, which would have to know that the weights stay where
    they are.
    """
    weights = optimizer.weights
    parts: dict[tuple[Any, str], Callable[..., Any]] = {
        (weights, "collect"): weights.collect,
        (weights, "accumulate"): weights.accumulate,
        (optimizer, "measure"): optimizer.measure,
        (optimizer, "update"): optimizer.update,
    }

    def guarded(plain: Callable[..., Any]) -> Callable[..., Any]:
        compiled = torch.compile(plain, fullgraph=True, dynamic=False)

        def call(*arguments: Any) -> Any:
            try:
                return compiled(*arguments)
            except Exception as error:
                if is_out_of_memory(error):
                    raise
                for place, method in parts:
                    vars(place).pop(method, None)
                optimizer.compiled = False
                failed(reason_of(error))
            return plain(*arguments)

        return call

    for (owner, name), plain in parts.items():
        setattr(owner, name, guarded(plain))
    optimizer.compiled = True


def is_sharded(model: Model) -> bool:
    """Whether `fully_shard` has divided the parameters among processes."""
    return hasattr(model, "reshard")


def vectors() -> str:
    """Return the CPU target: vector instructions used by the compiler and instruction set of its libraries."""
    from torch._inductor.cpu_vec_isa import pick_vec_isa

    return f"{pick_vec_isa()}, {instruction_set()}"


def recompute_dropout_masks() -> None:
    """Make compiled code for a CPU recompute dropout masks in the backward pass, as on a GPU.

    By default they are stored as bytes, which are slow to read; recomputation saves a fifth of the step (torch 2.13).
    Both passes must share a seed: `fallback_random`.
    """
    import torch._functorch.config as partitioner

    partitioner.ban_recompute_used_far_apart = False
    partitioner.ban_recompute_long_fusible_chains = False


def uses_graphs(model: Model, device: torch.device) -> bool:
    """Whether to record the step as a CUDA graph: a small model whose batches all have one shape."""
    return device.type == "cuda" and isinstance(model, GPT) and count_parameters(model) < _GRAPH_PARAMETERS


def _replayed(compiled: BatchLoss) -> BatchLoss:
    """Wrap `compiled` so that each call may overwrite the previous output, whose gradients are already collected."""

    def batch_loss(*arguments: Any) -> Tensor:
        torch.compiler.cudagraph_mark_step_begin()
        return compiled(*arguments)

    return batch_loss


@contextmanager
def eagerly(compiled: bool) -> Iterator[None]:
    """Run eagerly inside the context: the shapes and the mode of an evaluation are not worth compiling."""
    if not compiled:  # do not import the compiler, which takes 70 MB and 0.7 s
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield
