"""How a GPT's next token is drawn: the settings and what they may be. No torch, so that a command line can
ask at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class SamplingConfig:
    """How the next token is drawn. The filters apply in the order of the fields."""

    repetition_penalty: float = 1.0
    """Divide positive logits of tokens that the text already holds by this, multiply negative ones (Keskar 2019). The
    token that ends a text is exempt."""

    temperature: float = 1.0
    """Divide logits by this: below 1 safer, above 1 wilder; 0 always takes the likeliest token."""

    top_k: int | None = None
    """Keep the k likeliest tokens (Fan et al. 2018)."""

    top_p: float | None = None
    """Keep the smallest set of tokens whose probabilities sum to p (nucleus sampling, Holtzman et al. 2020)."""

    min_p: float | None = None
    """Keep tokens at least this fraction as likely as the likeliest one (Nguyen et al. 2024)."""

    max_tokens: int = 200
    """Tokens to write at most."""


def problems(config: SamplingConfig) -> list[str]:
    """Everything impossible in the configuration, one sentence each, naming the key; empty when it can be used.

    Penalty and temperature have limits within which float32 logits stay finite; beyond them they change nothing anyway.
    """
    rules = (
        ("repetition_penalty", 0.01 <= config.repetition_penalty <= 100, "must be from 0.01 to 100"),
        (
            "temperature",
            config.temperature == 0 or 0.001 <= config.temperature <= 1000,
            "must be 0, or from 0.001 to 1000",
        ),
        ("top_k", config.top_k is None or config.top_k >= 1, "must be at least 1"),
        ("top_p", config.top_p is None or 0 < config.top_p <= 1, "must be greater than 0 and at most 1"),
        ("min_p", config.min_p is None or 0 <= config.min_p <= 1, "must be from 0 to 1"),
        ("max_tokens", config.max_tokens >= 1, "must be at least 1"),
    )
    return [f"{key}={getattr(config, key)}: {rule}" for key, holds, rule in rules if not holds]
