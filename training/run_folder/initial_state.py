"""Initial state of training: random weights, those of another run or program, or a checkpoint of a resumed run."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from configs.atomic_file import remove_partial
from configs.errors import UserError
from configs.program import expanded
from data.tokens.loading import tokenizer_from
from data.tokens.tokenizer import Tokenizer
from data.training_data import Prepared
from interop.pretrained.conversion import load_weights
from interop.pretrained.tokenizers import imported_tokenizers
from training.checkpoints.folder import remove_left_overs, rewind
from training.checkpoints.loading import Checkpoint, read_checkpoint, set_aside
from training.checkpoints.summary import fix
from training.config import TrainConfig
from training.hardware.out_of_memory import is_out_of_memory
from training.processes.single_process import SINGLE, Processes
from training.run_folder.init_from import inherited, read_origin
from training.run_folder.loaded_run import Model, load_into
from training.run_folder.name_and_lock import check_free, create, locked
from training.run_folder.saved_config import run_and_checkpoint, save_config
from training.run_folder.test_results import forget_test_after
from training.run_folder.tokenizers import load_tokenizers, save_source_alphabet, save_tokenizers
from training.trainer import Trainer


@dataclass(frozen=True)
class StartingPoint:
    """Initial state of training. Creating it writes no files."""

    config: TrainConfig
    checkpoint: Checkpoint | None = None
    """Checkpoint, or folder of transformers, with the initial weights; None for random weights."""
    tokenizers: list[Tokenizer] | None = None
    """Tokenizers of the model with these weights; None to train new ones."""
    run: Path | None = None
    """Folder of the resumed run, locked."""
    notes: tuple[str, ...] = ()
    """Lines for the log."""

    def load_weights(self, model: Model) -> None:
        """Copy the checkpoint's weights into the model. Raises UserError if they do not fit."""
        if self.checkpoint is not None:
            load_into(model, self.checkpoint.weights, self.checkpoint.path)


@contextmanager
def starting_point(config: TrainConfig, processes: Processes = SINGLE) -> Iterator[StartingPoint]:
    """Load what `config.resume` or `config.init_from` names, if set; a resumed run is locked inside the context.

    Of several processes, only the main one reads and writes run folders; the others receive the config and the
    tokenizers here, and the trainer's state when training starts. Raises UserError if the new run's name is taken or
    the other run cannot be read.
    """
    with locked_start(config) if processes.is_main else nullcontext(StartingPoint(config)) as start:
        files = (
            None
            if start.tokenizers is None
            else [(tokenizer.model, tokenizer.suffix) for tokenizer in start.tokenizers]
        )
        config, run, files = processes.broadcast(lambda: (start.config, start.run, files))
        if not processes.is_main:
            tokenizers = None if files is None else [tokenizer_from(*file) for file in files]
            start = StartingPoint(config, tokenizers=tokenizers, run=run)
        yield with_work_for(processes.world, start)


def with_work_for(world: int, start: StartingPoint) -> StartingPoint:
    """Raise `trainer.accumulate` of a new run to at least one micro-batch per step for each of `world` processes."""
    trainer = start.config.trainer
    if trainer.accumulate >= world:
        return start
    if start.run is not None:
        idle = f"note: {world} processes share trainer.accumulate={trainer.accumulate} micro-batches: some have no work"
        return replace(start, notes=(*start.notes, idle))
    raised = f"trainer.accumulate={world} (was {trainer.accumulate}): one micro-batch per step for each process"
    config = replace(start.config, trainer=replace(trainer, accumulate=world))
    return replace(start, config=config, notes=(*start.notes, raised))


@contextmanager
def locked_start(config: TrainConfig) -> Iterator[StartingPoint]:
    """As `starting_point`, in one process."""
    if config.resume:
        run, which = run_and_checkpoint(expanded(config.resume))
        with locked(run):  # before reading: another training process could write newer checkpoints
            # Only `last` is replaced if it is damaged: from a step that the user names, another one is another run.
            checkpoint = read_checkpoint(run, which, with_state=True, replaced=("last",))
            yield StartingPoint(replace(config, resume=None), checkpoint, load_tokenizers(run), run)
        return
    check_free(config)
    if config.init_from:
        yield new_start(config, config.init_from)
    else:
        yield StartingPoint(config)


