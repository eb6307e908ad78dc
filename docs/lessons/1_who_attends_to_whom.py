"""Lesson 1. Who attends to whom: attention as a table of shares, its three kinds, and why scores are divided by √D.

Run it as a script, or cell by cell in VS Code or Jupyter: `# %%` begins a cell.
"""

# %% [markdown]
# # Who attends to whom
#
# Attention(Q, K, V) = softmax(Q Kᵀ / √D) V.
#
# Three letters, three roles: a token's **query** is what it looks for, its **key** is what it offers to those who look,
# its **value** is what it hands over when it is looked at. The softmax turns the scores of one query into shares that
# sum to 1. This lesson is about these shares: the *attention weights*, a table with a row for each query and a
# column for each key.

# %%
import numpy as np
import torch
from figures import beside, compare, graphs, picture, show

from attention_maps.draw.canvas import heat_map, small_multiples
from attention_maps.record.recording import Key, Kind, Recording, Sample, Tokens, tokens
from model.attention import attention, reference_attention
from model.fast.attention import attention_backend

ENGLISH, JAPANESE = ["nah", "I", "d", "win"], ["いいえ", "勝つ", "さ"]

# %% [markdown]
# The text invents three tables by hand:
#
# - **self-attention**: a sentence looks at itself;
# - **causal self-attention**: the same, but nobody looks into the future, so the upper triangle is 0. A model that is
#   to predict the next word must not see it;
# - **cross-attention**: the queries come from one sentence, the keys from another.

# %%
SELF = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.1, 0.4, 0.3, 0.2], [0.3, 0.2, 0.2, 0.3], [0.3, 0.5, 0.1, 0.1]])
CAUSAL = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.2, 0.8, 0.0, 0.0], [0.8, 0.1, 0.1, 0.0], [0.3, 0.5, 0.1, 0.1]])
CROSS = torch.tensor([[0.9, 0.05, 0.05], [0.3, 0.6, 0.1], [0.33, 0.33, 0.33], [0.15, 0.8, 0.05]])

# %% [markdown]
# ## Queries and keys that make these tables
#
# A table like this is never written down in a model; it comes out of queries and keys. Which ones would give just
# these? Take the unit vectors as keys: then a query's numbers *are* its scores. A softmax undoes a logarithm, so query
# = √D · log(weights) does it (√D, because attention will divide by it). Where the text has 0, the mask will put it:
# what a causal query would like from the future makes no difference.


# %%
def queries_for(weights: torch.Tensor) -> torch.Tensor:
    """Queries [1, 1, Q, K] that share their attention like `weights` [Q, K] among the K unit vectors."""
    return weights.clamp(min=1e-9).log()[None, None] * weights.shape[1] ** 0.5


def weights_of(weights: torch.Tensor, causal: bool = False) -> np.ndarray:
    """What `reference_attention` makes of those queries: its weights [1, Q, K], one head."""
    units = torch.eye(weights.shape[1])[None, None]  # [1, 1, K, K]
    return reference_attention(queries_for(weights), units, units, causal=causal)[1][0].numpy()


self_weights, causal_weights, cross_weights = weights_of(SELF), weights_of(CAUSAL, causal=True), weights_of(CROSS)
compare("self-attention", SELF, self_weights[0], digits=2)
compare("causal self-attention", CAUSAL, causal_weights[0], digits=2)
compare("cross-attention", CROSS, cross_weights[0], digits=2)

# %% [markdown]
# One row differs, in the third digit: the text writes .33 three times, which sums to .99. A softmax cannot do that: its
# rows sum to 1, so ours has .3333.

# %%
row_sums = [weights[0].sum(axis=1) for weights in (self_weights, causal_weights, cross_weights)]
upper_triangle = causal_weights[0][np.triu_indices(4, k=1)]
show("rows sum to", [sums.round(6).tolist() for sums in row_sums])
show("upper triangle of the causal map:", upper_triangle.tolist())

# %% [markdown]
# ## Asking for a weight
#
# A `Recording` holds such tables for a whole model: training runs write them at every evaluation. It is asked by token.
# `kind` says which attention: `encoder` (everybody sees everybody), `decoder` (causal) or `cross`. A sample knows one
# source, so the map to the Japanese is a second sample.

# %%
english, japanese = (tokens(range(len(words)), words, frozenset()) for words in (ENGLISH, JAPANESE))


def sample(source: Tokens, weights: dict[Key, np.ndarray]) -> Sample:
    """The English beside a source, with maps that no model made: so nothing was predicted."""
    nothing = tokens((), (), frozenset())
    return Sample(english, nothing, source, losses=(), predictions=(), weights=weights, norms={})


one_sentence = sample(english, {("encoder", 0): self_weights, ("decoder", 0): causal_weights})  # kind and layer
two_sentences = sample(japanese, {("cross", 0): cross_weights})
recording = Recording(step=0, samples=(one_sentence, two_sentences))

