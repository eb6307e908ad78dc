"""Lesson 2. From averages to attention: from the mean to a causal self-attention module, one step at a time.

Run it as a script, or cell by cell in VS Code or Jupyter: `# %%` begins a cell.
"""

# %% [markdown]
# # From averages to attention
#
# Given three tokens, each a vector of five numbers, every token should collect information from the others: its new
# vector is a weighted sum of their vectors. The whole lesson is about one question: *which weights?* The random numbers
# are the same as in the text, so that each step can be compared with it.

# %%
import torch
from figures import beside, compare, picture, show

from attention_maps.draw.heat_map import heat_map
from model.attention import CausalSelfAttention, attention, reference_attention
from model.config import ModelConfig
from model.recording import record_attention

torch.manual_seed(42)
T = torch.randn(3, 5)
TEXT = [
    [0.3367, 0.1288, 0.2345, 0.2303, -1.1229],
    [-0.1863, 2.2082, -0.6380, 0.4617, 0.2674],
    [0.5349, 0.8094, 1.1103, -1.6898, -0.9890],
]
compare("T", TEXT, T)

# %% [markdown]
# ## Step 1: equal weights
#
# The simplest choice is the mean of all tokens up to the current one. Our attention can compute it: a query of zeros
# has the same score, 0, with every key, and the softmax of equal scores gives equal weights. (The two leading ones in
# the shapes are batch and heads.)

# %%
averages, equal_weights = reference_attention(torch.zeros(1, 1, 3, 5), T[None, None], T[None, None], causal=True)
averages, equal_weights = averages[0, 0], equal_weights[0, 0]
compare("mean of tokens 0 and 1", [0.0752, 1.1685, -0.2018, 0.3460, -0.4278], averages[1])
compare("mean of tokens 0, 1 and 2", [0.2284, 1.0488, 0.2356, -0.3326, -0.6148], averages[2])

# %% [markdown]
# ## Step 2: weights from the tokens themselves
#
# Not every token is equally relevant. A first idea is to weight tokens by their similarity, measured by the dot
# product. All nine dot products are T Tᵀ; multiplied by T they give the weighted sums.

# %%
similarity = T @ T.T
compare("scores T Tᵀ", [[1.4988, -0.1217, 1.2659], [-0.1217, 5.6025, -0.0653], [1.2659, -0.0653, 6.0074]], similarity)
naive = similarity @ T
TEXT = [
    [1.2045, 0.9488, 1.8346, -1.8501, -2.9674],
    [-1.1198, 12.3029, -3.6754, 2.6688, 1.6991],
    [3.6518, 4.8810, 7.0084, -9.8898, -7.3800],
]
compare("mixture (T Tᵀ) T", TEXT, naive)

# %% [markdown]
# There are three problems. Each token has the highest score with itself (the diagonal), although its own vector adds no
# information. The scores are symmetric: the verb's score for its subject equals the subject's score for the verb. And
# the scale grows: numbers around 2 become 12.3.
#
# ## Step 3: separate queries and keys
#
# Therefore each token gets two further vectors, each computed with a matrix that a model would learn: the query, which
# describes what the token is looking for, and the key, which describes what the token offers. Scores are dot products
# of queries and keys.

# %%
W_K, W_Q = torch.randn(5, 4), torch.randn(5, 4)
K, Q = T @ W_K, T @ W_Q
compare(
    "keys K",
    [[0.6023, -0.7260, 1.1799, 0.2383], [-0.6521, 4.4224, -3.7460, -1.2657], [-0.7106, -4.3429, 4.2984, -2.3664]],
    K,
)
compare(
    "queries Q",
    [[-1.6964, 1.3355, -0.5133, 0.0674], [1.6595, -0.4445, -0.1917, 1.7729], [-0.1650, -2.9899, -3.8893, 1.2756]],
    Q,
)
scores = Q @ K.T
compare("scores Q Kᵀ", [[-2.5809, 8.8498, -6.9600], [1.5185, -4.5739, -4.2686], [-2.2135, -0.1601, -6.6347]], scores)

