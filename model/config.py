"""The shape of a transformer: one dataclass for the decoder-only and the encoder-decoder model."""

from __future__ import annotations

from dataclasses import dataclass

NORMS = ("rms", "layer")
POSITIONS = ("rotary", "learned", "sinusoidal")
ACTIVATIONS = ("relu2", "gelu", "swiglu")


@dataclass
class ModelConfig:
    """Shape and flavour of the network. Vocabulary sizes are not here: they come from the tokenizer."""

    layers: int = 4
    """Decoder blocks. For translation also the number of encoder blocks unless `encoder_layers` says otherwise."""

    encoder_layers: int | None = None
    """Encoder blocks (translation only); null means as many as `layers`."""

    heads: int = 4
    """Attention heads per block; must divide `width`. On a GPU few wide heads (width 768: 6 of 128, not 12 of 64) keep
    the matrix units busier, as a score is then a product of 128 numbers for one exponential."""

    kv_heads: int | None = None
    """Key/value heads for grouped-query attention (Ainslie et al. 2023); must divide `heads`; null means `heads`."""

    width: int = 128
    """Model width C: the length of every token's vector."""

    feed_forward: int | None = None
    """Hidden width of the MLP; null means 4 x width (8/3 x width, rounded up to 32, for swiglu: same parameters)."""

    context: int = 128
    """Longest sequence in tokens: the training window of a GPT, the longest source or target of a translation."""

    mask_documents: bool = False
    """GPT: a token sees only its own document, not the end of another one before it in the window. Pays where documents
    are shorter than windows (`data.rows` says what a document is)."""

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
    """Pad the vocabulary to a multiple of this (64 pays on a GPU, not on a CPU); padding is never predicted."""

    @property
    def head_width(self) -> int:
        """Width D of one attention head."""
        return self.width // self.heads

    @property
    def key_value_heads(self) -> int:
        """Heads that keys and values have; `heads` unless grouped-query attention shares them."""
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def encoder_depth(self) -> int:
        """Encoder blocks of a translation model."""
        return self.layers if self.encoder_layers is None else self.encoder_layers

    @property
    def hidden_width(self) -> int:
        """Hidden width of the MLP. SwiGLU has three matrices, not two, so it gets 2/3 of the width (Shazeer 2020)."""
        if self.feed_forward is not None:
            return self.feed_forward
        if self.activation == "swiglu":
            return -(-8 * self.width // (3 * 32)) * 32
        return 4 * self.width

    def padded_vocab(self, vocab_size: int) -> int:
        """Rows of the embedding table and of the output projection for a vocabulary of `vocab_size`."""
        return -(-vocab_size // self.vocab_multiple) * self.vocab_multiple


def problems(config: ModelConfig) -> list[str]:
    """What makes the configuration impossible, one sentence each, naming the key; empty when it can be built."""
    found: list[str] = []

    def require(holds: bool, sentence: str) -> None:
        if not holds:
            found.append(sentence)

    require(config.context >= 2, f"model.context must be at least 2, not {config.context}")
    positive = ("layers", "encoder_layers", "heads", "kv_heads", "width", "feed_forward", "vocab_multiple")
    for key in positive:
        value = getattr(config, key)
        require(value is None or value >= 1, f"model.{key} must be at least 1, not {value}")
    for key, choices in (("norm", NORMS), ("position", POSITIONS), ("activation", ACTIVATIONS)):
        value = getattr(config, key)
        require(value in choices, f"model.{key} must be one of {', '.join(choices)}, not {value!r}")
    for key in ("dropout", "attention_dropout"):
        value = getattr(config, key)
        require(0.0 <= value < 1.0, f"model.{key} is a probability: at least 0 and less than 1, not {value}")
    if found:
        return found  # the rules below divide by these numbers

    require(
        config.width % config.heads == 0,
        f"model.width ({config.width}) must be a multiple of model.heads ({config.heads})",
    )
    require(
        config.heads % config.key_value_heads == 0,
        f"model.kv_heads ({config.kv_heads}) must divide model.heads ({config.heads})",
    )
    if config.position == "rotary" and config.width % config.heads == 0:
        require(
            config.head_width % 2 == 0,
            f"model.width / model.heads must be even for model.position=rotary, not {config.head_width}",
        )
    if config.position == "sinusoidal":
        require(config.width % 2 == 0, f"model.width must be even for model.position=sinusoidal, not {config.width}")
    return found


def check(config: ModelConfig) -> None:
    """Raise a ValueError that lists every problem of the configuration."""
    found = problems(config)
    if found:
        raise ValueError("; ".join(found))
