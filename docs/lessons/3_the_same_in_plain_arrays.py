"""Lesson 3. The same in plain arrays: attention in four lines of NumPy, in double precision, and the effect of scaling
on the variance.

Run it as a script, or cell by cell in VS Code or Jupyter: `# %%` begins a cell.
"""

# %% [markdown]
# # The same in plain arrays
#
# This lesson uses only NumPy, without modules or gradients, for four tokens with queries, keys and values of width 8.
# The text drew its numbers without a seed but printed them. They are copied here, so that all results can be compared
# to eight digits.

# %%
import numpy as np
import torch
from figures import beside, compare, curves, picture, show

from attention_maps.draw.heat_map import heat_map
from model.attention import attention, reference_attention

NUMBERS = """
1.16797418 -0.73724956 0.75041732 -0.1220419 1.70315355 0.31347885 0.34485802 0.4460984
3.30107262 0.52084263 -0.30178335 1.6757843 -0.5155369 -2.57282086 0.7492196 -0.1116739
1.79346332 1.43356091 1.04335097 -0.17879843 0.64886601 -1.36614847 0.23380491 0.87536806
1.47103375 -1.58489204 -0.45911092 0.28391595 0.21250504 -1.61590866 -1.29484902 0.00475083
-0.27718816 -1.65065268 0.65895024 -0.30877976 0.08718337 -1.25869869 -0.189555 0.19835477
0.34020432 0.52734301 0.70054018 0.02666352 -0.47575991 0.27451574 0.31178952 -0.80116187
-0.32764932 -0.14549352 -0.40258405 0.75537362 1.05953459 -1.34530308 1.99241804 0.17674986
-1.40543092 0.43389184 -0.07028518 0.10003431 1.26343057 -2.0707861 0.51659185 -1.03069964
-1.20455614 -0.78141984 -0.60550966 -0.49607676 0.05358656 0.31648808 1.97222775 0.97455048
-0.22988732 -2.3585375 0.49206019 -0.74539263 -0.530485 -0.23619713 0.80175571 0.96790588
-1.20769139 -1.33242785 -1.59215534 2.60984511 0.33729297 0.46552584 1.51418349 0.72913429
0.5936924 -0.6305729 -0.95026899 0.87634056 -1.56283632 0.3099347 -0.36928654 1.2784266
"""
q, k, v = np.loadtxt(NUMBERS.strip().splitlines()).reshape(3, 4, 8)  # four rows each
DIGITS = 5e-8  # the numbers above are rounded too, so a sum of eight products is exact to seven digits

# %% [markdown]
# ## Attention in four lines

# %%
scores = q @ k.T  # [L, L]
scaled = scores / np.sqrt(8)
exponentials = np.exp(np.where(np.tri(4, dtype=bool), scaled, -np.inf))  # exp(-inf) is exactly 0
weights = exponentials / exponentials.sum(axis=1, keepdims=True)
outputs = weights @ v  # [L, d]

SCORES = [
    [1.20239352, -0.44310134, 1.479061, -0.80531921],
    [0.53823363, 1.09303249, 4.61797795, 0.95396625],
    [-0.21525807, 0.78011689, 1.79464107, 0.87754205],
    [4.11701088, -1.60160544, -0.03209583, 0.24644341],
]
compare("scores", SCORES, scores, 8, DIGITS)
SCALED = [
    [0.42511031, -0.15665998, 0.52292703, -0.28472334],
    [0.19029433, 0.38644534, 1.63270176, 0.337278],
    [-0.07610522, 0.27581297, 0.63450144, 0.31025797],
    [1.45558315, -0.56625303, -0.01134759, 0.0871309],
]
compare("scaled", SCALED, scaled, 8, DIGITS)
WEIGHTS = [
    [1.0, 0.0, 0.0, 0.0],
    [0.45111887, 0.54888113, 0.0, 0.0],
    [0.22436527, 0.31900079, 0.45663394, 0.0],
    [0.61822085, 0.08185993, 0.14258168, 0.15733755],
]
compare("causal weights", WEIGHTS, weights, 8, DIGITS)

# %% [markdown]
# ## The same with our functions
#
# `attention` computes in the precision of its inputs, here float64, so it can be compared to all eight digits. It does
# not return the weights, but with unit vectors as values its outputs are the weights. `reference_attention` always
# computes in float32, like the models, so it agrees to about six digits.

# %%
query, key, value = (torch.from_numpy(x)[None, None] for x in (q, k, v))  # [B, H, L, d] with one text and one head
units = torch.eye(4, dtype=torch.float64)[None, None]
ours = attention(query, key, value, causal=True)[0, 0].numpy()
our_weights = attention(query, key, units, causal=True)[0, 0].numpy()
reference_weights = reference_attention(query, key, value, causal=True)[1][0, 0].numpy()

