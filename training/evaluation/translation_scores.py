"""BLEU, chrF and exact match of translations, and of baselines that need no model."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from tqdm import tqdm

from data.training_data import PreparedPairs
from generation.config import TranslationConfig
from generation.neighbours.translation_memory import TranslationMemory, sides
from generation.translation import translate_part
from generation.translation_result import Translation, one_line
from model.encoder_decoder import EncoderDecoder
from training.processes.single_process import SINGLE, Processes


@dataclass(frozen=True)
class Scores:
    """Corpus-level scores of a set of translations, in percent."""

    bleu: float
    """Character-level BLEU (sacreBLEU `tok:char`): Japanese has no spaces, other tokenizers need a dictionary."""
    chrf: float
    """chrF2."""
    exact: float
    """Percentage of translations identical to the reference."""


def metrics() -> dict[str, Any]:
    """Return sacreBLEU's metrics of every test, by the name of their field in `Scores`."""
    from sacrebleu.metrics import BLEU, CHRF  # 6 MB, needed only for translation

    return {"bleu": BLEU(tokenize="char"), "chrf": CHRF()}


def score(hypotheses: list[str], references: list[str]) -> Scores:
    """Score translations against one reference each. Line breaks count as spaces: translations are single lines."""
    hypotheses, references = list(map(one_line, hypotheses)), list(map(one_line, references))
    scores = {name: metric.corpus_score(hypotheses, [references]).score for name, metric in metrics().items()}
    exact = sum(h == r for h, r in zip(hypotheses, references, strict=True)) / max(1, len(references))
    return Scores(**scores, exact=100 * exact)


def signatures() -> str:
    """Return the sacreBLEU signatures, which make the scores reproducible."""
    used = metrics()
    for metric in used.values():
        metric.corpus_score(["あ"], [["あ"]])
    return f"BLEU {used['bleu'].get_signature()} · chrF {used['chrf'].get_signature()}"


COLUMNS = ["source", "reference", "hypothesis"]
"""Columns of the tables of translations."""


def translate_rows(
    model: EncoderDecoder,
    prepared: PreparedPairs,
    rows: dict[str, list[str]],
    config: TranslationConfig,
    processes: Processes = SINGLE,
    memory: TranslationMemory | None = None,
) -> tuple[Scores, list[list[str]], int]:
    """Translate `rows` (columns source and target; `config.reverse` swaps them) and return the scores, the translations
    with `COLUMNS`, and the number of translations that are cut at their maximal length.

    The processes divide the batches among themselves. memory: the pairs to retrieve neighbours from, if any.
    """
    sources, references = sides(rows, config.reverse)

    def part() -> dict[int, Translation]:
        return translate_part(model, prepared.tokenizers, sources, config, processes.rank, processes.world, memory)

    translations = {
        index: translation for of_process in processes.gather(part) for index, translation in of_process.items()
    }
    hypotheses = [translations[index].text for index in range(len(sources))]
    examples = list(map(list, zip(sources, references, hypotheses, strict=True)))
    return score(hypotheses, references), examples, sum(translation.cut for translation in translations.values())


def baselines(prepared: PreparedPairs, sources: list[str], references: list[str]) -> dict[str, Scores]:
    """Return the scores of `baseline_translations`."""
    texts = baseline_translations(prepared, sources)
    return {name: score(hypotheses, references) for name, hypotheses in texts.items()}


def baseline_translations(prepared: PreparedPairs, sources: list[str], reverse: bool = False) -> dict[str, list[str]]:
    """Return translations from the training pairs in a translation memory, by name of the baseline. reverse: as in
    TranslationConfig."""
    train = prepared.rows("train")
    memory = TranslationMemory.of_rows(train, reverse)
    which = "training sentence" if len(memory) == len(train) else f"of {len(memory):,} training sentences"
    bar = tqdm(sources, desc="translation memory", leave=False, disable=None, delay=2)
    nearest = [memory.translate(source) for source in bar]
    constant = [constant_sentence(memory.targets)] * len(sources)
    return {f"nearest {which}": nearest, "most frequent sentence": constant}


def constant_sentence(targets: list[str]) -> str:
    """Return the most frequent training target: the output of a model that ignores its input."""
    return Counter(targets).most_common(1)[0][0]
