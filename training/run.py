"""A training run from config to tested checkpoint: prepare data, build, train, test."""

from __future__ import annotations

import json
import platform
import random
from pathlib import Path

import torch
from omegaconf import OmegaConf

from data.prepare import PreparedPairs, PreparedText, prepare
from model.size import count_parameters, flops_per_token
from training import run_folder
from training.checkpoints import checkpoint_path, checkpoint_step, load_state, load_weights
from training.config import TrainConfig
from training.errors import UserError
from training.hardware import choose_hardware, set_deterministic
from training.run_log import RunLog, code_block, short
from training.tasks import evaluator_for
from training.trainer import Trainer


def train(config: TrainConfig, changes: list[str] | None = None) -> float:
    """Train as `config` says and return the best validation loss in nats per token.

    With `config.resume` set, `config` is the run's own config with `changes` (for the log) applied to it.
    Raises UserError or data.errors.DataError before anything is written when something is wrong with config, data or files.
    """
    resume = Path(config.resume) if config.resume else None
    hardware = choose_hardware(config.trainer)
    if config.trainer.deterministic:
        set_deterministic()
    weights, state, tokenizers = None, None, None
    if resume:
        checkpoint = checkpoint_path(resume, "last")
        weights, state = load_weights(checkpoint), load_state(checkpoint)
        tokenizers = run_folder.load_tokenizers(resume)
    elif config.init_from:
        origin = Path(config.init_from)
        checkpoint = checkpoint_path(origin, "best")
        weights, tokenizers = load_weights(checkpoint), run_folder.load_tokenizers(origin)
    if not resume:
        run_folder.check_free(config)
    prepared = prepare(config.task, config.data, config.tokenizer, config.model.context, config.seed, tokenizers)
    tokenizers = tokenizers_of(prepared)
    random.seed(config.seed)
    torch.manual_seed(config.seed)
    model = run_folder.build_model(config, tokenizers)
    if weights is not None:
        run_folder.load_into(model, weights, checkpoint)
    stream = (
        prepared.training(config.trainer.batch_size, config.model.context, config.seed)
        if isinstance(prepared, PreparedText)
        else prepared.training(config.data.batch_tokens, config.seed)
    )

    # All that can be wrong has been looked at: from here on files are written.
    run = resume or run_folder.create(config)
    config.resume = None
    config.name = run.name
    run_folder.save_config(config, run)
    run_folder.save_tokenizers(tokenizers, run)
    log = RunLog(run, state["progress"]["step"] if state else 0)
    evaluator = evaluator_for(config, prepared, model, run, log)
    trainer = Trainer(
        config, model, stream, hardware, run, log, evaluator.evaluate, flops_per_token(model, config.model.context)
    )
    if state and weights:
        trainer.restore(weights, state)
        evaluator.forget_after(trainer.progress.step)
    announce(
        config, log, run, model, prepared, hardware.description, evaluator.attention_backend(hardware), changes or []
    )
    try:
        if state and trainer.finished():
            log.line(
                f"already at step {trainer.progress.step}: the budget is spent. trainer.steps=… or trainer.minutes=… extends it"
            )
        else:
            trainer.train()
            best = checkpoint_path(run, "best")
            if config.trainer.test:
                run_folder.load_into(model.float().eval(), load_weights(best), best)
                evaluator.test(checkpoint_step(best))
            log.line(f"best validation loss {trainer.progress.best_loss:.4f} nats per token; everything is in {run}")
    finally:
        log.close()
    return trainer.progress.best_loss


def tokenizers_of(prepared: PreparedText | PreparedPairs) -> list:
    """The one or two tokenizers (source first) of prepared data."""
    if isinstance(prepared, PreparedText):
        return [prepared.tokenizer]
    return [prepared.source_tokenizer] if prepared.shared else [prepared.source_tokenizer, prepared.target_tokenizer]


def announce(
    config: TrainConfig, log: RunLog, run: Path, model: run_folder.Model, prepared: PreparedText | PreparedPairs,
    hardware: str, backend: str, changes: list[str],
) -> None:  # fmt: skip
    """Say what is about to be trained, on what, with what."""
    kinds = " + ".join(f"{config.tokenizer.kind} {tokenizer.vocab_size}" for tokenizer in tokenizers_of(prepared))
    if changes:
        log.line(f"resumed with {', '.join(changes)}")
    log.line(
        f"{run}: {config.task}, {short(count_parameters(model))} parameters, tokenizer {kinds}, {hardware}, attention by {backend}"
    )
    if isinstance(prepared, PreparedText):
        log.line("data: " + ", ".join(f"{split} {short(prepared.tokens(split))} tokens" for split in prepared.splits))
    else:
        log.line("data: " + ", ".join(f"{split} {short(len(prepared.rows(split)))} pairs" for split in prepared.splits))
    for note in prepared.notes:
        log.line(f"note: {note}")
    yaml = OmegaConf.to_yaml(OmegaConf.structured(config))
    log.markdown("config", code_block(yaml), 0)
    log.markdown(
        "versions",
        code_block(json.dumps({"python": platform.python_version(), "torch": torch.__version__}, indent=1)),
        0,
    )


__all__ = ["UserError", "train"]
