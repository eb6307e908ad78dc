"""Peers written in C compute the same as our models, and published figures are kept apart from measured ones."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from benchmarks.contender import Benchmark, Comparison, Contender
from benchmarks.harness import MeasureSettings, measure
from benchmarks.peers import llmc
from benchmarks.report import comparison_table, full_table
from benchmarks.results import Result
from benchmarks.training.train_gpt2 import PUBLISHED
from model.config import ModelConfig
from model.gpt import GPT
from tests.benchmarks.test_peers import sharpened

TASK = llmc.Task(layers=2, heads=4, width=64, context=16, vocabulary=200, batch_size=3)


@pytest.fixture
def gpt2() -> GPT:
    model = llmc.gpt2(TASK)
    sharpened(model)
    return model


def test_llmc_has_our_losses(gpt2: GPT) -> None:
    """Guards against a tensor in the wrong place, and an update that is left out. The environment variable LLMC is the
    path of a checkout."""
    if "LLMC" not in os.environ:
        pytest.skip("llm.c is not installed: the environment variable LLMC names no checkout")
    train = llmc.trainer(os.environ["LLMC"], gpt2)
    optimizer = torch.optim.AdamW(gpt2.parameters(), lr=1e-2, betas=(0.9, 0.999), weight_decay=0)
    rows = torch.randint(TASK.vocabulary, (TASK.batch_size, TASK.context + 1))
    losses = []
    for _ in range(4):
        loss = F.cross_entropy(gpt2(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        losses.append(loss.item())
        assert train(rows[:, :-1], rows[:, 1:], 1e-2) == pytest.approx(losses[-1], abs=1e-4)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[-1] < 0.5 * losses[0]


def test_a_checkpoint_of_llmc_holds_every_weight(gpt2: GPT, tmp_path: Path) -> None:
    """Guards against a file that llm.c reads beyond its end, and a vocabulary that is not padded."""
    llmc.write_checkpoint(gpt2, tmp_path / "model.bin")
    assert np.fromfile(tmp_path / "model.bin", np.int32, 9).tolist() == [20240326, 3, 16, 200, 2, 4, 64, 256, 0]
    weights = np.fromfile(tmp_path / "model.bin", np.float32, offset=4 * 256)
    assert len(weights) == sum(parameter.numel() for parameter in gpt2.parameters()) + (256 - 200) * TASK.width
    np.testing.assert_array_equal(weights[: 200 * TASK.width], gpt2.output_weight.detach().flatten())
    np.testing.assert_array_equal(weights[-TASK.width :], gpt2.norm.bias.detach())


def test_llama_cpp_writes_our_texts(tmp_path: Path) -> None:
    """Guards against texts of a batch that see each other, and a check that accepts another model."""
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    from benchmarks.peers.llama_cpp import LlamaCpp, require_our_texts, write_model

    config = ModelConfig(layers=2, heads=4, width=32, context=24, norm="layer", position="learned", activation="gelu")
    torch.manual_seed(0)
    model = GPT(replace(config, qk_norm=False), 40)
    sharpened(model)
    write_model(model, tmp_path / "model.gguf")
    peer = LlamaCpp(tmp_path / "model.gguf", batch=3, length=24, threads=1)
    prompts = [1, 7, 20]
    texts = [peer.continued(prompts, 23, 0, None) for _ in range(2)]
    sampled = peer.continued(prompts, 23, 0.8, 5)
    peer.close()
    assert texts[0] == texts[1]
    require_our_texts(model, prompts, texts[0])
    for others in (sampled, [texts[0][1], texts[0][0], texts[0][2]]):
        with pytest.raises(RuntimeError, match="differ from ours"):
            require_our_texts(model, prompts, others)


def test_a_published_figure_has_no_ratio(tmp_path: Path) -> None:
    """Guards against a comparison of two machines."""
    contenders = tuple(
        Contender(name, "tests.benchmarks.contenders:counting", {"log": str(tmp_path / "log"), "name": name}, ours)
        for name, ours in (("ours", True), ("peer", False))
    )
    comparison = Comparison("training", ("ours",), ("peer",))
    benchmark = Benchmark("trivial", "Nothing much", "tokens", contenders, "ours", (comparison,), PUBLISHED)
    settings = MeasureSettings(rounds=1, seconds=0.01, warm_up=0.01, to=str(tmp_path))
    measure(benchmark, settings, {"float32": 1e12})
    result = Result.load(tmp_path / "trivial.json")
    cell = "published, other machine: 176 – 199/s, 1,289 – 1,452 ms/step; README.md of github.com/karpathy/llm.c"
    line = next(line for line in full_table(result).splitlines() if "M3 Max" in line)
    assert cell in line
    assert " x |" not in line
    assert result.contest(result.comparisons[0])[1] is result.row("peer")
    assert f"M3 Max, OMP_NUM_THREADS=8 ({cell}" in comparison_table([result])
