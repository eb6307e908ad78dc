"""Choose the library that decodes. This module imports neither torch nor CTranslate2 until it must."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec

from configs.errors import UserError
from generation.config import GenerateConfig
from interop.ctranslate.limits import refusals
from model.config import ModelConfig

INSTALL = "which is not installed: pip install 'chumoku[engine]' (in a checkout: '.[engine]')"

FORMATS = {None: "float32", "float32": "float32", "bf16": "bfloat16", "int8": "int8"}
"""CTranslate2's name of each weight format."""

MOST_PARAMETERS = 20_000_000
"""Size of a GPT up to which `auto` uses CTranslate2 for one text."""


def choose_engine(config: GenerateConfig, task: str, models: Sequence[ModelConfig], parameters: int) -> str:
    """Return `torch` or `ctranslate2`; prints a line to standard error if CTranslate2 lacks a setting of the user.

    models: of the run, or of the runs of an ensemble. parameters: number of weights of the (first) model. Raises
    UserError if a setting asks for CTranslate2 and it cannot do that.
    """
    eight = config.quantize == "int8"
    if config.engine == "torch":
        if eight:
            raise UserError("quantize=int8: torch has no fast int8 weights; use engine=ctranslate2, or quantize=bf16")
        return "torch"
    asked = "quantize=int8" if eight else "engine=ctranslate2" if config.engine == "ctranslate2" else None
    if find_spec("ctranslate2") is None:
        if asked:
            raise UserError(f"{asked} needs CTranslate2, {INSTALL}")
        return "torch"
    if not asked and (on_gpu(config.device) or torch_is_better(config, task, parameters)):
        return "torch"
    never, now = list(refusals(models[0], task)), lacking(config, len(models))
    if reasons := never + now:
        if eight or (asked and never):
            # The model may come from elsewhere, so training it with other settings is no advice.
            fix = "use engine=torch without it, or quantize=bf16" if eight else "use engine=torch or engine=auto"
            raise UserError(*(f"{asked}: {reason}; {fix}" for reason in reasons))
        if not never:  # a model that only torch computes needs no note in each of its answers
            print(f"note: decoded by torch: {'; '.join(reasons)}", file=sys.stderr)
        return "torch"
    return "ctranslate2"


def lacking(config: GenerateConfig, models: int) -> list[str]:
    """Return one sentence for each setting that CTranslate2, or its use here, lacks."""
    rules = (
        (models > 1, "run: CTranslate2 has no ensembles"),
        (on_gpu(config.device), f"device={config.device}: CTranslate2 is used on a CPU only; add device=cpu"),
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
    return [reason for holds, reason in rules if holds]


def torch_is_better(config: GenerateConfig, task: str, parameters: int) -> bool:
    """Whether `auto` prefers torch although CTranslate2 could decode: for several samples, which only torch seeds one
    by one, and for a large GPT, whose matrix products torch computes faster (docs/speed.md)."""
    several = config.samples > 1 and config.temperature > 0
    return task == "gpt" and (several or parameters > MOST_PARAMETERS)


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
