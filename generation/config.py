"""Settings of `generate.py`. This module does not import torch, so `--help` and errors in settings appear at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields

from configs.devices import DEVICES, is_device

ENGINES = ("torch", "ctranslate2")


@dataclass
class RunConfig:
    """The trained run and its input."""

    run: str | None = None
    """Folder of a trained run, runs/NAME, or one of its checkpoints, runs/NAME/checkpoints/step-00000500. Several,
    separated by commas, form an ensemble: the probabilities of the next token are averaged, which needs the same
    tokenizer. The path is taken literally, except that a leading ~ is expanded."""

    prompt: str | None = None
    """Text to continue, or sentences to translate, one per line; used verbatim. If not given, standard input is read.
    """

    checkpoint: str = "best"
    """`best` (lowest validation loss) or `last`."""

    device: str = "auto"
    """`cpu`, `cuda`, `cuda:N` for GPU number N, `mps` (Apple GPU, untested), or `auto`: a CUDA GPU if there is one,
    else the CPU."""

    engine: str = "torch"
    """What decodes: `torch` is this project's own sampling and beam search; `ctranslate2`, on a CPU, writes 100 tokens
    of a small GPT in 0.5 s instead of 1.8 s, start included, but lacks some settings (docs/interop.md). It needs
    `pip install ctranslate2`; the model is exported once, to the folder `engine` of the run."""

    quantize: str | None = None
    """Quantise weights to `bf16` or `int8` to reduce memory traffic per token. null uses `float32`, or `bf16` if the
    hardware multiplies bf16 faster and the model is large enough. int8 needs `engine=ctranslate2`."""

    attention: bool = False
    """Store the attention maps of the generated texts or translations in the run folder, for TensorBoard's Attention
    tab (first 16 texts or lines)."""


@dataclass
class SamplingConfig:
    """How the next token of a GPT is sampled. The repetition penalty applies first, then the other settings in the
    order of the fields."""

    temperature: float = 0.8
    """GPT: sampling temperature; below 1 sharpens the distribution, above 1 flattens it, 0 takes the most likely
    token."""

    top_k: int | None = None
    """GPT: sample from the k most likely tokens (Fan et al. 2018)."""

    top_p: float | None = None
    """GPT: nucleus sampling, from the smallest set of most likely tokens with this total probability (Holtzman et al.
    2020)."""

    min_p: float | None = None
    """GPT: sample from tokens whose probability is at least this fraction of the highest one (Nguyen et al. 2024)."""

    repetition_penalty: float = 1.0
    """GPT: above 1 makes tokens that already occur in the text less likely, except the end-of-text token (Keskar et al.
    2019)."""

    max_tokens: int = 200
    """GPT: maximum number of tokens to generate per sample."""


@dataclass
class WritingConfig(SamplingConfig):
    """Which texts a GPT generates."""

    samples: int = 1
    """GPT: number of texts to generate, up to 32 per batch."""

    seed: int = 1
    """GPT: the same seed generates the same text; the second sample uses seed + 1, and so on. In interactive mode each
    text uses a new seed, which is printed below it; if you set `seed`, it applies to the first text only. The text also
    depends on the engine; with `engine=ctranslate2`, those of several samples depend on their number and on the number
    of threads."""

    stop: list[str] = field(default_factory=list)
    """GPT: stop before this string, taken literally; can be given more than once."""


@dataclass
class NeighbourConfig:
    """Translation with the help of similar training pairs (kNN-MT, Khandelwal et al. 2021, with a small
    datastore for each sentence, Dai et al. 2023): the model also reads the pairs whose sources have the most words in
    common with the sentence. Where the decoder was in a similar state there, the token that followed gets more
    probability."""

    sentences: int = 0
    """Translation: number of training pairs to retrieve for each sentence; 0 disables retrieval, 8 is a good value."""

    weight: float = 0.5
    """Translation: largest share of the probability that comes from the retrieved pairs, from 0 to 1. It is reached
    where the decoder's state was exactly the same in one of them."""

    temperature: float = 0.2
    """Translation: how fast the weight of a pair falls with the distance between states, as exp(-distance /
    temperature). The distance of two unrelated states is about 2."""

    path: str | None = None
    """Translation: where the pairs are, if not at `data.path` of the run: after the data have moved, or to use other
    pairs than those of the training. In the same format as the training data; validation and test pairs are split off
    if they were split off the training data. If these were a folder with files for validation and test, and it has
    moved, give the folder: for a single file of it, such pairs are split off."""


