"""Lesson 5. The geometric picture: attention as a shift of vectors, and the way from tokens to the next word.

Run it as a script, or cell by cell in VS Code or Jupyter: `# %%` begins a cell.
"""

# %% [markdown]
# # The geometric picture
#
# A word's vector is a point in space, and before attention it is the same point in every sentence: the animal, the unit
# of chemistry and the spot on the skin are all *mole*. Attention moves the point by adding information from other
# words: queries and keys decide how much comes from each word, values what is added.
#
# (The text writes words as columns, so its softmax runs down the columns and its mask hides the entries below the
# diagonal. In this lesson, words are rows, as in the other lessons: the same tables, transposed.)
#
# ## A hand-made head: nouns collect the information of their adjectives
#
# Each vector of the seven words encodes the identity of the word, whether it is an adjective or a noun, and its
# position. The query of a noun matches adjectives, and all queries prefer nearby words; keys are the vectors
# themselves; the value of an adjective is its identity, and all other values are zero.

# %%
import torch
from figures import arrows, bars, picture, show
from torch.nn.functional import cross_entropy

from attention_maps.draw.heat_map import heat_map
from attention_maps.record.example import Example
from interpretability.recorder import record
from interpretability.residual_stream import record_residual_stream
from model.attention import CausalSelfAttention, SelfAttention
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from model.recording import record_attention

WORDS = ["a", "shy", "blue", "bird", "left", "old", "barns"]
SHY, BLUE, BIRD, OLD, BARNS = 1, 2, 3, 5, 6
ADJECTIVE, NOUN, POSITIONS = 7, 8, slice(9, 16)  # the columns after the seven word columns

x = torch.zeros(7, 16)
x[:, :7] = x[:, POSITIONS] = torch.eye(7)
x[[SHY, BLUE, OLD], ADJECTIVE] = 1
x[[BIRD, BARNS], NOUN] = 1

matches = torch.zeros(16, 16)  # [query feature, key feature], as scores
matches[NOUN, ADJECTIVE] = 8
matches[POSITIONS, POSITIONS] = -1.2 * (torch.arange(7)[:, None] - torch.arange(7)).abs()
matches *= 4  # attention divides by √16
passes = torch.zeros(16)
passes[[SHY, BLUE, OLD]] = 1

by_hand = CausalSelfAttention(ModelConfig(width=16, heads=1, qk_norm=False), "decoder", layer=0)
with torch.no_grad(), record_attention(by_hand) as seen:
    by_hand.query_key_value.weight.copy_(torch.cat([matches.T, torch.eye(16), passes.diag()]))
    by_hand.output.weight.copy_(torch.eye(16))
    moved = x + by_hand(x[None])[0]
hand_weights = seen.weights["decoder", 0][0, 0]
axes = {"row_name": "query", "column_name": "key", "causal": True, "maximum": 1}
picture("5_nouns_ask", heat_map(hand_weights.numpy(), WORDS, WORDS, "Nouns attend to their adjectives", **axes))
for noun in (BIRD, BARNS):
    parts = [f"{amount:.2f} {WORDS[word]}" for word, amount in enumerate(moved[noun, :7].tolist()) if amount > 0.05]
    show(f"'{WORDS[noun]}' is now", " + ".join(parts))

# %% [markdown]
# ## The value map has low rank
#
# A head adds W_V x. W_V maps width C to width C, but through the D numbers of the head: first down, then up. So
# W_V = W_up W_down is a matrix of rank D with 2 C D numbers instead of C². In the module, the matrices W_down are the
# value rows of the fused projection, and the matrices W_up of all heads, side by side, *are* the output projection. So
# the output is a sum: each head adds its own W_up (weights · W_down x).

# %%
torch.manual_seed(0)
config = ModelConfig(width=24, heads=3, qk_norm=False)
module = SelfAttention(config, "encoder", layer=0)
words = torch.randn(1, 5, 24)
with torch.no_grad(), record_attention(module) as seen:
    module_output = module(words)[0]  # [T, C]
    down = module.query_key_value.weight.view(3, 3, 8, 24)[2]  # [H, D, C]
    up = module.output.weight.view(24, 3, 8).transpose(0, 1)  # [H, C, D]
    weights = seen.weights["encoder", 0][0]  # [H, T, T]
    added = weights @ (words @ down.mT) @ up.mT  # [H, T, C]: the contribution of each head
