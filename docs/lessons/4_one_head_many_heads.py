"""Lesson 4. One head, many heads: similarity, one map of ten tokens, four heads with different features.

Run it as a script, or cell by cell in VS Code or Jupyter: `# %%` begins a cell.
"""

# %% [markdown]
# # One head, many heads
#
# ## How similar are two vectors?
#
# The dot product combines length and direction in one number. Divided by both lengths, it is the cosine, which depends
# on direction only. Attention uses the plain dot product, so a longer key has larger scores.

# %%
import numpy as np
import torch
from figures import bars, compare, picture, show

from attention_maps.draw.heat_map import heat_map, small_multiples
from attention_maps.record.recording import Recording, Sample, tokens
from model.attention import SelfAttention, reference_attention
from model.config import ModelConfig
from model.recording import record_attention

x, y = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.2, 2.1, 2.9, 3.7])
dot, x_length, y_length = x @ y, np.linalg.norm(x), np.linalg.norm(y)
x_unit, y_unit = x / x_length, y / y_length
cosine = x_unit @ y_unit
angle = np.degrees(np.arccos(cosine))
compare("dot product", 28.90, dot, 2)
compare("length of x", 5.48, x_length, 2)
compare("length of y", 5.29, y_length, 2)
compare("cosine", 0.9980, cosine)
compare("angle in degrees", 3.59, angle, 2)
compare("x at length 1", [0.183, 0.365, 0.548, 0.730], x_unit, 3)
compare("y at length 1", [0.227, 0.397, 0.549, 0.700], y_unit, 3)

# %% [markdown]
# ## Ten tokens, eight features
#
# The sentence has an ambiguous pronoun: what is less acidic? The text gives each word eight hand-made features instead
# of learned ones. It does not name the features; we name each after the words that have it:

# %%
WORDS = ["I", "prefer", "apple", "over", "orange", "because", "it", "is", "less", "acidic"]
FEATURES = ["person", "preferring", "fruit", "comparing", "reason", "pronoun", "acidity", "amount"]
X = torch.tensor(
    [
        [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],  # I
        [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],  # prefer
        [0.0, 0.1, 1.0, 0.2, 0.0, 0.0, 0.1, 0.0],  # apple
        [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0],  # over
        [0.0, 0.1, 1.0, 0.2, 0.0, 0.0, 0.3, 0.0],  # orange
        [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.1, 0.0],  # because
        [0.0, 0.0, 0.4, 0.0, 0.0, 1.0, 0.1, 0.0],  # it
        [0.0, 0.0, 0.0, 0.0, 0.2, 0.0, 0.0, 0.0],  # is
        [0.0, 0.0, 0.0, 0.0, 0.1, 0.0, 0.4, 1.0],  # less
        [0.0, 0.0, 0.2, 0.0, 0.4, 0.0, 1.0, 0.0],  # acidic
    ]
)
picture("4_features", heat_map(X.numpy(), WORDS, FEATURES, "Ten tokens, eight features"))

# %% [markdown]
# ## One head
#
# We use the encoder's `SelfAttention` with one head and identity matrices for all projections: queries, keys and values
# are the features themselves. The text shows weights only in pictures, so we compare ours with its formula in NumPy.

# %%
module = SelfAttention(ModelConfig(width=8, heads=1, qk_norm=False), "encoder", layer=0)
with torch.no_grad():
    module.query_key_value.weight.copy_(torch.eye(8).repeat(3, 1))
    module.output.weight.copy_(torch.eye(8))
    with record_attention(module) as seen:
        single_output = module(X[None])[0]  # [T, C]
single_weights = seen.weights["encoder", 0][0, 0]  # [T, T]