@dataclass
class MBRConfig:
    """Minimum Bayes risk decoding (Kumar & Byrne 2004; Eikema & Aziz 2022): of sampled translations and the hypotheses
    of the beam search, the one that is most similar to all others (mean chrF)."""

    samples: int = 0
    """Translation: number of translations to sample for each sentence, from which minimum Bayes risk decoding chooses,
    together with the hypotheses of the beam search; 0 disables it, 32 is a good value."""

    epsilon: float = 0.02
    """Translation: sample only from tokens with at least this probability (epsilon sampling, Hewitt et al. 2022); the
    most likely token is always kept, and 0 keeps all."""


@dataclass
class TranslationConfig:
    """How translations are decoded."""

    beam_size: int = 4
    """Translation: number of hypotheses kept at each step; 1 is greedy decoding."""

    length_penalty: float = 1.0
    """Translation: hypotheses are ranked by log-probability / length ** length_penalty; larger favours longer ones."""

    n_best: int = 1
    """Translation: number of different translations to print per line, at most `beam_size`; fewer are printed if the
    hypotheses of the beam are fewer texts. Above 1, the format is `line TAB rank TAB score TAB text`, with `\\t` and
    `\\\\` for a tab and a backslash in the text."""

    batch_tokens: int = 1024
    """Translation: source tokens per batch, including padding; lower needs less memory, higher is faster on a GPU."""

    reverse: bool = False
    """Translation: translate the other way, from the target language of the training data to the source language; for
    runs with `data.both_directions=true`."""

    neighbours: NeighbourConfig = field(default_factory=NeighbourConfig)
    mbr: MBRConfig = field(default_factory=MBRConfig)


@dataclass
class GenerateConfig(TranslationConfig, WritingConfig, RunConfig):
    """Generate text with a GPT run, or translate with a translation run."""


ONE_DIRECTION = "was trained in one direction only (data.both_directions=false)"

ONLY_GPT = {setting.name for setting in fields(WritingConfig)}
ONLY_TRANSLATION = {setting.name for setting in fields(TranslationConfig)}


def problems(config: GenerateConfig) -> list[str]:
    """Return one sentence for each invalid setting, with its key."""
    beam = config.beam_size
    rules = (
        ("checkpoint", config.checkpoint in ("best", "last"), "must be best or last"),
        ("device", is_device(config.device), f"must be one of {DEVICES}"),
        ("engine", config.engine in ENGINES, f"must be one of {', '.join(ENGINES)}"),
        ("quantize", config.quantize in (None, "float32", "bf16", "int8"), "must be float32, bf16, int8 or null"),
        ("samples", config.samples >= 1, "must be at least 1"),
        ("seed", 0 <= config.seed < 2**63, f"must be from 0 to {2**63 - 1}"),
        ("beam_size", 1 <= beam <= 1000, "must be from 1 to 1000"),
        ("length_penalty", 0 <= config.length_penalty <= 10, "must be from 0 to 10"),
        ("n_best", 1 <= config.n_best <= max(beam, 1), f"must be from 1 to beam_size, which is {beam}"),
        ("batch_tokens", config.batch_tokens >= 1, "must be at least 1"),
    )
    wrong = [] if config.run else ["run=runs/NAME is needed: the folder of a trained model"]
    wrong += broken(rules, config) + sampling_problems(config)
    wrong += neighbour_problems(config.neighbours) + mbr_problems(config.mbr)
    if config.mbr.samples and config.n_best > 1:
        wrong.append(f"n_best={config.n_best}: mbr.samples chooses one translation per line; set n_best=1")
    return [*wrong, "stop=: an empty stop string would end every text at once"] if "" in config.stop else wrong