sum_difference = (added.sum(dim=0) - module_output).abs().max().item()
ranks = torch.linalg.matrix_rank(up @ down).tolist()
show(f"the sum over heads and the module's output differ by at most {sum_difference:.0e}")
show(f"value maps of 24 x 24 = 576 numbers and rank {ranks}, made of {up[0].numel()} + {down[0].numel()} numbers")

# %% [markdown]
# ## From words to the next word
#
# Now a whole model learns what *mole* means: a GPT with one layer and two heads is trained for one second on six
# sentences. Only the adjective determines what the mole does, so the model has to carry this information to the noun.

# %%
SENTENCES = [
    "a furry mole digs",
    "a blind mole digs",
    "a pure mole reacts",
    "a dissolved mole reacts",
    "a dark mole itches",
    "a flat mole itches",
]
VOCABULARY = sorted({word for sentence in SENTENCES for word in sentence.split()})
texts = torch.tensor([[VOCABULARY.index(word) for word in sentence.split()] for sentence in SENTENCES])  # [B, T]

torch.manual_seed(0)
gpt = GPT(ModelConfig(layers=1, heads=2, width=32, context=8, position="learned"), len(VOCABULARY))
optimizer = torch.optim.Adam(gpt.parameters(), lr=3e-3)
for step in range(151):
    loss = cross_entropy(gpt(texts[:, :-1]).flatten(0, 1), texts[:, 1:].flatten())
    if step % 50 == 0:
        show(f"step {step:>3}: {loss:.2f} nats per token")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# %% [markdown]
# (The loss cannot fall below log(6) / 3 = 0.60: after "a", the six adjectives are equally likely.) The next cell runs
# the whole pipeline, one step per line: tokens, vectors, blocks of attention and MLP with norms, logits, softmax, word.

# %%
gpt.eval()
with torch.no_grad():
    prompt = texts[:1, :3]  # "a furry mole", [1, 3]
    vectors = gpt.embedding(prompt)  # words and positions, [1, 3, C]
    for block in gpt.blocks:
        vectors = block(vectors)  # [1, 3, C]
    logits = gpt.head(gpt.norm(vectors))  # [1, 3, V]
    probabilities = logits[0, -1].softmax(dim=0)  # [V]
    next_word = VOCABULARY[int(probabilities.argmax())]
    show(f"a furry mole … {next_word} ({probabilities.max():.0%})")
    show("the same as calling the model:", torch.equal(logits, gpt(prompt)))
    chances = gpt(texts[:, :3])[:, -1].softmax(dim=-1)  # [B, V]

verbs = ["digs", "reacts", "itches"]
of_verbs = chances[:, [VOCABULARY.index(verb) for verb in verbs]].tolist()  # [B, 3]
series = {"… furry mole": of_verbs[0], "… pure mole": of_verbs[2], "… dark mole": of_verbs[4]}
picture("5_next_word", bars(verbs, series, "What comes next?", "probability of the next word, by adjective"))

# %% [markdown]
# Where did the point move? Before the block, *mole* is one vector; after the block there are six vectors in three
# clusters. (The plane is spanned by the first two principal components.) The attention maps show why: *mole* attends to
# its adjective.

# %%
with torch.no_grad():
    before = gpt.embedding(texts)[0, 2]  # [C]
    after = gpt.blocks[0](gpt.embedding(texts))[:, 2]  # [B, C]
shifts = after - before
plane = torch.linalg.svd(shifts - shifts.mean(dim=0)).Vh[:2]  # [2, C]
plane = plane * (plane @ shifts[0]).sign()[:, None]  # a principal component has no sign of its own
ends = (after @ plane.T).numpy()  # [B, 2]
groups = {"furry, blind": ends[:2], "pure, dissolved": ends[2:4], "dark, flat": ends[4:]}
title, subtitle = "One word, three meanings", "the vector of 'mole' before and after the block"
picture("5_mole_moves", arrows((plane @ before).numpy(), groups, "mole", title, subtitle))

# %%
adjective_weights = {}
examples = [Example(ids, s.split(), ids[1:], s.split()[1:]) for ids, s in zip(texts.tolist(), SENTENCES, strict=True)]
recording = record(gpt, examples, special_ids=(), step=151)
for sample, sentence in enumerate(SENTENCES):
    adjective = sentence.split()[1]
    strengths = [recording.weight("mole", adjective, kind="decoder", layer=0, head=h, sample=sample) for h in range(2)]
    adjective_weights[adjective] = strengths
    show(f"'mole' attends to '{adjective}': {strengths[0]:.0%} in head 0, {strengths[1]:.0%} in head 1")

