"""The whole configuration of a training run, as dataclasses that can be built in Python without Hydra."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, fields, is_dataclass

import attention_maps.config
import data.config
import model.config
from attention_maps.config import AttentionConfig
from configs.devices import DEVICES, is_device
from data.config import DataConfig, TokenizerConfig
from model.config import ModelConfig


@dataclass
class OptimConfig:
    """The optimiser."""

    kind: str = "adamw"
    """`adamw` (Loshchilov & Hutter 2019), or `muon` (Jordan et al. 2024) for the matrices inside blocks and AdamW for
    the rest."""

    lr: float = 1e-3
    """Peak learning rate of AdamW."""

    muon_lr: float = 0.02
    """Peak learning rate of Muon's matrices, in Muon's own scale (an update has spectral norm about 1)."""

    beta1: float = 0.9
    """Decay of the running mean of gradients."""

    beta2: float = 0.99
    """Decay of the running mean of squared gradients; 0.99 suits small batches, 0.95 large ones."""

    eps: float = 1e-8
    """Added to the denominator of the update."""

    weight_decay: float = 0.1
    """Decoupled weight decay of matrices; vectors (norms, biases) are never decayed."""

    clip: float = 1.0
    """Largest allowed L2 norm of the whole gradient; 0 switches clipping off."""


@dataclass
class ScheduleConfig:
    """Learning rate over the run: a pure function of step and progress."""

    kind: str = "cosine"
    """`cosine`, `linear`, `inverse_sqrt` (Vaswani et al. 2017), `wsd` (warm-up, stable, decay) or `constant`."""

    warmup: int = 100
    """Steps of linear warm-up from 0 to the peak. In a new run, what is not given on the command line is a tenth of
    `trainer.steps` at most. With `trainer.minutes` it ends at the latest when training steps have taken a tenth of that
    time, not counting the first step of each start, which may have to compile."""

    final: float = 0.0
    """Rate at the end as a share of the peak (cosine, linear, wsd)."""

    decay: float = 0.2
    """wsd only: share of the run spent in the final linear decay."""


@dataclass
class TrainerConfig:
    """The loop: budget, batches, evaluation, checkpoints, hardware."""

    steps: int | None = 2000
    """Optimiser steps. Given alone on the command line they are the whole budget, whatever minutes a recipe or a
    resumed run has."""

    minutes: float | None = None
    """Wall-clock budget of training in minutes, evaluations and all starts of the run included. Given alone on the
    command line it is the whole budget; with `steps` beside it the run ends, and the schedule anneals, by whichever is
    further on."""

    batch_size: int = 32
    """Windows per micro-batch (text; pairs are batched by `data.batch_tokens`)."""

    accumulate: int = 1
    """Micro-batches per optimiser step. The loss is exact per token: 4 x 1 equals 1 x 4."""

    label_smoothing: float = 0.0
    """Share of the target probability spread over the vocabulary (Szegedy et al. 2016); 0.1 is customary for
    translation. The training loss includes it, the validation loss does not."""

    ema: float = 0.0
    """Decay of an exponential moving average of the weights, which is then what is evaluated and saved; 0 is off."""

    evaluate_every: int = 250
    """Steps between evaluations: full-pass validation loss, samples or translations, attention maps, a checkpoint.
    Evaluations take a third of the time at most: after one of more than 5 seconds, those are left out that come before
    training steps have taken twice its time, except the last one of the run; their checkpoints are saved all the same.
    """

    evaluate_minutes: float | None = None
    """With a value, evaluate after so many minutes instead of after `evaluate_every` steps (for wall-clock budgets)."""

    first_evaluation_minutes: float | None = None
    """With `evaluate_minutes`: minutes to the first evaluation. Each later one comes after twice the time of the one
    before, until they are `evaluate_minutes` apart. null keeps them `evaluate_minutes` apart from the start."""

    evaluate_sentences: int = 200
    """Translation: validation sentences decoded (greedily) for BLEU and chrF during training."""

    test: bool = True
    """Evaluate the test splits with the best checkpoint when training ends."""

    beam_size: int = 4
    """Translation: beam width of the final test."""

    length_penalty: float = 1.0
    """Translation: exponent of the length by which a hypothesis' log-probability is divided."""

    samples: int = 2
    """Sample texts (GPT) or rows of the translation table shown at each evaluation."""

    log_every: int = 10
    """Steps between log lines."""

    patience: int | None = None
    """Stop after so many evaluations without a better validation loss; null never stops early. Those that are left out,
    because evaluations would take more than a third of the time, do not count."""

    keep: int = 0
    """Older checkpoints kept besides `last` and `best`."""

    device: str = "auto"
    """`cpu`, `cuda`, `cuda:N` for the GPU of that number, `mps` (Apple's GPU, not tried yet), or `auto`: a CUDA GPU
    where there is one."""

    precision: str = "auto"
    """`float32`, `bf16` (bf16 weights with float32 master copies), or `auto`: bf16 where the hardware multiplies it
    fast."""

    compile: str = "auto"
    """torch.compile: `on`, `off`, or `auto`: in runs long enough to earn it back (on a CPU, five minutes)."""

    threads: int | None = None
    """CPU threads; null takes the physical cores, or as many as a container's quota allows."""

    recompute: bool = False
    """Keep the input of each block alone and compute its activations again in the backward pass: less memory, a third
    more time."""

    slow_attention: bool = False
    """On a GPU, allow attention that keeps the whole matrix of weights where no fused kernel fits; without, such a run
    is refused."""

    deterministic: bool = False
    """Refuse kernels whose result depends on timing (CUDA); CPU runs repeat to the last bit anyway."""

    overfit: bool = False
    """Train on the first batch over and over: a model that cannot drive this loss to zero has a bug."""

    profile: bool = False
    """Profile steps 5 to 10: a table of the slowest operators in the log, a trace for Perfetto in the run folder."""


