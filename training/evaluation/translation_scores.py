"""BLEU, chrF and exact match of translations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from configs.whole_file import write_whole
from data.tokens.tokenizer import Tokenizer
from generation.config import TranslationConfig
from generation.translation import translate_all
from model.encoder_decoder import EncoderDecoder
from training.run_folder.log import table


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


@dataclass(frozen=True)
class TranslationExample:
    """One row of the table shown at each evaluation."""

    source: str
    reference: str
    hypothesis: str


def translate_rows(
    model: EncoderDecoder, tokenizers: list[Tokenizer], rows: dict[str, list[str]], config: TranslationConfig
) -> tuple[Scores, list[TranslationExample]]:
    """Translate `rows` (columns source and target) and return the scores and the examples."""
    hypotheses = translate_all(model, tokenizers, rows["source"], config)
    examples = list(map(TranslationExample, rows["source"], rows["target"], hypotheses))
    return score(hypotheses, rows["target"]), examples


def translation_table(examples: list[TranslationExample]) -> str:
    """Format sources, references and hypotheses as a Markdown table."""
    return table(["source", "reference", "hypothesis"], [[e.source, e.reference, e.hypothesis] for e in examples])


def write_translations(path: Path, examples: list[TranslationExample]) -> None:
    """Write all translations of a split to a TSV file with the header source, reference, hypothesis."""
    rows = ["source\treference\thypothesis", *(f"{e.source}\t{e.reference}\t{e.hypothesis}" for e in examples)]
    write_whole(path, "".join(row + "\n" for row in rows).encode())
