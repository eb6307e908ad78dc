"""Heads of real models against the gold of the embedded corpus."""

from __future__ import annotations

import contextlib
import copy
import itertools
from typing import Any

import numpy as np
import pytest
import torch

from attention_maps.record import record
from data.batches import Batch
from data.config import TokenizerConfig
from data.primer import rows
from data.tokenizer import Tokenizer
from model.attention import silence_head
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from training.attention_examples import pair_example, text_example
from training.head_importance import head_importance
from training.head_scores import Case, alignment_scores, antecedent_scores, maps

Rows = list[dict[str, Any]]
SHAPE = ModelConfig(layers=2, heads=4, kv_heads=2, width=32, context=200)


@pytest.fixture(scope="module")
def pairs() -> Rows:
    """Sentences of many lengths."""
    return rows("sentences", 300, seed=5)[:60]


@pytest.fixture(scope="module")
def stories() -> Rows:
    """Stories with pronouns."""
    return rows("stories", 200, seed=5)[:30]


@pytest.fixture(scope="module")
def tokenizer(pairs: Rows, stories: Rows) -> Tokenizer:
    """One vocabulary for all."""
    texts = [row[side] for row in pairs for side in ("source", "target")] + [row["text"] for row in stories]
    return Tokenizer.train(texts, TokenizerConfig(kind="unigram", vocab_size=500))


@pytest.fixture(scope="module")
def translator(tokenizer: Tokenizer) -> EncoderDecoder:
    """Untrained."""
    torch.manual_seed(2)
    return EncoderDecoder(SHAPE, tokenizer.vocab_size, tokenizer.vocab_size)


@pytest.fixture(scope="module")
def gpt(tokenizer: Tokenizer) -> GPT:
    """Untrained."""
    torch.manual_seed(2)
    return GPT(SHAPE, tokenizer.vocab_size)


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
    found = list(maps(translator, cases, kind, tokenizer.pad_id))
    assert len(found) == len(pairs)
    assert len({weights.shape for _, weights in found}) > 10
    for row, weights in found:
        (sample,) = record(translator, [examples[row["source"]]], tokenizer.special_ids, 0).samples
        alone = np.stack([sample.weights[kind, layer] for layer in range(2)])
        np.testing.assert_allclose(weights, alone, atol=1e-3)
        np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)
        if kind == "decoder":
            assert not np.triu(weights, 1).any()


def test_an_untrained_translator_aligns_no_better_than_chance(
    translator: EncoderDecoder, tokenizer: Tokenizer, pairs: Rows
) -> None:
    """Guards the whole count: a read-out that looks good without training measures something else."""
    scores = alignment_scores(translator, [tokenizer], pairs)
    assert scores is not None
    assert scores.count == len(pairs)
    assert np.shape(scores.measures["alignment_error"]["cross"]) == (2, 4)
    chance = next(score.value for score in scores.scores if score.name == "chance")
    assert 75 < chance < 95
    assert all(score.value > chance - 20 for score in scores.scores if score.kind and "argmax" in score.name)
    diagonal = next(score.value for score in scores.scores if score.name == "along the diagonal")
    assert 50 < diagonal < chance


def test_an_untrained_gpt_finds_antecedents_like_chance(gpt: GPT, tokenizer: Tokenizer, stories: Rows) -> None:
    """Guards the candidates: with the right one always first, or alone, any head would look good."""
    scores = antecedent_scores(gpt, tokenizer, stories)
    assert scores is not None
    assert scores.count > 60
    assert np.shape(scores.measures["antecedent"]["decoder"]) == (2, 4)
    named = {score.name: score.value for score in scores.scores}
    assert 20 < named["chance, among all nouns before"] < 40
    assert 50 < named["chance, among nouns that agree with it"] < 80
    assert all(
        value < named["chance, among all nouns before"] + 30
        for name, value in named.items()
        if "best" in name and "all" in name
    )


def test_gold_of_examples_joins_back_to_the_words(tokenizer: Tokenizer, pairs: Rows, stories: Rows) -> None:
    """Guards the positions that the tab marks: every link and pronoun, spelled from the tokens that it names."""
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
        example = text_example(tokenizer, story["text"], "", story["antecedents"])
        assert example.antecedents is not None
        for (a, b, c, d), spans in zip(example.antecedents.pairs, story["antecedents"], strict=True):
            pronoun, noun = ("".join(example.target_pieces[x:y]).replace("▁", " ") for x, y in ((a, b), (c, d)))
            assert story["text"][spans[0] : spans[1]] in pronoun
            assert story["text"][spans[2] : spans[3]] in noun
            asked += 1
    assert asked > 60


def test_rows_longer_than_the_context_are_left_out(tokenizer: Tokenizer, pairs: Rows) -> None:
    """Guards against a crash, and against a score of nothing."""
    torch.manual_seed(2)
    short = EncoderDecoder(
        ModelConfig(layers=1, heads=2, width=16, context=8), tokenizer.vocab_size, tokenizer.vocab_size
    )
    scores = alignment_scores(short, [tokenizer], itertools.chain(pairs, [{**pairs[0], "source": "I run.", "target": "走る。",
                              "words": [[[0, 1], [2, 5], [5, 6]], [[0, 2], [2, 3]]], "alignment": [[2, 5, 0, 2]]}]))  # fmt: skip
    assert scores is None or scores.count < len(pairs)
    assert alignment_scores(short, [tokenizer], [row for row in pairs if len(row["source"]) > 40]) is None


def test_a_silenced_head_adds_nothing_and_comes_back(
    translator: EncoderDecoder, tokenizer: Tokenizer, pairs: Rows
) -> None:
    """Guards head importance: with all heads of a layer silent that sublayer is gone, and afterwards nothing has changed."""
    example = pair_example([tokenizer], pairs[0])
    source, target = torch.tensor([example.source_ids]), torch.tensor([example.target_ids])
    module = translator.decoder[1].cross_attention  # type: ignore[union-attr]
    outputs: list[torch.Tensor] = []
    hook = module.register_forward_hook(lambda _module, _inputs, output: outputs.append(output))
    with torch.no_grad():
        before = translator(source, target)
        with contextlib.ExitStack() as stack:
            stack.enter_context(silence_head(translator, "cross", 1, 2))
            translator(source, target)
        after = translator(source, target)
    hook.remove()
    part = module.output.weight[:, 16:24]  # head 2 of width 8
    difference = outputs[0] - outputs[1]  # what head 2 added
    assert difference.abs().max() > 1e-4
    remainder = difference[0] - difference[0] @ torch.linalg.pinv(part.T) @ part.T
    assert remainder.abs().max() < 1e-5
    assert torch.equal(before, after)
    with pytest.raises(LookupError, match="no head 4 in cross layer 1"), silence_head(translator, "cross", 1, 4):
        pass


def test_importance_is_the_rise_of_the_loss(gpt: GPT, tokenizer: Tokenizer, stories: Rows) -> None:
    """Guards its sign and its places: a head made to shout noise is the one worth losing."""
    text = torch.tensor([tokenizer.encode(stories[0]["text"])[:40]])
    batch = Batch(inputs=text[:, :-1], targets=text[:, 1:])
    loud = copy.deepcopy(gpt)
    with torch.no_grad():
        loud.blocks[1].attention.output.weight[:, 8:16] *= 1000  # type: ignore[union-attr, index]
    importance = head_importance(loud, [batch])
    assert np.shape(importance["decoder"]) == (2, 4)
    assert np.argmin(importance["decoder"]) == 5
    assert importance["decoder"][1][1] < 0
