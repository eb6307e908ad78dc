"""Compose the config of one run: a new run, a resumed run (`resume`), or one with existing weights (`init_from`)."""

from __future__ import annotations

from dataclasses import dataclass, field

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from configs.compose import GROUPS, all_keys, compose_config, parse_override, value_problems
from configs.errors import UserError
from configs.literals import literal
from configs.program import expanded
from training.budget_and_schedules import WARMUP_SHARE
from training.config import TrainConfig, problems
from training.run_folder.init_from import inherited, read_origin
from training.run_folder.saved_config import load_config, run_and_checkpoint, to_omegaconf

FREE_ON_RESUME = (
    "resume",
    "runs",
    "title",
    "licence",
    "optim",
    "schedule",
    "trainer",
    "attention",
    "model.dropout",
    "model.attention_dropout",
    "data.path",
    "data.valid_path",
    "data.test_path",
    "data.cache",
)
"""Settings that a resumed run may change. Any other change requires a new run with `init_from`."""

FROM_ORIGIN = ("model", "tokenizer")
"""Settings that a run with `init_from` inherits from its origin, except dropout."""

STARTS = ("resume", "init_from")
"""Settings of which the last does not replace others on the command line: a slip would train another model."""

CONTEXT = "model.context"
"""Which may be shorter than that of a model of transformers."""


@dataclass(frozen=True)
class ComposedRun:
    """The composed config of one run, and its problems."""

    config: TrainConfig = field(default_factory=TrainConfig)
    """Valid only if there are no problems."""
    changes: list[str] = field(default_factory=list)
    """Settings of a resumed run that differ from the saved ones."""
    problems: list[str] = field(default_factory=list)
    varied: dict[str, str] = field(default_factory=dict)
    """Values of the settings that vary in the sweep."""


def compose_run(settings: list[str]) -> ComposedRun:
    """Compose and check one run; collect all errors in `problems`."""
    composed, messages = compose_config("train", TrainConfig, settings)
    if composed is None:
        return ComposedRun(problems=messages)
    keys = [setting.partition("=")[0] for setting in settings]
    messages += [f"{key}= is given twice: a run has one starting point" for key in STARTS if keys.count(key) > 1]
    try:
        if composed.resume and composed.init_from:
            excluded = "resume continues a run, init_from starts a new run from its weights"
            return ComposedRun(problems=[*messages, f"resume and init_from exclude each other: {excluded}"])
        if composed.resume:
            config, changes = resume_config(composed, settings, messages)
        else:
            new = (
                init_from_config(composed, settings, messages)
                if composed.init_from
                else to_dataclass(composed, settings)
            )
            config, changes = new, []
            settle_warmup(config, settings)
    except UserError as error:
        return ComposedRun(problems=[*messages, *error.args])
    except OmegaConfBaseException as error:  # a dangling interpolation or a missing value
        problem = f"{error.full_key}: {str(error).strip().splitlines()[0]}"
        if isinstance(error, MissingMandatoryValue):
            problem = f"{error.full_key}=???: three question marks denote a missing value; write the path ??? as ./???"
        return ComposedRun(problems=[*messages, problem])
    return ComposedRun(config, changes, messages + problems(config) + without_effect(config, settings))


def without_effect(config: TrainConfig, settings: list[str]) -> list[str]:
    """Return one sentence for each setting of the user that another one makes useless. The value of a recipe, or of a
    resumed run, may be: a user who nulls `trainer.evaluate_minutes` of a recipe wants evaluations by steps."""
    key, first = "trainer.first_evaluation_minutes", config.trainer.first_evaluation_minutes
    if key in keys_of(settings) and first is not None and config.trainer.evaluate_minutes is None:
        return [f"{key}={first:g}: needs trainer.evaluate_minutes; without it, evaluations go by steps"]
    return []


def to_dataclass(composed: DictConfig, settings: list[str]) -> TrainConfig:
    """Convert the composed config to a TrainConfig after `settle_budget`."""
    settle_budget(composed, settings)
    config = OmegaConf.to_object(composed)
    assert isinstance(config, TrainConfig)
    return config


def settle_budget(composed: DictConfig, settings: list[str]) -> None:
    """If only steps or only minutes are set by the user, clear the other, whose default would also limit the run."""
    keys = keys_of(settings)
    for key, other in (("steps", "minutes"), ("minutes", "steps")):
        if f"trainer.{key}" in keys and f"trainer.{other}" not in keys and composed.trainer[key] is not None:
            composed.trainer[other] = None


