"""Configuration of attention-map recording."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class AttentionConfig:
    """Recording of attention maps."""

    enabled: bool = True
    """Record maps of a few examples during training: an extra forward pass, separate from training."""

    every: int | None = None
    """Steps between recordings of maps, in addition to those at evaluations. They begin at steps 0, 1, 2, 4, 8, …,
    because heads form early. null: 60 recordings, evenly spaced over the budget of the run; 0: only at evaluations.
    Recordings between evaluations are skipped once they have used 1% of the run time (and half a second)."""

    probes: list[str] = field(default_factory=list)
    """Your own texts, recorded every time. For translation: source sentences, or `source ||| target`. A pronoun may
    name its antecedent: `Emi came because she{Emi} was kind.`"""

    examples: int = 4
    """Number of validation examples recorded in addition to `probes`, the same ones every time."""

    max_tokens: int = 128
    """Maximum length of a recorded sequence in tokens; longer ones are truncated and marked as such. A map has up to
    max_tokens^2 values."""

    keep: int | None = 200
    """Maximum number of recorded steps kept per run: beyond it, steps are thinned evenly, but the first and the last
    are kept. null keeps all."""

    scored: int = 64
    """Built-in corpus: number of validation rows on which all heads are scored against gold alignments or antecedents;
    0 disables scoring."""

    importance: bool = False
    """After training, measure the importance of each head more exactly: the rise in validation loss if it is ablated,
    on up to 32 validation batches. Evaluations measure it on the recorded examples alone."""

    image: bool = True
    """Draw one labelled heat map per evaluation in TensorBoard's Images tab."""

    images: int | None = 50
    """The number of first evaluations that all draw their image. Up to twice this number every second evaluation draws
    one, up to four times every fourth, …: an image takes about 20 kB, and event files are never thinned. null: all."""


def problems(config: AttentionConfig) -> list[str]:
    """All invalid settings, as one sentence each that names the key; empty if there are none."""
    rules = (
        ("probes", _are_texts(config.probes), "must be a list of texts"),
        ("every", config.every is None or config.every >= 0, "must not be negative; 0 records only at evaluations"),
        ("max_tokens", config.max_tokens > 0, "must be greater than 0"),
        ("keep", config.keep is None or config.keep > 0, "must be greater than 0; null keeps all"),
        ("images", config.images is None or config.images > 0, "must be greater than 0; null draws all"),
        ("examples", config.examples >= 0, "must not be negative"),
        ("scored", config.scored >= 0, "must not be negative"),
    )
    return [f"attention.{key}={getattr(config, key)}: {rule}" for key, holds, rule in rules if not holds]


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)  # a reference ${…} may be anything
