"""Minimum Bayes risk decoding: sampled translations, and the choice of the most typical one."""
