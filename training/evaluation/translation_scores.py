"""BLEU, chrF and exact match of translations."""

from __future__ import annotations

from dataclasses import dataclass

from data.prepared import PreparedPairs
from generation.config import TranslationConfig
from generation.translation import translate_part
from model.encoder_decoder import EncoderDecoder
from training.processes.processes import SINGLE, Processes


@dataclass(frozen=True)
class Scores:
    """Corpus-level scores of a set of translations, in percent."""

    bleu: float
    """Character-level BLEU (sacreBLEU `tok:char`): Japanese has no spaces, other tokenizers need a dictionary."""
    chrf: float
    """chrF2."""
    exact: float
    """Percentage of translations identical to the reference."""


def score(hypotheses: list[str], references: list[str]) -> Scores:
    """Score translations against one reference each."""
    from sacrebleu.metrics import BLEU, CHRF  # 6 MB, needed only for translation

    exact = sum(h == r for h, r in zip(hypotheses, references, strict=True)) / max(1, len(references))
    return Scores(
        BLEU(tokenize="char").corpus_score(hypotheses, [references]).score,
        CHRF().corpus_score(hypotheses, [references]).score,
        100 * exact,
    )


def signatures() -> str:
    """Return the sacreBLEU signatures, which make the scores reproducible."""
    from sacrebleu.metrics import BLEU, CHRF

    bleu, chrf = BLEU(tokenize="char"), CHRF()
    bleu.corpus_score(["あ"], [["あ"]])
    chrf.corpus_score(["あ"], [["あ"]])
    return f"BLEU {bleu.get_signature()} · chrF {chrf.get_signature()}"


COLUMNS = ["source", "reference", "hypothesis"]
"""Columns of the tables of translations."""


def translate_rows(
    model: EncoderDecoder,
    prepared: PreparedPairs,
    rows: dict[str, list[str]],
    config: TranslationConfig,
    processes: Processes = SINGLE,
) -> tuple[Scores, list[list[str]]]:
    """Translate `rows` (columns source and target) and return the scores and the translations with `COLUMNS`.

    The processes divide the batches among themselves.
    """
    sources, references = rows["source"], rows["target"]

    def part() -> dict[int, str]:
        return translate_part(model, prepared.tokenizers, sources, config, processes.rank, processes.world)

    found = {index: text for of_process in processes.gather(part) for index, text in of_process.items()}
    hypotheses = [found[index] for index in range(len(sources))]
    return score(hypotheses, references), list(map(list, zip(sources, references, hypotheses, strict=True)))
