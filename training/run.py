"""A training run from config to tested checkpoint: prepare data, build, train, test."""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from configs.errors import UserError
from configs.program import expanded
from data.prepare import PreparedPairs, PreparedText, prepare
from data.tokens.tokenizer import Tokenizer
from model.size import count_parameters, flops_per_token
from training.config import TrainConfig, plain_settings
from training.evaluation.evaluators import Evaluator, evaluator_for
from training.hardware.apple_gpu import check_apple_gpu
from training.hardware.attention_kernels import check_attention, describe_attention, evaluation_kernels
from training.hardware.compilation import eagerly
from training.hardware.machine import Hardware, choose_hardware, set_deterministic
from training.hardware.out_of_memory import advised, training_advice
from training.progress import Progress
from training.run_folder import layout as run_folder
from training.run_folder.checkpoints import (
    Checkpoint,
    checkpoint_path,
    checkpoint_step,
    left_to_go_on,
    load_state,
    load_weights,
    read_checkpoint,
    rewind,
)
from training.run_folder.log import RunLog, code_block, short
from training.run_folder.saved_config import load_config, run_and_checkpoint, save_config, to_yaml
from training.run_folder.step_report import final_lines
from training.trainer import Trainer


@dataclass(frozen=True)
class Parts:
    """What a training run works with. Building it writes nothing into the run's folder."""

    hardware: Hardware
    description: str
    """Device, number format and attention kernel, in words."""
    prepared: PreparedText | PreparedPairs
    model: run_folder.Model
    trainer: Trainer


def train(config: TrainConfig, changes: list[str] | None = None) -> float:
    """Train as `config` says and return the best validation loss in nats per token.

    With `config.resume` set, `config` is the run's own config with `changes` (for the log) applied to it. With
    `config.init_from` set, shape and tokenizer are those of that run, whatever `config` says. Raises UserError or
    data.errors.DataError before anything is written when something is wrong with config, data or files, and
    Interrupted, with everything saved, when a signal asks to stop.
    """
    with advised(lambda: training_advice(config)):
        return resume(config, changes or []) if config.resume else start(config)


def start(config: TrainConfig) -> float:
    """Train in a new folder."""
    run_folder.check_free(config)
    config, parts = begun(config)
    with run_folder.create(config) as run:
        return train_in(run, replace(config, name=run.name), parts, [])


def begun(config: TrainConfig) -> tuple[TrainConfig, Parts]:
    """A new training, from random weights or from those of another run; the config has the shape of that run then."""
    if not config.init_from:
        return config, build(config, None, None)
    origin, which = run_and_checkpoint(expanded(config.init_from), "best")
    config = built_upon(config, load_config(origin))
    return config, build(config, read_checkpoint(origin, which), run_folder.load_tokenizers(origin))


def resume(config: TrainConfig, changes: list[str]) -> float:
    """Go on in the folder of a run, from its last checkpoint or from the one that `config.resume` names."""
    run, which = run_and_checkpoint(expanded(str(config.resume)), "last")
    with run_folder.locked(run):  # before anything is read: who still trains the run writes newer checkpoints
        parts, notes = restored(config, run, which)
        resumed_with = [f"resumed with {', '.join(changes)}"] if changes else []
        return train_in(run, replace(config, resume=None), parts, resumed_with + notes)


def restored(config: TrainConfig, run: Path, which: str) -> tuple[Parts, list[str]]:
    """A training as it was at a checkpoint, and its folder too -> with lines for the log."""
    checkpoint = read_checkpoint(run, which)
    state = load_state(checkpoint.path)
    parts = build(config, checkpoint, run_folder.load_tokenizers(run))
    progress = parts.trainer.progress
    parts.trainer.restore(checkpoint.weights, state)
    notes = go_back(run, checkpoint, progress)
    # Checkpoints of before have the key of the training data alone; of the others nothing is known then.
    before = dict(zip(parts.prepared.keys, state["data"].split(), strict=False))
    changed = {part for part, key in before.items() if key != parts.prepared.keys[part]}
    if "train" in changed:
        notes.append("note: other data than before: their order and the best loss begin anew")
    elif "valid" in changed:
        notes.append("note: other validation data than before: the best loss begins anew")
    if changed & {"train", "valid"}:
        progress.forget_best()
    if "test" in changed:
        notes.append("note: other test data than before: the test results begin anew")
        (run / "test.json").unlink(missing_ok=True)
    return parts, notes


def build(config: TrainConfig, checkpoint: Checkpoint | None, tokenizers: list[Tokenizer] | None) -> Parts:
    """Prepare the data and build the model, with the weights of `checkpoint` where there is one: all that can go wrong
    early."""
    hardware = choose_hardware(config.trainer.device, config.trainer.precision, config.trainer.threads)
    if config.trainer.deterministic:
        set_deterministic()
    check_attention(config, hardware)
    description = f"{hardware.description}, attention by {describe_attention(config, hardware)}"
    prepared = prepare(config.task, config.data, config.tokenizer, config.model.context, config.seed, tokenizers)
    torch.manual_seed(config.seed)
    model = run_folder.build_model(config, prepared.tokenizers)
    check_apple_gpu(config, hardware.device, model.head.out_features)
    if checkpoint is not None:
        run_folder.load_into(model, checkpoint.weights, checkpoint.path)
    batch_size = config.trainer.batch_size if config.task == "gpt" else config.data.batch_tokens
    stream = prepared.training(batch_size, seed=config.seed)
    trainer = Trainer(config, model, stream, hardware, flops_per_token(model, config.model.context))
    return Parts(hardware, description, prepared, model, trainer)


