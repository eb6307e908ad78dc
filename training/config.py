"""Configuration of a training run, as dataclasses that can be built in Python without Hydra."""

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
    """`adamw` (Loshchilov & Hutter 2019); `muon` (Jordan et al. 2024) for the weight matrices of the blocks and AdamW
    for all other weights; or `scion`, which is muon with the rules of Scion (Pethick et al. 2025, arXiv 2502.07529) for
    embeddings and the output head: of a running mean of the gradients, each embedding's row is scaled to one norm, and
    the head takes the signs. The head needs a table of its own (`model.tie_embeddings=false`)."""

    lr: float = 1e-3
    """Peak learning rate of AdamW."""

    muon_lr: float = 0.02
    """Peak learning rate of the matrices trained by Muon. Not comparable to `lr`: before it is multiplied by the
    learning rate, a Muon update has a spectral norm of about 1, or sqrt(rows/columns) if the matrix has more rows than
    columns."""

    embedding_lr: float = 0.03
    """Scion: peak learning rate of embeddings of tokens and positions: the root mean square of an update of a row,
    whatever the size of the gradient. Fine-tuning needs less."""

    head_lr: float = 1e-3
    """Scion: peak learning rate of the output head: the size of an update of each of its weights. Fine-tuning needs
    less."""

    equal_norms: bool = True
    """Muon and Scion: scale the rows of each update (the columns, if there are more of them) of a matrix inside a block
    to one norm, so that all neurons are updated alike (Li et al. 2025, arXiv 2510.05491, without the running
    average)."""

    beta1: float = 0.9
    """Decay rate of the running mean of gradients."""

    beta2: float = 0.99
    """Decay rate of the running mean of squared gradients; 0.99 suits small batches, 0.95 large ones."""

    eps: float = 1e-8
    """Constant added to the denominator of the AdamW update."""

    weight_decay: float = 0.1
    """Decoupled weight decay of matrices; norms and biases are not decayed."""

    clip: float = 1.0
    """Maximum L2 norm of the gradient over all weights; larger gradients are scaled down. 0 disables clipping."""


@dataclass
class ScheduleConfig:
    """The learning-rate schedule: a pure function of step and progress."""

    kind: str = "cosine"
    """`cosine`, `linear`, `inverse_sqrt` (Vaswani et al. 2017), `wsd` (warm-up, stable, decay) or `constant`."""

    warmup: int = 100
    """Steps of linear warm-up from 0 to the peak. In a new run, a default or a recipe's value is capped at 10% of
    `trainer.steps`; a value given on the command line is not. With `trainer.minutes`, warm-up also ends once training
    steps have used 10% of the time budget, or once half of the budget is over. The first step after a start or resume
    does not count towards these 10%, because it may include compilation."""

    final: float = 0.0
    """Final learning rate, as a fraction of the peak (cosine, linear, wsd)."""

    decay: float = 0.2
    """wsd only: fraction of the run spent in the final linear decay."""


