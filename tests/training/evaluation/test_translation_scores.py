"""Translation scores and baselines."""

import pytest

from data.config import TokenizerConfig
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from generation.translation_result import decoded
from training.evaluation.reports.translation import Translated, all_metrics
from training.evaluation.translation_scores import constant_sentence, score, signatures


def test_bleu_counts_characters_and_names_it() -> None:
    """Guards against sacreBLEU's default tokenizer, for which a Japanese sentence is one word and every score 0 or
    100."""
    near = score(["彼は本を読みます。"] * 3, ["彼は本を読みました。"] * 3)
    assert 50 < near.bleu < 90
    assert near.exact == 0
    assert score(["彼は本を読みます。"], ["彼は本を読みます。"]).bleu > 99.9
    assert "tok:char" in signatures()
    assert "chrF" in signatures()


def decoded_text(text: str) -> str:
    """Return what a model writes that predicts every token of a text."""
    tokenizer = SentencePieceTokenizer.train([text], TokenizerConfig("char"))
    return decoded(tokenizer.encode(text), 0.0, tokenizer, 99).text


def test_exact_match_is_a_share_in_percent() -> None:
    """Guards against a fraction reported as a count."""
    assert score(["あ", "い", "う", "え"], ["あ", "い", "う", "お"]).exact == 75


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r", "-\n"])
def test_a_line_break_inside_a_reference_is_a_space(line_break: str) -> None:
    """Guards against a perfect model with 0 % exact: translations are written on one line."""
    reference = f"ab{line_break}cd\tef gh ij"
    perfect = decoded_text(reference)
    assert perfect == f"ab{line_break[:-1].strip()} cd\tef gh ij"
    assert score([perfect], [reference]).exact == 100
    figures = Translated("run", [perfect], [reference], all_metrics([reference])[0]).figures(0)
    assert {name: figure.value for name, figure in figures.items()} == pytest.approx(
        {"chrf": 100, "bleu": 100, "bleu_13a": 100, "exact": 100}
    )


def test_the_constant_sentence_is_the_most_frequent_one() -> None:
    """Guards against the first sentence instead of the most frequent one."""
    assert constant_sentence(["a", "b", "b", "c"]) == "b"
