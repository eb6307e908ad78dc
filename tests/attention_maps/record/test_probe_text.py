"""Texts of `attention.probes`."""

from __future__ import annotations

import pytest

from attention_maps.record.probe_text import parse_probe


def test_antecedent_is_the_last_mention_before_the_pronoun() -> None:
    """Guards against spans that are shifted by the marks before, and an antecedent within another word."""
    text, spans = parse_probe("Emi came. She{Emi} saw Emily. Emi left because she{Emi} was late.")
    assert text == "Emi came. She saw Emily. Emi left because she was late."
    assert [(text[a:b], text[c:d], c) for a, b, c, d in spans] == [("She", "Emi", 0), ("she", "Emi", 25)]


def test_the_second_mark_may_refer_to_an_earlier_one() -> None:
    """Guards answers, which repeat a name: its antecedent is the name before."""
    text, spans = parse_probe("Lisa came. Who came? Lisa{Lisa} did.")
    assert text == "Lisa came. Who came? Lisa did."
    assert spans == [[21, 25, 0, 4]]


@pytest.mark.parametrize("text", ["f{x} = y", "a {b} c", "it{apple}", "no marks", "", "{}", "a{}"])
def test_other_braces_are_kept(text: str) -> None:
    """Guards texts of programs and formulas."""
    assert parse_probe(text) == (text, [])