@dataclass
class TrainerConfig:
    """The training loop: budget, batches, evaluation, checkpoints, hardware."""

    steps: int | None = 2000
    """Budget in optimiser steps. If only `steps` is given on the command line, it overrides the minutes of a recipe or
    a resumed run."""

    minutes: float | None = None
    """Wall-clock budget for training in minutes, including evaluations, and cumulative over all resumes. If only
    `minutes` is given on the command line, it overrides the steps of a recipe or a resumed run. If both are set, the
    run ends at whichever limit is reached first, and the schedule follows whichever budget is closer to being used up.
    """

    batch_size: int = 32
    """GPT: sequences per micro-batch, each of `model.context` tokens (translation uses `data.batch_tokens` instead)."""

    accumulate: int = 1
    """Micro-batches per optimiser step. The loss is averaged over all tokens of the step: 4 micro-batches of 1 sequence
    give the same gradient as 1 micro-batch of 4. With torchrun, all processes divide them among themselves; a new run
    has at least one for each process."""

    label_smoothing: float = 0.0
    """Fraction of the target probability spread over the vocabulary (Szegedy et al. 2016); 0.1 is common for
    translation. Applies to the training loss, not to the validation loss."""

    guided_alignment: float = 0.0
    """Translation: weight of a loss that teaches two heads of cross-attention, in the last layer and in the one below,
    to align words (Chen et al. 2016; Garg et al. 2019); 0 disables it. The alignments are learned from the training
    pairs before training, by IBM Model 1, which takes seconds. Cross-attention is learned sooner and its maps become
    readable. The reported training loss does not include it."""

    ema: float = 0.0
    """Decay rate of an exponential moving average of the weights; 0 disables it. If enabled, the averaged weights are
    the ones evaluated and saved."""

    evaluate_every: int = 250
    """Steps between evaluations, each of which computes the validation loss, generates samples or translations, records
    attention maps and saves a checkpoint. Evaluation is limited to about a third of the run time: after an evaluation
    of more than 5 seconds, further evaluations are skipped until training has run for twice as long as that evaluation
    took. A checkpoint is still saved when an evaluation is skipped, and the final evaluation is never skipped."""

    evaluate_minutes: float | None = None
    """If set, evaluate every `evaluate_minutes` minutes instead of every `evaluate_every` steps."""

    first_evaluation_minutes: float | None = None
    """With `evaluate_minutes`: minutes until the first evaluation. The elapsed time then doubles from one evaluation to
    the next (2, 4, 8, … times the first) until the gap reaches `evaluate_minutes`; after that, evaluations run every
    `evaluate_minutes` minutes. null uses `evaluate_minutes` from the start."""

    limit_evaluations: bool = True
    """Skip evaluations that would exceed a third of the run time, as described at `evaluate_every`. If false, every
    evaluation is run, so that the evaluated steps do not depend on the speed of the machine."""

    evaluate_sentences: int = 200
    """Translation: number of validation sentences decoded (greedily) for BLEU and chrF during training."""

    test: bool = True
    """When training ends, evaluate the best checkpoint on the test splits."""

    beam_size: int = 4
    """Translation: beam size of the final test."""

    length_penalty: float = 1.0
    """Translation: hypotheses are ranked by log-probability / length ** length_penalty."""

    samples: int = 2
    """Number of sample texts (GPT, up to 200 tokens each) or sample translations shown at each evaluation."""

    log_every: int = 10
    """Steps between log lines."""

    find_nan: bool = False
    """Repeat a step whose gradient contains NaN or infinity, at which training stops, uncompiled, and name the first
    module that makes such a value; set by `+debug=nan`. For one start: it is not saved, so that a resume trains as
    before."""

    patience: int | None = None
    """Stop after this many evaluations without a lower validation loss; null disables early stopping. Skipped
    evaluations do not count."""

    keep: int = 1
    """Number of older checkpoints to keep besides `last` and `best`. A resume falls back to one of them if the last
    checkpoint is damaged."""

    early_weights: bool = False
    """Also keep the weights alone of steps 0, 16, 64, 256, 1,024, …, as `checkpoints/weights-00000064`, so that early
    models can be asked in TensorBoard's Attention tab (0 are the untrained ones). A resume does not use them."""

    device: str = "auto"
    """`cpu`, `cuda`, `cuda:N` for GPU number N, `mps` (Apple GPU, untested), or `auto`: a CUDA GPU if there is one,
    else the CPU."""

    precision: str = "auto"
    """`float32`, `bf16` (bf16 weights with float32 master weights), or `auto`: bf16 if the hardware has fast bf16
    matrix multiplication, else float32."""

    compile: str = "auto"
    """torch.compile: `on`, `off`, or `auto`, which compiles if the run is long enough to amortise compilation. On a CPU
    these are runs of at least 5 minutes (GPTs of more than 10 layers: half a minute per layer), if a C++ compiler is
    installed; on a GPU, runs of at least 1,000 steps."""

    threads: int | None = None
    """CPU threads; null uses the number of physical cores, or fewer if the container has a CPU quota."""

    recompute: bool = False
    """Activation checkpointing: keep only the input of each block and recompute its activations in the backward pass.
    Saves memory and takes a third more time."""

    shard: str = "none"
    """With several processes (torchrun), what they divide among themselves: `none`; `optimizer`, the master weights,
    the optimiser state and the average (ZeRO 1, Rajbhandari et al. 2020), which leaves 2 bytes of weights and 4 of
    gradients per parameter in each; or `weights`, everything (FSDP2), for models that do not fit one GPU otherwise. The
    result is the same up to rounding, and a run may be resumed with another value. See docs/cluster.md."""

    slow_attention: bool = False
    """On a GPU, allow the attention kernel that materialises the full matrix of attention weights if no fused kernel is
    applicable. If false, a run that has no applicable fused kernel is rejected."""

    deterministic: bool = False
    """Use only deterministic kernels on CUDA. CPU runs are always reproducible bit for bit."""

    overfit: bool = False
    """Train on the first batch only: a model that cannot drive this loss to zero has a bug."""

    profile: bool = False
    """Profile steps 5 to 10: a table of the slowest operators in the log, a Perfetto trace in the run folder."""


