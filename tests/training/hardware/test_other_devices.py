"""Devices other than CPU and CUDA: a simulated device (`tests.stand_in`), and Apple's GPU on a Mac that has one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
import torch

from configs.compose import compose_config
from data.batches.batch import IGNORED
from data.config import TokenizerConfig
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from generation.beam_search import beam_search
from generation.config import SamplingConfig
from generation.cuda.host_copy import HostCopy
from generation.sampling import generate
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from tests.conftest import TINY
from tests.gpu.small_trainer import trainer as small_trainer
from tests.model.conftest import FLAVOURS
from tests.stand_in import DEVICE, stand_in
from tests.training.tiny_trainer import pairs, trainer
from train import train
from training.config import TrainConfig
from training.evaluation.held_out_loss import held_out_loss
from training.evaluation.pronouns import log_probabilities
from training.hardware import apple_gpu
from training.hardware.device import Hardware
from training.new_or_resumed_run import to_dataclass
from training.run_folder.log import RunLog

There = Callable[[], AbstractContextManager[object]]
"""Within its result the device can be used."""

on_both = pytest.mark.parametrize(
    ("device", "there"),
    [
        pytest.param(DEVICE, stand_in, id="stand-in"),
        pytest.param(
            torch.device("mps"),
            nullcontext,
            id="mps",
            marks=pytest.mark.skipif(apple_gpu.obstacle() is not None, reason="needs an Apple GPU"),
        ),
    ],
)
CPU = torch.device("cpu")
SHORT = (
    "trainer.steps=2",
    "trainer.evaluate_every=2",
    "trainer.evaluate_sentences=2",
    "trainer.beam_size=2",
    "data.sentences=100",
    "data.stories=60",
    "model.dropout=0",
    "tokenizer=char",
    "optim.kind=muon",
    "attention.importance=true",
    "attention.scored=4",
    "attention.image=false",
)


@pytest.mark.slow
@on_both
@pytest.mark.parametrize("task", ["gpt", "translate"])
def test_a_run_computes_there_what_it_computes_on_a_cpu(
    device: torch.device,
    there: There,
    task: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Guards against float64, or kernels and features of only CPU and CUDA, in training, evaluation, samples,
    translations, maps and scores, and against memory that is read before the device has written it."""
    settings = [
        *(s for s in TINY if "tokenizer" not in s),
        *SHORT,
        f"task={task}",
        f"runs={tmp_path}",
        f"data.cache={tmp_path / '.cache'}",
    ]
    result = {}
    for name, where in (("here", CPU), ("there", device)):
        composed, problems = compose_config("train", TrainConfig, [*settings, f"name={name}"])
        assert composed is not None
        assert not problems
        hardware = Hardware(where, torch.float32, None, name)
        monkeypatch.setattr("training.hardware.device.choose_hardware", lambda *_, chosen=hardware, **__: chosen)
        with there() if where is device else nullcontext():
            train(to_dataclass(composed, settings))
        folder = tmp_path / name
        metrics = json.loads((folder / "metrics.jsonl").read_text("utf-8").splitlines()[-1])
        tested = json.loads((folder / "test.json").read_text("utf-8"))
        result[name] = {key: value for key, value in (metrics | tested).items() if "loss" in key}
    assert result["there"] == pytest.approx(result["here"], rel=1e-3)
    printed = capsys.readouterr().out
    assert "there, attention by scaled_dot_product_attention" in printed
    assert "skipped after an error" not in printed, "the run goes on without the maps, or without the scores"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "kind", "dtype"),
    [("translate", "adamw", torch.float32), ("translate", "muon", torch.bfloat16), ("gpt", "scion", torch.bfloat16)],
)
def test_no_step_waits_for_the_device(task: str, kind: str, dtype: torch.dtype, tmp_path: Path) -> None:
    """Guards against a number that each step reads, or a log line that is prepared, which makes the device wait."""
    with stand_in() as stood_in:
        each = small_trainer(DEVICE, dtype, task, kind=kind, ema=0.9, dropout=0.1, accumulate=2)
        each.log, each.queue.asynchronous = RunLog(tmp_path, 0), True
        before = stood_in.reads
        for _ in range(2):
            each.step()
        each.report_step()
        assert stood_in.reads == before
        each.catch_up()
        assert stood_in.reads > before
        each.log.close()
    assert re.search(r"step 2/.* loss [1-9]", (tmp_path / "log.txt").read_text("utf-8"))


@pytest.mark.slow
@on_both
@pytest.mark.parametrize("config", FLAVOURS.values(), ids=FLAVOURS)
def test_texts_and_translations_are_those_of_a_cpu(config: ModelConfig, device: torch.device, there: There) -> None:
    """Guards against sampling or search in float64, and against a cache or mask on the wrong device."""
    torch.manual_seed(0)
    gpt, translator = GPT(config, 19).eval(), EncoderDecoder(config, 19, 19).eval()
    sampling = SamplingConfig(temperature=0.9, top_k=12, top_p=0.9, min_p=0.01, repetition_penalty=1.2, max_tokens=20)
    source, mask = torch.randint(4, 19, (3, 8)), torch.arange(8) < torch.tensor([[8], [5], [2]])
    search = {"bos_id": 2, "eos_id": 3, "max_length": 10, "beam_size": 3, "n_best": 3, "banned_ids": {0, 2}}

    def written(where: torch.device) -> tuple[list[list[int | None]], list[list[list[int]]]]:
        prompts = [[1, 5, 2], [4], list(range(4, 18))]  # of which the last outgrows the context
        texts = list(generate(gpt.to(where), prompts, sampling, stop_ids={3}, banned_ids={0}))
        result = beam_search(translator.to(where), source.to(where), mask.to(where), **search)
        return texts, [[hypothesis.tokens for hypothesis in hypotheses] for hypotheses in result]

    expected = written(CPU)
    with there():
        assert written(device) == expected


@on_both
def test_pronouns_are_scored_as_on_a_cpu(device: torch.device, there: There) -> None:
    """Guards against sums of losses in float64."""
    tokenizer = SentencePieceTokenizer.train(["the cat sees the dog and it runs"], TokenizerConfig(kind="char"))
    model = GPT(ModelConfig(layers=1, heads=2, width=32, context=64), tokenizer.vocab_size).eval()
    texts = [("the cat", " runs"), ("the dog sees the cat and it", " runs and"), ("a" * 80, " runs")]
    expected = log_probabilities(model, tokenizer, texts)
    with there():
        result = log_probabilities(model.to(device), tokenizer, texts)
    assert result[:2] == pytest.approx(expected[:2], rel=1e-4)
    assert result[2] is expected[2] is None


@on_both
def test_values_are_read_when_they_are_there(device: torch.device, there: There) -> None:
    """Guards against reading a copy too early on devices without CUDA's events: wrong numbers in the log, or a false
    NaN."""
    with there():
        assert HostCopy(torch.full((2,), 3.0, device=device)).values() == [3.0, 3.0]


def test_the_held_out_loss_adds_up_batches_in_float64() -> None:
    """Guards against a float32 sum over a large split, which stops growing by small batches."""
    batches = pairs()
    model = trainer(batches).model.eval()
    one = held_out_loss(model, batches[:1], 1).nats
    many = held_out_loss(model, batches[:1] * 500, 1)
    assert many.nats == pytest.approx(500 * one, rel=1e-13)
    assert many.tokens == 500 * int((batches[0].targets != IGNORED).sum())