def new_start(config: TrainConfig, init_from: str) -> StartingPoint:
    """Load the weights and tokenizers from which a new run starts. Raises UserError."""
    origin = read_origin(init_from)
    if config.task != origin.task:
        raise UserError(f"init_from={init_from}: was trained with task={origin.task}, not task={config.task}")
    config = inherited(config, origin)
    if origin.pretrained is None:
        run, which = run_and_checkpoint(expanded(init_from), "best")
        checkpoint = read_checkpoint(run, which)
        note = f"starts from the weights of {run}, {checkpoint.path.name}"
        return StartingPoint(config, checkpoint, load_tokenizers(run), notes=(note,))
    folder = origin.pretrained.folder
    weights = Checkpoint(folder, 0, load_weights(origin.pretrained, config.model.context))
    note = f"starts from {folder}, {origin.pretrained.architecture.class_name} of transformers"
    return StartingPoint(config, weights, imported_tokenizers(origin.pretrained), notes=(note,))


@contextmanager
def opened_folder(start: StartingPoint, processes: Processes = SINGLE) -> Iterator[tuple[TrainConfig, Path]]:
    """Yield the config with the run's name, and the locked folder of the new or resumed run. Raises UserError."""
    if start.run is not None:
        for folder in (start.run, start.run / "attention", *start.run.glob("checkpoints/*/")):
            if processes.is_main:
                remove_partial(folder, keep=".generated_")  # generate.py may be writing there
        if processes.is_main:
            remove_left_overs(start.run / "checkpoints")
        yield start.config, start.run
    else:
        with create(start.config) if processes.is_main else nullcontext(Path()) as created:
            run = processes.broadcast(lambda: created)
            yield replace(start.config, name=run.name), run


def restore(start: StartingPoint, trainer: Trainer, data: Prepared, changes: Sequence[str]) -> list[str]:
    """Restore the trainer and the run folder of a resumed run to the checkpoint -> lines for the log. changes: settings
    that differ from the saved config."""
    if start.checkpoint is None:
        return []
    if start.run is None or start.checkpoint.state is None:
        start.checkpoint.forget_tensors()
        return start.checkpoint.notes()
    run, progress, step = start.run, trainer.progress, start.checkpoint.step
    with _fitting(start.checkpoint.path):
        trainer.restore(start.checkpoint.weights, start.checkpoint.state)
        saved_keys = start.checkpoint.state["data"].split()
    start.checkpoint.forget_tensors()
    notes = [f"resumed with {', '.join(changes)}"] if changes else []
    for path, cause in start.checkpoint.damaged:
        renamed, used = set_aside(path).name, start.checkpoint.path.name
        notes.append(f"warning: {path} is damaged ({cause}): renamed to {renamed}; training resumes from {used}")
    if dropped := rewind(start.checkpoint.path, progress.best_step, keep=trainer.config.trainer.keep):
        notes.append(f"back to step {step}: later checkpoints, metrics and maps are dropped ({', '.join(dropped)})")
    forget_test_after(run, step)
    if progress.evaluated_step and not (run / "checkpoints" / "best").exists():
        progress.forget_best()
        notes.append("note: the best checkpoint up to this step is gone: the best loss is reset")
    before = dict(zip(data.keys, saved_keys, strict=False))
    changed = {part for part, key in before.items() if key != data.keys[part]}
    if "train" in changed:
        trainer.stream.restart_epoch()
        notes.append("note: the training data have changed: the epoch begins anew, and the best loss is reset")
    elif "valid" in changed:
        notes.append("note: the validation data have changed: the best loss is reset")
    if changed & {"train", "valid"}:
        progress.forget_best()
    if "test" in changed:
        notes.append("note: the test data have changed: the test is repeated")
        (run / "test.json").unlink(missing_ok=True)
    return notes


@contextmanager
def _fitting(checkpoint: Path) -> Iterator[None]:
    """Inside the context, convert the errors of a state that has other parts than this run to UserError."""
    try:
        yield
    except (AttributeError, LookupError, ArithmeticError, RuntimeError, TypeError, ValueError) as error:
        if is_out_of_memory(error):
            raise
        cause = textwrap.shorten(f"{type(error).__name__}: {error}", 120)
        problem = f"its training state is damaged, or another program's ({cause})"
        raise UserError(f"{checkpoint}: {problem}. To fix it: {fix(checkpoint)}.") from error


def save_inputs(run: Path, config: TrainConfig, data: Prepared) -> None:
    """Save what generation needs besides the weights: config, tokenizers, and the source alphabet of a translator."""
    save_tokenizers(data.tokenizers, run)
    if config.task == "translate":
        save_source_alphabet(data.rows("train"), run)
    save_config(config, run)
