"""Scores of attention heads against the gold word alignments and antecedents of the built-in corpus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from attention_maps.record.alignment_readout import READOUTS
from attention_maps.record.evaluation_mode import undisturbed
from attention_maps.record.gold_scores import AlignmentTally, AntecedentTally
from attention_maps.record.recording import Measures, Rows, Score
from data.tokens.tokenizer import Tokenizer
from data.tokens.word_alignment import groups, possible, project
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from model.recording import record_attention
from training.evaluation.coreference import HEURISTICS, Pronoun, pronouns, share, with_candidates
from training.guided_alignment.guidance import GuidedHead
from training.run_folder.loaded_run import Model
from training.run_folder.log import table

BATCH = 16
"""Sentences or stories per forward pass."""


class Case(NamedTuple):
    """A row with the model inputs."""

    row: dict[str, Any]
    source: list[int]
    """Encoder input ids; empty for a GPT."""
    target: list[int]


TITLES = {
    "alignment_error": "alignment error rate of cross-attention, {count} pairs",
    "antecedent": "antecedents found by decoder heads, {count} pronouns, among all preceding nouns",
    "antecedent_agreeing": "antecedents found by decoder heads, {count} pronouns, among agreeing nouns",
}

IN_SHORT = {
    "alignment_error": "alignment error rate of cross-attention",
    "antecedent": "antecedents found by heads among all preceding nouns",
    "antecedent_agreeing": "among agreeing nouns",
}


@dataclass(frozen=True)
class HeadScores:
    """Scores of single heads and of means over heads, with their baselines, and the measures of every head."""

    scores: list[Score]
    measures: Measures
    count: int
    """Number of pairs or pronouns."""
    left_out: int
    """Number of rows longer than the model's context."""

    def best(self) -> list[Score]:
        """Return the best score of each measure, excluding baselines."""
        measures = dict.fromkeys(score.measure for score in self.scores)
        return [_best(s for s in self.scores if s.measure == measure and s.kind is not None) for measure in measures]

    def named(self, measure: str, name: str) -> Score:
        """Return a score by name."""
        return next(score for score in self.scores if (score.measure, score.name) == (measure, name))

    def report(self, split: str) -> str:
        """Format as Markdown, for each measure, all scores with their baselines, and a table of the heads."""
        parts = []
        for measure, kinds in self.measures.items():
            title = f"{split}: {TITLES[measure].format(count=self.count)}"
            rows = [[_described(score), f"{score.value:.1f}"] for score in self.scores if score.measure == measure]
            parts.append(table([title, "%"], rows))
            parts += [head_table("each head", layers, ".1f", " %") for layers in kinds.values()]
        return "\n\n".join(parts)

    def compared(self, split: str, score: Score) -> str:
        """Compare a score selected on validation with the best rule-based baseline and chance, in one line."""
        baselines = (s for s in self.scores if s.measure == score.measure and s.kind is None and s.name != "chance")
        best, chance = _best(baselines), self.named(score.measure, "chance")
        return (
            f"{split}: {TITLES[score.measure].format(count=self.count)}: {score.value:.1f} % by {_described(score)},"
            f" chosen on validation ({best.name} {best.value:.1f} %, chance {chance.value:.1f} %)"
        )

    def in_short(self, score: Score) -> str:
        """Compare a score with chance, briefly."""
        chance = self.named(score.measure, "chance")
        return f"{IN_SHORT[score.measure]} {score.value:.1f} % (chance {chance.value:.1f} %)"


def head_table(title: str, layers: list[list[float]], form: str, unit: str = "") -> str:
    """Format the values of all heads, [layer][head], as a Markdown table."""
    header = [title, *(f"head {head}" for head in range(len(layers[0])))]
    rows = [[f"layer {number}", *(f"{value:{form}}{unit}" for value in heads)] for number, heads in enumerate(layers)]
    return table(header, rows)


def _described(score: Score) -> str:
    """Return the name of a score, with layer and head for a single head."""
    return score.name if score.head is None else f"{score.name} (layer {score.layer}, head {score.head})"


def _best(scores: Iterable[Score]) -> Score:
    """Return the best score of one measure: lowest error or highest accuracy."""
    return min(scores, key=lambda score: score.value if score.measure == "alignment_error" else -score.value)


