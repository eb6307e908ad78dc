"""A recording: the attention maps of a few examples at one training step, and questions to ask of it.

Shapes: H heads, Q queries (rows), K keys (columns).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

import numpy as np

Kind = Literal["encoder", "decoder", "cross"]
"""`encoder`: source attends to source. `decoder`: text (target) attends to its past. `cross`: target to source."""

KINDS: tuple[Kind, ...] = get_args(Kind)

NAMES: dict[Kind, str] = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "cross-attention",
}
"""Display names."""

Rows = Literal["reads", "predicts"]
"""A decoder row stands between two tokens: it `reads` one and `predicts` the next. For word alignment, `predicts` is
the right name of a row; for "how much does 'win' attend to 'I'" it is `reads`."""

Key = tuple[str, int]
"""Which matrix: its kind and its layer, counted from 0."""


Link = tuple[int, int]
"""A word of the source and one of the target that translate each other, as positions of tokens."""

Measures = dict[str, dict[str, list[list[float]]]]
"""`measures["entropy"]["cross"][layer][head]`; see `attention_maps.record.measures`."""


@dataclass(frozen=True)
class Antecedents:
    """Gold antecedents of pronouns, in token positions."""

    side: Literal["reads", "source"]
    """The side with the pronouns."""

    pairs: tuple[tuple[int, int, int, int], ...]
    """[start, stop) of a pronoun and of its antecedent."""

    def cut(self, length: int) -> Antecedents:
        """Those that lie within the first `length` tokens."""
        return Antecedents(self.side, tuple(pair for pair in self.pairs if max(pair) <= length))


@dataclass(frozen=True)
class Score:
    """One read-out of the maps, measured against gold on many examples, or a baseline beside it."""

    measure: str
    """`alignment_error` (percent, lower is better) or `antecedent` (percent of the pronouns, higher is better)."""

    name: str
    """Display name: `mean of layer 1`, `nearest noun`."""

    value: float

    kind: str | None = None
    """None for a baseline."""

    layer: int | None = None
    head: int | None = None


@dataclass(frozen=True)
class Tokens:
    """Token ids with their readable pieces; `special` marks bos, eos, padding and the like."""

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
        """The first `count` tokens."""
        return Tokens(self.ids[:count], self.pieces[:count], self.special[:count])

    def find(self, token: str | int | range) -> range:
        """Positions of a token: a text (one piece, or several in a row that spell it; `▁` at its ends is
        ignored), an index, or a range.

        Raises LookupError when the text is absent, and also when it occurs more than once, naming the places: taking
        the first one silently would answer another question than the one asked.
        """
        if isinstance(token, range):
            if not token:
                raise LookupError(f"from {token.start} up to {token.stop} there is no position")
            if min(token[0], token[-1]) < 0 or max(token[0], token[-1]) >= len(self):
                raise LookupError(f"the positions {token[0]} to {token[-1]} are not inside the {len(self)} tokens")
            return token
        if isinstance(token, int):
            if not -len(self) <= token < len(self):
                raise LookupError(f"position {token} is not inside the {len(self)} tokens")
            return range(token % len(self), token % len(self) + 1)
        places = list(self._spellings(token.replace(" ", "▁").strip("▁")))
        if len(places) == 1:
            return places[0]
        if not places:
            raise LookupError(f"'{token}' is not among the tokens: {' '.join(self.pieces)}")
        listed = ", ".join(str(p.start) if len(p) == 1 else f"range({p.start}, {p.stop})" for p in places)
        raise LookupError(f"'{token}' occurs {len(places)} times; give one of the positions instead: {listed}")

    def _spellings(self, text: str) -> list[range]:
        bare = [piece.strip("▁") for piece in self.pieces]
        places = []
        for start in range(len(self)):
            if not bare[start]:  # a lone ▁ is never the first or last piece of a word
                continue
            spelled = ""
            for stop in range(start + 1, len(self) + 1):
                spelled += self.pieces[stop - 1]
                if bare[stop - 1] and spelled.strip("▁") == text:
                    places.append(range(start, stop))
                    break
                if len(spelled.strip("▁")) >= len(text):
                    break
        return places


@dataclass(frozen=True)
class Prediction:
    """A token the model thinks may come next, and how likely."""

    id: int
    piece: str
    probability: float


class TokenWeight(NamedTuple):
    """A token and its share of attention."""

    position: int
    piece: str
    weight: float
    """Share of attention, 0 to 1."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Everything recorded of one example. Row i of a decoder or cross map reads `reads[i]` and predicts
    `predicts[i]`."""

    reads: Tokens
    """What the decoder reads (translation: bos + target; GPT: the text)."""

    predicts: Tokens
    """The token that should come next at each position (translation: target + eos). May be one shorter than `reads`:
    nothing is known to follow the last token of a plain text."""

    source: Tokens | None
    """What the encoder reads; None for a GPT."""

    losses: tuple[float, ...]
    """Nats lost on each token of `predicts`."""

    predictions: tuple[tuple[Prediction, ...], ...]
    """For each row the likeliest next tokens, best first."""

    weights: dict[Key, np.ndarray] = field(repr=False)
    """Attention weights [H,Q,K] float16, rows sum to 1."""

    norms: dict[Key, np.ndarray] = field(repr=False)
    """L2 norm of each head's output per query ("activation strength") [H,Q] float16, before the output projection. The
    heads' outputs lie side by side, so all heads together have the norm sqrt(sum of squares over H)."""

    name: str = ""
    """Where it comes from, for titles and menus: `probe 1`, `valid 3`."""

    length: int = 0
    """Tokens on the decoder's side before cutting to the cap."""

    source_length: int = 0
    """Tokens of the source before cutting to the cap; 0 without a source."""

    values: dict[Key, np.ndarray] = field(default_factory=dict, repr=False)
    """Norm of what each head adds for a key [H,K] float16, after the output projection (Kobayashi et al. 2020). Weight
    times this is the key's contribution. Empty in files of an older version."""

    rollout: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    """Per kind (encoder, decoder), attention rollout over all layers [Q,K] float16 (Abnar & Zuidema 2020)."""

    links: tuple[Link, ...] | None = None
    """Gold word alignment, where the corpus knows it: positions in `source` and in `predicts`."""

    antecedents: Antecedents | None = None
    """Gold antecedents of the pronouns, where the corpus knows them."""

    @property
    def truncated(self) -> bool:
        """The example was longer than the cap: its maps show the beginning only."""
        return self.length > len(self.reads) or self.source_length > len(self.source or ())

    def queries(self, kind: Kind, rows: Rows = "reads") -> Tokens:
        """The tokens naming the rows of a map. `predicts` is for the decoder's maps alone."""
        if kind == "encoder":
            if rows == "predicts":
                raise ValueError("an encoder predicts nothing: its rows can only be named by what they read")
            return self._source(kind)
        return self.reads if rows == "reads" else self.predicts

    def keys(self, kind: Kind) -> Tokens:
        """The tokens naming the columns of a map."""
        return self.reads if kind == "decoder" else self._source(kind)

    def _source(self, kind: Kind) -> Tokens:
        if self.source is None:
            raise LookupError(f"no {kind} maps here: the example has no source (a GPT has only decoder maps)")
        return self.source

    def layers(self, kind: Kind) -> int:
        """How many layers were recorded of this kind."""
        return sum(key[0] == kind for key in self.weights)

    def key(self, kind: Kind, layer: int) -> Key:
        """The checked name of one matrix; negative layers count from the last. Raises LookupError naming what there
        is."""
        layers = self.layers(kind)
        if not layers:
            recorded = ", ".join(k for k in KINDS if self.layers(k)) or "nothing"
            raise LookupError(f"no '{kind}' maps in this recording; it holds: {recorded}")
        if not -layers <= layer < layers:
            raise LookupError(f"no {kind} layer {layer}: there are {layers}, counted from 0")
        return kind, layer % layers


