"""Translation scores and baselines."""

from training.evaluation.translation_baselines import constant_sentence
from training.evaluation.translation_scores import score, signatures


def test_bleu_counts_characters_and_names_it() -> None:
    """Guards against sacreBLEU's default tokenizer, for which a Japanese sentence is one word and every score 0 or
    100."""
    near = score(["彼は本を読みます。"] * 3, ["彼は本を読みました。"] * 3)
    assert 50 < near.bleu < 90
    assert near.exact == 0
    assert score(["彼は本を読みます。"], ["彼は本を読みます。"]).bleu > 99.9
    assert "tok:char" in signatures()
    assert "chrF" in signatures()


def test_exact_match_is_a_share_in_percent() -> None:
    """Guards against a fraction reported as a count."""
    assert score(["あ", "い", "う", "え"], ["あ", "い", "う", "お"]).exact == 75


def test_the_constant_sentence_is_the_most_frequent_one() -> None:
    """Guards against the first sentence instead of the most frequent one."""
    assert constant_sentence(["a", "b", "b", "c"]) == "b"