@dataclass
class TrainConfig:
    """One training run."""

    task: str = "gpt"
    """`gpt` generates text, `translate` translates; set by the config group `task=`."""

    experiment: str | None = None
    """The recipe that this config was composed from; it names the run if `name` is null."""

    name: str | None = None
    """Name of the run; its folder is `runs/<name>`. null uses the recipe's name, or `<task>-<data>` without a recipe,
    followed by the next free number if the name is taken. In a sweep, the values that vary are appended:
    `<name>-lr-0.003`."""

    title: str | None = None
    """Title of the model, for exported pages and attention maps; null uses the name of the run."""

    licence: str | None = None
    """Licence of the model and of what it writes, such as `CC BY 4.0`, for exported pages and attention maps. It is
    yours to state: null states none."""

    runs: str = "runs"
    """Folder that contains all runs."""

    resume: str | None = None
    """Run folder or checkpoint to resume. From a run folder, with a budget in steps, the result is bit-identical to
    that of an uninterrupted run (docs/safety.md). From a checkpoint (`runs/NAME/checkpoints/step-00000500`, `…/best`),
    training continues at its step, and later checkpoints, metrics, curves and attention maps are deleted."""

    init_from: str | None = None
    """Run folder or checkpoint to initialise a new run from. Loads the weights (for a run folder, those of its best
    checkpoint) and the tokenizer, but not the optimiser state or the step count. Or a folder of Hugging Face
    transformers with a GPT-2, Llama or Marian model and its tokenizer, of which `model.context` may be shortened
    (docs/pretrained.md)."""

    seed: int = 1
    """Seed for initialisation, data order and dropout."""

    data: DataConfig = field(default_factory=DataConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    attention: AttentionConfig = field(default_factory=AttentionConfig)


CHOICES = {
    "task": ("gpt", "translate"),
    "optim.kind": ("adamw", "muon", "scion"),
    "schedule.kind": ("cosine", "linear", "inverse_sqrt", "wsd", "constant"),
    "trainer.precision": ("auto", "float32", "bf16"),
    "trainer.compile": ("auto", "on", "off"),
    "trainer.shard": ("none", "optimizer", "weights"),
}

POSITIVE = (
    "optim.lr",
    "optim.muon_lr",
    "optim.embedding_lr",
    "optim.head_lr",
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
NULL = dict.fromkeys(("trainer.minutes", "trainer.evaluate_minutes", "trainer.patience"), "; null switches it off")
NOT_NEGATIVE = (
    "seed",
    "optim.weight_decay",
    "optim.clip",
    "schedule.warmup",
    "trainer.samples",
    "trainer.keep",
    "trainer.evaluate_sentences",
    "trainer.length_penalty",
    "trainer.guided_alignment",
)
SHARES = ("optim.beta1", "optim.beta2", "trainer.label_smoothing", "trainer.ema", "schedule.final", "schedule.decay")


def value_at(config: object, key: str) -> object:
    """Return the value of a dotted key such as `optim.lr`."""
    for part in key.split("."):
        config = getattr(config, part)
    return config


def plain_settings(config: object, prefix: str = "") -> dict[str, float | str]:
    """Return all settings that are numbers, booleans or strings, by dotted key; skip lists and null values."""
    settings: dict[str, float | str] = {}
    for setting in fields(config):  # type: ignore[arg-type]
        value = getattr(config, setting.name)
        if is_dataclass(value):
            settings |= plain_settings(value, f"{prefix}{setting.name}.")
        elif isinstance(value, int | float | str):
            settings[prefix + setting.name] = value
    return settings


def is_plain_name(name: str) -> bool:
    """Whether `name` is a valid folder name everywhere and needs no quotes in a shell: letters, digits and `_.+-@%`."""
    return re.fullmatch(r"[\w+@%][\w.+@%-]*", name) is not None and len(name.encode()) <= 250


def problems(config: TrainConfig) -> list[str]:
    """Return one sentence for each invalid setting, with its key and the fix."""
    messages = []
    for key, choices in CHOICES.items():
        if value_at(config, key) not in choices:
            messages.append(f"{key}={value_at(config, key)}: must be one of {', '.join(choices)}")
    if not is_device(config.trainer.device):
        messages.append(f"trainer.device={config.trainer.device}: must be one of {DEVICES}")
    for keys, low, words in ((POSITIVE, 1e-300, "must be greater than 0"), (NOT_NEGATIVE, 0, "must not be negative")):
        for key in keys:
            value = value_at(config, key)
            if isinstance(value, int | float) and value < low:
                messages.append(f"{key}={value}: {words}{NULL.get(key, '')}")
    for key in SHARES:
        value = value_at(config, key)
        if isinstance(value, int | float) and (value < 0 or value >= 1):
            messages.append(f"{key}={value}: must be at least 0 and less than 1")
    if config.optim.kind == "scion" and config.model.tie_embeddings:
        fix = "choose optim=muon for this model" if config.init_from else "add model.tie_embeddings=false"
        messages.append(f"optim.kind=scion: has different rules for embedding and head, but they are one table; {fix}")
    if config.trainer.steps is None and config.trainer.minutes is None:
        messages.append("trainer.steps and trainer.minutes are both null: give the run a budget with one of them")
    for key, value in plain_settings(config).items():
        if isinstance(value, int | float) and (not math.isfinite(value) or abs(value) > 2**62):
            messages.append(f"{key}={value}: is out of range")
    # A run that was copied or renamed may be resumed under a name that a new run could not have.
    if config.name is not None and config.resume is None and not is_plain_name(config.name):
        messages.append(f"name={config.name}: a plain folder name is needed: letters, digits and _ . + - @ %")
    return [
        *messages,
        *task_problems(config),
        *data.config.problems(config.data),
        *data.config.tokenizer_problems(config.tokenizer),
        *model.config.problems(config.model),
        *attention_maps.config.problems(config.attention),
    ]


def task_problems(config: TrainConfig) -> list[str]:
    """Like `problems`: return one sentence for each setting that does not apply to the task."""
    messages = []
    if config.task == "gpt":
        if config.data.source == "pairs":
            messages.append("data.source=pairs: a GPT needs running text (data=text, hub or primer)")
        if config.data.split == "components":
            messages.append("data.split=components: connects sentence pairs; for running text use contiguous or random")
        if config.tokenizer.sampling:
            messages.append("tokenizer.sampling: is for translation; running text is tokenised once")
        if config.data.both_directions:
            messages.append("data.both_directions: is for translation; running text has no pairs")
        if config.trainer.guided_alignment:
            messages.append("trainer.guided_alignment: is for translation; a GPT has no cross-attention")
    if config.task == "translate":
        if config.data.both_directions and not config.tokenizer.shared:
            messages.append(
                "data.both_directions: needs one vocabulary of both languages: leave tokenizer.shared at true"
            )
        if config.data.source == "text":
            messages.append("data.source=text: translation needs sentence pairs (data=pairs, hub or primer)")
        if config.data.streaming:
            messages.append("data.streaming: is for running text; pairs are read into memory-mapped tables anyway")
        if config.model.mask_documents:
            what = "only windows of a GPT hold several documents; leave it out for task=translate"
            messages.append(f"model.mask_documents: {what}")
        if config.model.token_shift:
            messages.append("model.token_shift: is for language models; leave it out for task=translate")
    return messages
