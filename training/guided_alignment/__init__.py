"""Guided alignment: teach two heads of cross-attention to align words (Chen et al. 2016; Garg et al. 2019)."""
