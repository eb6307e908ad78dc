"""Model architecture: one dataclass for the decoder-only and the encoder-decoder model."""

from __future__ import annotations

from dataclasses import dataclass

NORMS = ("rms", "layer")
POSITIONS = ("rotary", "learned", "sinusoidal")
MAX_LAYERS = 1000
"""Guards against the config of a damaged file, whose blocks would fill the memory."""

ACTIVATIONS = ("relu2", "relu", "gelu", "gelu_tanh", "silu", "swiglu")
BLOCKS = ("pre_norm", "post_norm")
IMPORTED_MODELS_ONLY = ("block", "norm_eps", "rotary_base", "embedding_scale", "output_bias")
"""Options that only models from elsewhere need; most exporters do not carry them."""


@dataclass
class ModelConfig:
    """The model architecture. Vocabulary sizes are not part of it: they come from the tokenizer."""

    layers: int = 4
    """Decoder blocks; for translation also encoder blocks unless `encoder_layers` is set."""

    encoder_layers: int | None = None
    """Encoder blocks (translation only); null uses `layers`."""

    heads: int = 4
    """Attention heads per block; must divide `width`. On a GPU, fewer and wider heads make better use of the tensor
    cores: at width 768, 6 heads of width 128 rather than 12 of 64."""

    kv_heads: int | None = None
    """Key/value heads for grouped-query attention (Ainslie et al. 2023); must divide `heads`; null uses `heads`."""

    width: int = 128
    """Model width C: the size of the vector of each token."""

    feed_forward: int | None = None
    """Hidden width of the MLP. null uses 4 x width (swiglu: 8/3 x width, rounded up to a multiple of 32, for the same
    parameter count)."""

    context: int = 128
    """Maximum sequence length in tokens: the window of a GPT, the longest source or target of a translation."""

    mask_documents: bool = False
    """GPT: tokens attend only to their own document, not to earlier documents in the same window. Useful if documents
    are shorter than windows (`data.rows` defines a document)."""

    token_shift: bool = False
    """GPT: add to the vector of each token that of the token before it, times a trained gain for each channel (Peng et
    al. 2023). Heads that copy then need one layer instead of two. Not part of the plain transformer."""

    norm: str = "rms"
    """`rms` (Zhang & Sennrich 2019) or `layer` (Ba et al. 2016)."""

    position: str = "rotary"
    """`rotary` (Su et al. 2021), `learned` or `sinusoidal` (Vaswani et al. 2017)."""

    activation: str = "relu2"
    """`relu2` (So et al. 2021; fastest on CPU), `relu`, `gelu` or its approximation `gelu_tanh` (Hendrycks & Gimpel
    2016; GPT-2 uses the latter), `silu` (also called swish, Ramachandran et al. 2017) or `swiglu` (Shazeer 2020)."""

    qk_norm: bool = True
    """RMSNorm on the queries and keys of each head of self-attention (Henry et al. 2020): more stable at high learning
    rates."""

    cross_qk_norm: bool = False
    """The same in cross-attention. Off by default, since engines such as CTranslate2 cannot compute it."""

    bias: bool = False
    """Bias terms in linear layers and norms. Off by default: they cost time and do not lower the loss."""

    tie_embeddings: bool = True
    """Tie the output projection to the (target) token embedding (Press & Wolf 2017)."""

    share_embeddings: bool = True
    """Translation with a shared vocabulary: one embedding table for source and target (three-way tying)."""

    dropout: float = 0.0
    """Dropout on embeddings and on each residual branch: 0 for a single epoch over a large dataset, 0.1-0.3 for a small
    dataset."""

    attention_dropout: float = 0.0
    """Dropout on attention weights. Off by default: on a CPU it rules out the fused kernel, which is faster."""

    vocab_multiple: int = 1
    """Pad the vocabulary to a multiple of this (64 helps on a GPU, not on a CPU); padding is never predicted."""

    # The options below are for models that come from elsewhere (`init_from`): a new model does not need them. They are
    # not a dataclass of their own because every config.yaml and command line names them `model.NAME`.

    block: str = "pre_norm"
    """How a block joins its branches, attention and MLP, to the residual stream x: `pre_norm`, x + f(norm(x)) one after
    the other (Xiong et al. 2020; trains without warm-up); `post_norm`, norm(x + f(x)) (Vaswani et al. 2017; Marian)."""

    norm_eps: float | None = None
    """Constant added to the variance in a norm. null uses 1e-6 (rms) or 1e-5 (layer)."""

    rotary_base: float = 10_000.0
    """Rotary positions: the slowest pair of channels turns once in about 2 pi times this many tokens. Long contexts use
    larger bases (Xiong et al. 2023)."""

    embedding_scale: float | None = None
    """Factor of the token vectors before positions are added. null uses sqrt(width) with sinusoidal positions (Vaswani
    et al. 2017, section 3.4), otherwise 1."""

    output_bias: bool = False
    """Bias of the output projection; it learns token frequencies (Marian)."""

    @property
    def head_width(self) -> int:
        """Width D of one attention head."""
        return self.width // self.heads

    @property
    def key_value_heads(self) -> int:
        """Number of key and value heads: `heads`, or fewer with grouped-query attention."""
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def encoder_depth(self) -> int:
        """Number of encoder blocks of a translation model."""
        return self.layers if self.encoder_layers is None else self.encoder_layers

    @property
    def hidden_width(self) -> int:
        """Hidden width of the MLP; by default 2/3 as wide for SwiGLU (Shazeer 2020), which has three matrices."""
        if self.feed_forward is not None:
            return self.feed_forward
        if self.activation == "swiglu":
            return -(-8 * self.width // (3 * 32)) * 32
        return 4 * self.width

    def padded_vocab(self, vocab_size: int) -> int:
        """Rows of the embedding table and of the output projection for a vocabulary of `vocab_size`."""
        return -(-vocab_size // self.vocab_multiple) * self.vocab_multiple


def problems(config: ModelConfig) -> list[str]:
    """All problems that make the configuration invalid, one sentence each that names the key; empty if none."""
    invalid: list[str] = []

    def require(key: str, holds: bool, rule: str) -> None:
        if not holds:
            invalid.append(f"model.{key}={getattr(config, key)}: {rule}")

    require("context", config.context >= 2, "must be at least 2")
    for key in ("layers", "encoder_layers", "heads", "kv_heads", "width", "feed_forward", "vocab_multiple"):
        value = getattr(config, key)
        require(key, value is None or value >= 1, "must be at least 1")
    for key in ("layers", "encoder_layers"):
        value = getattr(config, key)
        require(key, value is None or value <= MAX_LAYERS, f"must be at most {MAX_LAYERS}")
    choices_of = {"block": BLOCKS, "norm": NORMS, "position": POSITIONS, "activation": ACTIVATIONS}
    for key, choices in choices_of.items():
        require(key, getattr(config, key) in choices, f"must be one of {', '.join(choices)}")
    for key in ("dropout", "attention_dropout"):
        require(key, 0.0 <= getattr(config, key) < 1.0, "must be at least 0 and less than 1")
    for key in ("norm_eps", "rotary_base", "embedding_scale"):
        value = getattr(config, key)
        require(key, value is None or 0.0 < value < float("inf"), "must be greater than 0")
    if invalid:
        return invalid  # the rules below divide by these numbers

    heads, head_width = config.heads, config.head_width
    require("width", config.width % heads == 0, f"must be a multiple of model.heads={heads}")
    require("kv_heads", heads % config.key_value_heads == 0, f"must divide model.heads={heads}")
    if config.position == "rotary" and config.width % heads == 0:
        even = f"is {head_width} for each of model.heads={heads}; model.position=rotary needs an even number"
        require("width", head_width % 2 == 0, even)
    if config.position == "sinusoidal":
        require("width", config.width % 2 == 0, "must be even for model.position=sinusoidal")
    return invalid


def check(config: ModelConfig) -> None:
    """Raise a ValueError that lists every problem of the configuration."""
    invalid = problems(config)
    if invalid:
        raise ValueError("; ".join(invalid))