def alignment_scores(
    model: EncoderDecoder,
    tokenizers: Sequence[Tokenizer],
    rows: Iterable[dict[str, Any]],
    *,
    lenient: bool = True,
    chosen: HeadScores | None = None,
    guided: Sequence[GuidedHead] = (),
) -> HeadScores | None:
    """Return the alignment error rate of the cross-attention against gold alignments; None if no row fits the context.

    rows: `source`, `target`, `words` and `alignment` as in the built-in corpus. lenient: a particle or an article may
    also take the links of its noun (`data.tokens.word_alignment.possible`); otherwise every link outside the gold
    alignment is an error. chosen: scores of another split; its best head is evaluated, not that of this split.
    guided: heads that were taught to align (`trainer.guided_alignment`), scored one by one.
    """
    source, target = tokenizers[0], tokenizers[-1]
    tally, diagonal = AlignmentTally([(head.layer, head.head) for head in guided]), AlignmentTally()
    hits, drawn = 0.0, 0  # of a random baseline that links every target word to any source word
    cases = [
        Case(row, [*source.encode(row["source"]), source.eos_id], [target.bos_id, *target.encode(row["target"])])
        for row in rows
    ]
    for row, weights in maps(model, cases, "cross", source.pad_id):
        (_, source_spans), (_, target_spans) = source.spans(row["source"]), target.spans(row["target"])
        words = row["words"]
        sure = set(project(row["alignment"], *words))
        allowed = possible(sure, *map(len, words)) if lenient else sure
        sources, targets = groups(words[0], source_spans), groups(words[1], target_spans)
        tally.add(weights, targets, sources, sure, allowed)
        place = np.linspace(0, len(source_spans) - 1, max(len(target_spans), 2)).round().astype(int)
        along = np.zeros((1, 1, *weights.shape[2:]))
        along[0, 0, np.arange(len(target_spans)), place[: len(target_spans)]] = 1
        diagonal.add(along, targets, sources, sure, allowed)
        hits += (len(sure) + len(allowed)) / len(sources)
        drawn += len(targets) + len(sure)
    if not tally.pairs:
        return None
    scores, errors = [], {}
    for rows_read, note in ALIGNMENT_ROWS.items():
        errors[rows_read] = tally.error_rates(rows_read)[:-1, :-1]
        for layer in range(len(errors[rows_read])):
            for name in READOUTS:
                value = float(tally.error_rates(rows_read, name)[layer, -1])
                title = f"mean of layer {layer}, {name}{note}"
                scores.append(Score("alignment_error", title, value, "cross", layer, rows=rows_read))
    for name in READOUTS:
        value = float(tally.error_rates("predicts", name)[-1, -1])
        scores.append(Score("alignment_error", f"mean of all layers, {name}", value, "cross", rows="predicts"))
    for rows_read, note in ALIGNMENT_ROWS.items():
        best = _best_head(errors[rows_read], "alignment_error", f"best head, argmax{note}", "cross", chosen)
        scores.append(replace(best, rows=rows_read))
    for layer, head, reads in guided:
        taught: Rows = "reads" if reads else "predicts"
        for name in READOUTS:
            value = float(tally.error_rates(taught, name)[layer, head])
            title = f"guided head, {name}{ALIGNMENT_ROWS[taught]}"
            scores.append(Score("alignment_error", title, value, "cross", layer, head, taught))
    scores.append(Score("alignment_error", "along the diagonal", float(diagonal.error_rates()[0, 0])))
    scores.append(Score("alignment_error", "chance", 100 * (1 - hits / drawn)))
    better = np.minimum(*errors.values())  # each head is reported by its better row
    scores = [replace(score, count=tally.pairs) for score in scores]
    return HeadScores(scores, {"alignment_error": {"cross": _listed(better)}}, tally.pairs, len(cases) - tally.pairs)


ALIGNMENT_ROWS: dict[Rows, str] = {"predicts": "", "reads": ", shifted"}
"""The two rows of cross-attention for a target token: the one that predicts it, and the next one, which reads it."""