def go_back(run: Path, checkpoint: Checkpoint, progress: Progress) -> list[str]:
    """Drop what the run has from after `checkpoint`, and the best loss where its checkpoint is gone -> lines for the
    log."""
    notes = []
    if dropped := rewind(checkpoint.path, progress.best_step):
        notes.append(f"back at step {checkpoint.step}: what came after it is dropped ({', '.join(dropped)})")
    run_folder.forget_test_after(run, checkpoint.step)
    if progress.evaluated_step and not (run / "checkpoints" / "best").exists():
        progress.forget_best()
        notes.append("note: the best checkpoint up to then is gone: the best loss begins anew")
    return notes


def train_in(run: Path, config: TrainConfig, parts: Parts, notes: list[str]) -> float:
    """Train in the run's folder, which is ours alone, and test the best checkpoint -> best validation loss."""
    trainer = parts.trainer
    log = RunLog(run, trainer.progress.step, trainer.progress.evaluated_step)
    try:
        evaluator = evaluator_for(config, parts.prepared, parts.model, run, log)
        evaluator.attention.forget_after(trainer.progress.step)
        run_folder.save_tokenizers(parts.prepared.tokenizers, run)
        if config.task == "translate":
            run_folder.save_source_alphabet(parts.prepared.rows("train"), run)
        save_config(config, run)
        announce(config, log, run, parts, notes)
        reason = trainer.budget.end_of_training()
        if reason and not trainer.budget.evaluation_is_due():  # the last evaluation may have been interrupted
            log.line(f"already at step {trainer.progress.step}: {reason}")
        else:
            with advised(lambda: training_advice(config, run)):
                trainer.train(run, log, evaluator.evaluate, " ".join(parts.prepared.keys.values()))
            log.line(f"finished at step {trainer.progress.step}: {trainer.budget.end_of_training()}")
            log.scalars({"best/val_loss": trainer.progress.best_loss}, trainer.progress.step)
        if config.trainer.test:
            with (
                eagerly(trainer.compiled),
                evaluation_kernels(parts.hardware.device),
                advised(lambda: training_advice(config, run)),
            ):
                test_best(run, parts.model, evaluator)
        for line in [*final_lines(trainer.progress), f"everything is in {run}"]:
            log.line(line)
    except KeyboardInterrupt:
        log.line(f"interrupted; {left_to_go_on(run)}")
        raise
    finally:
        log.close()
    return trainer.progress.best_loss


def built_upon(config: TrainConfig, origin: TrainConfig) -> TrainConfig:
    """`config` with the shape and the tokenizer of the run whose weights it starts from; only dropout may differ."""
    if config.task != origin.task:
        raise UserError(f"init_from={config.init_from}: was trained with task={origin.task}, not task={config.task}")
    shape = replace(origin.model, dropout=config.model.dropout, attention_dropout=config.model.attention_dropout)
    return replace(config, model=shape, tokenizer=origin.tokenizer)


def test_best(run: Path, model: run_folder.Model, evaluator: Evaluator) -> None:
    """Test the best checkpoint, unless that has been done: an interrupted test is made up for on resume."""
    best = checkpoint_path(run, "best")
    step = checkpoint_step(best)
    if run_folder.tested_step(run) != step:
        run_folder.load_into(model.float().eval(), load_weights(best), best)
        evaluator.test(step)


def announce(config: TrainConfig, log: RunLog, run: Path, parts: Parts, notes: list[str]) -> None:
    """Say what is about to be trained, on what, with what."""
    prepared = parts.prepared
    for note in notes:
        log.line(note)
    log.line(
        f"{run}: {config.task}, {short(count_parameters(parts.model))} parameters,"
        f" {describe_tokenizers(config, prepared.tokenizers)}, {parts.description}"
    )
    log.line(f"data: {prepared.summary()}")
    for note in prepared.notes:
        log.line(f"note: {note}")
    if config.trainer.steps is not None and config.schedule.warmup >= config.trainer.steps:
        log.line(
            f"note: schedule.warmup={config.schedule.warmup} is not shorter than trainer.steps={config.trainer.steps}: "
            "the peak learning rate is never reached"
        )
    log.markdown("config", code_block(to_yaml(config)), 0)
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    log.settings(run.name, plain_settings(replace(config, name=None)))
    log.markdown("versions", code_block(json.dumps(versions, indent=1)), 0)


def describe_tokenizers(config: TrainConfig, tokenizers: list[Tokenizer]) -> str:
    """Kind and size of the one or two vocabularies."""
    sizes = " + ".join(str(tokenizer.vocab_size) for tokenizer in tokenizers)
    return f"{config.tokenizer.kind} vocabulary of {sizes}"