# %%
QUESTIONS: list[tuple[Kind, str, str, float]] = [  # kind, query, key, the text's percentage
    ("encoder", "I", "win", 20.0),
    ("encoder", "win", "I", 50.0),
    ("encoder", "d", "nah", 30.0),
    ("decoder", "I", "win", 0.0),
    ("decoder", "win", "I", 50.0),
    ("decoder", "d", "nah", 80.0),
    ("cross", "I", "いいえ", 30.0),
    ("cross", "win", "勝つ", 80.0),
    ("cross", "I", "勝つ", 60.0),
]
answers = {}
for kind, query, key, percent in QUESTIONS:
    weight = recording.weight(query, key, kind=kind, layer=0, sample=int(kind == "cross"), rows="reads")
    answers[kind, query, key] = 100 * weight
    compare(f"{kind}: '{query}' attends '{key}', %", percent, 100 * weight, digits=1)

# %%
picture(
    "1_three_maps",
    beside(
        heat_map(self_weights[0], ENGLISH, ENGLISH, "self-attention", subtitle="all see all", maximum=1),
        heat_map(
            causal_weights[0],
            ENGLISH,
            ENGLISH,
            "causal self-attention",
            subtitle="no one sees the future",
            causal=True,
            maximum=1,
        ),
        heat_map(
            cross_weights[0], ENGLISH, JAPANESE, "cross-attention", subtitle="English asks, Japanese answers", maximum=1
        ),
    ),
)

# %% [markdown]
# ## The same as a graph
#
# Tokens are nodes, weights are arrows from the one who looks to the one who is looked at. The arrows have a direction:
# 'win' gives 'I' 50 %, 'I' gives 'win' 20 %. The causal graph has arrows to the past and to oneself only.

# %%
picture(
    "1_graphs",
    graphs(
        {
            "self-attention": (self_weights[0], ENGLISH, ENGLISH),
            "causal self-attention": (causal_weights[0], ENGLISH, ENGLISH),
            "cross-attention": (cross_weights[0], ENGLISH, JAPANESE),
        },
        "Attention is a directed graph",
        "from each query (left) to the keys (right); the thicker, the more attention",
    ),
)

# %% [markdown]
# ## Why √D
#
# A score is a sum of D products. If all numbers are independent with mean 0 and variance 1, each product has variance
# 1, and the sum has variance D: the wider the head, the larger the scores, and a softmax of large scores looks at one
# key alone, with hardly any gradient to learn another choice. Dividing by √D brings the variance back to 1.

# %%
generator = torch.Generator().manual_seed(1234)
variances = {}
for width in (4, 16, 64, 256):
    q, k = torch.randn(2, 50_000, width, generator=generator)
    variances[width] = ((q * k).sum(dim=1).var().item(), ((q * k).sum(dim=1) / width**0.5).var().item())
    show(f"width {width:>3}: variance of q·k {variances[width][0]:7.2f}, of q·k / √D {variances[width][1]:.3f}")

q, k = torch.randn(2, 8, 64, generator=generator)
sharp, mild = (q @ k.T).softmax(dim=1).numpy(), (q @ k.T / 64**0.5).softmax(dim=1).numpy()
largest_weights = sharp.max(axis=1).mean(), mild.max(axis=1).mean()
show(f"largest weight of a row, on average: {largest_weights[0]:.2f} without √D, {largest_weights[1]:.2f} with it")
labels = [str(number) for number in range(8)]
picture(
    "1_why_divide",
    small_multiples(
        {"softmax(q·k)": sharp, "softmax(q·k / √D)": mild},
        labels,
        labels,
        "Random queries and keys, D = 64",
        row_name="query",
        column_name="key",
        maximum=1,
    ),
)

# %% [markdown]
# ## Flash attention: the same function, another schedule
#
# The table has T × S entries for every head, and moving it through memory costs more than computing it. Flash attention
# (Dao et al. 2022) takes the keys block by block, keeps a running maximum and sum for each softmax, and never holds the
# table. Nothing about the result changes: below, `attention` (fused) against `reference_attention` (the table, spelled
# out), with the gradients. The price: a fused kernel has no weights to show, so maps are recorded through the
# reference.

# %%
q, k, v = torch.randn(3, 1, 4, 128, 64, generator=generator).unbind()
upstream = torch.randn(1, 4, 128, 64, generator=generator)
differences = {}
for causal in (False, True):
    inputs = [x.clone().requires_grad_() for x in (q, k, v)]
    fused, spelled_out = attention(*inputs, causal=causal), reference_attention(*inputs, causal=causal)[0]
    gradients = [torch.autograd.grad(output, inputs, upstream) for output in (fused, spelled_out)]
    in_gradients = max((a - b).abs().max().item() for a, b in zip(*gradients, strict=True))
    in_values = (fused - spelled_out).abs().max().item()
    differences[causal] = in_values, in_gradients
    show(f"causal={causal!s:<5}  largest difference of values {in_values:.0e}, of gradients {in_gradients:.0e}")
show("the kernel that torch chose:", attention_backend(*inputs, causal=True))