def by_the_formula(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return weights [T, T] and outputs [T, D], with the features [T, D] as queries, keys and values."""
    scores = features @ features.T / np.sqrt(features.shape[1])
    weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    return weights, weights @ features


expected_weights, expected_output = by_the_formula(X.double().numpy())
single_difference = max(
    np.abs(single_weights.numpy() - expected_weights).max(), np.abs(single_output.numpy() - expected_output).max()
)
show(f"our module and the formula differ by at most {single_difference:.0e}")
axes = {"row_name": "query", "column_name": "key", "maximum": 0.2}
picture("4_single_head", heat_map(single_weights.numpy(), WORDS, WORDS, "One head", **axes))
show(f"largest score: {(X @ X.T).max() / 8**0.5:.2f}; largest weight: {single_weights.max():.2f}; uniform: 0.10")

# %% [markdown]
# Every row is almost uniform: the vectors have a length of about 1, so with the division by √8 no score exceeds 0.42,
# and the softmax of small scores is flat. Each token attends most to itself, and each fruit also to the other fruit.
# 'it' attends slightly more to the orange than to the apple, only because 'it' has a little of the acidity feature and
# the orange has more of this feature.
#
# ## Four heads
#
# A head uses only some of the features and has its own softmax, so it can specialise. The text assigns the features to
# its four heads by hand; a model learns the assignment. Two details: the heads differ in width, and each divides by the
# square root of its *own* width (√1, √2, √3, √2). In our modules, as in nearly every transformer, all heads have the
# same width, so here we call the underlying function once per head. The concatenated outputs again have 1 + 2 + 3 + 2
# = 8 numbers. Feature 2 (fruit) is used by two heads, feature 0 (person) by none.

# %%
HEADS = {
    "fruit/category": [2],
    "preference/comparison": [1, 3],
    "explanation/acidity": [4, 6, 7],
    "pronoun/coreference": [2, 5],
}
head_weights, head_outputs, head_differences = {}, {}, {}
for name, features in HEADS.items():
    part = X[None, None, :, features]  # [B, H, T, D]: one text, one head
    output, weights = (array[0, 0].numpy() for array in reference_attention(part, part, part))
    head_weights[name], head_outputs[name] = weights, output
    expected_weights, expected_output = by_the_formula(X.double().numpy()[:, features])
    head_differences[name] = max(np.abs(weights - expected_weights).max(), np.abs(output - expected_output).max())
    show(f"{name:<22} output {list(output.shape)}, differs from the formula by at most {head_differences[name]:.0e}")
multi_output = np.concatenate(list(head_outputs.values()), axis=1)
show("concatenated outputs:", list(multi_output.shape), "- output of one head:", list(single_output.shape))

# %%
picture("4_four_heads", small_multiples(head_weights, WORDS, WORDS, "Four heads, each with its own features", **axes))

# %% [markdown]
# ## Querying the heads
#
# In a `Recording`, as written by a training run, the weights of the four heads can be looked up by word. In the pronoun
# head, 'it' attends most to itself and then equally to both fruits: these features cannot resolve the pronoun. The
# antecedent follows from 'less', which a model has to learn; docs/primer.md shows such sentences with gold antecedents.

# %%
sentence, nothing = tokens(range(10), WORDS, frozenset()), tokens((), (), frozenset())
stacked = np.stack(list(head_weights.values()))  # [H, T, T]
norms = np.stack([np.linalg.norm(output, axis=1) for output in head_outputs.values()])  # [H, T]
maps = {"weights": {("encoder", 0): stacked}, "norms": {("encoder", 0): norms}}
four_heads = Sample(reads=sentence, predicts=nothing, source=sentence, losses=(), predictions=(), **maps)
recording = Recording(step=0, samples=(four_heads,))
asked = {}
questions = [("it", "it", 3), ("it", "apple", 3), ("it", "orange", 3), ("apple", "orange", 0), ("less", "acidic", 2)]
for query, key, head in questions:
    asked[query, key] = recording.weight(query, key, kind="encoder", layer=0, head=head)
    show(f"{list(HEADS)[head]}: '{query}' attends to '{key}': {asked[query, key]:.1%}")

# %% [markdown]
# ## Activation strength
#
# How strong is a token's output after attention? We measure its length (L2 norm). A recording keeps the length for each
# head; since the heads are concatenated, the total length is the root of the sum of squares.

# %%
single_strength = np.linalg.norm(single_output.numpy(), axis=1)
multi_strength = np.linalg.norm(multi_output, axis=1)
from_recording = np.sqrt((recording.samples[0].norms["encoder", 0] ** 2).sum(axis=0))
show("the recording's norms give the same strengths:", np.allclose(multi_strength, from_recording))
for word, single, many in zip(WORDS, single_strength, multi_strength, strict=True):
    show(f"{word:<8} one head {single:.3f}   four heads {many:.3f}")

# %% [markdown]
# The strength of the fruits grows most: two heads use the fruit feature, so it now counts twice. Even the strength of
# 'I' grows, although no head uses its feature: its queries are all zeros, so its output is the average over all tokens,
# whose fruit feature counts twice as well.

# %%
series = {"one head": single_strength.tolist(), "four heads": multi_strength.tolist()}
picture("4_activation", bars(WORDS, series, "Activation strength", "length of each token's output after attention"))

# %% [markdown]
# ## Which head decides?
#
# The outputs of the heads are concatenated, so whatever is computed linearly from them is a sum with one term for each
# head. Let the score of a word be the product of its features and the output of 'it': how much more does 'it' speak of
# the orange than of the apple? The terms of the heads add up to the answer. Trained models are taken apart in the same
# way: direct logit attribution.

# %%
IT, APPLE, ORANGE = WORDS.index("it"), WORDS.index("apple"), WORDS.index("orange")
fruits = (X[ORANGE] - X[APPLE]).numpy()  # [8]
votes = {name: float(head_outputs[name][IT] @ fruits[features]) for name, features in HEADS.items()}
all_votes = float(multi_output[IT] @ np.concatenate([fruits[features] for features in HEADS.values()]))
for name, vote in votes.items():
    show(f"{name:<22} {vote:+.3f}")
show(f"{'sum':<22} {sum(votes.values()):+.3f}   whole layer {all_votes:+.3f}")

# %% [markdown]
# Only one head tells the fruits apart, by their acidity. The pronoun head contributes nothing, however 'it' attends:
# its two features are the same for both fruits. And the answer is wrong: 'acidic' speaks for the orange, which has more
# of this feature, but *less* acidic is the apple. No head here turns the sign for 'less'; a trained model must.
#
# `make demo` trains a translator with such a sentence as its first probe. The Japanese has no pronoun, but its second
# オレンジ, in オレンジほどすっぱくない ("not as sour as the orange"), is right only if 'it' is the apple: the view
# *Prediction* of the Attention tab shows what each head adds to the logit of this word.

# %%
series = {"orange minus apple": list(votes.values())}
picture(
    "4_votes",
    bars(
        [name.partition("/")[0] for name in HEADS],
        series,
        "Which head decides?",
        "how much more 'it' speaks of the orange, by head",
    ),
)
