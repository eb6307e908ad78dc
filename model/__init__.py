"""Transformers in pure torch: a decoder-only GPT and an encoder-decoder, built from the same blocks.

Shapes stand at the end of the line, with one legend for the whole project: B batch, T target or text length, S source
length, C model width, H heads, D head width, V vocabulary, L layers.
"""
