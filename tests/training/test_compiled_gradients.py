"""Compiled and uncompiled training steps have the same gradients, for every kind of model and loss; and every fault of
compiled code is noticed before a run trains with it.

The kinds are compiled without code generation (torch's backend `aot_eager`), where the faults of torch 2.11 were, and
which takes seconds instead of minutes; two programs with generated code are in `hardware/test_compilation.py`.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch import Tensor

from configs.errors import UserError
from data.batches.batch import IGNORED, Batch
from data.batches.pairs import Pairs
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from data.tokens.token_rows import token_rows_of
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.fast_kernels import _RMSNorm
from model.gpt import GPT
from tests.training.tiny_trainer import pairs, trainer
from training.config import TrainConfig, TrainerConfig
from training.guided_alignment.guidance import Guidance
from training.guided_alignment.translation_table import learn_translations
from training.hardware import recomputation
from training.hardware.compilation import CompiledLoss, training_loss
from training.hardware.compiled_check import BOUNDS, Difference, largest_difference, masks_of_compiled_code
from training.hardware.device import Hardware
from training.loss import TrainingLoss
from training.optimizer.weights_gradients_ema import Weights
from training.processes.single_process import Processes
from training.run_folder.loaded_run import Model

pytestmark = pytest.mark.slow

EXACT = 1e-4
"""Bound of the relative error of a gradient in float32; up to 4e-6 was seen."""

VOCABULARY = 50


@dataclass(frozen=True)
class Kind:
    """A model and a loss; everything else has its default."""

    model: dict[str, Any] = field(default_factory=dict)
    trainer: dict[str, Any] = field(default_factory=dict)
    task: str = "gpt"
    padded: bool = True
    chunked: bool = False
    """Whether the logits are computed in several parts."""


GPTS = {
    "default": Kind(),
    "GPT-2": Kind({"norm": "layer", "position": "learned", "activation": "gelu", "bias": True, "qk_norm": False}),
    "Llama": Kind({"activation": "swiglu", "kv_heads": 2, "tie_embeddings": False, "qk_norm": False}),
    "StarCoder2": Kind({"norm": "layer", "norm_eps": 1e-4, "rotary_base": 1e3, "activation": "gelu_tanh"}),
    "post-norm": Kind({"block": "post_norm", "position": "sinusoidal", "activation": "relu", "output_bias": True}),
    "shift": Kind({"token_shift": True, "activation": "silu", "embedding_scale": 3.0, "feed_forward": 40}),
    "documents": Kind({"mask_documents": True, "vocab_multiple": 64}, chunked=True),
    "dropout": Kind({"dropout": 0.2, "attention_dropout": 0.1}),
    "chunks": Kind(trainer={"label_smoothing": 0.1}, chunked=True),
    "recomputed": Kind({"dropout": 0.2}, {"recompute": True}),
}
TRANSLATORS = {
    "default": Kind(task="translate"),
    "Marian": Kind(
        {"block": "post_norm", "norm": "layer", "position": "sinusoidal", "activation": "silu", "bias": True}
        | {"output_bias": True, "qk_norm": False, "encoder_layers": 2},
        {"label_smoothing": 0.1},
        "translate",
    ),
    "grouped": Kind({"kv_heads": 2, "cross_qk_norm": True, "share_embeddings": False}, task="translate", chunked=True),
    "guided": Kind({"dropout": 0.2}, {"guided_alignment": 0.5}, "translate", padded=False),
}
KINDS = [
    *(pytest.param(kind, id=f"GPT, {name}") for name, kind in GPTS.items()),
    *(pytest.param(kind, id=f"translator, {name}", marks=pytest.mark.long) for name, kind in TRANSLATORS.items()),
]
TASKS = ["gpt", pytest.param("translate", marks=pytest.mark.long)]
"""A translator takes ten times as long to compile."""


def test_every_option_of_a_model_is_compared() -> None:
    """Guards against an option that is added and never compiled in a test."""
    sizes = {"layers", "heads", "width", "context"}
    used = {name for kind in (*GPTS.values(), *TRANSLATORS.values()) for name in kind.model}
    assert used == {option.name for option in fields(ModelConfig)} - sizes


@pytest.fixture(autouse=True)
def _compile_without_code_generation(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    compile_ = torch.compile

    def quick(model: Any = None, *, options: object = None, **settings: Any) -> Any:
        return compile_(model, backend="aot_eager", **settings)

    monkeypatch.setattr(torch, "compile", quick)
    yield
    torch.compiler.reset()


def batch_of(kind: Kind) -> Batch:
    """Return a batch with padding, for a GPT with several documents."""
    torch.manual_seed(2)
    if kind.task == "gpt":
        tokens = torch.randint(VOCABULARY, (6, 17))
        return Batch(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
    target = torch.randint(4, VOCABULARY, (6, 14))
    targets = target[:, 1:].clone()
    targets[2, 5:], targets[4, 1:] = IGNORED, IGNORED
    lengths = torch.tensor([[11], [7], [11], [2], [11], [9]])
    mask = torch.arange(11) < lengths if kind.padded else None
    return Batch(target[:, :-1].contiguous(), targets, torch.randint(4, VOCABULARY, (6, 11)), mask)


def loss_of(kind: Kind, choice: str, dtype: torch.dtype = torch.float32) -> TrainingLoss:
    """Return the loss of a new model, always with the same weights."""
    shape = ModelConfig(
        **{"layers": 2 if kind.task == "gpt" else 1, "heads": 4, "width": 32, "context": 16} | kind.model
    )
    config = TrainConfig(task=kind.task, model=shape, trainer=TrainerConfig(compile=choice, **kind.trainer))
    torch.manual_seed(1)
    model: Model
    if kind.task == "gpt":
        model = GPT(shape, VOCABULARY, eos_id=3)
    else:
        model = EncoderDecoder(shape, VOCABULARY, VOCABULARY, shared=True)
    weights = Weights(model.train(), dtype, 0.0)
    loss, _ = training_loss(config, weights, Hardware(torch.device("cpu"), dtype, None, "cpu"), 1.0, None)
    if config.trainer.guided_alignment and isinstance(model, EncoderDecoder):
        batch = batch_of(kind)
        assert batch.source is not None
        sides = (token_rows_of(side.tolist(), VOCABULARY) for side in (batch.source, batch.inputs))
        pairs = Pairs(*sides, SentencePieceTokenizer, SentencePieceTokenizer)
        table = learn_translations(pairs, np.arange(len(batch.source)), VOCABULARY)
        loss.guidance = Guidance(model, table, config.trainer.guided_alignment)
    if config.trainer.recompute:
        recomputation.recompute_activations(model)
    return loss


def gradients_of(loss: TrainingLoss, batch: Batch) -> tuple[Tensor, list[Tensor]]:
    """Return the result of a step from the same random state."""
    torch.manual_seed(3)
    with masks_of_compiled_code():
        return loss.gradients(batch, batch.target_tokens)


def difference(*arguments: Any) -> Difference:
    """Return the largest difference of finite results."""
    worst = largest_difference(*arguments)
    assert worst is not None
    return worst


@pytest.mark.parametrize("kind", KINDS)
def test_compiled_gradients_are_those_of_uncompiled_code(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against gradients that are wrong in compiled code only, as all were under torch 2.11: the loss is exact
    nevertheless, and wrong gradients may have a healthy norm."""
    if kind.chunked:
        monkeypatch.setattr("training.loss._TOKENS", 16)
        monkeypatch.setattr("training.loss._LOGITS", 16 * VOCABULARY)
    batch, messages = batch_of(kind), []
    compiled, plain = loss_of(kind, "on"), loss_of(kind, "off")
    compiled.log = messages.append
    expected = gradients_of(plain, batch)
    for _ in range(2):
        worst = difference(list(plain.weights.layout.shapes), gradients_of(compiled, batch), expected)
        assert worst.error < EXACT, worst
    assert compiled.compiled
    assert [line.split(" (")[0] for line in messages] == ["compiled step: equals the uncompiled one within rounding"]


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(GPTS["dropout"], id="gpt"),
        pytest.param(TRANSLATORS["guided"], id="translate", marks=pytest.mark.long),
    ],
)
def test_in_bf16_only_rounding_differs(kind: Kind) -> None:
    """Guards against runs that fall back to uncompiled code for rounding errors."""
    batch, messages = batch_of(kind), []
    compiled = loss_of(kind, "on", torch.bfloat16)
    compiled.log = messages.append
    worst = difference(
        list(compiled.weights.layout.shapes),
        gradients_of(compiled, batch),
        gradients_of(loss_of(kind, "off", torch.bfloat16), batch),
    )
    assert worst.error < BOUNDS[torch.bfloat16] / 3, worst
    assert compiled.compiled
    assert len(messages) == 1


