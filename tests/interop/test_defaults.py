"""Settings that an export repeats, because `interop` does not import `generation`."""

from __future__ import annotations

from generation.config import GenerateConfig
from interop.ctranslate.usage import WRITING
from interop.gguf.export import MODELFILE
from interop.huggingface.generation import writing
from model.config import ModelConfig


def test_exports_sample_with_the_temperature_of_generate() -> None:
    """Guards against a default that changes in generate.py alone."""
    temperature = GenerateConfig().temperature
    assert writing(ModelConfig(), []).temperature == temperature
    assert f"PARAMETER temperature {temperature}\n" in MODELFILE
    assert f'"sampling_temperature": {temperature},' in WRITING
