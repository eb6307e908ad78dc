"""When training is compiled, and that compiled training computes the same."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.compiler.config
from omegaconf import OmegaConf

from configs.compose import compose_config
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from tests.conftest import ROOT, TINY, environment
from train import train
from training.config import TrainConfig
from training.hardware import compilation
from training.hardware.device import Hardware

CPU = Hardware(torch.device("cpu"), torch.bfloat16, None, "cpu")


def configured(**trainer: object) -> TrainConfig:
    """Return the default configuration with other settings of the trainer."""
    config = TrainConfig()
    for name, value in trainer.items():
        setattr(config.trainer, name, value)
    return config


def test_only_runs_that_earn_it_back_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a minute of compilation before half a minute of training, and against ignoring the shorter
    budget."""
    monkeypatch.setattr(compilation, "has_compiler", lambda: True)

    def compiles(config: TrainConfig) -> bool:
        return compilation.decide(config, CPU, flops_per_token=6e6)[0]

    assert not compiles(configured(steps=100))
    assert compiles(configured(steps=100_000))
    assert compiles(configured(steps=None, minutes=10.0))
    assert not compiles(configured(steps=100_000, minutes=1.0))
    deep = configured(steps=None, minutes=10.0)
    deep.model.layers = 24  # code for each layer is made anew: it takes minutes
    assert not compiles(deep)
    assert not compiles(configured(steps=100_000, compile="off"))
    assert compiles(configured(steps=1, compile="on"))
    monkeypatch.setattr(compilation, "has_compiler", lambda: False)
    assert not compiles(configured(steps=100_000))


@pytest.mark.slow
def test_code_on_disk_is_that_of_the_same_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against loops written for AVX2 that are found in the cache and compiled for AVX-512: they overrun their
    buffers."""
    tags = set()
    for vectors in ("default", "avx2", "avx512"):
        monkeypatch.setenv("ATEN_CPU_CAPABILITY", vectors)
        compilation.compiled_loss(GPT(ModelConfig(layers=1, heads=1, width=8, context=8), 16))
        tags.add(torch.compiler.config.cache_key_tag)
    assert len(tags) >= 2
    assert all(tags)


def test_cuda_graphs_are_for_small_models_of_one_shape() -> None:
    """Guards against a graph per sentence length, and a graph that keeps another copy of a large model's
    activations."""
    shape, cuda = ModelConfig(layers=1, heads=2, width=32), torch.device("cuda")
    small = GPT(shape, 50)
    assert compilation.uses_graphs(small, cuda)
    assert not compilation.uses_graphs(small, torch.device("cpu"))
    assert not compilation.uses_graphs(EncoderDecoder(shape, 50, 50), cuda)
    assert not compilation.uses_graphs(GPT(shape, 1_000_000), cuda)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["gpt", "translate"])
def test_without_a_compiler_a_run_continues_uncompiled(task: str, tmp_path: Path, book: Path) -> None:
    """Guards against a traceback for `trainer.compile=on` on a machine without a C++ compiler, or without PATH."""
    data = ["data=text", f"data.path={book}", "tokenizer=char"] if task == "gpt" else ["task=translate"]
    settings = [*TINY, *data, "trainer.test=false", "attention=off", "trainer.compile=on"]
    bare = environment() | {"PATH": "/nonexistent", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, str(ROOT / "train.py"), *settings], cwd=tmp_path, env=bare, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("warning: torch.compile failed (No working C++ compiler found") == 1
    assert "Traceback" not in done.stderr


@pytest.mark.long
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
@pytest.mark.parametrize("task", ["gpt", "translate"])
def test_compiled_training_follows_the_eager_one(tmp_path: Path, task: str) -> None:
    """Guards against a compiled step that computes something else, and a failed compilation reported as a success."""
    losses = {}
    for choice in ("off", "on"):
        config, problems = compose_config(
            "train",
            TrainConfig,
            [
                f"task={task}",
                f"runs={tmp_path}",
                f"name={choice}",
                f"data.cache={tmp_path}/cache",
                "data.sentences=300",
                "data.stories=200",
                "tokenizer.vocab_size=600",
                "model.layers=2",
                "model.width=32",
                "model.heads=2",
                "model.context=64",
                "trainer.steps=12",
                "trainer.evaluate_every=12",
                "trainer.log_every=4",
                "trainer.test=false",
                "trainer.samples=0",
                "trainer.evaluate_sentences=4",
                "attention.examples=0",
                "trainer.precision=float32",
                f"trainer.compile={choice}",
                "schedule.warmup=2",
            ],
        )
        assert not problems
        losses[choice] = train(OmegaConf.to_object(config))
        log = (tmp_path / choice / "log.txt").read_text()
        assert f"torch.compile: {choice}" in log
        assert compilation.UNCOMPILED not in log
        assert ("compiled step: equals the uncompiled one" in log) == (choice == "on")
    assert losses["on"] == pytest.approx(losses["off"], rel=2e-3)
