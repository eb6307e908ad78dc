"""The shape of a transformer: one dataclass for the decoder-only and the encoder-decoder model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class ModelConfig:
    """Shape and flavour of the network. Vocabulary sizes are not here: they come from the tokenizer."""

    layers: int = 4
    """Decoder blocks. For translation also the number of encoder blocks unless `encoder_layers` says otherwise."""

    encoder_layers: int | None = None
    """Encoder blocks (translation only); null means as many as `layers`."""

    heads: int = 4
    """Attention heads per block; must divide `width`."""

    kv_heads: int | None = None
    """Key/value heads for grouped-query attention (Ainslie et al. 2023); must divide `heads`; null means `heads`."""

    width: int = 128
    """Model width C: the length of every token's vector."""

    feed_forward: int | None = None
    """Hidden width of the MLP; null means 4 x width (8/3 x width, rounded up to 32, for swiglu: same parameters)."""

    context: int = 128
    """Longest sequence in tokens: the training window of a GPT, the longest source or target of a translation."""

    norm: str = "rms"
    """`rms` (Zhang & Sennrich 2019) or `layer` (Ba et al. 2016). Blocks are always pre-norm."""

    position: str = "rotary"
    """`rotary` (Su et al. 2021), `learned` or `sinusoidal` (Vaswani et al. 2017)."""

    activation: str = "relu2"
    """`gelu`, `relu2` (So et al. 2021; cheapest on CPU) or `swiglu` (Shazeer 2020)."""

    qk_norm: bool = True
    """RMS-normalise queries and keys per head (Henry et al. 2020): steadier at high learning rates."""

    bias: bool = False
    """Bias terms in linear layers and norms. Off: nothing is lost at these sizes and it is faster."""

    tie_embeddings: bool = True
    """Share the output projection with the (target) token embedding, Press & Wolf 2017."""

    share_embeddings: bool = True
    """Translation with one shared vocabulary: source and target embeddings are one table (three-way tying)."""

    dropout: float = 0.0
    """Dropout on embeddings and on each residual branch. 0 for a single pass over much data, 0.1-0.3 for small data."""

    attention_dropout: float = 0.0
    """Dropout on attention weights. Off by default: on CPU it leaves the fused kernel and costs 1.8-2.7x."""

    vocab_multiple: int = 1
    """Pad the vocabulary to a multiple of this many rows (64 pays on GPU, nothing on CPU). Padding ids are never produced."""
