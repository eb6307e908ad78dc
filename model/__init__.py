"""Transformers in plain PyTorch: a decoder-only GPT and an encoder-decoder, built from the same blocks.

Read a GPT in this order:

    gpt.py           the whole model: embedding, blocks, final norm, logits
    blocks.py        x + attention(norm(x)), then x + mlp(norm(x))
    attention.py     softmax(Q Kᵀ / √D) V: the definition, and the modules that call it
    layers.py        norm, dropout, MLP
    embedding.py     from tokens to vectors and back; positions: learned, sinusoidal, rotary; token shift
    masks.py         which query sees which key
    config.py        every option, with its default and why; the options of imported models come last
    fast_kernels.py  fast versions of functions `@accelerated_by(...)`, the same results; skip it on a first reading

Then encoder_decoder.py (translation), cache.py (keys and values of decoding), initialisation.py (starting weights),
block_variants.py (post-norm), recording.py (attention maps), size.py (FLOPs).

Shape comments at the end of a line use one legend for the whole project: B batch, T target or text length, S source
length, C model width, H heads (Hkv of keys and values), D head width, V vocabulary, L layers.
"""