@dataclass(frozen=True, eq=False)
class Recording:
    """All maps of some examples at one step. Written by `recorder.record` or read by `store.load`."""

    step: int
    samples: tuple[Sample, ...]

    measures: Measures = field(default_factory=dict, repr=False)
    """Measures of every head."""

    labels: dict[str, list[list[str]]] = field(default_factory=dict, repr=False)
    """Labels of heads: `labels["decoder"][layer][head]`, empty where no rule fits."""

    scores: tuple[Score, ...] = field(default=(), repr=False)
    """Read-outs measured against gold, with baselines."""

    deviation: float = 0.0
    """Largest difference between the weights times the values and the fused kernel's output, as a share of the largest
    output: about 1e-6 in float32, 1e-2 in bfloat16. More would mean that the maps are not what the model computes."""

    def maps(self, sample: int, kind: Kind, layer: int) -> np.ndarray:
        """Attention weights of all heads of one layer [H,Q,K] float32; raises LookupError for what is not recorded."""
        if not -len(self.samples) <= sample < len(self.samples):
            raise LookupError(f"no sample {sample}: there are {len(self.samples)}, counted from 0")
        chosen = self.samples[sample]
        return chosen.weights[chosen.key(kind, layer)].astype(np.float32)

    def map(self, sample: int, kind: Kind, layer: int, head: int | None = None) -> np.ndarray:
        """Attention weights of one head, or the mean of all, [Q,K] float32; raises LookupError like `maps`."""
        weights = self.maps(sample, kind, layer)
        if head is None:
            return weights.mean(axis=0)
        if not -len(weights) <= head < len(weights):
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
        """How much does `query` attend to `key`? Between 0 and 1. `weight("win", "I", ...)`: "'win' attends 'I'".

        `rows`: whether `query` names what a row reads or what it predicts. By default a word of a translation is what
        its row predicts (where that word looked for its source), any other what it reads.
        Words of several pieces: summed over the key's pieces, averaged over the query's. `head=None` is the heads'
        mean.
        """
        matrix = self.map(sample, kind, layer, head)
        chosen = self.samples[sample]
        rows = rows or ("predicts" if kind == "cross" else "reads")
        queries, keys = chosen.queries(kind, rows).find(query), chosen.keys(kind).find(key)
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
        """The keys that `query` attends to most, or the queries that attend most to `key`: strongest first, at most
        `top`, none of weight 0.

        Words of several pieces, `head` and `rows` are treated as in `weight`; the other side is given piece by piece.
        """
        if (query is None) == (key is None):
            raise ValueError("the strongest links of a query or of a key: give one of the two")
        matrix = self.map(sample, kind, layer, head)
        chosen = self.samples[sample]
        queries = chosen.queries(kind, rows or ("predicts" if kind == "cross" else "reads"))
        keys = chosen.keys(kind)
        if query is not None:
            others, weights = keys, matrix[queries.find(query)].mean(axis=0)  # [K]
        elif key is not None:
            others, weights = queries, matrix[: len(queries), keys.find(key)].sum(axis=1)  # [Q]
        order = np.argsort(-weights, kind="stable")[:top]
        return [TokenWeight(int(i), others.pieces[i], float(weights[i])) for i in order if weights[i] != 0]


def tokens(ids: Sequence[int], pieces: Sequence[str], special_ids: frozenset[int]) -> Tokens:
    """Tokens with the special ones marked."""
    return Tokens(tuple(ids), tuple(pieces), tuple(token in special_ids for token in ids))
