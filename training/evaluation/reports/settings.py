"""Settings of `evaluate.py`. This module does not import torch, so `--help` and errors in settings appear at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from configs.checkpoints import CHECKPOINTS, is_checkpoint
from configs.devices import DEVICES, is_device
from configs.errors import UserError
from configs.settings import describe, read_settings
from generation.config import ONE_DIRECTION, MBRConfig, NeighbourConfig, mbr_problems, neighbour_problems

HELP = """Evaluate a run on a split: scores with 95 % intervals, as a table and as JSON in the run folder.

  python evaluate.py run=runs/NAME                           the test split
  python evaluate.py run=runs/NAME split=valid               the whole validation split
  python evaluate.py run=runs/A compare=runs/B               is A really better than B? a paired test
  python evaluate.py run=runs/NAME stride=64                 GPT: overlapping windows, more context per token
  python evaluate.py run=runs/NAME tune=length_penalty       translation: choose a setting on the validation split
  python evaluate.py run=runs/NAME neighbours.sentences=8    translation: retrieve similar training pairs
  python evaluate.py run=runs/NAME mbr.samples=32            translation: minimum Bayes risk decoding

A GPT: loss, perplexity, bits per byte, perplexity per word; on the built-in stories also the pronouns. A translator:
chrF, BLEU over characters, over given tokens and over MeCab words (pip install 'sacrebleu[ja]'), exact matches, and
baselines. The run may still be training. The table goes to standard output, progress to standard error.

Settings (key=value):"""

METHOD = {"stride": "gpt"}
METHOD |= dict.fromkeys(("beam_size", "length_penalty", "tune", "reverse", "neighbours", "mbr"), "translate")
"""The task of each setting that only one task has."""


@dataclass
class DataPlace:
    """Where the data are, if they have moved since the training; by default as in the run's config."""

    path: str | None = None
    """As in `train.py`, whose `--help` describes the formats."""

    valid_path: str | None = None
    """Validation file(s)."""

    test_path: str | None = None
    """Test file(s)."""

    encoding: str | None = None
    """Encoding of the files, if it is not UTF-8."""

    cache: str | None = None
    """Folder of prepared data."""


@dataclass
class EvaluateSettings:
    """Evaluate a run on a split."""

    run: str | None = None
    """A run folder, runs/NAME, or one of its checkpoints, runs/NAME/checkpoints/step-00000500. Several, separated by
    commas, form an ensemble: the probabilities of the next token are averaged, which needs the same tokenizer."""

    split: Literal["valid", "test", "novel"] | None = None
    """`test`, `valid`, or `novel` (built-in corpus). Default: test; with `tune`, valid."""

    checkpoint: str = "best"
    """`best` (lowest validation loss), `last`, or the name of a step, step-00000500."""

    compare: str | None = None
    """A second run, or checkpoint, which is evaluated on the same split; a paired bootstrap test shows whether the
    difference could be chance. The texts come from the data of `run`."""

    stride: int | None = None
    """GPT: distance between the starts of two windows, from 1 to model.context. A smaller one gives each token more
    context, at least model.context - stride tokens, and takes model.context / stride times as long. Default:
    model.context, windows that do not overlap, as for val/loss during training."""

    beam_size: int | None = None
    """Translation: number of hypotheses kept at each step. Default: trainer.beam_size of the run."""

    length_penalty: float | None = None
    """Translation: hypotheses are ranked by log-probability / length ** length_penalty. Default: trainer.length_penalty
    of the run."""

    reverse: bool = False
    """Translation: evaluate the other direction, from the target language to the source language, of a run with
    `data.both_directions=true`."""

    tune: Literal["length_penalty", "neighbours"] | None = None
    """Translation: `length_penalty` scores the validation split with several values and recommends one; `neighbours`
    does so with several weights and temperatures of retrieval, and without it. Not on test splits: a setting that is
    chosen on the test set inflates its score."""

    resamples: int = 1000
    """Number of bootstrap resamples; 0 omits the intervals."""

    device: str = "auto"
    """`cpu`, `cuda`, `cuda:N`, `mps`, or `auto`: a CUDA GPU if there is one, else the CPU."""

    json: str | None = None
    """Output file. Default: evaluation/SPLIT.json in the run folder; for an ensemble evaluation/SPLIT.ensemble.json in
    that of its first run. An earlier result of another checkpoint or other settings is renamed, not overwritten."""

    data: DataPlace = field(default_factory=DataPlace)
    neighbours: NeighbourConfig = field(default_factory=NeighbourConfig)
    mbr: MBRConfig = field(default_factory=MBRConfig)