def neighbour_problems(config: NeighbourConfig) -> list[str]:
    """Return the `problems` of the settings of the retrieval."""
    if config.sentences == 0 and config != NeighbourConfig():
        needed = "the other settings of neighbours need the number of pairs to retrieve, neighbours.sentences=8"
        return [f"neighbours.sentences=0: {needed}"]
    rules = (
        ("sentences", 0 <= config.sentences <= 64, "must be from 0 to 64"),
        ("weight", 0 < config.weight <= 1, "must be above 0 and at most 1"),
        ("temperature", 0.001 <= config.temperature <= 1000, "must be from 0.001 to 1000"),
    )
    return broken(rules, config, "neighbours.")


def mbr_problems(config: MBRConfig) -> list[str]:
    """Return the `problems` of the settings of minimum Bayes risk decoding."""
    if config.samples == 0 and config != MBRConfig():
        needed = "mbr.epsilon needs the number of translations to sample, mbr.samples=32"
        return [f"mbr.samples=0: {needed}"]
    rules = (
        ("samples", 0 <= config.samples <= 256, "must be from 0 to 256"),
        ("epsilon", 0 <= config.epsilon < 1, "must be at least 0 and below 1"),
    )
    return broken(rules, config, "mbr.")


def sampling_problems(config: SamplingConfig) -> list[str]:
    """Return the `problems` of the sampling settings. The limits of penalty and temperature keep float32 logits finite;
    larger values would have no further effect."""
    temperature, off = config.temperature, "null switches it off"
    rules = (
        ("repetition_penalty", 0.01 <= config.repetition_penalty <= 100, "must be from 0.01 to 100; 1 switches it off"),
        ("temperature", temperature == 0 or 0.001 <= temperature <= 1000, "must be 0, or from 0.001 to 1000"),
        ("top_k", config.top_k is None or config.top_k >= 1, f"must be at least 1; {off}"),
        ("top_p", config.top_p is None or 0 < config.top_p <= 1, f"must be greater than 0 and at most 1; {off}"),
        ("min_p", config.min_p is None or 0 <= config.min_p <= 1, f"must be from 0 to 1; {off}"),
        ("max_tokens", config.max_tokens >= 1, "must be at least 1"),
    )
    return broken(rules, config)


def broken(rules: Iterable[tuple[str, bool, str]], config: object, group: str = "") -> list[str]:
    """Return a sentence for each rule (setting of `config`, whether it holds, what it says) that does not hold."""
    return [f"{group}{key}={getattr(config, key)}: {rule}" for key, holds, rule in rules if not holds]


def task_problems(
    config: GenerateConfig, typed: set[str], task: str, models: int = 1, both_directions: bool = False
) -> list[str]:
    """Return one sentence for each key in `typed`, those on the command line, that does not apply to the run's task, to
    an ensemble of several models, or to a model that was not trained in both directions."""
    foreign, does = (ONLY_TRANSLATION, "generates text") if task == "gpt" else (ONLY_GPT, "translates")
    foreign_keys = sorted(key for key in typed if key.split(".")[0] in foreign)
    wrong = [f"{key}: {config.run} {does} and has no such setting (task={task})" for key in foreign_keys]
    if config.attention and models > 1:
        wrong.append("attention=true: an ensemble has no attention maps; record one run at a time")
    if config.reverse and task == "translate" and not both_directions:
        wrong.append(f"reverse=true: {config.run} {ONE_DIRECTION}")
    return wrong


def memory_advice(config: GenerateConfig, task: str) -> str:
    """Return which settings to lower to save memory."""
    if task == "gpt":
        ways = [f"lower samples (now {config.samples})", f"max_tokens (now {config.max_tokens})"]
    else:
        ways = [f"lower batch_tokens (now {config.batch_tokens})", f"beam_size (now {config.beam_size})"]
        ways += [f"mbr.samples (now {config.mbr.samples})"] if config.mbr.samples else []
    return " or ".join(ways) + ("" if config.device == "cpu" else ", or choose device=cpu")
