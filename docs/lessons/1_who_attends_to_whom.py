"""Lesson 1. Who attends to whom: attention as a table of weights, its three kinds, and why scores are divided by √D.

Run it as a script, or cell by cell in VS Code or Jupyter: `# %%` begins a cell.
"""

# %% [markdown]
# # Who attends to whom
#
# Attention(Q, K, V) = softmax(Q Kᵀ / √D) V.
#
# The three letters are three roles of a token: its **query** describes what the token is looking for, its **key** what
# it offers to other tokens, and its **value** is the information that it passes on. The softmax turns the scores of one
# query into weights that sum to 1. This lesson is about these *attention weights*: a table with a row for each query
# and a column for each key.

# %%
import numpy as np
import torch
from figures import beside, compare, graphs, picture, show

from attention_maps.draw.heat_map import heat_map, small_multiples
from attention_maps.record.recording import Key, Kind, Recording, Sample, Tokens, tokens
from model.attention import attention, reference_attention
from training.hardware.gpu_attention import attention_backend

ENGLISH, JAPANESE = ["nah", "I", "d", "win"], ["いいえ", "勝つ", "さ"]

# %% [markdown]
# The text uses three hand-made tables:
#
# - **self-attention**: a sentence attends to itself;
# - **causal self-attention**: the same, but no token attends to later tokens, so the upper triangle is 0. A model that
#   learns to predict the next word must not see it;
# - **cross-attention**: the queries come from one sentence, the keys from another.

# %%
SELF = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.1, 0.4, 0.3, 0.2], [0.3, 0.2, 0.2, 0.3], [0.3, 0.5, 0.1, 0.1]])
CAUSAL = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.2, 0.8, 0.0, 0.0], [0.8, 0.1, 0.1, 0.0], [0.3, 0.5, 0.1, 0.1]])
CROSS = torch.tensor([[0.9, 0.05, 0.05], [0.3, 0.6, 0.1], [0.33, 0.33, 0.33], [0.15, 0.8, 0.05]])

# %% [markdown]
# ## Queries and keys that produce these tables
#
# A model does not store such a table; it computes the table from queries and keys. Which queries and keys produce
# exactly these tables? If the keys are the unit vectors, the components of a query *are* its scores. Since the softmax
# inverts the logarithm, query = √D · log(weights) (√D, because attention divides by √D). The zeros in the causal table
# come from the mask, so the scores of future keys have no effect.


# %%
def queries_for(weights: torch.Tensor) -> torch.Tensor:
    """Return queries [1, 1, Q, K] whose attention weights over K unit vectors are `weights` [Q, K]."""
    return weights.clamp(min=1e-9).log()[None, None] * weights.shape[1] ** 0.5


def weights_of(weights: torch.Tensor, causal: bool = False) -> np.ndarray:
    """Return the weights [1, Q, K] (one head) of `reference_attention` for these queries."""
    units = torch.eye(weights.shape[1])[None, None]  # [1, 1, K, K]
    return reference_attention(queries_for(weights), units, units, causal=causal)[1][0].numpy()


self_weights, causal_weights, cross_weights = weights_of(SELF), weights_of(CAUSAL, causal=True), weights_of(CROSS)
compare("self-attention", SELF, self_weights[0], digits=2)
compare("causal self-attention", CAUSAL, causal_weights[0], digits=2)
compare("cross-attention", CROSS, cross_weights[0], digits=2)

# %% [markdown]
# One row differs in the third digit: the text prints .33 three times, which sums to .99. The rows of a softmax sum to
# 1, so our row has .3333.

# %%
row_sums = [weights[0].sum(axis=1) for weights in (self_weights, causal_weights, cross_weights)]
upper_triangle = causal_weights[0][np.triu_indices(4, k=1)]
show("rows sum to", [sums.round(6).tolist() for sums in row_sums])
show("upper triangle of the causal map:", upper_triangle.tolist())

# %% [markdown]
# ## Querying a weight
#
# A `Recording` holds such tables for a whole model; training runs record one every few steps. Weights are looked up
# by token. `kind` selects the attention: `encoder` (every token attends to every token), `decoder` (causal) or `cross`.
# A sample has one source, so the map to the Japanese sentence is a second sample.

# %%
english, japanese = (tokens(range(len(words)), words, frozenset()) for words in (ENGLISH, JAPANESE))


def sample(source: Tokens, weights: dict[Key, np.ndarray]) -> Sample:
    """Return a sample of the English sentence and a source, with hand-made maps and hence no predictions."""
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
    compare(f"{kind}: '{query}' attends to '{key}', %", percent, 100 * weight, digits=1)

# %%
picture(
    "1_three_maps",
    beside(
        heat_map(self_weights[0], ENGLISH, ENGLISH, "self-attention", "not masked", maximum=1),
        heat_map(causal_weights[0], ENGLISH, ENGLISH, "causal self-attention", "future masked", causal=True, maximum=1),
        heat_map(cross_weights[0], ENGLISH, JAPANESE, "cross-attention", "English queries, Japanese keys", maximum=1),
    ),
)

# %% [markdown]
# ## The same as a graph
#
# Tokens are nodes, and weights are arrows from the query token to the key token. The arrows are directed: the weight
# from 'win' to 'I' is 50 %, from 'I' to 'win' 20 %. In the causal graph, every arrow points to the token itself or to
# an earlier token.

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
        "from each query (left) to the keys (right); thicker arrows for larger weights",
    ),
)

# %% [markdown]
# ## Why √D
#
# A score is a sum of D products. If all components are independent with mean 0 and variance 1, each product has
# variance 1, and the sum has variance D: the wider the head, the larger the scores. A softmax of large scores puts
# nearly all weight on one key and has hardly any gradient. Dividing by √D brings the variance back to 1.

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
labels, title = [str(number) for number in range(8)], "Random queries and keys, D = 64"
panels = {"softmax(q·k)": sharp, "softmax(q·k / √D)": mild}
picture("1_why_divide", small_multiples(panels, labels, labels, title, row_name="query", column_name="key", maximum=1))

# %% [markdown]
# ## Flash attention: the same function, computed differently
#
# The table has T × S entries for each head, and moving it through memory costs more time than computing it. Flash
# attention (Dao et al. 2022) processes the keys block by block, keeps a running maximum and sum for each softmax, and
# never stores the table. The result is the same: the next cell compares `attention` (fused) with `reference_attention`,
# which computes the table, in values and gradients. The fused kernel does not return the weights, so maps are recorded
# with the reference implementation.

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
