"""Define a recording: the attention maps of a few examples at one training step, with methods to query the maps.

Shapes: H heads, Q queries (rows), K keys (columns).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from attention_maps.files.file_names import KINDS, Kind

NAMES: dict[Kind, str] = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "cross-attention",
}
"""Display names."""

Rows = Literal["reads", "predicts"]
"""Label of a decoder row: the token that the row `reads` or the next token, which the row `predicts`. Use `predicts`
for word alignment and `reads` for self-attention ("how much does 'win' attend to 'I'")."""

Key = tuple[str, int]
"""Kind and layer (counted from 0) of a map."""

Link = tuple[int, int]
"""Token positions (source, target) of two words that translate each other."""

Measures = dict[str, dict[str, list[list[float]]]]
"""`measures["entropy"]["cross"][layer][head]`; see `attention_maps.record.head_measures_and_labels`."""


@dataclass(frozen=True)
class Antecedents:
    """Gold antecedents of pronouns, in token positions."""

    side: Literal["reads", "source"]
    """The side that contains the pronouns."""

    pairs: tuple[tuple[int, int, int, int], ...]
    """[start, stop) of each pronoun and [start, stop) of its antecedent."""

    mentions: tuple[tuple[int, int, int, bool], ...] = ()
    """[start, stop), referent and whether it is a pronoun, of every mention in the text: the candidates of the measure
    `antecedent`. Empty if only pairs are known."""

    def cut(self, length: int) -> Antecedents:
        """Keep the pairs and mentions within the first `length` tokens."""
        pairs = tuple(pair for pair in self.pairs if max(pair) <= length)
        return Antecedents(self.side, pairs, tuple(mention for mention in self.mentions if mention[1] <= length))


@dataclass(frozen=True)
class Score:
    """Score of predictions derived from attention maps, or of a baseline, against gold labels on many examples."""

    measure: str
    """`alignment_error` (percent, lower is better) or `antecedent` (percentage of pronouns, higher is better)."""

    name: str
    """Display name: `mean of layer 1`, `nearest noun`."""

    value: float

    kind: str | None = None
    """None for a baseline."""

    layer: int | None = None
    head: int | None = None
    rows: Rows | None = None
    """The scored row of each word or pronoun."""

    count: int | None = None
    """Number of scored pronouns or sentence pairs; None if unknown."""


@dataclass(frozen=True)
class Tokens:
    """Token ids with their readable pieces; `special` marks bos, eos, padding and other special tokens."""

    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    special: tuple[bool, ...]

    def __post_init__(self) -> None:
        if not len(self.ids) == len(self.pieces) == len(self.special):
            counts = f"{len(self.ids)} ids, {len(self.pieces)} pieces, {len(self.special)} special marks"
            raise ValueError(f"a token needs an id, a piece and a special mark each, got {counts}")

    def __len__(self) -> int:
        return len(self.ids)

    def first(self, count: int) -> Tokens:
        """Return the first `count` tokens."""
        return Tokens(self.ids[:count], self.pieces[:count], self.special[:count])

    def after(self, count: int) -> Tokens:
        """Return the tokens after the first `count`."""
        return Tokens(self.ids[count:], self.pieces[count:], self.special[count:])

    def find(self, token: str | int | range) -> range:
        """Return the positions of a token given as text (one or more consecutive pieces; leading and trailing `▁` are
        ignored), index or range.

        Raises LookupError if a position is out of range, or if the text is absent or occurs several times; in the last
        case the message lists the positions.
        """
        if isinstance(token, range):
            if not token:
                raise LookupError(f"the range {token.start}:{token.stop} is empty")
            if min(token[0], token[-1]) < 0 or max(token[0], token[-1]) >= len(self):
                raise LookupError(f"the positions {token[0]} to {token[-1]} are not within the {len(self)} tokens")
            return token
        if isinstance(token, int):
            if token not in range(-len(self), len(self)):
                raise LookupError(f"position {token} is not within the {len(self)} tokens")
            return range(token % len(self), token % len(self) + 1)
        places = self._spellings(token.replace(" ", "▁").strip("▁"))
        if len(places) == 1:
            return places[0]
        if not places:
            raise LookupError(f"'{token}' is not among the tokens: {' '.join(self.pieces)}")
        listed = ", ".join(str(p.start) if len(p) == 1 else f"range({p.start}, {p.stop})" for p in places)
        raise LookupError(f"'{token}' occurs {len(places)} times; use one of the positions {listed}")

    def _spellings(self, text: str) -> list[range]:
        starts, stops, joined = {}, {}, ""  # positions by character offset
        for position, piece in enumerate(self.pieces):
            if piece.strip("▁"):  # a lone ▁ is never the first or last piece of a word
                starts[len(joined) + len(piece) - len(piece.lstrip("▁"))] = position
                stops[len(joined) + len(piece.rstrip("▁"))] = position + 1
            joined += piece
        matches = [at for at in starts if text and joined.startswith(text, at) and at + len(text) in stops]
        return [range(starts[at], stops[at + len(text)]) for at in matches]


class Prediction(NamedTuple):
    """A candidate for the next token and its predicted probability."""

    id: int
    piece: str
    probability: float


class Part(NamedTuple):
    """A component of the model that adds to the residual stream of the decoder."""

    kind: str
    """`embedding`, `decoder` or `cross` (a head), `mlp`, or `bias` (of the final norm and of the projections)."""
    layer: int = 0
    head: int = 0


class TokenWeight(NamedTuple):
    """A token and its attention weight."""

    position: int
    piece: str
    weight: float
    """Attention weight, 0 to 1."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Recorded data of one example. In decoder and cross maps, row i reads `reads[i]` and predicts `predicts[i]`."""

    reads: Tokens
    """Decoder input (translation: bos + target; GPT: the text)."""

    predicts: Tokens
    """Gold next token at each position (translation: target + eos). May be one shorter than `reads`: the token
    after the end of a plain text is unknown. Empty if nothing is predicted, as in recordings of other models."""

    source: Tokens | None
    """Encoder input; None for a GPT."""

    losses: tuple[float, ...]
    """Cross-entropy of each token of `predicts`, in nats; empty if unknown."""

    predictions: tuple[tuple[Prediction, ...], ...]
    """Most likely next tokens of each row, in descending order; empty if unknown."""

    weights: dict[Key, np.ndarray] = field(repr=False)
    """Attention weights [H,Q,K] float16, rows sum to 1."""

    norms: dict[Key, np.ndarray] = field(repr=False)
    """L2 norm of each head's output per query ("activation strength") [H,Q] float16, before the output projection. Head
    outputs are concatenated, so the norm of all heads together is sqrt(sum of squares over H)."""

    name: str = ""
    """Display name: `probe 1`, `valid 3`."""

    length: int = 0
    """Number of decoder tokens before truncation."""

    source_length: int = 0
    """Number of source tokens before truncation; 0 without a source."""

    values: dict[Key, np.ndarray] = field(default_factory=dict, repr=False)
    """Norm of each head's value vector per key [H,K] float16, after the output projection (Kobayashi et al. 2020).
    Weight times norm is the contribution of the key. Empty if unknown."""

    attribution: np.ndarray | None = field(default=None, repr=False)
    """What each part of the model, in the order of `Recording.parts`, adds to the logits of the tokens in `candidates`,
    [N,P,T] float32: direct logit attribution. The mean logit of the vocabulary is subtracted. None if unknown."""

    logits: np.ndarray | None = field(default=None, repr=False)
    """The model's own logits of the same tokens minus the mean logit, [N,T]: the sums of `attribution`, in its format,
    up to what a model in bfloat16 rounds away."""

    lens: tuple[tuple[tuple[Prediction, ...], ...], ...] = ()
    """Most likely next tokens [L-1][T] if the model ended after each layer but the last (logit lens); the last layer is
    `predictions`. Empty if unknown."""

    rollout: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    """Attention rollout over all layers [Q,K] float16 by kind (encoder, decoder) (Abnar & Zuidema 2020)."""

    links: tuple[Link, ...] | None = None
    """Gold word alignment, if the corpus provides it: positions in `source` and in `predicts`."""

    antecedents: Antecedents | None = None
    """Gold antecedents of the pronouns, if the corpus provides them."""

    @property
    def truncated(self) -> bool:
        """Whether the example was truncated: the maps cover only its beginning."""
        return self.length > len(self.reads) or self.source_length > len(self.source or ())

    def candidates(self, row: int) -> tuple[int, ...]:
        """Return the ids of the tokens whose logits are attributed in a row: the next token of the text (after its end,
        the most likely token), and the most likely ones."""
        predicted = tuple(candidate.id for candidate in self.predictions[row])
        return ((self.predicts.ids[row] if row < len(self.predicts) else predicted[0]), *predicted)

    def queries(self, kind: Kind, rows: Rows = "reads") -> Tokens:
        """Return the tokens that label the rows of a map. Raises ValueError for `predicts` with an encoder map."""
        if kind == "encoder":
            if rows == "predicts":
                raise ValueError("an encoder predicts nothing: use rows=reads")
            return self._source(kind)
        return self.reads if rows == "reads" else self.predicts

    def keys(self, kind: Kind) -> Tokens:
        """Return the tokens that label the columns of a map."""
        return self.reads if kind == "decoder" else self._source(kind)

    def _source(self, kind: Kind) -> Tokens:
        if self.source is None:
            raise LookupError(f"no {kind} maps here: the example has no source (a GPT has only decoder maps)")
        return self.source

    def layers(self, kind: Kind) -> int:
        """Return the number of recorded layers of this kind."""
        return sum(key[0] == kind for key in self.weights)

    def key(self, kind: Kind, layer: int) -> Key:
        """Return the validated key of a map; negative layers count from the last. Raises LookupError that lists the
        recorded kinds or layers."""
        layers = self.layers(kind)
        if not layers:
            recorded = ", ".join(k for k in KINDS if self.layers(k)) or "nothing"
            raise LookupError(f"no '{kind}' maps in this recording; available: {recorded}")
        if layer not in range(-layers, layers):
            raise LookupError(f"no {kind} layer {layer}: there are {layers}, counted from 0")
        return kind, layer % layers


