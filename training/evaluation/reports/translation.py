"""Report on a translator: chrF, BLEU and exact matches with intervals, baselines, a paired test, a tuned setting."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tqdm import tqdm

from data.prepared import PreparedPairs
from generation.config import TranslationConfig
from model.encoder_decoder import EncoderDecoder
from training.evaluation.reports.bootstrap import Figure, interval, p_value, resampled, verdict
from training.evaluation.reports.result import Result
from training.evaluation.reports.settings import EvaluateSettings
from training.evaluation.reports.subject import Subject
from training.evaluation.translation_baselines import baseline_translations
from training.evaluation.translation_scores import metrics, translate_rows
from training.run_folder.log import table

PENALTIES = (0.0, 0.4, 0.6, 0.8, 1.0, 1.2, 1.5, 2.0)
"""Values that `tune=length_penalty` tries; the run's own is added."""

LABELS = {
    "chrf": "chrF",
    "bleu": "char-BLEU",
    "bleu_tokens": "BLEU, tokens",
    "bleu_mecab": "MeCab-BLEU",
    "bleu_13a": "BLEU",
}
LABELS |= {"exact": "exact, %"}
"""Column header of each score."""

NO_MECAB = "MeCab-BLEU, on words found by a dictionary, needs an extra package: pip install 'sacrebleu[ja]'"

_KANA = re.compile("[\u3041-\u30ff]")


@dataclass(frozen=True)
class Translated:
    """The translations of a split by one system."""

    name: str
    hypotheses: list[str]
    references: list[str]
    metrics: dict[str, Any]
    """sacreBLEU metrics by score."""

    def figures(self, resamples: int) -> dict[str, Figure]:
        """Return all scores; with `resamples`, also their intervals."""
        found = {}
        for name, metric in self.metrics.items():
            score = metric.corpus_score(self.hypotheses, [self.references], n_bootstrap=max(1, resamples))
            signature = str(metric.get_signature())
            found[name] = Figure(score.score, signature=signature)
            if resamples:
                found[name] = Figure(score.score, score._mean - score._ci, score._mean + score._ci, signature)
        found["exact"] = Figure(float(self.exact.mean()))
        if resamples:
            drawn = [total / len(self.exact) for (total,) in resampled([self.exact], resamples)]
            found["exact"] = Figure(found["exact"].value, *interval(drawn))
        return found

    @property
    def exact(self) -> np.ndarray:
        """Return 100 for each translation that equals its reference, else 0."""
        return np.array([100.0 * (h == r) for h, r in zip(self.hypotheses, self.references, strict=True)])