# %% [markdown]
# ## What would the model say earlier, and which part says it?
#
# The block only adds to the vector of *mole*: first each head, then the MLP. The last norm and the output layer can
# read the vector after every addition (the logit lens). And since the output layer is linear, the logit of *digs* minus
# that of *reacts*, or of *itches*, is a sum with one term for each part, once the scale of the norm is fixed (direct
# logit attribution). The view *Prediction* of the Attention tab shows both for every recorded step.

# %%
with torch.no_grad(), record_residual_stream(gpt) as stream:
    gpt(prompt)
    so_far = torch.stack(list(stream.added())).cumsum(dim=0)[:, 0, -1]  # [P, C]: the vector after each part
    verb_ids = torch.tensor([VOCABULARY.index(verb) for verb in verbs])
    attributed = stream.attribution(verb_ids.expand(1, 3, 3))[:, 0, -1]  # [P, 3]
    lens = gpt.head(gpt.norm(so_far)).softmax(dim=-1)[:, verb_ids].detach()  # [P, 3]
part_names = [part.kind if part.kind != "decoder" else f"head {part.head}" for part in stream.parts()]
shares = (attributed[:, :1] - attributed[:, 1:]).T.tolist()  # [2, P]
whole_differences = (logits[0, -1, verb_ids[0]] - logits[0, -1, verb_ids[1:]]).tolist()
show("terms of the logit of 'digs' minus that of …")
show(f"{'':<10} {'reacts':>7} {'itches':>7}")
for name, *values in zip(part_names, *shares, strict=True):
    show(f"{name:<10}", *(f"{share:+7.2f}" for share in values))
show(f"{'sum':<10}", *(f"{sum(values):+7.2f}" for values in shares))
show(f"{'the logits':<10}", *(f"{difference:+7.2f}" for difference in whole_differences))
series = {verb: lens[:, column].tolist() for column, verb in enumerate(verbs)}
after = [f"+ {name}" if number else name for number, name in enumerate(part_names)]
picture("5_lens", bars(after, series, "a furry mole …", "probability of the next word after each part"))
series = {f"digs minus {verb}": values for verb, values in zip(verbs[1:], shares, strict=True)}
picture("5_parts", bars(part_names, series, "Which part says it?", "terms of the difference of two logits"))

# %% [markdown]
# The vector of *mole* alone does not even say that a verb follows. The heads bring in the adjective, which makes verbs
# likely, but two of them equally: their terms of *digs* minus *itches* nearly cancel. The MLP decides.
#
# The lens prefers *digs* to *reacts* clearly after both heads, although the terms of the heads are small. The two
# pictures differ in scale: the lens stretches the short vector of that moment to the length that the output layer
# expects; the attribution divides all parts by the length of the last vector, so that they add up to the logit.
#
# ## Masking: one pass trains on every prefix
#
# Because no token attends to later tokens, the prediction of a GPT at position t of a long text equals its prediction
# for the text truncated at t. One pass over a sentence therefore trains on all its prefixes at once.

# %%
with torch.no_grad():
    whole = gpt(texts)  # [B, 4, V]
    prefix_differences = [(gpt(texts[:, :n])[:, -1] - whole[:, n - 1]).abs().max().item() for n in range(1, 5)]
show("separate passes over the prefixes differ from the single pass by at most", f"{max(prefix_differences):.0e}")

# %% [markdown]
# ## Cross-attention has no such mask
#
# A translator reads the whole source before it generates, so its cross-attention covers the complete source. We change
# one token and observe which predictions change: the last source token changes all predictions, the last target token
# no earlier prediction.

# %%
torch.manual_seed(0)
translator = EncoderDecoder(ModelConfig(layers=1, heads=2, width=32, context=8), 10, 10).eval()
source, other_source = torch.tensor([[1, 2, 3, 4, 5], [1, 2, 3, 4, 9]]).split(1)
target, other_target = torch.tensor([[1, 6, 7, 8], [1, 6, 7, 9]]).split(1)
with torch.no_grad():
    base = translator(source, target)
    source_changes = (translator(other_source, target) - base).abs().amax(dim=(0, 2)).tolist()  # by target position
    target_changes = (translator(source, other_target) - base).abs().amax(dim=(0, 2)).tolist()
show("another last source token changes the logits by", [f"{change:.2f}" for change in source_changes])
show("another last target token changes the logits by", [f"{change:.2f}" for change in target_changes])
