"""The settings of `generate.py`. No torch: `--help` and a mistyped setting are answered at once."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from configs.devices import DEVICES, is_device


@dataclass
class RunConfig:
    """The trained run, and what it works on."""

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


@dataclass
class SamplingConfig:
    """How a GPT's next token is drawn. The repetition penalty applies first, then the others in the order of the
    fields."""

    temperature: float = 0.8
    """GPT: below 1 favours likely tokens, above 1 unlikely ones; 0 always takes the likeliest token."""

    top_k: int | None = None
    """GPT: sample among this many likeliest tokens (Fan et al. 2018)."""

    top_p: float | None = None
    """GPT: sample among the likeliest tokens that together have this probability (Holtzman et al. 2020)."""

    min_p: float | None = None
    """GPT: sample among tokens at least this fraction as likely as the likeliest (Nguyen et al. 2024)."""

    repetition_penalty: float = 1.0
    """GPT: above 1 makes tokens less likely that the text already holds, except the end of the text (Keskar et al.
    2019)."""

    max_tokens: int = 200
    """GPT: the most tokens to write, for each sample."""


@dataclass
class WritingConfig(SamplingConfig):
    """Which texts a GPT writes."""

    samples: int = 1
    """GPT: texts to write, up to 32 at the same time. (With `quantize=int8` several texts round the activations as
    well.)"""

    seed: int = 1
    """GPT: the same seed writes the same text; the second sample has the next seed, and so on. At a terminal each text
    has another seed, shown below it; one that is given here is that of the first text."""

    stop: list[str] = field(default_factory=list)
    """GPT: end before this text; taken verbatim, and may be given several times."""


@dataclass
class TranslationConfig:
    """How a translation is searched for."""

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


@dataclass
class GenerateConfig(TranslationConfig, WritingConfig, RunConfig):
    """Write with a GPT run, or translate with a translation run."""


ONLY_GPT = {setting.name for setting in fields(WritingConfig)}
ONLY_TRANSLATION = {setting.name for setting in fields(TranslationConfig)}


def problems(config: GenerateConfig) -> list[str]:
    """Every impossible setting, one sentence each that names the key; empty when all can be used."""
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
    found = [] if config.run else ["run=runs/NAME is needed: the folder of a trained model"]
    found += [f"{key}={getattr(config, key)}: {rule}" for key, holds, rule in rules if not holds]
    found += sampling_problems(config)
    return [*found, "stop=: an empty stop text would end everything at once"] if "" in config.stop else found


def sampling_problems(config: SamplingConfig) -> list[str]:
    """`problems` of sampling alone. Penalty and temperature have limits within which float32 logits stay finite; beyond
    them they change nothing anyway."""
    temperature = config.temperature
    rules = (
        ("repetition_penalty", 0.01 <= config.repetition_penalty <= 100, "must be from 0.01 to 100"),
        ("temperature", temperature == 0 or 0.001 <= temperature <= 1000, "must be 0, or from 0.001 to 1000"),
        ("top_k", config.top_k is None or config.top_k >= 1, "must be at least 1"),
        ("top_p", config.top_p is None or 0 < config.top_p <= 1, "must be greater than 0 and at most 1"),
        ("min_p", config.min_p is None or 0 <= config.min_p <= 1, "must be from 0 to 1"),
        ("max_tokens", config.max_tokens >= 1, "must be at least 1"),
    )
    return [f"{key}={getattr(config, key)}: {rule}" for key, holds, rule in rules if not holds]


def task_problems(config: GenerateConfig, given: set[str], task: str) -> list[str]:
    """A sentence for each of the `given` settings, those that the user wrote, that means nothing to the run's task."""
    foreign, does = (ONLY_TRANSLATION, "writes text") if task == "gpt" else (ONLY_GPT, "translates")
    return [f"{key}: {config.run} {does}, it has no such setting (task={task})" for key in sorted(given & foreign)]


def memory_advice(config: GenerateConfig, task: str) -> str:
    """Which settings need less memory."""
    if task == "gpt":
        ways = [f"lower samples (now {config.samples})", f"max_tokens (now {config.max_tokens})"]
    else:
        ways = [f"lower batch_tokens (now {config.batch_tokens})", f"beam_size (now {config.beam_size})"]
    return " or ".join(ways) + ("" if config.device == "cpu" else ", or choose device=cpu")
