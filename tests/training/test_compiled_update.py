"""What a training step does between two batches is compiled too: it computes the same, and leaves few calls outside."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from configs.errors import UserError
from data.batches.batch import Batch
from model.config import ModelConfig
from model.gpt import GPT
from tests.training.tiny_trainer import CPU, Listed
from training.config import OptimConfig, ScheduleConfig, TrainConfig, TrainerConfig
from training.hardware.compilation import UNCOMPILED, CompiledLoss, compile_update
from training.hardware.device import Hardware
from training.optimizer.update import Optimizer
from training.optimizer.weights_gradients_ema import Weights
from training.processes.single_process import Processes
from training.trainer import Trainer

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _reset() -> Iterator[None]:
    yield
    torch.compiler.reset()


def new(kind: str, dtype: torch.dtype, ema: float) -> Optimizer:
    """Return the optimiser of a small model, always with the same weights."""
    torch.manual_seed(0)
    shape = ModelConfig(layers=2, heads=2, width=24, context=16, activation="swiglu", bias=True, tie_embeddings=False)
    return Optimizer(OptimConfig(kind=kind, weight_decay=0.5, clip=0.5), Weights(GPT(shape, 50), dtype, ema))


def steps(optimizer: Optimizer) -> list[Tensor]:
    """Take five steps of two micro-batches each -> norms and all that was updated."""
    torch.manual_seed(1)
    weights, norms = optimizer.weights, []
    for step in range(5):
        for _ in range(2):
            weights.add([torch.randn(p.shape, dtype=p.dtype) for p in weights.computing])
        norms.append(optimizer.gradient_norm().clone())
        optimizer.step(1 / (1 + step), norms[-1])
    states = [tensor for each in optimizer.optimizers for state in each.state_dict() for tensor in state.values()]
    average = [] if weights.flat_average is None else [weights.flat_average]
    return [*norms, weights.flat_masters, weights.flat_computing, *average, *states]


@pytest.mark.parametrize(("kind", "ema"), [("adamw", 0.0), ("adamw", 0.9), ("muon", 0.9), ("scion", 0.0)])
def test_the_compiled_update_is_the_update(kind: str, ema: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against an update that is wrong in compiled code only, and against learning rates that are constants in
    it."""
    compile_ = torch.compile
    monkeypatch.setattr(torch, "compile", lambda code, **more: compile_(code, backend="aot_eager", **more))
    plain, compiled = new(kind, torch.bfloat16, ema), new(kind, torch.bfloat16, ema)
    for optimizer in (plain, compiled):  # bfloat16 would amplify rounding errors
        if kind != "adamw":
            optimizer.optimizers[1].dtype = torch.float32  # type: ignore[attr-defined]
    failures: list[str] = []
    compile_update(compiled, failures.append)
    expected, result = steps(plain), steps(compiled)
    assert not failures
    assert compiled.compiled
    for mine, theirs in zip(result, expected, strict=True):
        # A rounding error of float32 may change the last bit of a number in bfloat16.
        rtol = 2e-4 if mine.dtype == torch.float32 else 2**-7
        torch.testing.assert_close(mine, theirs, rtol=rtol, atol=2e-6)


def test_an_update_that_cannot_be_compiled_stays_uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a run that ends at its first update."""

    def backend(*_: object) -> None:
        raise RuntimeError("no space left")

    compile_ = torch.compile
    monkeypatch.setattr(torch, "compile", lambda code, **more: compile_(code, backend=backend, **more))
    optimizer = new("muon", torch.float32, 0.9)
    failures: list[str] = []
    compile_update(optimizer, failures.append)
    result = steps(optimizer)
    assert len(failures) == 1
    assert all(map(torch.equal, result, steps(new("muon", torch.float32, 0.9))))


class Two(Processes):
    """One of two processes, of which the other has compiled code too, or has not."""

    def __init__(self, other_compiles: bool) -> None:
        self.world = 2
        self.other_compiles = other_compiles

    def max_over_processes(self, *numbers: float) -> list[float]:
        return [max(number, not self.other_compiles) for number in numbers]


def test_of_several_processes_all_compile_the_update_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against copies of the weights that drift apart because their updates are rounded differently."""

    def backend(*_: object) -> None:
        raise RuntimeError("no space left")

    compile_ = torch.compile
    optimizer = new("muon", torch.float32, 0.0)
    loss = CompiledLoss(optimizer.weights, 0.0, None)
    for here, other in ((True, False), (False, True), (True, True)):
        loss.compiled = here
        loss.compile_update(optimizer, Two(other))
        assert optimizer.compiled == (here and other)
    monkeypatch.setattr(torch, "compile", lambda code, **more: compile_(code, backend=backend, **more))
    optimizer = new("muon", torch.float32, 0.0)
    loss.compile_update(optimizer, Two(True))
    with pytest.raises(UserError, match=r"update of the weights \(.*no space left.*: use trainer.compile=off"):
        steps(optimizer)


def outside(trainer: Trainer) -> int:
    """Run a step -> the number of torch's operations that it calls outside compiled code; each would be a launch."""
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        trainer.step()
    count = 0
    for event in seen.events():
        above = event.cpu_parent
        while above is not None and not above.name.startswith(("aten::", "Torch-Compiled Region", "## Call Compiled")):
            above = above.cpu_parent
        count += event.name.startswith("aten::") and above is None
    return count


@pytest.mark.long
@pytest.mark.parametrize(("kind", "most"), [("muon", 21), ("adamw", 21)])
def test_a_compiled_step_calls_few_operations_outside_compiled_code(kind: str, most: int) -> None:
    """Guards against a small model whose step on a GPU consists of launches. With six layers, before the update was
    compiled, a step with Muon called 249 operations (a list of tensors as one), one with AdamW 84; now both call 21."""
    shape = ModelConfig(layers=2, heads=2, width=32, context=16, activation="swiglu")
    torch.manual_seed(0)
    config = TrainConfig(
        model=shape,
        trainer=TrainerConfig(steps=5, compile="on", ema=0.9),
        optim=OptimConfig(kind=kind),
        schedule=ScheduleConfig(warmup=0, kind="constant"),
    )
    tokens = torch.randint(50, (4, 17))
    stream = Listed([Batch(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())])
    trainer = Trainer(config, GPT(shape, 50), stream, Hardware(CPU.device, torch.bfloat16, None, "cpu"), 1.0)
    messages: list[str] = []
    trainer.loss.log = messages.append
    for _ in range(3):
        trainer.step()
    assert not any("warning" in line or UNCOMPILED in line for line in messages)
    assert trainer.optimizer.compiled
    assert outside(trainer) <= most