# %% [markdown]
# ## Step 4: scale, mask the future, softmax
#
# Dividing by √4 keeps the scores at unit scale for every width (measured in lesson 1). Future tokens get the score -∞:
# its exponential is exactly 0, so the softmax gives these tokens no weight and distributes all weight over the others.

# %%
scaled = scores * 4**-0.5
compare("scaled", [[-1.2905, 4.4249, -3.4800], [0.7593, -2.2869, -2.1343], [-1.1067, -0.0801, -3.3173]], scaled)
past = torch.ones(3, 3).tril().bool()
weights = scaled.masked_fill(~past, float("-inf")).softmax(dim=-1)
compare("causal weights", [[1.0000, 0.0000, 0.0000], [0.9546, 0.0454, 0.0000], [0.2563, 0.7156, 0.0281]], weights)

# %% [markdown]
# ## Step 5: values
#
# The information that a token passes on need not be its own vector either: a third matrix computes its value. The last
# lines repeat the computation in one call of our reference implementation, and in one call of the fused kernel.

# %%
W_V = torch.randn(5, 4)
V = T @ W_V
compare(
    "values V",
    [[-0.9285, 0.3301, 1.8359, -1.3448], [0.4676, -0.1512, -0.5678, 0.8648], [0.6143, 2.6772, -1.3256, -3.2423]],
    V,
)
heads = [x[None, None] for x in (Q, K, V)]  # [B, H, T, D] with one text and one head
result, our_weights = (x[0, 0] for x in reference_attention(*heads, causal=True))
RESULT = [[-0.9285, 0.3301, 1.8359, -1.3448], [-0.8652, 0.3082, 1.7268, -1.2445], [0.1138, 0.0517, 0.0270, 0.1831]]
compare("outputs", RESULT, result)
fused = attention(*heads, causal=True)[0, 0]
difference = max((weights @ V - result).abs().max(), (fused - result).abs().max())
show(f"step by step, reference_attention and the fused attention differ by at most {difference:.0e}")

# %% [markdown]
# ## Step 6: the module of a real model
#
# The blocks of our GPT use `CausalSelfAttention`. Its heads are concatenated to vectors of the model's width, so input
# and output have the same size. The text has five numbers in and four out, so we pad: with width 8 and two heads of
# width 4, the tokens get three zeros, head 0 gets the matrices of the text, head 1 gets zeros, and the output
# projection is the identity. The padding does not change the result.
#
# The module stores the three matrices as one, because one large product is faster than three; its rows are the queries
# of all heads, then the keys, then the values. `nn.Linear` computes x Wᵀ, hence the transposes.

# %%
config = ModelConfig(width=8, heads=2, qk_norm=False)
module = CausalSelfAttention(config, "decoder", layer=0)
with torch.no_grad():
    fused_projection = module.query_key_value.weight.zero_().view(3, 2, 4, 8)  # query/key/value, head, D, C
    for place, matrix in enumerate((W_Q, W_K, W_V)):
        fused_projection[place, 0, :, :5] = matrix.T
    module.output.weight.copy_(torch.eye(8))

padded = torch.nn.functional.pad(T, (0, 3))[None]  # [1, 3, 8]
with torch.no_grad(), record_attention(module) as recording:
    module_output = module(padded)[0]  # [3, 8]
module_weights = recording.weights["decoder", 0][0]  # [H, T, T]

compare("outputs of the module, head 0", RESULT, module_output[:, :4])
compare("its recorded weights", [[1.0, 0.0, 0.0], [0.9546, 0.0454, 0.0], [0.2563, 0.7156, 0.0281]], module_weights[0])
show("head 1, all zeros: largest output", module_output[:, 4:].abs().max().item(), "and equal weights, as in step 1:")
show(module_weights[1])

# %%
tokens = ["T0", "T1", "T2"]
picture(
    "2_four_ways_to_mix",
    beside(
        heat_map(equal_weights.numpy(), tokens, tokens, "1 equal", causal=True, maximum=1),
        heat_map(scaled.softmax(dim=-1).numpy(), tokens, tokens, "3 queries, keys", maximum=1),
        heat_map(weights.numpy(), tokens, tokens, "4 no future", causal=True, maximum=1),
        heat_map(module_weights[0].numpy(), tokens, tokens, "6 the module", causal=True, maximum=1),
    ),
)