def maps(model: Model, cases: Iterable[Case], kind: str, padding: int) -> Iterator[tuple[dict[str, Any], np.ndarray]]:
    """Yield each row and its attention weights [L,H,Q,K] of one kind, skipping rows longer than the context."""
    fitting = [case for case in cases if _fits(model, case)]
    fitting.sort(key=lambda case: len(case.target))  # reduces padding
    device = next(model.parameters()).device
    for start in range(0, len(fitting), BATCH):
        batch = fitting[start : start + BATCH]
        sources, targets = (
            pad_sequence([torch.tensor(ids) for ids in side], batch_first=True, padding_value=padding).to(device)
            for side in ([case.source for case in batch], [case.target for case in batch])
        )
        with undisturbed(model), record_attention(model) as seen:
            inputs = (targets,) if isinstance(model, GPT) else (sources, targets, sources != padding)
            model.features(*inputs)
        layers = [seen.weights[key].cpu().numpy() for key in sorted(seen.weights) if key[0] == kind]
        for number, (row, source, target) in enumerate(batch):
            queries, keys = len(source if kind == "encoder" else target), len(target if kind == "decoder" else source)
            yield row, np.stack([layer[number, :, :queries, :keys] for layer in layers])


def _fits(model: Model, case: Case) -> bool:
    return max(len(case.source), len(case.target)) <= model.config.context


def _listed(heads: np.ndarray) -> list[list[float]]:
    return [[round(float(head), 3) for head in layer] for layer in heads]


AMONG = ("antecedent", "antecedent_agreeing")
"""Two measures that differ in the candidates: all preceding nouns, or those that agree with the pronoun (often one)."""

ROWS: tuple[Rows, ...] = ("reads", "predicts")
"""The two attention rows of a pronoun: its own, which reads it, and the preceding row, which predicts it."""


def antecedent_scores(
    model: GPT, tokenizer: Tokenizer, stories: Iterable[dict[str, Any]], *, chosen: HeadScores | None = None
) -> HeadScores | None:
    """Return how often heads attend to the antecedent of a pronoun, in percent; None if no story fits the context.
    chosen: as in `alignment_scores`."""
    tallies = {(rows, measure): AntecedentTally() for rows in ROWS for measure in AMONG}
    asked: dict[str, list[Pronoun]] = {measure: [] for measure in AMONG}
    cases = [Case(story, [], [tokenizer.start_id, *tokenizer.encode(story["text"])]) for story in stories]
    for story, weights in maps(model, cases, "decoder", tokenizer.pad_id):
        spans = [(-1, -1), *tokenizer.spans(story["text"])[1]]  # the start token covers no characters
        for agreeing in pronouns(story, story["text"]):
            span, everything = (agreeing.start, agreeing.end), set(range(len(story["names"])))
            whole = with_candidates(story, story["text"], span, agreeing.antecedent, everything)
            (tokens,) = groups([span], spans)
            for measure, pronoun in zip(AMONG, (whole, agreeing), strict=True):
                asked[measure].append(pronoun)
                candidates = [groups([(m.start, m.end) for m in nouns], spans) for nouns in pronoun.candidates.values()]
                right = list(pronoun.candidates).index(pronoun.antecedent)
                tallies["reads", measure].add(weights, tokens[-1], candidates, right)
                tallies["predicts", measure].add(weights, tokens[0] - 1, candidates, right)
    if not asked["antecedent"]:
        return None
    scores = []
    for measure, resolved in asked.items():
        for rows in ROWS:
            heads = tallies[rows, measure].accuracies()[:-1, :-1]
            best = _best_head(heads, measure, f"best head, {rows} the pronoun", "decoder", chosen)
            scores.append(replace(best, rows=rows))
        guesses = {name: [share(pronoun, rank) for pronoun in resolved] for name, rank in HEURISTICS.items()}
        guesses["chance"] = [1 / len(pronoun.candidates) for pronoun in resolved]
        scores += [Score(measure, name, 100 * float(np.mean(hits))) for name, hits in guesses.items()]
    # Each head is reported by its better row.
    better = {m: np.maximum(*(tallies[rows, m].accuracies()[:-1, :-1] for rows in ROWS)) for m in AMONG}
    measures = {measure: {"decoder": _listed(heads)} for measure, heads in better.items()}
    scores = [replace(score, count=len(asked["antecedent"])) for score in scores]
    return HeadScores(scores, measures, len(asked["antecedent"]), sum(not _fits(model, case) for case in cases))


def _best_head(heads: np.ndarray, measure: str, name: str, kind: str, chosen: HeadScores | None) -> Score:
    """Return the score of the best head, or of the head selected under this name in `chosen`."""
    place = heads.argmin() if measure == "alignment_error" else heads.argmax()
    layer, head = map(int, np.unravel_index(place, heads.shape))
    if chosen is not None:
        best = chosen.named(measure, name)
        assert best.layer is not None
        assert best.head is not None
        layer, head = best.layer, best.head
    return Score(measure, name, float(heads[layer, head]), kind, layer, head)
