"""Scores of attention heads against the gold labels of the built-in corpus."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attention_maps.record import head_measures_and_labels as measures
from attention_maps.record.recording import Score
from data.batches.batch import IGNORED, Batch
from data.config import TokenizerConfig
from data.primer import rows
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from data.tokens.tokenizer import Tokenizer
from interpretability.ablation import replace_head_outputs
from interpretability.recorder import record
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from training.evaluation.head_importance import head_importance
from training.evaluation.head_scores import Case, HeadScores, alignment_scores, antecedent_scores, maps
from training.evaluation.recorded_examples import pair_example, text_example

Rows = list[dict[str, Any]]
SHAPE = ModelConfig(layers=2, heads=4, kv_heads=2, width=32, context=200)


@pytest.fixture(scope="module")
def pairs() -> Rows:
    """Return sentences of many lengths."""
    return rows("sentences", 300, seed=5)[:60]


@pytest.fixture(scope="module")
def stories() -> Rows:
    """Return stories with pronouns."""
    return rows("stories", 200, seed=5)[:30]


@pytest.fixture(scope="module")
def tokenizer(pairs: Rows, stories: Rows) -> Tokenizer:
    """Return a tokenizer with one vocabulary for all texts."""
    texts = [row[side] for row in pairs for side in ("source", "target")] + [row["text"] for row in stories]
    return SentencePieceTokenizer.train(texts, TokenizerConfig(kind="unigram", vocab_size=500))


@pytest.fixture(scope="module")
def translator(tokenizer: Tokenizer) -> EncoderDecoder:
    """Return an untrained translator."""
    torch.manual_seed(2)
    return EncoderDecoder(SHAPE, tokenizer.vocab_size, tokenizer.vocab_size)


@pytest.fixture(scope="module")
def gpt(tokenizer: Tokenizer) -> GPT:
    """Return an untrained GPT."""
    torch.manual_seed(2)
    return GPT(SHAPE, tokenizer.vocab_size)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_maps_of_a_padded_batch_are_those_of_each_sentence_alone(
    translator: EncoderDecoder, tokenizer: Tokenizer, pairs: Rows, kind: Any
) -> None:
    """Guards against padding that takes part in a softmax, and against maps of another row of the batch."""
    examples = {row["source"]: pair_example([tokenizer], row) for row in pairs}
    cases = [
        Case(row, list(examples[row["source"]].source_ids or ()), list(examples[row["source"]].target_ids))
        for row in pairs
    ]
    result = list(maps(translator, cases, kind, tokenizer.pad_id))
    assert len(result) == len(pairs)
    assert len({weights.shape for _, weights in result}) > 10
    for row, weights in result:
        (sample,) = record(translator, [examples[row["source"]]], tokenizer.special_ids, 0).samples
        alone = np.stack([sample.weights[kind, layer] for layer in range(2)])
        np.testing.assert_allclose(weights, alone, atol=1e-3)
        np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)
        if kind == "decoder":
            assert not np.triu(weights, 1).any()


def test_an_untrained_translator_aligns_no_better_than_chance(
    translator: EncoderDecoder, tokenizer: Tokenizer, pairs: Rows
) -> None:
    """Guards the whole computation: a score that looks good without training measures something else."""
    scores = alignment_scores(translator, [tokenizer], pairs)
    assert scores is not None
    assert scores.count == len(pairs)
    assert {score.count for score in scores.scores} == {len(pairs)}
    assert np.shape(scores.measures["alignment_error"]["cross"]) == (2, 4)
    chance = scores.named("alignment_error", "chance").value
    assert 75 < chance < 95
    assert all(score.value > chance - 20 for score in scores.scores if score.kind and "argmax" in score.name)
    diagonal = scores.named("alignment_error", "along the diagonal").value
    assert 50 < diagonal < chance


def test_an_untrained_gpt_finds_antecedents_like_chance(gpt: GPT, tokenizer: Tokenizer, stories: Rows) -> None:
    """Guards the candidates and the label: if the right one were always the first or the only one, any head would
    look good."""
    scores = antecedent_scores(gpt, tokenizer, stories)
    assert scores is not None
    assert scores.count > 60
    assert {score.count for score in scores.scores} == {scores.count}
    heads = np.array(scores.measures["antecedent"]["decoder"])
    assert heads.shape == (2, 4)
    chance, easy = (scores.named(measure, "chance").value for measure in ("antecedent", "antecedent_agreeing"))
    assert 20 < chance < 40 < 55 < easy < 80
    assert heads.max() < min(chance + 30, measures.COREFERENCE)


def test_baselines_of_alignment_are_those_written_down_by_hand() -> None:
    """Guards chance, diagonal and possible links, with four words of one letter on each side."""
    tokenizer = SentencePieceTokenizer.train(["abcd", "wxyz"], TokenizerConfig(kind="char"))
    letters = [[place, place + 1] for place in range(4)]
    row = {"source": "abcd", "target": "wxyz", "words": [letters, letters]}
    row["alignment"] = [[0, 1, 0, 1], [1, 2, 3, 4], [3, 4, 2, 3]]  # a-w b-z d-y; x may go with w's a, c with d's y
    torch.manual_seed(2)
    model = EncoderDecoder(SHAPE, tokenizer.vocab_size, tokenizer.vocab_size)
    for lenient, sure, diagonal, drawn in ((True, 3, 1 + 2, 3 + 5), (False, 3, 1 + 1, 3 + 3)):
        scores = alignment_scores(model, [tokenizer], [row], lenient=lenient)
        assert scores is not None
        assert scores.named("alignment_error", "along the diagonal").value == pytest.approx(
            100 * (1 - diagonal / (4 + sure))
        )
        assert scores.named("alignment_error", "chance").value == pytest.approx(100 * (1 - drawn / 4 / (4 + sure)))


def test_the_two_rows_of_a_pronoun_are_told_apart() -> None:
    """Guards the two attention rows of a pronoun, in a model with two hand-made heads: the first attends from the
    space before the pronoun to A, the second from the end of the pronoun to B."""
    tokenizer = SentencePieceTokenizer.train(["A met B. he ran."], TokenizerConfig(kind="char"))
    story = {"text": "A met B. he ran.", "mentions": [[0, 1, 0, 0], [6, 7, 1, 0], [9, 11, 0, 1]], "turns": []}
    story |= {"referents": ["he", "he"], "names": ["A", "B"]}
    model = GPT(
        ModelConfig(layers=1, heads=2, width=32, context=32, position="learned", qk_norm=False), tokenizer.vocab_size
    )
    space, end, a, b = (tokenizer.encode(character)[0] for character in (" ", "e", "A", "B"))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_() if parameter.dim() > 1 else parameter.fill_(1)
        model.embedding.tokens.weight.copy_(torch.eye(32)[: tokenizer.vocab_size])
        weight = model.blocks[0].attention.query_key_value.weight  # type: ignore[union-attr]
        weight[0, space] = weight[32, a] = weight[16, end] = weight[48, b] = 3
    scores = antecedent_scores(model, tokenizer, [story])
    assert scores is not None
    assert scores.measures["antecedent"]["decoder"] == [[100, 50]]  # written: the second head sees all alike
    assert scores.named("antecedent", "best head, predicts the pronoun").value == 100
    assert scores.named("antecedent", "best head, reads the pronoun").value == 50  # the first head sees all alike there
    chosen = dataclasses.replace(
        scores, scores=[dataclasses.replace(s, layer=0, head=1) if s.head is not None else s for s in scores.scores]
    )
    again = antecedent_scores(model, tokenizer, [story], chosen=chosen)
    assert again is not None
    assert again.named("antecedent", "best head, predicts the pronoun").value == 50
    assert again.named("antecedent", "best head, reads the pronoun").value == 0


def test_the_best_read_out_is_the_lowest_error_and_the_highest_accuracy() -> None:
    """Guards the selection on the validation split, which excludes baselines."""
    scores = HeadScores(
        [
            Score("alignment_error", "argmax", 30.0, "cross"),
            Score("alignment_error", "grown", 20.0, "cross"),
            Score("alignment_error", "chance", 10.0),
            Score("antecedent", "written", 60.0, "decoder"),
            Score("antecedent", "read", 40.0, "decoder"),
            Score("antecedent", "last subject", 90.0),
        ],
        {},
        1,
        0,
    )
    assert [score.name for score in scores.best()] == ["grown", "written"]


def test_gold_of_examples_joins_back_to_the_words(tokenizer: Tokenizer, pairs: Rows, stories: Rows) -> None:
    """Guards the positions that the tab highlights: the tokens of every link and pronoun spell the gold words."""
    for row in pairs:
        example = pair_example([tokenizer], row)
        linked = {(a, b) for a, b, *_ in row["alignment"]}
        for source, target in example.links or ():
            piece = example.source_pieces[source].strip("▁") if example.source_pieces else ""
            assert any(piece in row["source"][a:b] or row["source"][a:b] in piece for a, b in linked), (
                row["source"],
                piece,
            )
            assert example.next_pieces[target].strip("▁") in row["target"]
    asked = 0
    for story in stories:
        example = text_example(tokenizer, story | {"questions": []})
        assert example.antecedents is not None
        for (a, b, c, d), spans in zip(example.antecedents.pairs, story["antecedents"], strict=True):
            pronoun, noun = ("".join(example.target_pieces[x:y]).replace("▁", " ") for x, y in ((a, b), (c, d)))
            assert story["text"][spans[0] : spans[1]] in pronoun
            assert story["text"][spans[2] : spans[3]] in noun
            asked += 1
    assert asked > 60


def test_rows_longer_than_the_context_are_left_out(tokenizer: Tokenizer, pairs: Rows) -> None:
    """Guards against a crash, and against a score of no examples."""
    torch.manual_seed(2)
    short = EncoderDecoder(
        ModelConfig(layers=1, heads=2, width=16, context=8), tokenizer.vocab_size, tokenizer.vocab_size
    )
    brief = {
        **pairs[0],
        "source": "I run.",
        "target": "走る。",
        "words": [[[0, 1], [2, 5], [5, 6]], [[0, 2], [2, 3]]],
        "alignment": [[2, 5, 0, 2]],
    }
    long = [row for row in pairs if len(row["source"]) > 40]
    scores = alignment_scores(short, [tokenizer], [*long, brief])
    assert scores is not None
    assert (scores.count, scores.left_out) == (1, len(long))
    assert alignment_scores(short, [tokenizer], [row for row in pairs if len(row["source"]) > 40]) is None


def test_a_silenced_head_adds_nothing_and_comes_back(
    translator: EncoderDecoder, tokenizer: Tokenizer, pairs: Rows
) -> None:
    """Guards head importance: ablating all heads of a layer removes the sublayer, and afterwards the model is
    unchanged."""
    example = pair_example([tokenizer], pairs[0])
    source, target = torch.tensor([example.source_ids]), torch.tensor([example.target_ids])
    module = translator.decoder[1].cross_attention  # type: ignore[union-attr]
    outputs: list[torch.Tensor] = []
    hook = module.register_forward_hook(lambda _module, _inputs, output: outputs.append(output))
    with torch.no_grad():
        before = translator(source, target)
        with contextlib.ExitStack() as stack:
            stack.enter_context(replace_head_outputs(translator, {("cross", 1, 2): 0.0}))
            translator(source, target)
        after = translator(source, target)
    hook.remove()
    part = module.output.weight[:, 16:24]  # head 2 of width 8
    difference = outputs[0] - outputs[1]  # what head 2 added
    assert difference.abs().max() > 1e-4
    remainder = difference[0] - difference[0] @ torch.linalg.pinv(part.T) @ part.T
    assert remainder.abs().max() < 1e-5
    assert torch.equal(before, after)
    with (
        pytest.raises(LookupError, match="no head 4 in cross layer 1"),
        replace_head_outputs(translator, {("cross", 1, 4): 0.0}),
    ):
        pass


def test_importance_is_the_rise_of_the_loss(gpt: GPT, tokenizer: Tokenizer, stories: Rows) -> None:
    """Guards sign and place of the importance: the loss without the part of the projection that reads the head, minus
    the loss with it."""
    text = torch.tensor([tokenizer.encode(" ".join(story["text"] for story in stories[:3]))[:200]])
    batch = Batch(inputs=text[:, :-1], targets=text[:, 1:])
    loud = copy.deepcopy(gpt)
    with torch.no_grad():
        loud.blocks[1].attention.output.weight[:, 8:16] *= 1000  # type: ignore[union-attr, index]
    importance = head_importance(loud, [batch])
    quiet = Batch(inputs=text[:, :2], targets=torch.full((1, 2), IGNORED))
    quiet.targets[0, 0] = text[0, 1]
    # Batches come sorted by length: the last must not be left out.
    spread = head_importance(loud, [quiet] * 40 + [batch])
    assert not np.allclose(spread["decoder"], head_importance(loud, [quiet] * 40)["decoder"])
    assert np.shape(importance["decoder"]) == (2, 4)
    with torch.no_grad():
        whole = F.cross_entropy(loud(batch.inputs)[0], batch.targets[0])
        for layer, head in ((1, 1), (0, 2)):
            mute = copy.deepcopy(loud)
            mute.blocks[layer].attention.output.weight[:, 8 * head : 8 * head + 8] = 0  # type: ignore[union-attr, index]
            rise = F.cross_entropy(mute(batch.inputs)[0], batch.targets[0]) - whole
            assert importance["decoder"][layer][head] == pytest.approx(float(rise), abs=1e-4)
    assert abs(importance["decoder"][1][1]) > 1e-3, "the point is a head that matters"