def settle_warmup(config: TrainConfig | DictConfig, settings: list[str]) -> None:
    """Limit a default warm-up to `WARMUP_SHARE` of the steps, as for minutes; keep an explicit warm-up."""
    steps = config.trainer.steps
    if steps is not None and "schedule.warmup" not in keys_of(settings):
        config.schedule.warmup = max(0, min(config.schedule.warmup, int(WARMUP_SHARE * steps)))


def keys_of(settings: list[str]) -> set[str]:
    """Return the keys of the settings: `trainer.steps` for `++trainer.steps=5`."""
    return {setting.lstrip("+").partition("=")[0] for setting in settings}


def repeats(key: str, mine: object, theirs: object) -> bool:
    """Whether a setting, or a group of settings, equals the saved one."""
    if isinstance(mine, DictConfig) and isinstance(theirs, DictConfig):
        return all(repeats(f"{key}.{name}", mine[name], theirs[name]) for name in map(str, mine))
    return mine == theirs or (mine is None and key == "tokenizer.vocab_size")  # null: the size is found in the data


def init_from_config(composed: DictConfig, settings: list[str], messages: list[str]) -> TrainConfig:
    """Return the config of a new run with the model and the tokenizer of its origin; add the settings that contradict
    these to `messages`."""
    origin = read_origin(composed.init_from)
    saved = to_omegaconf(TrainConfig(task=origin.task, model=origin.model, tokenizer=origin.tokenizer))
    keys = [key for key in all_keys(TrainConfig) if key.split(".")[0] in FROM_ORIGIN and key not in FREE_ON_RESUME]
    name = f"init_from={composed.init_from}"
    if composed.task != origin.task:
        messages.append(f"{name}: was trained with task={origin.task}; add task={origin.task}")
    shorter = origin.pretrained is not None and composed.model.context <= origin.model.context
    for setting in settings:
        group = setting.partition("=")[0]
        for key in [key for key in keys if key == group or key.startswith(group + ".")]:
            mine, theirs = OmegaConf.select(composed, key), OmegaConf.select(saved, key)
            if not OmegaConf.is_config(mine) and not repeats(key, mine, theirs) and not (shorter and key == CONTEXT):
                messages.append(f"{key}={mine}: {name} was trained with {key}={theirs}; remove {key}")
    if CONTEXT not in keys_of(settings):
        composed.model.context = origin.model.context
    return inherited(to_dataclass(composed, settings), origin)


def resume_config(composed: DictConfig, settings: list[str], messages: list[str]) -> tuple[TrainConfig, list[str]]:
    """Load the config of the run to resume and apply the settings -> (config, changes); add problems to `messages`."""
    path = expanded(composed.resume)
    run, _ = run_and_checkpoint(path)
    saved = load_config(run)
    before, config = to_omegaconf(saved), to_omegaconf(saved)
    keys = all_keys(TrainConfig)
    elsewhere = f"cannot change on resume; use init_from={run} to start a new run from its weights"
    for setting in settings:
        override = parse_override(setting, [])
        key = override.key_or_group if override else ""
        if override is None or key not in (*keys, *GROUPS):
            continue  # already reported by compose_config
        if (key, override.value()) == ("debug", "nan"):  # the one preset that does not make it another run
            config.trainer.find_nan = True
        elif not any(key == free or key.startswith(free + ".") for free in FREE_ON_RESUME):
            # Unchanged values may be repeated, e.g. by reusing the original command. The folder may have been renamed.
            repeated = key in keys and repeats(key, OmegaConf.select(composed, key), OmegaConf.select(before, key))
            if not repeated and (key, composed.name) != ("name", run.name):
                messages.append(f"{key}: {elsewhere}")
        elif key in GROUPS:
            config[key] = composed[key]
        else:
            value_problems(config, override, keys)
    settle_budget(config, settings)
    if config.schedule.kind != before.schedule.kind:
        settle_warmup(config, settings)
    elif "schedule.warmup" not in keys_of(settings):  # the same schedule: continue its curve
        config.schedule.warmup = before.schedule.warmup
    if config.optim.kind != before.optim.kind:
        messages.append(f"optim.kind={config.optim.kind}: {elsewhere}")
    config.resume = literal(str(path))
    changed = to_dataclass(config, [])
    changes = []
    for key in keys:
        now, then = OmegaConf.select(config, key), OmegaConf.select(before, key)
        if key not in ("resume", "runs") and not OmegaConf.is_config(now) and now != then:
            changes.append(f"{key}={now} (was {then})")
    return changed, changes
