"""Examples whose attention is recorded: `attention.probes`, and the first examples of the validation split."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from attention_maps.config import AttentionConfig
from attention_maps.record.example import Example
from attention_maps.record.probe_text import parse_probe
from attention_maps.record.recording import Antecedents
from data.tokens.tokenizer import Tokenizer
from data.tokens.word_alignment import groups, project
from data.training_data import Prepared, PreparedPairs, PreparedText
from generation.config import TranslationConfig
from generation.translation import best_translations
from model.encoder_decoder import EncoderDecoder

NOUN_ROWS = 500
"""Number of validation rows whose nouns are known in probes."""

WORD = re.compile(r"\w+")


def text_examples(attention: AttentionConfig, prepared: PreparedText, gold: bool) -> list[Example]:
    """Return the text examples; texts of the built-in corpus (`gold`) include the antecedents of their pronouns, and
    the mentions that the answers to their questions repeat. In probes with marked pronouns, the nouns of the corpus are
    mentions."""
    probes: list[dict[str, Any]] = [
        {"text": text, "antecedents": marked} for text, marked in map(parse_probe, attention.probes)
    ]
    if gold and any(probe["antecedents"] for probe in probes):
        nouns = corpus_nouns(_rows(prepared, NOUN_ROWS))
        probes = [probe | {"mentions": noun_mentions(**probe, nouns=nouns)} for probe in probes]
    probes = [probe if probe["antecedents"] else {"text": probe["text"]} for probe in probes]
    stories = _rows(prepared, attention.examples) if gold else []
    texts = [] if gold else [{"text": text} for text in prepared.texts("valid", attention.examples)]
    named = [*_named("probe", probes), *_named("valid", stories or texts)]
    return [text_example(prepared.tokenizer, row, name) for name, row in named]


def text_example(tokenizer: Tokenizer, row: dict[str, Any], name: str = "") -> Example:
    """Return a row with `text`, including the gold columns `antecedents`, `questions` and `mentions` if present, with
    a start token prepended, as in every training document."""
    ids, spans = tokenizer.spans(row["text"])
    known = None
    if "antecedents" in row:
        pairs = [*row["antecedents"], *(question[1:5] for question in row.get("questions", ()))]
        known = _antecedents("reads", pairs, [(-1, -1), *spans], row.get("mentions", ()))
    return Example.text([tokenizer.start_id, *ids], tokenizer, name, known)


def corpus_nouns(rows: Iterable[dict[str, Any]]) -> set[str]:
    """Return the last word of each noun mention in the `text` of some rows with `mentions`: Emi, box."""
    mentioned = ((row["text"][start:end], pronoun) for row in rows for start, end, _, pronoun in row["mentions"])
    return {WORD.findall(noun)[-1] for noun, pronoun in mentioned if not pronoun and WORD.search(noun)}


def noun_mentions(
    text: str, antecedents: Sequence[Sequence[int]], nouns: Collection[str]
) -> list[tuple[int, int, int, int]]:
    """Return a mention (start, end, referent, is a pronoun) in characters for each word of a text that is one of
    `nouns` or an antecedent, [start, end, antecedent start, antecedent end], and for each pronoun of the antecedents.
    Nouns with the same text mention the same referent."""
    ends = {end: WORD.findall(text[start:end])[-1] for _, _, start, end in antecedents if WORD.search(text[start:end])}
    known = {*nouns, *ends.values()}
    referents: dict[str, int] = {}
    mentions = [
        (word.start(), word.end(), referents.setdefault(word[0], len(referents)), 0)
        for word in WORD.finditer(text)
        if word[0] in known
    ]
    named = {start for start, *_ in mentions}
    pronouns = ((start, end, ends.get(last)) for start, end, _, last in antecedents if start not in named)
    return sorted([*mentions, *((start, end, referents[noun], 1) for start, end, noun in pronouns if noun)])


def pair_examples(attention: AttentionConfig, prepared: PreparedPairs, model: EncoderDecoder) -> list[Example]:
    """Return the pair examples; a probe without a translation is paired with the model's current translation."""
    tokenizers = prepared.tokenizers
    source, target = tokenizers[0], tokenizers[-1]
    halves = [[side.strip() for side in probe.partition("|||")[::2]] for probe in attention.probes]
    probes = [(*parse_probe(sentence), translation) for sentence, translation in halves]
    untranslated = [sentence for sentence, _, translation in probes if not translation]
    made = iter(best_translations(model, tokenizers, untranslated, TranslationConfig(beam_size=1)))
    examples = []
    for name, (sentence, marked, translation) in _named("probe", probes):
        if translation:
            row = {"source": sentence, "target": translation} | ({"antecedents": marked} if marked else {})
            examples.append(pair_example(tokenizers, row, name))
        else:  # with the exact tokens that the model generated
            ids, spans = source.spans(sentence)
            known = _antecedents("source", marked, spans) if marked else None
            made_ids = next(made).tokens
            examples.append(Example.pair(ids, made_ids, source, target, name, antecedents=known, own=True))
    rows = _named("valid", _rows(prepared, attention.examples))
    return examples + [pair_example(tokenizers, row, name) for name, row in rows]


def pair_example(tokenizers: Sequence[Tokenizer], row: dict[str, Any], name: str = "") -> Example:
    """Return a row with `source` and `target`, including the gold columns `alignment` and `antecedents` if present."""
    source, target = tokenizers[0], tokenizers[-1]
    (source_ids, source_spans), (target_ids, target_spans) = source.spans(row["source"]), target.spans(row["target"])
    return Example.pair(
        source_ids,
        target_ids,
        source,
        target,
        name,
        project(row["alignment"], source_spans, target_spans) if "alignment" in row else None,
        _antecedents("source", row["antecedents"], source_spans) if "antecedents" in row else None,
    )


def _antecedents(
    side: Any,
    spans: Iterable[Sequence[int]],
    tokens: Sequence[Sequence[int]],
    mentions: Iterable[tuple[int, int, int, int]] = (),
) -> Antecedents:
    """Convert pairs of spans and mentions (start, end, referent, is a pronoun) from characters to tokens."""

    def of_tokens(start: int, end: int) -> tuple[int, int]:
        (covering,) = groups([(start, end)], tokens)
        return covering[0], covering[-1] + 1

    return Antecedents(
        side,
        tuple((*of_tokens(a, b), *of_tokens(c, d)) for a, b, c, d in spans),
        tuple((*of_tokens(start, end), referent, bool(pronoun)) for start, end, referent, pronoun in mentions),
    )


def _rows(prepared: Prepared, count: int) -> list[dict[str, Any]]:
    columns = prepared.rows("valid")[:count]
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _named(kind: str, items: Iterable[Any]) -> list[tuple[str, Any]]:
    return [(f"{kind} {number}", item) for number, item in enumerate(items, 1)]