def evaluate_help() -> str:
    """Return the text of `--help`: usage and all settings."""
    return "\n".join([HELP, *describe(EvaluateSettings(), none="")])


def parse_settings(arguments: Sequence[str]) -> EvaluateSettings:
    """Parse and check the command line. Raises UserError with all problems."""
    settings, messages = read_settings(EvaluateSettings, arguments)
    settings.split = settings.split or ("valid" if settings.tune else "test")
    if messages := messages + evaluation_problems(settings):
        raise UserError(*messages)
    return settings


def evaluation_problems(settings: EvaluateSettings) -> list[str]:
    """Return one sentence for each invalid setting, with its key."""
    penalty, beam = settings.length_penalty, settings.beam_size
    tuning = settings.tune is not None
    rules = (
        ("run", bool(settings.run), "run=runs/NAME is needed: the folder of a trained model"),
        ("checkpoint", is_checkpoint(settings.checkpoint), f"must be {CHECKPOINTS}"),
        ("device", is_device(settings.device), f"must be one of {DEVICES}"),
        ("stride", settings.stride is None or settings.stride >= 1, "must be at least 1"),
        ("beam_size", beam is None or 1 <= beam <= 1000, "must be from 1 to 1000"),
        ("length_penalty", penalty is None or 0 <= penalty <= 10, "must be from 0 to 10"),
        ("resamples", settings.resamples == 0 or 100 <= settings.resamples <= 10**6, "must be 0, or from 100 to 10**6"),
        ("split", not tuning or settings.split == "valid", "tune= chooses on the validation split only: split=valid"),
        ("compare", settings.compare is None or settings.compare != settings.run, "is the run itself"),
        ("compare", not tuning or settings.compare is None, "cannot be combined with tune"),
        ("length_penalty", settings.tune != "length_penalty" or penalty is None, "cannot be combined with tune"),
        ("resamples", settings.resamples > 0 or settings.compare is None, "compare= needs resamples above 0"),
    )
    broken = [(key, rule) for key, holds, rule in rules if not holds]
    messages = [rule if key == "run" else f"{key}={getattr(settings, key)}: {rule}" for key, rule in broken]
    return messages + neighbour_problems(settings.neighbours) + mbr_problems(settings.mbr)


def run_problems(
    settings: EvaluateSettings, tasks: Sequence[str], contexts: Sequence[int], both_directions: Sequence[bool]
) -> list[str]:
    """Return one sentence for each given setting that does not fit `run` or `compare`, of which these are the values of
    `task`, `model.context` and `data.both_directions`; of an ensemble, those of the whole."""
    task, shortest, stride = tasks[0], min(contexts), settings.stride
    does = "is a language model" if task == "gpt" else "translates"
    unset = EvaluateSettings()
    chosen = [
        key for key, of_task in METHOD.items() if of_task != task and getattr(settings, key) != getattr(unset, key)
    ]
    messages = [f"{key}: {settings.run} {does} and has no such setting (task={task})" for key in chosen]
    if stride is not None and stride > shortest and not messages:
        messages.append(
            f"stride={stride}: must not exceed model.context={shortest}: tokens between windows are skipped"
        )
    if settings.reverse and task == "translate" and not all(both_directions):
        name = settings.compare if both_directions[0] else settings.run
        messages.append(f"reverse=true: {name} {ONE_DIRECTION}")
    if len(set(tasks)) > 1:
        messages.append(f"compare={settings.compare}: has task={tasks[1]}, but {settings.run} has task={task}")
    return messages
