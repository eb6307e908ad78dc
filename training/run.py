"""A training run from config to tested checkpoint: prepare data, build, train, test."""

from __future__ import annotations

import json
import platform
from dataclasses import replace
from pathlib import Path

import torch
from filelock import FileLock, Timeout

from configs.program import expanded
from data.prepare import prepare
from data.prepared import Prepared
from data.tokenizer import Tokenizer
from model.size import count_parameters, flops_per_token
from training import run_folder
from training.apple_gpu import check_apple_gpu
from training.attention_kernels import check_attention, describe_attention, evaluation_kernels
from training.checkpoints import checkpoint_path, checkpoint_step, load_state, load_weights
from training.compilation import eagerly
from training.config import TrainConfig
from training.errors import UserError
from training.evaluators import Evaluator, evaluator_for
from training.hardware import choose_hardware, set_deterministic
from training.out_of_memory import advised, training_advice
from training.run_log import RunLog, code_block, short
from training.saved_config import load_config, save_config, to_yaml
from training.trainer import Trainer


def train(config: TrainConfig, changes: list[str] | None = None) -> float:
    """Train as `config` says and return the best validation loss in nats per token.

    With `config.resume` set, `config` is the run's own config with `changes` (for the log) applied to it. With
    `config.init_from` set, shape and tokenizer are those of that run, whatever `config` says.
    Raises UserError or data.errors.DataError before anything is written when something is wrong with config, data or files,
    and Interrupted, with everything saved, when a signal asks to stop.
    """
    with advised(lambda: training_advice(config)):
        return _train(config, changes)


def _train(config: TrainConfig, changes: list[str] | None) -> float:
    """`train`; memory that runs out once there is a run folder is told with what to go on from."""
    hardware = choose_hardware(config.trainer.device, config.trainer.precision, config.trainer.threads)
    if config.trainer.deterministic:
        set_deterministic()
    resume = expanded(config.resume) if config.resume else None
    origin = resume or (expanded(config.init_from) if config.init_from else None)
    weights, state, tokenizers = None, None, None
    if origin:
        checkpoint = checkpoint_path(origin, "last" if resume else "best")
        weights, tokenizers = load_weights(checkpoint), run_folder.load_tokenizers(origin)
    if resume:
        state = load_state(checkpoint)
    elif origin:
        config = built_upon(config, load_config(origin))
    check_attention(config, hardware)
    kernels = describe_attention(config, hardware)
    if not resume:
        run_folder.check_free(config)
    prepared = prepare(config.task, config.data, config.tokenizer, config.model.context, config.seed, tokenizers)
    torch.manual_seed(config.seed)
    model = run_folder.build_model(config, prepared.tokenizers)
    check_apple_gpu(config, hardware.device, model.head.out_features)
    if weights is not None:
        run_folder.load_into(model, weights, checkpoint)
    batch_size = config.trainer.batch_size if config.task == "gpt" else config.data.batch_tokens
    stream = prepared.training(batch_size, seed=config.seed)
    trainer = Trainer(config, model, stream, hardware, flops_per_token(model, config.model.context))
    if state and weights:
        trainer.restore(weights, state)
        if state["data"] != prepared.key:
            trainer.progress.forget_best()
            changes = [*(changes or []), "other data than before: their order and the best loss begin anew"]

    # All that can be wrong has been looked at: from here on files are written.
    run = resume or run_folder.create(config)
    config = replace(config, resume=None, name=config.name if resume else run.name)
    lock = FileLock(run / ".lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise UserError(f"{run}: another process is training this run") from None
    log = RunLog(run, trainer.progress.step, trainer.progress.evaluated_step)
    try:
        evaluator = evaluator_for(config, prepared, model, run, log)
        evaluator.attention.forget_after(trainer.progress.step)
        run_folder.save_tokenizers(prepared.tokenizers, run)
        if config.task == "translate":
            run_folder.save_source_alphabet(prepared.rows("train"), run)
        save_config(config, run)
        announce(config, log, run, model, prepared, f"{hardware.description}, attention by {kernels}", changes or [])
        reason = trainer.end_of_training()
        if reason and not trainer.evaluation_is_due():  # the last evaluation may have been interrupted
            log.line(f"already at step {trainer.progress.step}: {reason}")
        else:
            with advised(lambda: training_advice(config, run)):
                trainer.train(run, log, evaluator.evaluate, prepared.key)
            log.line(f"finished at step {trainer.progress.step}: {trainer.end_of_training()}")
        if config.trainer.test:
            with (
                eagerly(trainer.compiled),
                evaluation_kernels(hardware.device),
                advised(lambda: training_advice(config, run)),
            ):
                test_best(run, model, evaluator)
        log.line(f"best validation loss {trainer.progress.best_loss:.4f} nats per token; everything is in {run}")
    except KeyboardInterrupt:
        log.line(f"interrupted; resume={run} makes up for what is missing")
        raise
    finally:
        log.close()
        lock.release()
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


def announce(
    config: TrainConfig,
    log: RunLog,
    run: Path,
    model: run_folder.Model,
    prepared: Prepared,
    hardware: str,
    changes: list[str],
) -> None:
    """Say what is about to be trained, on what, with what."""
    if changes:
        log.line(f"resumed with {', '.join(changes)}")
    log.line(
        f"{run}: {config.task}, {short(count_parameters(model))} parameters, {describe_tokenizers(config, prepared.tokenizers)}, {hardware}"
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
    log.markdown("versions", code_block(json.dumps(versions, indent=1)), 0)


def describe_tokenizers(config: TrainConfig, tokenizers: list[Tokenizer]) -> str:
    """Kind and size of the one or two vocabularies."""
    sizes = " + ".join(str(tokenizer.vocab_size) for tokenizer in tokenizers)
    return f"{config.tokenizer.kind} vocabulary of {sizes}"
