"""Which library decodes: what the user asked for, else CTranslate2 where it has everything and is no slower."""

from __future__ import annotations

from dataclasses import replace

import pytest

from configs.errors import UserError
from generation.config import GenerateConfig, MBRConfig, NeighbourConfig
from generation.engines import choice
from generation.engines.choice import MOST_PARAMETERS, choose_engine
from model.config import ModelConfig

SMALL = 1_000_000
MODEL = ModelConfig()
REFUSED = ModelConfig(cross_qk_norm=True)


@pytest.fixture(autouse=True)
def on_a_cpu_with_ctranslate2(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the answers independent of this machine and of what is installed."""
    monkeypatch.setattr(choice, "find_spec", lambda name: name)
    monkeypatch.setattr(choice, "on_gpu", lambda device: device not in ("auto", "cpu"))
    monkeypatch.setattr(choice, "supports", lambda quantize: quantize != "bf16")


def chosen(config: GenerateConfig, task: str = "gpt", model: ModelConfig = MODEL, size: int = SMALL) -> str:
    return choose_engine(config, task, [model], size)


def test_auto_takes_the_faster_one_without_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against a slower engine, and seeds of several samples that lose their meaning."""
    auto = GenerateConfig()
    assert chosen(auto) == "ctranslate2"
    assert chosen(auto, size=MOST_PARAMETERS + 1) == "torch"
    assert chosen(replace(auto, samples=2)) == "torch"
    assert chosen(replace(auto, samples=2, temperature=0)) == "ctranslate2"
    assert chosen(replace(auto, device="cuda")) == "torch"
    assert chosen(auto, "translate", MODEL, MOST_PARAMETERS + 1) == "ctranslate2"
    assert capsys.readouterr().err == ""


LACKING = {
    "min_p": GenerateConfig(min_p=0.1),
    "repetition_penalty": GenerateConfig(repetition_penalty=1.2),
    "attention": GenerateConfig(attention=True),
    "n_best": GenerateConfig(n_best=2),
    "neighbours.sentences": GenerateConfig(neighbours=NeighbourConfig(sentences=8)),
    "mbr.samples": GenerateConfig(mbr=MBRConfig(samples=8)),
    "quantize": GenerateConfig(quantize="bf16"),
}


@pytest.mark.parametrize("key", LACKING)
@pytest.mark.parametrize("engine", ["auto", "ctranslate2"])
def test_a_setting_that_ctranslate2_lacks_is_named_and_torch_decodes(
    key: str, engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against a setting that is silently ignored."""
    assert chosen(replace(LACKING[key], engine=engine)) == "torch"
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"note: decoded by torch: {key}")


def test_an_ensemble_is_decoded_by_torch(capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against only one of the models that decodes."""
    assert choose_engine(GenerateConfig(), "gpt", [MODEL, MODEL], SMALL) == "torch"
    assert "ensembles" in capsys.readouterr().err


def test_a_model_that_ctranslate2_cannot_compute_is_decoded_by_torch_or_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Guards against the translations of another model, and a note in each answer of a model that only torch has."""
    assert chosen(GenerateConfig(), "translate", REFUSED) == "torch"
    assert capsys.readouterr().err == ""
    for asked in (GenerateConfig(engine="ctranslate2"), GenerateConfig(quantize="int8")):
        named = r"(engine=ctranslate2|quantize=int8): model\.cross_qk_norm=true: .*; use engine=torch"
        with pytest.raises(UserError, match=named) as error:
            chosen(asked, "translate", REFUSED)
        assert "train with" not in str(error.value), "impossible for a model that comes from elsewhere"


def test_what_is_asked_for_is_taken() -> None:
    """Guards against an engine of its own choice."""
    large = MOST_PARAMETERS + 1
    assert chosen(GenerateConfig(engine="torch")) == "torch"
    assert chosen(GenerateConfig(engine="ctranslate2", samples=2), size=large) == "ctranslate2"
    assert chosen(GenerateConfig(quantize="int8", samples=2), size=large) == "ctranslate2"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (GenerateConfig(quantize="int8", engine="torch"), "torch has no fast int8 weights; use engine=ctranslate2"),
        (GenerateConfig(quantize="int8", min_p=0.1), "quantize=int8: min_p=0.1"),
        (GenerateConfig(quantize="int8", device="cuda"), "quantize=int8: device=cuda"),
    ],
)
def test_int8_that_cannot_be_done_is_refused(config: GenerateConfig, message: str) -> None:
    """Guards against weights that are silently not rounded."""
    with pytest.raises(UserError, match=message):
        chosen(config)


def test_without_ctranslate2_torch_decodes_and_int8_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against a core installation that does not work, and a note in each of its answers."""
    monkeypatch.setattr(choice, "find_spec", lambda name: None)
    assert chosen(GenerateConfig()) == chosen(GenerateConfig(min_p=0.1)) == "torch"
    assert capsys.readouterr().err == ""
    for asked in (GenerateConfig(engine="ctranslate2"), GenerateConfig(quantize="int8")):
        with pytest.raises(UserError, match=r"needs CTranslate2, which is not installed: pip install"):
            chosen(asked)