def zero_gain(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
    """The backward pass of RMSNorm, whose gradient of the gain is lost when compiled."""
    x, scale, weight = ctx.saved_tensors
    slope = grad * weight
    along_x = (slope * x).sum(dim=-1, keepdim=True)
    exact = (grad * x * scale).reshape(-1, x.shape[-1]).sum(dim=0)
    lost = torch.zeros_like(exact) if torch.compiler.is_compiling() else exact
    return (slope - x * (along_x * scale.square() / x.shape[-1])) * scale, lost, None


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_wrong_compiled_gradients_are_noticed_before_a_step(
    task: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against the fault of torch 2.11, planted by hand: an exact loss with wrong gradients."""
    monkeypatch.setattr(_RMSNorm, "backward", staticmethod(zero_gain))
    kind, messages = Kind(task=task), []
    batch = batch_of(kind)
    loss = loss_of(kind, "on", dtype)
    loss.log = messages.append
    result = gradients_of(loss, batch)
    assert not loss.compiled
    assert loss.failed
    (line,) = messages
    assert line.startswith(f"warning: torch {torch.__version__} miscompiles this model (an error of 1e+02 %")
    assert "norm.weight); training continues uncompiled" in line
    expected = gradients_of(loss_of(kind, "off", dtype), batch)
    assert all(map(torch.equal, result[1], expected[1]))


@pytest.mark.parametrize("fault", ["backend", "limit"])
@pytest.mark.parametrize("task", TASKS)
def test_a_compilation_that_fails_long_after_the_start_ends_no_run(
    task: str, fault: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Guards against a traceback, after hours, at the first batch of a new shape."""
    kind, messages = Kind(task=task), []
    batch, loss = batch_of(kind), loss_of(kind, "on")
    loss.log = messages.append
    for _ in range(5):
        gradients_of(loss, batch)
    assert loss.compiled
    limit = torch._dynamo.config.recompile_limit
    if fault == "limit":
        limit = 1
        reason = "the batches have more shapes than torch._dynamo.config.recompile_limit"
    else:
        full = OSError(errno.ENOSPC, "No space left on device")
        monkeypatch.setattr("torch._dynamo.backends.common.aot_module_simplified", Mock(side_effect=full))
        reason = f"OSError: {full}"
    single = batch.select(torch.arange(1))
    capfd.readouterr()
    with torch._dynamo.config.patch(recompile_limit=limit):  # which `monkeypatch` would leave deleted
        result = gradients_of(loss, single)
    assert not loss.compiled
    assert loss.failed
    assert messages[1:] == [f"warning: torch.compile failed ({reason}); training continues uncompiled"]
    assert capfd.readouterr().err == ""
    expected = gradients_of(loss_of(kind, "off"), single)
    assert torch.equal(result[0], expected[0])
    assert all(map(torch.equal, result[1], expected[1]))


def test_a_process_falls_back_with_another(capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against processes of which some go on with compiled code that has failed, at any step, in another."""

    class OneOfSeveral(Processes):
        def max_over_processes(self, *numbers: float) -> list[float]:
            *others, failed_here = numbers
            assert not failed_here
            return [*others, 1.0]

    each = trainer(pairs(), processes=OneOfSeveral(), compile="on")
    each.agree(0.0)
    assert each.loss.failed
    said = "warning: compiled code has failed in another process; training continues uncompiled\n"
    assert capsys.readouterr().out == said


def test_a_gradient_that_is_missing_in_compiled_code_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a parameter that compiled code takes for a constant."""
    forward = GPT.features

    def detached(model: GPT, *arguments: Any) -> Tensor:
        gain = model.norm.weight.detach() if torch.compiler.is_compiling() else model.norm.weight
        return forward(model, *arguments) / model.norm.weight.detach() * gain

    monkeypatch.setattr(GPT, "features", detached)
    kind, messages = Kind({"norm": "layer", "position": "learned"}), []
    loss = loss_of(kind, "on")
    loss.log = messages.append
    gradients_of(loss, batch_of(kind))
    assert not loss.compiled
    assert messages[0].endswith("training continues uncompiled")


@pytest.mark.parametrize("task", ["gpt", "translate"])
def test_a_parameter_without_gradient_is_an_error_that_names_it(task: str) -> None:
    """Guards against a parameter that silently keeps its initial values."""
    kind = Kind(task=task)
    loss = loss_of(kind, "off")
    loss.model.register_parameter("unused", torch.nn.Parameter(torch.ones(3)))
    loss.weights = Weights(loss.model, torch.float32, 0.0)
    with pytest.raises(UserError, match=r"^unused: no gradient, because the computed loss does not depend on it"):
        gradients_of(loss, batch_of(kind))


def test_comparing_changes_no_random_number() -> None:
    """Guards against a resumed run, which compares again, that draws other dropout masks than the undisturbed one."""
    kind = GPTS["dropout"]
    batch, states = batch_of(kind), []
    for compare in (True, False):
        loss = loss_of(kind, "on")
        loss.log = lambda line: None
        if not compare:
            loss.check = lambda batch, targets: None  # type: ignore[method-assign]
        torch.manual_seed(3)
        loss.gradients(batch, batch.target_tokens)
        states.append(torch.get_rng_state())
    assert torch.equal(*states)


def test_errors_of_tiny_gradients_are_relative_to_the_others() -> None:
    """Guards against a warning about a gradient that is zero but for rounding, and silence about one that is not
    finite."""
    one, tiny, loss = torch.ones(4), torch.full((4,), 1e-6), torch.ones(())
    assert difference(["a", "b"], (loss, [one, -tiny]), (loss, [one, tiny])).error < 1e-4
    assert difference(["a", "b"], (loss, [one, one]), (loss, [one, tiny])).where == "b"
    infinite = difference(["a", "b"], (loss, [one, tiny / 0]), (loss, [one, tiny]))
    assert infinite.where == "b"
    assert infinite.error == float("inf")
    nan = difference(["a", "b"], (loss, [one * float("nan"), tiny]), (loss, [one, tiny]))
    assert (nan.where, nan.error) == ("a", float("inf"))


def test_a_loss_is_compared_more_strictly_than_a_gradient() -> None:
    """Guards against the bound of rounded gradients for a loss, which rounding hardly changes."""
    one, loss = torch.ones(4), torch.ones(())
    gradient = difference(["a"], (loss, [1.1 * one]), (loss, [one]))
    assert (gradient.where, gradient.is_wrong(torch.bfloat16), gradient.is_wrong(torch.float32)) == ("a", False, True)
    both = difference(["a"], (1.05 * loss, [1.1 * one]), (loss, [one]))
    assert (both.where, both.is_wrong(torch.bfloat16)) == ("the loss", True)


def test_a_fault_in_a_small_part_of_a_matrix_is_seen() -> None:
    """Guards against gradients of queries or keys that are lost: they are some percent of a matrix with the values."""
    loss, exact = torch.ones(()), torch.cat([torch.full((8, 4), size) for size in (0.1, 0.1, 2.0)])
    lost = exact.clone()
    lost[8:16] = 0
    assert difference(["a"], (loss, [lost]), (loss, [exact])).is_wrong(torch.bfloat16)


@pytest.mark.parametrize("part", ["loss", "gradient"])
def test_a_batch_whose_results_are_not_finite_proves_nothing(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a log that says `equals` although nothing could be compared, or that blames the compiler."""
    kind, messages = Kind(), []
    batch, loss = batch_of(kind), loss_of(kind, "on")
    loss.log = messages.append
    with monkeypatch.context() as patch:
        uncompiled = CompiledLoss.uncompiled

        def spoilt(self: CompiledLoss, *arguments: Any) -> tuple[Tensor, list[Tensor]]:
            total, gradients = uncompiled(self, *arguments)
            if part == "loss":
                return total * torch.nan, gradients
            return total, [gradient * torch.inf for gradient in gradients]

        patch.setattr(CompiledLoss, "uncompiled", spoilt)
        gradients_of(loss, batch)
    assert loss.compiled
    gradients_of(loss, batch)
    assert [line.split(":")[0] for line in messages] == ["the compiled step is not compared yet", "compiled step"]
