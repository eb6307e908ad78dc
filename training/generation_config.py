"""The settings of `generate.py`."""

from __future__ import annotations

from dataclasses import dataclass, field

WRITING = ("samples", "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "max_tokens", "seed", "stop")
"""Settings that only a GPT understands."""

TRANSLATING = ("beam_size", "length_penalty", "n_best", "batch_size")
"""Settings that only a translator understands."""


@dataclass
class GenerateConfig:
    """Write with a GPT run, or translate with a translation run."""

    run: str | None = None
    """The run folder: runs/NAME."""

    prompt: str | None = None
    """The text to go on with, or the sentence to translate; taken verbatim. Without it standard input is read."""

    checkpoint: str = "best"
    """`best` or `last`."""

    device: str = "auto"
    """`auto`, `cpu`, `cuda` or `mps`."""

    samples: int = 1
    """GPT: texts to write."""

    temperature: float = 0.8
    """GPT: below 1 bolder on the likely, above 1 wilder; 0 always takes the likeliest token."""

    top_k: int | None = None
    """GPT: sample among so many likeliest tokens."""

    top_p: float | None = None
    """GPT: sample among the likeliest tokens that hold this probability (Holtzman et al. 2020)."""

    min_p: float | None = None
    """GPT: sample among tokens at least this share as likely as the likeliest (Nguyen et al. 2024)."""

    repetition_penalty: float = 1.0
    """GPT: above 1 makes tokens that occurred less likely (Keskar et al. 2019)."""

    max_tokens: int = 200
    """GPT: tokens to write at most, for each sample."""

    seed: int = 1
    """GPT: the same seed writes the same text."""

    stop: list[str] = field(default_factory=list)
    """GPT: end before this text; verbatim, and may be given several times."""

    beam_size: int = 4
    """Translation: hypotheses kept; 1 is greedy."""

    length_penalty: float = 1.0
    """Translation: exponent of the length that a log-probability is divided by; larger prefers longer translations."""

    n_best: int = 1
    """Translation: hypotheses to print, `rank TAB score TAB text`; at most `beam_size`."""

    batch_size: int = 64
    """Translation: sentences decoded together."""


def problems(config: GenerateConfig, task: str | None, given: set[str]) -> list[str]:
    """What is wrong with the settings; `given` are the keys that the user wrote, `task` the run's (None: not known yet)."""
    found = []
    if config.run is None:
        found.append("run=runs/NAME is needed: the folder of a trained model")
    if config.checkpoint not in ("best", "last"):
        found.append(f"checkpoint={config.checkpoint}: must be best or last")
    if config.device not in ("auto", "cpu", "cuda", "mps"):
        found.append(f"device={config.device}: must be one of auto, cpu, cuda, mps")
    for key in ("samples", "max_tokens", "beam_size", "n_best", "batch_size", "top_k", "repetition_penalty"):
        value = getattr(config, key)
        if value is not None and value <= 0:
            found.append(f"{key}={value}: must be greater than 0")
    for key in ("top_p", "min_p"):
        value = getattr(config, key)
        if value is not None and not 0 < value <= 1:
            found.append(f"{key}={value}: must be greater than 0 and at most 1")
    if config.temperature < 0:
        found.append(f"temperature={config.temperature}: must not be negative")
    if config.n_best > config.beam_size:
        found.append(f"n_best={config.n_best}: needs beam_size of at least as much, it is {config.beam_size}")
    if "" in config.stop:
        found.append("stop=: an empty stop text would end everything at once")
    foreign = {"gpt": TRANSLATING, "translate": WRITING}.get(task or "", ())
    for key in sorted(given & set(foreign)):
        kind = "writes text" if task == "gpt" else "translates"
        found.append(f"{key}: {config.run} {kind}, it has no such setting (task={task})")
    return found
