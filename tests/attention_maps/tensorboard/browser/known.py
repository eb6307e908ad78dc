"""Hand-made recordings: every number in a view can be computed from these tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attention_maps.record.head_measures_and_labels import head_measures
from attention_maps.record.recording import Antecedents, Part, Prediction, Recording, Sample, Score
from tests.attention_maps.tensorboard.browser.recordings import marked, sample

SOURCE = ["▁Emi", "▁likes", "▁red", "▁apple", "s", ".", "</s>"]
TARGET = ["<s>", "エミは", "赤い", "りんごが", "好き", "です", "。", "</s>"]
LINKS = ((0, 0), (2, 1), (3, 2), (4, 2), (1, 3), (5, 5))

CROSS: list[list[float]] = [  # what each row, labelled by what it predicts, attends to: exact in float16
    [0.75, 0, 0, 0.25, 0, 0, 0],  # エミは
    [0, 0, 0.5, 0.25, 0, 0, 0.25],  # 赤い
    [0, 0, 0, 0.5, 0.25, 0, 0.25],  # りんごが
    [0.5, 0.25, 0, 0, 0, 0, 0.25],  # 好き: mostly at the wrong word
    [0, 0.125, 0, 0, 0, 0, 0.875],  # です: no word of the source means it
    [0, 0, 0, 0, 0, 1, 0],  # 。
    [0, 0, 0, 0, 0, 0, 1],  # </s>
]
STORY = ["</s>", "▁Kate", "▁hid", "▁her", "▁pen", ".", "▁She", "▁smiled", "."]
SHE = [0.25, 0.25, 0, 0.0625, 0.125, 0, 0.3125, 0, 0]  # of the nouns before it most to Kate, its antecedent
SHE_WRONG = [0.25, 0.125, 0, 0.0625, 0.25, 0, 0.3125, 0, 0]  # most to pen
HER = [0.25, 0.25, 0.5, 0, 0, 0, 0, 0, 0]  # attends to `hid`

PARTS = (Part("embedding"), Part("decoder", 0, 0), Part("decoder", 0, 1), Part("mlp", 0))
NEXT = [1.0, 2.5, -0.5, 0.25]
"""What each part adds to the logit of the actual next token, in every row: exact in float16."""

HISTORY = {
    0: ["", "diagonal"],
    1: ["previous token", "diagonal"],
    2: ["induction"] * 2,
    9: ["induction, previous token", "coreference, diagonal"],
}
"""Labels of the two heads of the run `history` at each step: “diagonal” with a dip, and two that only the last step
has."""

EVALUATED = {10: None, 20: None, 30: (55.0, 70.0), 35: None, 40: (60.0, 80.0), 50: None}
"""Steps of the run `evaluated`: the scores of its two heads. Head 1 has its label from step 20, head 0 from step 30."""

State = dict[str, Any]
TRANSLATION: State = {"run": "translation", "recording": "step_00000200", "kind": "cross", "layer": 0, "head": 0}
PROBE: State = {"run": "probe", "recording": "step_00000100", "kind": "decoder", "layer": 0, "head": 0}
TEXT: State = {"run": "gpt", "recording": "step_00000100", "kind": "decoder", "layer": 0, "head": 0}


def translation(weights: np.ndarray, *, gold: bool = True) -> Sample:
    """Return a translation with the given cross-attention [L,H,Q,K]; its other maps are uniform."""
    layers, heads, queries, keys = weights.shape
    causal = np.tril(np.ones((queries, queries))) / np.arange(1, queries + 1)[:, None]
    maps = {("cross", layer): weights[layer].astype(np.float16) for layer in range(layers)}
    for layer in range(layers):
        maps["encoder", layer] = np.full((heads, keys, keys), 1 / keys, np.float16)
        maps["decoder", layer] = np.stack([causal] * heads).astype(np.float16)
    strength = np.stack([np.full(queries, 3.0), np.arange(4.0, 4.0 + queries)]).astype(np.float16)
    return Sample(
        reads=marked(TARGET[:-1]),
        predicts=marked(TARGET[1:]),
        source=marked(SOURCE),
        losses=(0.5, 2.0, 0.25, 0.5, 0.125, 0.25, 0.0),
        predictions=tuple((Prediction(10, piece, 0.625), Prediction(99, "他", 0.25)) for piece in TARGET[1:]),
        weights=maps,
        norms={key: strength if key[0] != "encoder" else np.ones((heads, keys), np.float16) for key in maps},
        name="probe 1",
        length=queries,
        source_length=keys,
        links=LINKS if gold else None,
    )


MENTIONS = ((1, 2, 0, False), (3, 4, 0, True), (4, 5, 1, False), (6, 7, 0, True))
"""Kate, her, pen and She."""


def story(she: list[float] = SHE, mentions: tuple[tuple[int, int, int, bool], ...] = MENTIONS) -> Sample:
    """Return a text with two pronouns whose antecedent is Kate."""
    length = len(STORY)
    weights = np.tril(np.ones((length, length))) / np.arange(1, length + 1)[:, None]
    weights[3], weights[6] = HER, she
    maps = np.stack([weights, np.eye(length)]).astype(np.float16)
    return Sample(
        reads=marked(STORY),
        predicts=marked(STORY[1:]),
        source=None,
        losses=tuple(0.5 for _ in STORY[1:]),
        predictions=tuple((Prediction(99 if row == 4 else 10 + row, "▁pen", 0.5),) for row in range(length)),
        weights={("decoder", 0): maps},
        norms={("decoder", 0): np.ones((2, length), np.float16)},
        name="valid 1",
        length=length,
        antecedents=Antecedents("reads", ((3, 4, 1, 2), (6, 7, 1, 2)), mentions),
        attribution=np.array([[[part] * length for part in row] for row in (NEXT, [1, 0.5, -0.5, 1])], np.float16),
        logits=np.array([[sum(NEXT)] * length, [2] * length], np.float16),
        lens=(tuple((Prediction(10 + row + 1, "▁soon", 0.25),) for row in range(length)),),
    )


def answer() -> Sample:
    """Return a text whose only gold label links the answer to a question with the noun that it repeats."""
    words = [*STORY[:6], "▁Kate", *STORY[7:]]
    links = Antecedents("reads", ((6, 7, 1, 2),))
    return replace(story(), reads=marked(words), predicts=marked(words[1:]), antecedents=links)


def changed() -> Sample:
    """Return a text without gold labels. The prediction of “smiled” changes most from the first layer to the last, but
    for that of a full stop, which is no word; head 1 adds most to it, head 0 to all other tokens."""
    text, smiled, stop = story(), 6, 4
    losses = [0.5] * len(text.losses)
    losses[smiled], losses[stop] = 0.05, 0.01
    pairs = zip(text.predicts.ids, text.predicts.pieces, strict=True)
    early = [Prediction(token, piece, 0.5) for token, piece in pairs]
    early[smiled], early[stop] = early[smiled]._replace(probability=0.05), early[stop]._replace(probability=0.0)
    attribution = text.attribution.copy()
    attribution[0, :, smiled] = [1.0, 0.25, 2.0, 0.0]
    lens = tuple((one,) for one in [*early, early[0]])
    return replace(text, antecedents=None, losses=tuple(losses), lens=(lens,), attribution=attribution)


def heads_of(first: list[list[float]]) -> np.ndarray:
    """Return weights [L=2,H=2,Q,K]: head 0 of layer 0 is `first`, head 1 is diagonal, layer 1 uniform."""
    table = np.array(first)
    return np.stack([np.stack([table, np.eye(*table.shape)]), np.full((2, *table.shape), 1 / table.shape[1])])


def probe() -> Recording:
    """Return a text of several lines, recorded by a model with four heads in each of two layers, and a rollout."""
    words = "▁Lisa ▁had ▁to ▁carry ▁a ▁big ▁box . ▁Emi ▁came . ▁She ▁helped ▁Lisa ▁because ▁she ▁was ▁kind ."
    text = sample(["</s>", *(2 * words.split())], None, 100, layers=2, heads=4)
    labels = [["coreference, diagonal", "induction, previous token", "duplicate token", "first token"], ["broad"] * 4]
    return Recording(100, (text,), head_measures((text,)), {"decoder": labels})


def remembered(step: int) -> Recording:
    """Return a step of the run `history`: its loss is 4 nats less the number of recordings before."""
    shares = {"induction": 0.75 if step > 1 else 0.0, "previous": 0.5, "diagonal": 1.0}
    measures = {name: {"decoder": [[share, share]]} for name, share in shares.items()}
    if step:
        measures["importance"] = {"decoder": [[0.5 * step, -0.25]]}
    scores = ()
    if step == max(HISTORY):
        measures["antecedent"] = {"decoder": [[25.0, 62.5]]}
        scores = (Score("antecedent", "best head, reads the pronoun", 62.5, "decoder", 0, 1, "reads", 288),)
    loss = 4.0 - list(HISTORY).index(step)
    return Recording(step, (story(),), measures, {"decoder": [HISTORY[step]]}, scores, parts=PARTS, loss=loss)


def evaluated(step: int) -> Recording:
    """Return a step of the run `evaluated`, whose heads keep the labels of the last evaluation."""
    measures = {"previous": {"decoder": [[step / 100, 0.0]]}}
    scores: tuple[Score, ...] = ()
    if scored := EVALUATED[step]:
        measures |= {"antecedent": {"decoder": [[*scored]]}, "antecedent_agreeing": {"decoder": [[95.0, 85.0]]}}
        scores = (
            Score("antecedent", "best head, reads the pronoun", scored[1], "decoder", 0, 1, "reads", 288),
            Score("antecedent", "chance", 25.0),
            Score("antecedent", "last subject", 75.0),
            Score("antecedent_agreeing", "last subject", 92.0),
        )
    labels = ["coreference" if step >= 30 else "", "coreference" if step >= 20 else ""]
    return Recording(step, (story(),), measures, {"decoder": [labels]}, scores, parts=PARTS)
