"""The settings of `generate.py`."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from generation import sampling_config
from generation.sampling_config import SamplingConfig
from training.config import DEVICES, is_device

SAMPLING = tuple(setting.name for setting in fields(SamplingConfig))

WRITING = (*SAMPLING, "samples", "seed", "stop")
"""Settings that only a GPT understands."""

TRANSLATING = ("beam_size", "length_penalty", "n_best", "batch_tokens")
"""Settings that only a translator understands."""


@dataclass
class GenerateConfig:
    """Write with a GPT run, or translate with a translation run."""

    run: str | None = None
    """The folder of a trained run, runs/NAME; taken verbatim but for a leading ~."""

    prompt: str | None = None
    """The text to go on with, or the sentence to translate (several lines are several sentences); taken verbatim.
    Without it standard input is read."""

    checkpoint: str = "best"
    """`best` (lowest validation loss) or `last`."""

    device: str = "auto"
    """`cpu`, `cuda`, `cuda:N` for the GPU of that number, `mps` (Apple's GPU, not tried yet), or `auto`: a CUDA GPU
    where there is one."""

    quantize: str | None = None
    """Round the weights to `bf16` or `int8`: less to read from memory for each token. Null means `float32`, or `bf16`
    where the CPU or GPU multiplies it faster and the model is large enough."""

    attention: bool = False
    """Store the attention maps of what is written or translated in the run, for TensorBoard's Attention tab (the first
    16 texts or lines)."""

    samples: int = 1
    """GPT: texts to write, up to 32 at the same time. (With `quantize=int8` several texts round the activations as
    well.)"""

    temperature: float = 0.8
    """GPT: below 1 favours likely tokens, above 1 unlikely ones; 0 always takes the likeliest token."""

    top_k: int | None = None
    """GPT: sample among this many likeliest tokens."""

    top_p: float | None = None
    """GPT: sample among the likeliest tokens that together have this probability (Holtzman et al. 2020)."""

    min_p: float | None = None
    """GPT: sample among tokens at least this fraction as likely as the likeliest (Nguyen et al. 2024)."""

    repetition_penalty: float = 1.0
    """GPT: above 1 makes tokens less likely that the text already holds, except the end of the text (Keskar et al.
    2019)."""

    max_tokens: int = 200
    """GPT: the most tokens to write, for each sample."""

    seed: int = 1
    """GPT: the same seed writes the same text; the second sample has the next seed, and so on. At a terminal each text
    has another seed, shown below it; one that is given here is that of the first text."""

    stop: list[str] = field(default_factory=list)
    """GPT: end before this text; taken verbatim, and may be given several times."""

    beam_size: int = 4
    """Translation: hypotheses kept at each step; 1 is greedy search."""

    length_penalty: float = 1.0
    """Translation: hypotheses are ranked by log-probability / length ** length_penalty; larger prefers longer ones."""

    n_best: int = 1
    """Translation: hypotheses to print for each line; above 1 as `line TAB rank TAB score TAB text`. At most
    `beam_size`."""

    batch_tokens: int = 1024
    """Translation: source tokens decoded together, padding included; fewer need less memory, more are faster on a GPU.
    """

    @property
    def sampling(self) -> SamplingConfig:
        """How a GPT draws its tokens."""
        return SamplingConfig(**{key: getattr(self, key) for key in SAMPLING})


def problems(config: GenerateConfig, task: str | None, given: set[str]) -> list[str]:
    """What is wrong with the settings; `given` are the keys that the user wrote, `task` the run's (None: not known
    yet)."""
    found = [] if config.run else ["run=runs/NAME is needed: the folder of a trained model"]
    rules = (
        ("checkpoint", config.checkpoint in ("best", "last"), "must be best or last"),
        ("device", is_device(config.device), f"must be one of {DEVICES}"),
        ("quantize", config.quantize in (None, "float32", "bf16", "int8"), "must be float32, bf16, int8 or null"),
        ("samples", config.samples >= 1, "must be at least 1"),
        ("seed", 0 <= config.seed < 2**63, f"must be from 0 to {2**63 - 1}"),
        ("beam_size", 1 <= config.beam_size <= 1000, "must be from 1 to 1000"),
        ("length_penalty", 0 <= config.length_penalty <= 10, "must be from 0 to 10"),
        ("n_best", 1 <= config.n_best <= config.beam_size, f"must be from 1 to beam_size, which is {config.beam_size}"),
        ("batch_tokens", config.batch_tokens >= 1, "must be at least 1"),
    )
    found += [f"{key}={getattr(config, key)}: {rule}" for key, holds, rule in rules if not holds]
    found += sampling_config.problems(config.sampling)
    if "" in config.stop:
        found.append("stop=: an empty stop text would end everything at once")
    foreign = {"gpt": TRANSLATING, "translate": WRITING}.get(task or "", ())
    for key in sorted(given & set(foreign)):
        kind = "writes text" if task == "gpt" else "translates"
        found.append(f"{key}: {config.run} {kind}, it has no such setting (task={task})")
    return found
