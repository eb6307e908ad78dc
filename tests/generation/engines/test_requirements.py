"""What an engine cannot decode is refused with the setting and the fix."""

from __future__ import annotations

from dataclasses import replace

import pytest

from generation.config import GenerateConfig, MBRConfig, NeighbourConfig
from generation.engines import requirements
from generation.engines.requirements import engine_problems
from model.config import ModelConfig

MODEL = ModelConfig()
CTRANSLATE2 = GenerateConfig(engine="ctranslate2")


@pytest.fixture(autouse=True)
def on_a_cpu_with_ctranslate2(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the answers independent of this machine and of what is installed."""
    monkeypatch.setattr(requirements, "find_spec", lambda name: name)
    monkeypatch.setattr(requirements, "on_gpu", lambda device: device not in ("auto", "cpu"))
    monkeypatch.setattr(requirements, "supports", lambda quantize: quantize != "bf16")


LACKING = {
    "min_p": {"min_p": 0.1},
    "repetition_penalty": {"repetition_penalty": 1.2},
    "attention": {"attention": True},
    "n_best": {"n_best": 2},
    "neighbours.sentences": {"neighbours": NeighbourConfig(sentences=8)},
    "mbr.samples": {"mbr": MBRConfig(samples=8)},
    "quantize": {"quantize": "bf16"},
    "device": {"device": "cuda"},
}


@pytest.mark.parametrize("key", LACKING)
def test_a_setting_that_ctranslate2_lacks_is_named(key: str) -> None:
    """Guards against a setting that is silently ignored."""
    assert engine_problems(replace(GenerateConfig(), **LACKING[key]), "gpt", [MODEL]) == []
    (problem,) = engine_problems(replace(CTRANSLATE2, **LACKING[key]), "gpt", [MODEL])
    assert problem.startswith(f"engine=ctranslate2: {key}")
    assert problem.endswith("; leave engine=ctranslate2 out")


def test_models_that_ctranslate2_cannot_compute_are_refused() -> None:
    """Guards against the translations of another model, and of only one model of an ensemble."""
    assert engine_problems(CTRANSLATE2, "gpt", [MODEL]) == []
    assert "ensembles" in engine_problems(CTRANSLATE2, "gpt", [MODEL, MODEL])[0]
    (problem,) = engine_problems(CTRANSLATE2, "translate", [ModelConfig(cross_qk_norm=True)])
    assert problem.startswith("engine=ctranslate2: model.cross_qk_norm=true: ")
    assert "train with" not in problem, "impossible for a model that comes from elsewhere"


def test_int8_is_refused_without_ctranslate2(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against weights that are silently not rounded, and a core installation that does not work."""
    int8 = GenerateConfig(quantize="int8")
    assert "add engine=ctranslate2" in engine_problems(int8, "gpt", [MODEL])[0]
    assert engine_problems(replace(int8, engine="ctranslate2"), "gpt", [MODEL]) == []
    monkeypatch.setattr(requirements, "find_spec", lambda name: None)
    assert engine_problems(GenerateConfig(), "gpt", [MODEL]) == []
    assert "not installed: pip install" in engine_problems(CTRANSLATE2, "gpt", [MODEL])[0]
