"""Settings that each engine lacks. This module imports neither torch nor CTranslate2 until it must."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from generation.config import GenerateConfig
from interop.ctranslate.limits import refusals
from model.config import ModelConfig

INSTALL = "needs CTranslate2, which is not installed: pip install 'chumoku[engine]' (in a checkout: '.[engine]')"

FORMATS = {None: "float32", "float32": "float32", "bf16": "bfloat16", "int8": "int8"}
"""CTranslate2's name of each weight format."""


def engine_problems(config: GenerateConfig, task: str, models: Sequence[ModelConfig]) -> list[str]:
    """Return one sentence for each reason why `config.engine` cannot decode with these settings.

    models: of the run, or of the runs of an ensemble.
    """
    if config.engine == "torch":
        eight = config.quantize == "int8"
        return (
            ["quantize=int8: torch has no fast int8 weights; add engine=ctranslate2, or use quantize=bf16"]
            if eight
            else []
        )
    if find_spec("ctranslate2") is None:
        return [f"engine=ctranslate2 {INSTALL}"]
    reasons = [*refusals(models[0], task), *lacking(config, len(models))]
    # The model may come from elsewhere, so training it with other settings is no advice.
    return [f"engine=ctranslate2: {reason}; leave engine=ctranslate2 out" for reason in reasons]


def lacking(config: GenerateConfig, models: int) -> list[str]:
    """Return one sentence for each setting that CTranslate2, or its use here, lacks."""
    rules = (
        (models > 1, "run: CTranslate2 has no ensembles"),
        (on_gpu(config.device), f"device={config.device}: CTranslate2 is used on a CPU only (device=cpu)"),
        (config.attention, "attention=true: only torch records attention maps"),
        (config.min_p is not None, f"min_p={config.min_p}: CTranslate2 has no such setting"),
        (
            config.repetition_penalty != 1.0,
            f"repetition_penalty={config.repetition_penalty}: CTranslate2 also penalises the end of a text",
        ),
        (config.n_best > 1, f"n_best={config.n_best}: only torch lists several hypotheses"),
        (config.neighbours.sentences > 0, "neighbours.sentences: CTranslate2 does not retrieve neighbours"),
        (config.mbr.samples > 0, f"mbr.samples={config.mbr.samples}: CTranslate2 has no minimum Bayes risk decoding"),
        (not supports(config.quantize), f"quantize={config.quantize}: CTranslate2 lacks this format on this CPU"),
    )
    return [reason for broken, reason in rules if broken]


def on_gpu(device: str) -> bool:
    """Whether the setting `device` means a GPU on this machine."""
    if device == "auto":
        import ctranslate2

        return bool(ctranslate2.get_cuda_device_count())
    return device != "cpu"


def supports(quantize: str | None) -> bool:
    """Whether CTranslate2 has a weight format on this CPU."""
    if quantize in (None, "float32"):
        return True
    import ctranslate2

    return FORMATS[quantize] in ctranslate2.get_supported_compute_types("cpu")