def all_metrics(references: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Return sacreBLEU's metrics that fit the language of the references, and notes on missing ones.

    Japanese has no spaces: characters; the given tokens, if the references are tokenised; words of MeCab. Other
    languages: sacreBLEU's standard tokenizer, 13a.
    """
    from sacrebleu.metrics import BLEU

    notes: list[str] = []
    found = {name: metrics()[name] for name in ("chrf", "bleu")}
    if not most(references, lambda text: _KANA.search(text) is not None):
        return found | {"bleu_13a": BLEU()}, notes
    if most(references, lambda text: " " in text):
        found["bleu_tokens"] = BLEU(tokenize="none", force=True)  # force: no warning that the text is tokenised
    try:
        found["bleu_mecab"] = BLEU(tokenize="ja-mecab")
    except (ImportError, RuntimeError):
        notes.append(NO_MECAB)
    return found, notes


def most(texts: list[str], holds: Any) -> bool:
    """Whether a condition holds for more than half of the texts."""
    return sum(map(holds, texts)) > len(texts) / 2


def options(subject: Subject, settings: EvaluateSettings) -> TranslationConfig:
    """Return how to decode: as given, else as in the test at the end of training."""
    trainer = subject.config.trainer
    beam = trainer.beam_size if settings.beam_size is None else settings.beam_size
    penalty = trainer.length_penalty if settings.length_penalty is None else settings.length_penalty
    return TranslationConfig(beam, penalty)


def translate_split(subject: Subject, config: TranslationConfig, notes: list[str] | None = None) -> list[list[str]]:
    """Translate the split -> source, reference and hypothesis of each row. `notes` gets the number of cut
    translations."""
    assert isinstance(subject.model, EncoderDecoder)
    assert isinstance(subject.prepared, PreparedPairs)
    rows = subject.prepared.rows(subject.split)[:]
    _, examples, cut = translate_rows(subject.model, subject.prepared, rows, config)
    if cut and notes is not None:
        count = f"{cut:,} of {len(examples):,} translations"
        notes.append(f"{subject.name}: {count} did not end and are cut at their maximal length")
    return examples


def fewer(resamples: int, sentences: int) -> int:
    """Limit the resamples of many sentences, all of which sacreBLEU holds in memory: 72 bytes per sentence and
    resample."""
    return min(resamples, max(100, 10**7 // max(1, sentences)))


def translation_report(subject: Subject, other: Subject | None, settings: EvaluateSettings) -> Result:
    """Score a translator and the baselines, and compare it with another translator if there is one."""
    config = options(subject, settings)
    cut: list[str] = []
    examples = translate_split(subject, config, cut)
    sources, references, hypotheses = (list(column) for column in zip(*examples, strict=True))
    used, notes = all_metrics(references)
    resamples = fewer(settings.resamples, len(references))
    mine = Translated(subject.name, hypotheses, references, used)
    figures = mine.figures(resamples)
    rows = [row(subject.label("run"), figures)]
    more: dict[str, Any] = {}
    words: list[str] = []
    if other is not None:
        their_config = options(other, settings)
        texts = [text for _, _, text in translate_split(other, their_config, cut)]
        their = Translated(other.name, texts, references, used)
        scored = their.figures(resamples)
        rows.append(row(other.label("compare"), scored))
        words, tests = compared(mine, their, figures, scored, resamples)
        more["compared_with"] = {"model": other.identity(), "scores": values_of(scored), "tests": tests}
        words = [described(other, "compare", their_config), *words]
    assert isinstance(subject.prepared, PreparedPairs)
    of_baselines = {
        name: Translated(name, texts, references, used).figures(0)
        for name, texts in baseline_translations(subject.prepared, sources).items()
    }
    rows += [row(name, found) for name, found in of_baselines.items()]
    header = [f"{subject.split}: {len(references):,} pairs", *(LABELS[name] for name in figures)]
    lines = [table(header, rows), "", described(subject, "run", config), *words]
    if resamples:
        lines.append(f"±: 95 % interval, bootstrap over sentences, {resamples:,} resamples")
    lines += [f"{LABELS[name]}: {figure.signature}" for name, figure in figures.items() if figure.signature]
    more["baselines"] = {name: values_of(found) for name, found in of_baselines.items()}
    more["translations"] = [dict(zip(("source", "reference", "hypothesis"), each, strict=True)) for each in examples]
    protocol = {"beam_size": config.beam_size, "length_penalty": config.length_penalty, "resamples": resamples}
    return Result([*lines, *notes, *cut], protocol | {"sentences": len(references)}, figures, more)


def described(subject: Subject, role: str, config: TranslationConfig) -> str:
    """Describe a row of the table: the run, the step and how it decodes."""
    name = subject.name if subject.label(role) != role else f"{role}: {subject.name}"
    return f"{name}: {subject.steps}, beam_size={config.beam_size}, length_penalty={config.length_penalty:g}"


def row(name: str, figures: dict[str, Figure]) -> list[str]:
    """Format the scores of one system as a row of the table."""
    return [name, *(short(figure) for figure in figures.values())]


def short(figure: Figure) -> str:
    """Format a score and half the width of its interval."""
    if figure.low is None or figure.high is None:
        return f"{figure.value:.1f}"
    return f"{figure.value:.1f} ± {(figure.high - figure.low) / 2:.1f}"


def values_of(figures: dict[str, Figure]) -> dict[str, Any]:
    """Return the entries of figures in the output file."""
    return {name: {"value": figure.value, "low": figure.low, "high": figure.high} for name, figure in figures.items()}


def compared(
    mine: Translated, their: Translated, figures: dict[str, Figure], scored: dict[str, Figure], resamples: int
) -> tuple[list[str], dict[str, float]]:
    """Run sacreBLEU's paired bootstrap test for each metric, and the same for exact matches -> (lines, p-values)."""
    tests = {name: paired(mine, their, metric, resamples) for name, metric in mine.metrics.items()}
    drawn = [(a - b) / len(mine.exact) for a, b in resampled([mine.exact, their.exact], resamples)]
    tests["exact"] = p_value(figures["exact"].value - scored["exact"].value, drawn)
    lines = [
        verdict(LABELS[name].removesuffix(", %"), mine.name, their.name, value, "points", tests[name])
        for name, value in ((name, figures[name].value - scored[name].value) for name in figures)
    ]
    return lines, tests


def paired(mine: Translated, their: Translated, metric: Any, resamples: int) -> float:
    """Return the p-value of sacreBLEU's paired bootstrap test of two systems."""
    from sacrebleu.significance import PairedTest
    from sacrebleu.significance import Result as SignificanceResult

    systems: list[tuple[str, Sequence[str]]] = [("first", their.hypotheses), ("second", mine.hypotheses)]
    _, found = PairedTest(systems, {"metric": metric}, [mine.references], "bs", resamples)()
    (results,) = (values for name, values in found.items() if name != "System")
    assert isinstance(results[1], SignificanceResult)
    assert results[1].p_value is not None
    return float(results[1].p_value)


def tuning_report(subject: Subject, settings: EvaluateSettings) -> Result:
    """Score the validation split with several length penalties and recommend one."""
    now = options(subject, settings)
    penalties = sorted({*PENALTIES, now.length_penalty})
    found: dict[float, Translated] = {}
    used: dict[str, Any] = {}
    for penalty in tqdm(penalties, desc="length_penalty", leave=False, disable=None):
        examples = translate_split(subject, TranslationConfig(now.beam_size, penalty))
        references = [reference for _, reference, _ in examples]
        used = used or metrics()
        found[penalty] = Translated(f"{penalty:g}", [text for _, _, text in examples], references, used)
    resamples = fewer(settings.resamples, len(references))
    figures = {penalty: each.figures(0) for penalty, each in found.items()}
    best = max(penalties, key=lambda penalty: (figures[penalty]["chrf"].value, -abs(penalty - now.length_penalty)))
    rows = [
        [
            f"{penalty:g}" + (" (now)" if penalty == now.length_penalty else "") + (" *" if penalty == best else ""),
            *(f"{figures[penalty][name].value:.2f}" for name in ("chrf", "bleu", "exact")),
            f"{sum(map(len, each.hypotheses)) / max(1, sum(map(len, each.references))):.3f}",
        ]
        for penalty, each in found.items()
    ]
    header = ["length_penalty", "chrF", "char-BLEU", "exact, %", "length of the translations / references"]
    gain = figures[best]["chrf"].value - figures[now.length_penalty]["chrf"].value
    advice = f"length_penalty={now.length_penalty:g}, the present one, has the highest chrF: keep it"
    p: float | None = None
    if gain > 0:
        p = paired(found[best], found[now.length_penalty], used["chrf"], resamples) if resamples else None
        tested = "" if p is None else f" (p = {p:.3f}, the lowest of {len(penalties)} values is tested)"
        advice = f"use length_penalty={best:g}: chrF is {gain:.2f} higher than with {now.length_penalty:g}{tested}"
        if p is not None and p >= 0.05:
            advice = (
                f"keep length_penalty={now.length_penalty:g}: with {best:g}, chrF is only {gain:.2f} higher, which may"
                f" be chance (p = {p:.3f})"
            )
    lines = [
        table(header, rows),
        "",
        advice,
        f"{subject.name}: {subject.steps}, beam_size={now.beam_size}, {len(references):,} validation pairs;"
        " * highest chrF",
    ]
    protocol = {"beam_size": now.beam_size, "length_penalties": penalties, "sentences": len(references)}
    more = {"length_penalties": {f"{penalty:g}": values_of(each) for penalty, each in figures.items()}, "best": best}
    return Result(lines, protocol, figures[best], more | {"p_value": p})