OUTPUTS = [
    [-1.20455614, -0.78141984, -0.60550966, -0.49607676, 0.05358656, 0.31648808, 1.97222775, 0.97455048],
    [-0.66957881, -1.64706996, -0.00307428, -0.63292153, -0.2669993, 0.0131296, 1.32977774, 0.97090339],
    [-0.89506767, -1.53613058, -0.70591991, 0.84266061, -0.00318276, 0.20823676, 1.38968769, 0.86036549],
    [-0.84228483, -0.96535234, -0.71058386, 0.14229459, -0.20809817, 0.29146427, 1.44269616, 0.98682583],
]
compare("outputs", OUTPUTS, ours, 8, DIGITS)
compare("weights, by unit vectors as values", WEIGHTS, our_weights, 8, DIGITS)
show(f"in float32, by reference_attention, they differ by at most {np.abs(reference_weights - weights).max():.0e}")
show("rows sum to", our_weights.sum(axis=1).round(12).tolist())

# %% [markdown]
# The first token can only attend to itself, so its output is exactly its own value, `v[0]`.

# %%
show("first output equals v[0]:", np.array_equal(ours[0], v[0]))

# %% [markdown]
# ## A mask that adds 1
#
# The text adds a mask that is -∞ for the future and, because it is made from a triangle of ones, 1 for the past. So all
# visible scores of a row grow by 1. This is harmless, because a softmax depends only on differences of scores: in
# e^(s+1) = e · eˢ, the factor e cancels. (Two small flaws: a mask of 0 would be clearer; and a softmax should first
# subtract the largest score, as torch's does, because large scores overflow.)

# %%
mask = np.tri(4)
mask[mask == 0] = -np.inf
plus_one = torch.from_numpy(scaled + mask).softmax(dim=1).numpy()
compare("scaled + mask, last row", [2.45558315, 0.43374697, 0.98865241, 1.0871309], (scaled + mask)[3], 8, DIGITS)
show(f"weights with and without the 1 differ by {np.abs(plus_one - weights).max():.0e}")

# %%
tokens = ["0", "1", "2", "3"]
everything = torch.from_numpy(scaled).softmax(dim=1).numpy()
picture(
    "3_masked",
    beside(
        heat_map(everything, tokens, tokens, "softmax", "over all scores", maximum=1),
        heat_map(our_weights, tokens, tokens, "masked softmax", "over past scores", causal=True, maximum=1),
    ),
)

# %% [markdown]
# ## Variance, in this draw and in many
#
# Dividing the scores by √d divides their variance by d, here 8, exactly. Only the product is divided; dividing both q
# and k by √d would scale twice.

# %%
VARIANCES = {
    "q": (1.3772888688, q),
    "k": (0.7481376289, k),
    "v": (1.2000978211, v),
    "the scores": (2.4433004815, scores),
    "the scaled scores": (0.3054125602, scaled),
}
for name, (variance, array) in VARIANCES.items():
    compare(f"variance of {name}", variance, array.var(), 10, DIGITS)
show(f"ratio: {scores.var() / scaled.var():.12f}")

# %% [markdown]
# The variance of the scores is 2.44, not 8, because sixteen scores are a small sample. Over many draws it is 8 · 15/16
# = 7.5 on average (the variance around the mean of 16 numbers is 15/16 of the true variance), 0.94 after scaling. The
# variance of the text's draw is unusually low.

# %%
generator = np.random.default_rng(0)
many_q, many_k = generator.standard_normal((2, 20_000, 4, 8))
many = (many_q @ many_k.transpose(0, 2, 1)).var(axis=(1, 2))  # the variance of each draw
mean_variance, mean_scaled_variance = many.mean(), many.mean() / 8
quieter = (many < scores.var()).mean()
show(f"mean variance over 20,000 draws: {mean_variance:.2f}, scaled {mean_scaled_variance:.2f}")
show(f"draws with a variance below the text's: {quieter:.1%}")

# %%
widths = [2**power for power in range(1, 10)]
draws = {width: generator.standard_normal((2, 10_000, width)) for width in widths}
raw = [np.einsum("nd,nd->n", *draws[width]).var() for width in widths]
series = {"q·k": raw, "q·k / √d": [variance / width for variance, width in zip(raw, widths, strict=True)]}
title, subtitle = "The variance of a score", "10,000 pairs of random vectors for each width"
picture("3_variance", curves(widths, series, title, subtitle, x_name="width d"))
