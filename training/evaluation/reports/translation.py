"""Report on a translator: chrF, BLEU and exact matches with intervals, baselines, a paired test."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from configs.errors import UserError
from data.training_data import PreparedPairs
from generation.config import TranslationConfig
from generation.neighbours.translation_memory import TranslationMemory, load_memory
from generation.translation_result import one_line
from model.encoder_decoder import EncoderDecoder
from training.evaluation.reports.bootstrap import Figure, interval, p_value, resampled, verdict
from training.evaluation.reports.evaluated_run import Subject
from training.evaluation.reports.result import Result
from training.evaluation.reports.settings import EvaluateSettings
from training.evaluation.translation_scores import baseline_translations, metrics, translate_rows
from training.run_folder.log import table

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
    """The translations of a split by one system, and the references; line breaks become spaces."""

    name: str
    hypotheses: list[str]
    references: list[str]
    metrics: dict[str, Any]
    """sacreBLEU metrics by score."""

    def __post_init__(self) -> None:
        for side in ("hypotheses", "references"):
            object.__setattr__(self, side, list(map(one_line, getattr(self, side))))

    def figures(self, resamples: int) -> dict[str, Figure]:
        """Return all scores; with `resamples`, also their intervals."""
        scores = {}
        for name, metric in self.metrics.items():
            score = metric.corpus_score(self.hypotheses, [self.references], n_bootstrap=max(1, resamples))
            signature = str(metric.get_signature())
            scores[name] = Figure(score.score, signature=signature)
            if resamples:
                scores[name] = Figure(score.score, score._mean - score._ci, score._mean + score._ci, signature)
        scores["exact"] = Figure(float(self.exact.mean()))
        if resamples:
            drawn = [total / len(self.exact) for (total,) in resampled([self.exact], resamples)]
            scores["exact"] = Figure(scores["exact"].value, *interval(drawn))
        return scores

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
    chosen = {name: metrics()[name] for name in ("chrf", "bleu")}
    if not most(references, lambda text: _KANA.search(text) is not None):
        return chosen | {"bleu_13a": BLEU()}, notes
    if most(references, lambda text: " " in text):
        chosen["bleu_tokens"] = BLEU(tokenize="none", force=True)  # force: no warning that the text is tokenised
    try:
        chosen["bleu_mecab"] = BLEU(tokenize="ja-mecab")
    except (ImportError, RuntimeError):
        notes.append(NO_MECAB)
    return chosen, notes


def most(texts: list[str], holds: Any) -> bool:
    """Whether a condition holds for more than half of the texts."""
    return sum(map(holds, texts)) > len(texts) / 2


def options(subject: Subject, settings: EvaluateSettings) -> TranslationConfig:
    """Return how to decode: as given, else as in the test at the end of training."""
    trainer = subject.config.trainer
    beam = trainer.beam_size if settings.beam_size is None else settings.beam_size
    penalty = trainer.length_penalty if settings.length_penalty is None else settings.length_penalty
    return TranslationConfig(beam, penalty, reverse=settings.reverse, neighbours=settings.neighbours, mbr=settings.mbr)


def pairs_to_retrieve(subject: Subject, config: TranslationConfig) -> TranslationMemory | None:
    """Return the training pairs in which neighbours are looked for; None without retrieval. Raises UserError."""
    if config.neighbours.sentences and config.neighbours.path is None:
        if "train" not in subject.prepared.splits:
            raise UserError("neighbours.sentences: the training pairs are not there; set data.path or neighbours.path")
        return TranslationMemory.of_rows(subject.prepared.rows("train"), config.reverse)
    return load_memory(subject.config.data, config.neighbours, config.reverse)


def translate_split(
    subject: Subject, config: TranslationConfig, memory: TranslationMemory | None, notes: list[str] | None = None
) -> list[list[str]]:
    """Translate the split -> source, reference and hypothesis of each row. memory: from `pairs_to_retrieve`. `notes`
    gets the number of cut translations."""
    assert isinstance(subject.model, EncoderDecoder)
    assert isinstance(subject.prepared, PreparedPairs)
    rows = subject.prepared.rows(subject.split)[:]
    _, examples, cut = translate_rows(subject.model, subject.prepared, rows, config, memory=memory)
    if cut and notes is not None:
        count = f"{cut:,} of {len(examples):,} translations"
        notes.append(f"{subject.name}: {count} did not end and are cut at their maximal length")
    return examples


def limit_resamples(resamples: int, sentences: int) -> int:
    """Limit the resamples of many sentences, all of which sacreBLEU holds in memory: 72 bytes per sentence and
    resample."""
    return min(resamples, max(100, 10**7 // max(1, sentences)))


def translation_report(subject: Subject, other: Subject | None, settings: EvaluateSettings) -> Result:
    """Score a translator and the baselines, and compare it with another translator if there is one."""
    config = options(subject, settings)
    cut: list[str] = []
    examples = translate_split(subject, config, pairs_to_retrieve(subject, config), cut)
    sources, references, hypotheses = (list(column) for column in zip(*examples, strict=True))
    used, notes = all_metrics(references)
    resamples = limit_resamples(settings.resamples, len(references))
    mine = Translated(subject.name, hypotheses, references, used)
    figures = mine.figures(resamples)
    rows = [row(subject.label("run"), figures)]
    more: dict[str, Any] = {}
    words: list[str] = []
    if other is not None:
        their_config = options(other, settings)
        memory = pairs_to_retrieve(other, their_config)
        texts = [text for _, _, text in translate_split(other, their_config, memory, cut)]
        their = Translated(other.name, texts, references, used)
        scored = their.figures(resamples)
        rows.append(row(other.label("compare"), scored))
        words, tests = compared(mine, their, figures, scored, resamples)
        more["compared_with"] = {"model": other.identity(), "scores": values_of(scored), "tests": tests}
        words = [described(other, "compare", their_config), *words]
    assert isinstance(subject.prepared, PreparedPairs)
    of_baselines = {}
    if "train" in subject.prepared.splits:
        translations = baseline_translations(subject.prepared, sources, config.reverse)
        of_baselines = {
            name: Translated(name, texts, references, used).figures(0) for name, texts in translations.items()
        }
    rows += [row(name, translations) for name, translations in of_baselines.items()]
    header = [f"{subject.split}: {len(references):,} pairs", *(LABELS[name] for name in figures)]
    lines = [table(header, rows), "", described(subject, "run", config), *words]
    if resamples:
        lines.append(f"±: 95 % interval, bootstrap over sentences, {resamples:,} resamples")
    lines += [f"{LABELS[name]}: {figure.signature}" for name, figure in figures.items() if figure.signature]
    more["baselines"] = {name: values_of(translations) for name, translations in of_baselines.items()}
    more["translations"] = [
        dict(zip(("source", "reference", "hypothesis"), example, strict=True)) for example in examples
    ]
    protocol = {"beam_size": config.beam_size, "length_penalty": config.length_penalty, "resamples": resamples}
    protocol |= {"sentences": len(references)} | unusual(config)
    return Result([*lines, *notes, *cut], protocol, figures, more)


def unusual(config: TranslationConfig) -> dict[str, Any]:
    """Return the settings of retrieval, MBR decoding and direction for the protocol, if they are not the usual ones."""
    settings = {"neighbours": asdict(config.neighbours)} if config.neighbours.sentences else {}
    settings |= {"mbr": asdict(config.mbr)} if config.mbr.samples else {}
    return settings | ({"reverse": True} if config.reverse else {})


def described(subject: Subject, role: str, config: TranslationConfig) -> str:
    """Describe a row of the table: the run, the step and how it decodes."""
    name = subject.name if subject.label(role) != role else f"{role}: {subject.name}"
    near = config.neighbours
    retrieved = f", {near.sentences} neighbours: weight={near.weight:g}, temperature={near.temperature:g}"
    decoding = f"beam_size={config.beam_size}, length_penalty={config.length_penalty:g}"
    direction = ", reverse" * config.reverse
    sampled = f", MBR: samples={config.mbr.samples}, epsilon={config.mbr.epsilon:g}" * (config.mbr.samples > 0)
    return f"{name}: {subject.steps}, {decoding}{direction}{retrieved * (near.sentences > 0)}{sampled}"


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
    _, scores = PairedTest(systems, {"metric": metric}, [mine.references], "bs", resamples)()
    (results,) = (values for name, values in scores.items() if name != "System")
    assert isinstance(results[1], SignificanceResult)
    assert results[1].p_value is not None
    return float(results[1].p_value)
