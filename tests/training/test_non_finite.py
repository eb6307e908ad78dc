"""A gradient that is not finite stops the run; with `+debug=nan`, the module that makes it is named."""

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from configs.errors import UserError
from data.batches.batch import Batch
from data.batches.pairs import Pairs
from data.batches.windows import WindowStream
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from data.tokens.token_rows import token_rows_of
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from tests.stand_in import DEVICE, stand_in
from tests.training.tiny_trainer import CPU, Listed, pairs, train, trainer
from training.config import ScheduleConfig, TrainConfig, TrainerConfig
from training.guided_alignment.guidance import Guidance
from training.guided_alignment.translation_table import learn_translations
from training.hardware.device import Hardware
from training.run_folder.loaded_run import Model
from training.trainer import Trainer

Spoil = Callable[[Model], Any]


def spoil(each: Trainer, step: int) -> None:
    """Make the output of a block infinite in a step (the first is 1)."""

    def hook(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        return output * math.inf if module.training and each.progress.step + 1 == step else output

    each.model.decoder[0].register_forward_hook(hook)  # type: ignore[union-attr,operator]


def test_training_stops_before_a_bad_gradient_is_used(tmp_path: Path) -> None:
    """Guards against one bad batch that turns all weights into NaN, a run that trains on without a word, and a cause
    that nobody can find."""
    folder, batches = tmp_path / "run", pairs()
    each = trainer(batches, steps=50, evaluate_every=2, accumulate=2, ema=0.9)
    spoil(each, 5)
    with pytest.raises(UserError) as raised:
        train(each, folder)
    (message,) = raised.value.args
    assert message.startswith("step 5, the gradient is not finite (loss nan, norm nan); +debug=nan names the module")
    assert f"the batch of step 5 is in {folder / 'bad_batch.json'}" in message
    assert "the checkpoint of step 4 is kept" in message
    assert each.progress.step == 4
    assert each.weights.flat_average is not None
    assert all(tensor.isfinite().all() for tensor in (each.weights.flat_masters, each.weights.flat_average))
    bad = json.loads((folder / "bad_batch.json").read_text(encoding="utf-8"))
    assert (bad["step"], bad["gradient_norm"]) == (5, "nan")
    assert [part["inputs"] for part in bad["batches"]] == [batch.inputs.tolist() for batch in batches[:2]]
    sources = [batch.source.tolist() for batch in batches[:2] if batch.source is not None]
    assert [part["source"] for part in bad["batches"]] == sources


def test_a_batch_names_its_rows() -> None:
    """Guards against a bad batch that cannot be found in the data."""
    tokens = np.arange(100, dtype=np.uint16)
    batch = WindowStream(tokens, 3, 8, seed=1).next_batch().to("cpu")
    assert batch.rows is not None
    assert batch.inputs[:, 0].tolist() == tokens[batch.rows].tolist()


@pytest.mark.slow
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_device_that_runs_behind_stops_as_well(asynchronous: bool, tmp_path: Path) -> None:
    """Guards GPUs of all kinds against weights of NaN in a checkpoint, and against a wait in every step."""
    with stand_in() as stood_in:
        each = trainer(pairs(), Hardware(DEVICE, torch.float32, None, "stand-in"), steps=8, evaluate_every=2)
        each.queue.asynchronous = asynchronous
        spoil(each, 5)
        with pytest.raises(UserError, match=r"step 5, the gradient is not finite .* checkpoint of step 4 is kept"):
            train(each, tmp_path / "run")
        each = trainer(pairs(), Hardware(DEVICE, torch.float32, None, "stand-in"))
        before = stood_in.reads
        each.step()
        assert stood_in.reads == before


def gpt_trainer(layers: int = 2, **settings: Any) -> Trainer:
    """Return a trainer of a tiny GPT with dropout, whose batches name their windows."""
    torch.manual_seed(1)
    ids = torch.randint(0, 20, (6, 4, 9))
    batches = [Batch(x[:, :-1], x[:, 1:], rows=torch.arange(4).numpy() * 100 + n) for n, x in enumerate(ids)]
    config = TrainConfig(
        trainer=TrainerConfig(steps=6, log_every=1, evaluate_every=2, find_nan=True, **settings),
        schedule=ScheduleConfig(warmup=0),
    )
    model = GPT(ModelConfig(layers=layers, heads=2, width=16, context=8, dropout=0.1), 20)
    return Trainer(config, model, Listed(batches), CPU, 1.0)


def sentence(each: Trainer, folder: Path) -> str:
    """Train until the run stops -> its error message."""
    with pytest.raises(UserError) as raised:
        train(each, folder)
    (message,) = raised.value.args
    assert "the batch of step" in message
    return str(message)


def after(steps: int, each: Trainer, hook: Callable[..., Any]) -> Callable[..., Any]:
    """Return a hook that acts in later steps only."""
    return lambda module, *values: hook(*values) if each.progress.step >= steps else None


def test_a_module_whose_output_overflows_is_named_with_its_rows(tmp_path: Path) -> None:
    """Guards against a search that names a later module, forgets the example, or does not repeat the dropout."""
    each = gpt_trainer(accumulate=2)

    def overflow(inputs: Any, output: Tensor) -> Tensor:
        output = output.clone()
        output[2, 3, 1] = torch.inf
        return output

    expand = each.model.blocks[1].feed_forward.expand  # type: ignore[union-attr,index]
    expand.register_forward_hook(after(2, each, overflow))
    message = sentence(each, tmp_path / "run")
    assert message.startswith("step 3, forward pass: blocks.1.feed_forward.expand (Linear) makes [4, 8,")
    assert "1 infinite, values from" in message
    assert "from [4, 8, 16] float32, values from" in message
    assert "(micro-batch 1 of 2, rows 2: windows at tokens 204 of the training data)" in message
    assert "the checkpoint of step 2 is kept" in message


def test_a_function_between_modules_is_found_before_the_next_module(tmp_path: Path) -> None:
    """Guards against blaming the layer that receives an infinite value."""
    each = gpt_trainer()
    with torch.no_grad():
        each.model.blocks[0].feed_forward.expand.weight.mul_(1e25)  # type: ignore[union-attr,index]
    each.model.blocks[0].feed_forward.activation = "relu2"  # type: ignore[union-attr,index]
    message = sentence(each, tmp_path / "run")
    assert "forward pass: the input of blocks.0.feed_forward.project (Linear) is not finite" in message


class Bad(torch.autograd.Function):
    """The identity with a gradient of NaN."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        return gradient * torch.nan


@pytest.mark.parametrize("recompute", [False, True])
def test_a_backward_pass_is_searched_too(recompute: bool, tmp_path: Path) -> None:
    """Guards against a finite forward pass after which nothing is found."""
    each = gpt_trainer(recompute=recompute)

    class Norm(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Tensor) -> Tensor:
            return Bad.apply(self.inner(x))

    block = each.model.blocks[1]  # type: ignore[union-attr,index]
    block.feed_forward_norm = Norm(block.feed_forward_norm)  # type: ignore[union-attr,arg-type]
    message = sentence(each, tmp_path / "run")
    assert "step 1, backward pass: the gradient that blocks.1.feed_forward_norm.inner (" in message
    assert "receives is [4, 8, 16] float32, 512 NaN, no finite value" in message


def test_a_translator_is_searched_as_well(tmp_path: Path) -> None:
    """Guards against a search that works for the GPT alone: cross-attention is called through its methods."""
    each = trainer(pairs(), find_nan=True)
    with torch.no_grad():
        each.model.decoder[0].cross_attention.key_value.weight.fill_(3e38)  # type: ignore[union-attr,index]
    message = sentence(each, tmp_path / "run")
    assert "forward pass: decoder.0.cross_attention.key_value (Linear) makes [1, 6," in message


def test_the_loss_of_guided_alignment_is_searched_too(tmp_path: Path) -> None:
    """Guards against "all gradients are finite" where only the second loss is not."""
    each = trainer(pairs(), find_nan=True)
    assert isinstance(each.model, EncoderDecoder)
    sides = (torch.cat([getattr(batch, side) for batch in pairs()]).tolist() for side in ("source", "inputs"))
    rows = Pairs(*(token_rows_of(side, 20) for side in sides), SentencePieceTokenizer, SentencePieceTokenizer)
    table = learn_translations(rows, np.arange(4), 20)
    each.loss.guidance = Guidance(each.model, table, weight=3e38)
    message = sentence(each, tmp_path / "run")
    assert message.startswith("step 1, forward pass: the loss of guided alignment is inf (trainer.guided_alignment)")


def test_gradients_whose_norm_alone_overflows_are_explained(tmp_path: Path) -> None:
    """Guards against a search that ends without a word."""
    each = gpt_trainer()
    each.model.head.weight.register_hook(lambda gradient: gradient * 1e25)
    message = sentence(each, tmp_path / "run")
    assert message.startswith("step 1, all gradients are finite, but their norm exceeds the range of float32")


@pytest.mark.slow
def test_a_compiled_model_is_searched_uncompiled(tmp_path: Path) -> None:
    """Guards against hooks that never fire in compiled code."""
    each = gpt_trainer(layers=1, compile="on")
    with torch.no_grad():
        each.model.blocks[0].attention.query_key_value.weight.fill_(3e38)  # type: ignore[union-attr,index]
    message = sentence(each, tmp_path / "run")
    assert "forward pass: blocks.0.attention.query_key_value (Linear) makes" in message


@pytest.fixture(autouse=True)
def compiler() -> Iterator[None]:
    """Forget compiled code."""
    yield
    if "torch._dynamo" in __import__("sys").modules:
        torch._dynamo.reset()