@dataclass
class TrainConfig:
    """One training run."""

    task: str = "gpt"
    """`gpt` writes text, `translate` translates; set by the config group `task=`."""

    experiment: str | None = None
    """The recipe this config was composed from; it names the run when `name` is null."""

    name: str | None = None
    """The run is the folder `runs/<name>`; null takes the experiment's or `<task>-<data>` and the next free number. The
    runs of a sweep add what differs to it: `<name>-lr-0.003`."""

    runs: str = "runs"
    """Folder of all runs."""

    resume: str | None = None
    """A run folder to go on with, exactly where it stopped. Or one of its checkpoints
    (`runs/NAME/checkpoints/step-00000500`, `…/best`): training goes back to that step, and checkpoints, metrics, curves
    and attention maps from after it are dropped."""

    init_from: str | None = None
    """A run folder to take the best weights and the tokenizer from, or one of its checkpoints; optimiser and step start
    afresh."""

    seed: int = 1
    """Seed of initialisation, data order and dropout."""

    data: DataConfig = field(default_factory=DataConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    attention: AttentionConfig = field(default_factory=AttentionConfig)


CHOICES = {
    "task": ("gpt", "translate"),
    "optim.kind": ("adamw", "muon"),
    "schedule.kind": ("cosine", "linear", "inverse_sqrt", "wsd", "constant"),
    "trainer.precision": ("auto", "float32", "bf16"),
    "trainer.compile": ("auto", "on", "off"),
}

POSITIVE = (
    "optim.lr",
    "optim.muon_lr",
    "optim.eps",
    "trainer.batch_size",
    "trainer.accumulate",
    "trainer.evaluate_every",
    "trainer.beam_size",
    "trainer.log_every",
    "trainer.steps",
    "trainer.minutes",
    "trainer.evaluate_minutes",
    "trainer.first_evaluation_minutes",
    "trainer.threads",
    "trainer.patience",
)
NOT_NEGATIVE = (
    "seed",
    "optim.weight_decay",
    "optim.clip",
    "schedule.warmup",
    "trainer.samples",
    "trainer.keep",
    "trainer.evaluate_sentences",
    "trainer.length_penalty",
)
SHARES = ("optim.beta1", "optim.beta2", "trainer.label_smoothing", "trainer.ema", "schedule.final", "schedule.decay")


def value_at(config: object, key: str) -> object:
    """The value of a dotted key such as `optim.lr`."""
    for part in key.split("."):
        config = getattr(config, part)
    return config


def plain_settings(config: object, prefix: str = "") -> dict[str, float | str]:
    """All settings by dotted key that are numbers, switches or words: no lists, and not those that are null."""
    found: dict[str, float | str] = {}
    for each in fields(config):  # type: ignore[arg-type]
        value = getattr(config, each.name)
        if is_dataclass(value):
            found |= plain_settings(value, f"{prefix}{each.name}.")
        elif isinstance(value, int | float | str):
            found[prefix + each.name] = value
    return found


def is_plain_name(name: str) -> bool:
    """Whether `name` can be a folder anywhere, and a value on the command line, without quoting: letters, digits and `_
    . + - @ %`."""
    return re.fullmatch(r"[\w+@%][\w.+@%-]*", name) is not None and len(name.encode()) <= 250


def problems(config: TrainConfig) -> list[str]:
    """All invalid settings, one sentence each that names the key and the fix; empty when there are none."""
    found = []
    for key, choices in CHOICES.items():
        if value_at(config, key) not in choices:
            found.append(f"{key}={value_at(config, key)}: must be one of {', '.join(choices)}")
    if not is_device(config.trainer.device):
        found.append(f"trainer.device={config.trainer.device}: must be one of {DEVICES}")
    for keys, low, words in ((POSITIVE, 1e-300, "must be greater than 0"), (NOT_NEGATIVE, 0, "must not be negative")):
        for key in keys:
            value = value_at(config, key)
            if isinstance(value, int | float) and value < low:
                found.append(f"{key}={value}: {words}")
    for key in SHARES:
        value = value_at(config, key)
        if isinstance(value, int | float) and (value < 0 or value >= 1):
            found.append(f"{key}={value}: must be at least 0 and less than 1")
    if config.trainer.steps is None and config.trainer.minutes is None:
        found.append("trainer.steps and trainer.minutes are both null: give the run a budget with one of them")
    for key, value in plain_settings(config).items():
        if isinstance(value, int | float) and (not math.isfinite(value) or abs(value) > 2**62):
            found.append(f"{key}={value}: is out of all bounds")
    # A run that was copied or renamed since may go on under a name that a new one could not have.
    if config.name is not None and config.resume is None and not is_plain_name(config.name):
        found.append(f"name={config.name}: a plain folder name is needed: letters, digits and _ . + - @ %")
    return [
        *found,
        *task_problems(config),
        *data.config.problems(config.data),
        *data.config.tokenizer_problems(config.tokenizer),
        *model.config.problems(config.model),
        *attention_maps.config.problems(config.attention),
    ]


def task_problems(config: TrainConfig) -> list[str]:
    """Settings that have no meaning for the task, in the same form."""
    found = []
    if config.task == "gpt":
        if config.data.source == "pairs":
            found.append("data.source=pairs: a GPT needs running text (data=text, hub or primer)")
        if config.data.split == "components":
            found.append("data.split=components: connects sentence pairs; for running text use contiguous or random")
        if config.tokenizer.sampling:
            found.append("tokenizer.sampling: is for translation; running text is tokenised once")
    if config.task == "translate":
        if config.data.source == "text":
            found.append("data.source=text: translation needs sentence pairs (data=pairs, hub or primer)")
        if config.data.streaming:
            found.append("data.streaming: is for running text; pairs are read into memory-mapped tables anyway")
        if config.model.mask_documents:
            what = "only windows of a GPT hold several documents"
            found.append(f"model.mask_documents: {what}; leave it out for task=translate")
    return found
