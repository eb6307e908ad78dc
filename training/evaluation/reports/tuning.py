"""Tune how a translator decodes: score the validation split with several settings and recommend one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tqdm import tqdm

from generation.config import NeighbourConfig, TranslationConfig
from training.evaluation.reports.evaluated_run import Subject
from training.evaluation.reports.result import Result
from training.evaluation.reports.settings import EvaluateSettings
from training.evaluation.reports.translation import (
    Translated,
    limit_resamples,
    options,
    paired,
    pairs_to_retrieve,
    translate_split,
    unusual,
    values_of,
)
from training.evaluation.translation_scores import metrics
from training.run_folder.log import table

PENALTIES = (0.0, 0.4, 0.6, 0.8, 1.0, 1.2, 1.5, 2.0)
"""Values that `tune=length_penalty` tries; the run's own is added."""

WEIGHTS, TEMPERATURES = (0.3, 0.5, 0.8), (0.1, 0.2, 0.4)
"""Values that `tune=neighbours` combines; those that are given are added."""

RETRIEVED = 8
"""Number of pairs to retrieve with `tune=neighbours`, if `neighbours.sentences` is not given."""


def candidates(now: TranslationConfig, tune: str) -> dict[str, TranslationConfig]:
    """Return the configs to compare, including the present one, by the settings of the command line."""
    if tune == "neighbours":
        near = replace(now.neighbours, sentences=now.neighbours.sentences or RETRIEVED)
        weights, temperatures = sorted({*WEIGHTS, near.weight}), sorted({*TEMPERATURES, near.temperature})
        tried = [
            replace(near, weight=weight, temperature=temperature) for weight in weights for temperature in temperatures
        ]
        return {setting(config): replace(now, neighbours=config) for config in (NeighbourConfig(), *tried)}
    penalties = sorted({*PENALTIES, now.length_penalty})
    return {f"length_penalty={penalty:g}": replace(now, length_penalty=penalty) for penalty in penalties}


def setting(near: NeighbourConfig) -> str:
    """Write the settings of a retrieval as on the command line."""
    values = {"weight": near.weight, "temperature": near.temperature} if near.sentences else {}
    return " ".join(f"neighbours.{key}={value:g}" for key, value in {"sentences": near.sentences, **values}.items())


def tuning_report(subject: Subject, settings: EvaluateSettings) -> Result:
    """Score the validation split with each of the candidates and recommend one."""
    present = options(subject, settings)
    tried = candidates(present, str(settings.tune))
    (now,) = (name for name, config in tried.items() if config == present)
    translated: dict[str, Translated] = {}
    used: dict[str, Any] = metrics()
    memory = pairs_to_retrieve(subject, list(tried.values())[-1])
    for name, config in tqdm(tried.items(), desc=f"tune={settings.tune}", leave=False, disable=None):
        examples = translate_split(subject, config, memory if config.neighbours.sentences else None)
        _, references, hypotheses = (list(column) for column in zip(*examples, strict=True))
        translated[name] = Translated(name, hypotheses, references, used)
    resamples = limit_resamples(settings.resamples, len(references))
    figures = {name: result.figures(0) for name, result in translated.items()}
    best = max(tried, key=lambda name: (figures[name]["chrf"].value, name == now))
    rows = [
        [
            name.replace("neighbours.", "") + " (now)" * (name == now) + " *" * (name == best),
            *(f"{figures[name][score].value:.2f}" for score in ("chrf", "bleu", "exact")),
            f"{sum(map(len, result.hypotheses)) / max(1, sum(map(len, result.references))):.3f}",
        ]
        for name, result in translated.items()
    ]
    header = [f"tune={settings.tune}", "chrF", "char-BLEU", "exact, %", "length / references"]
    gain = figures[best]["chrf"].value - figures[now]["chrf"].value
    advice = f"{now}, the present setting, has the highest chrF: keep it"
    p: float | None = None
    if gain > 0:
        p = paired(translated[best], translated[now], used["chrf"], resamples) if resamples else None
        tested = "" if p is None else f" (p = {p:.3f}, the lowest of {len(tried)} values is tested)"
        advice = f"use {best}: chrF is {gain:.2f} higher than with {now}{tested}"
        if p is not None and p >= 0.05:
            chance = f"which may be chance (p = {p:.3f})"
            advice = f"keep {now}: with {best}, chrF is only {gain:.2f} higher, {chance}"
    counted = f"{len(references):,} validation pairs"
    where = f"{subject.name}: {subject.steps}, beam_size={present.beam_size}, {counted}; * highest chrF"
    protocol = {"beam_size": present.beam_size, "tried": list(tried), "sentences": len(references)}
    protocol |= unusual(present)
    scores = {name: values_of(result) for name, result in figures.items()}
    more = {"tried": scores, "best": best, "p_value": p}
    return Result([table(header, rows), "", advice, where], protocol, figures[best], more)