@dataclass(frozen=True, eq=False)
class Recording:
    """All maps of some examples at one step, from `recorder.record` or `store.load`."""

    step: int
    samples: tuple[Sample, ...]

    measures: Measures = field(default_factory=dict, repr=False)
    """Measures of every head."""

    labels: dict[str, list[list[str]]] = field(default_factory=dict, repr=False)
    """Labels of heads: `labels["decoder"][layer][head]`, empty if no rule matches."""

    scores: tuple[Score, ...] = field(default=(), repr=False)
    """Scores against gold labels, with baselines."""

    deviation: float = 0.0
    """Maximum difference between weights times values and the fused kernel's output, relative to the largest output:
    about 1e-6 in float32, 1e-2 in bfloat16. A larger value means that the maps do not match the model."""

    parts: tuple[Part, ...] = ()
    """Parts of the model whose contributions are recorded; empty if there are none."""

    loss: float | None = None
    """Mean loss per token of the examples that the model did not write itself, in nats; None if there are none or they
    are unknown."""

    layer_numbers: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """The model's own numbers of the layers of a kind, `{"decoder": (5, 11)}`, if only some are recorded. Everywhere
    else, layers are counted from 0 among the recorded ones."""

    about: dict[str, str] = field(default_factory=dict, repr=False)
    """What to cite, in short texts: `title`, `model`, `data`, `command` (that trains it), `date` (of the recording) and
    `licence`; those that are unknown are left out. `store.save` shortens what is too long."""

    def layer_number(self, kind: str, layer: int) -> int:
        """Return the model's own number of a recorded layer."""
        return self.layer_numbers[kind][layer] if kind in self.layer_numbers else layer

    def maps(self, sample: int, kind: Kind, layer: int) -> np.ndarray:
        """Return the maps of all heads of one layer [H,Q,K] float32. Raises LookupError if they are not recorded."""
        if sample not in range(-len(self.samples), len(self.samples)):
            raise LookupError(f"no sample {sample}: there are {len(self.samples)}, counted from 0")
        chosen = self.samples[sample]
        return chosen.weights[chosen.key(kind, layer)].astype(np.float32)

    def map(self, sample: int, kind: Kind, layer: int, head: int | None = None) -> np.ndarray:
        """Return the map of one head, or the mean over heads, [Q,K] float32. Raises LookupError like `maps`."""
        weights = self.maps(sample, kind, layer)
        if head is None:
            return weights.mean(axis=0)
        if head not in range(-len(weights), len(weights)):
            raise LookupError(f"no head {head}: there are {len(weights)}, counted from 0")
        return weights[head]

    def weight(
        self,
        query: str | int | range,
        key: str | int | range,
        *,
        kind: Kind,
        layer: int,
        head: int | None = None,
        sample: int = 0,
        rows: Rows | None = None,
    ) -> float:
        """Return the attention weight from `query` to `key`, 0 to 1. Example: `weight("win", "I", ...)`.

        `rows`: whether `query` is the token that a row reads or predicts; default: `predicts` for cross-attention,
        `reads` otherwise. Weights are summed over the pieces of the key and averaged over the pieces of the query.
        `head=None` is the mean over heads.
        """
        matrix, chosen = self.map(sample, kind, layer, head), self.samples[sample]
        queries, keys = chosen.queries(kind, rows or default_rows(kind)).find(query), chosen.keys(kind).find(key)
        return float(matrix[np.ix_(queries, keys)].sum(axis=1).mean())

    def strongest(
        self,
        query: str | int | range | None = None,
        *,
        key: str | int | range | None = None,
        kind: Kind,
        layer: int,
        head: int | None = None,
        sample: int = 0,
        rows: Rows | None = None,
        top: int = 3,
    ) -> list[TokenWeight]:
        """Return the keys that `query` attends to most, or the queries that attend most to `key`: at most `top`,
        strongest first, without weights of 0.

        Words of several pieces, `head` and `rows` are treated as in `weight`; the result lists single pieces.
        """
        if (query is None) == (key is None):
            raise ValueError("give either query or key")
        matrix, chosen = self.map(sample, kind, layer, head), self.samples[sample]
        queries, keys = chosen.queries(kind, rows or default_rows(kind)), chosen.keys(kind)
        if query is not None:
            others, weights = keys, matrix[queries.find(query)].mean(axis=0)  # [K]
        elif key is not None:
            others, weights = queries, matrix[: len(queries), keys.find(key)].sum(axis=1)  # [Q]
        order = np.argsort(-weights, kind="stable")[:top]
        return [TokenWeight(int(i), others.pieces[i], float(weights[i])) for i in order if weights[i] != 0]


def default_rows(kind: Kind) -> Rows:
    """Return the default row labels: predicted tokens in cross-attention maps, tokens read in others."""
    return "predicts" if kind == "cross" else "reads"


def tokens(ids: Sequence[int], pieces: Sequence[str], special_ids: frozenset[int]) -> Tokens:
    """Build `Tokens` that mark the ids in `special_ids` as special."""
    return Tokens(tuple(ids), tuple(pieces), tuple(token in special_ids for token in ids))
