"""Configuration of recording attention."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class AttentionConfig:
    """Recording of attention maps at evaluations."""

    enabled: bool = True
    """Record maps at every evaluation. One extra forward pass over a few examples; training itself is untouched."""

    probes: list[str] = field(default_factory=list)
    """Your own texts, recorded at every step. For translation: sources, or `source ||| target`."""

    examples: int = 4
    """Validation examples recorded besides the probes: always the same ones."""

    max_tokens: int = 128
    """Longest recorded sequence in tokens; longer ones are cut and say so. A map has up to max_tokens^2 numbers."""

    keep: int | None = 200
    """Recorded steps kept per run: beyond that old ones are thinned evenly; the first and the last stay. null keeps
    all."""

    scored: int = 64
    """Embedded corpus: validation rows on which all heads are scored against gold alignments or antecedents; 0 is off.
    """

    importance: bool = False
    """After training, measure how much the validation loss rises without each head: a pass for every head over up to 32
    validation batches."""

    image: bool = True
    """Draw one labelled heat map per evaluation into TensorBoard's Images tab."""


def problems(config: AttentionConfig) -> list[str]:
    """All invalid settings, one sentence each that names the key; empty when there are none."""
    rules = (
        ("max_tokens", config.max_tokens > 0, "must be greater than 0"),
        ("keep", config.keep is None or config.keep > 0, "must be greater than 0"),
        ("examples", config.examples >= 0, "must not be negative"),
        ("scored", config.scored >= 0, "must not be negative"),
    )
    return [f"attention.{key}={getattr(config, key)}: {rule}" for key, holds, rule in rules if not holds]
