"""Transformers in plain PyTorch: a decoder-only GPT and an encoder-decoder, built from the same blocks.

Shape comments at the end of a line use one legend for the whole project: B batch, T target or text length, S source
length, C model width, H heads, D head width, V vocabulary, L layers.
"""
