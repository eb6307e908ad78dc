"""Train a model: compose the config, prepare the data, build the model, train, test. `--help` lists every setting."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from configs.program import check_system, importing, run_guarded

check_system()
with importing():
    from training.command_line import requested_runs, swept_by_hydra
    from training.config import TrainConfig
    from training.processes.join_group import opened_processes
    from training.processes.single_process import SINGLE, Processes
    from training.stop_request import Interrupted


def main() -> None:
    """Train the run, or every run of a sweep, that the command line requests."""
    try:
        with opened_processes() as group:  # the workers of torchrun, or this process alone
            # Reports all errors before the slow import of torch.
            if swept_by_hydra(arguments := group.arguments(sys.argv[1:]), train, group.world):
                return
            runs = group.broadcast(lambda: requested_runs(arguments, group.world))
            if len(runs) == 1:
                train(runs[0].config, runs[0].changes, group)
            elif runs:
                with importing():
                    from training.sweep import sweep
                sweep(runs, train)
    except Interrupted as interrupted:
        raise SystemExit(interrupted.exit_code) from None


def train(config: TrainConfig, changes: Sequence[str] = (), processes: Processes = SINGLE) -> float:
    """Train a model with `config` and return the best validation loss in nats per token.

    If `config.resume` is set, `config` is the saved config of that run with `changes` (for the log) applied. If
    `config.init_from` is set, the model architecture and the tokenizer come from that run and override `config`. Raises
    UserError before any file is written if the config, the data or a file is invalid, and Interrupted, after saving, if
    a signal stops the run.
    """
    with importing():
        import torch

        from data.token_cache import prepare
        from model.size import flops_per_token
        from training.checkpoints.loading import resume_hint
        from training.evaluation.evaluators import evaluator_for
        from training.hardware.apple_gpu import check_apple_gpu
        from training.hardware.device import choose_hardware
        from training.hardware.gpu_attention import check_attention
        from training.hardware.out_of_memory import advised, training_advice
        from training.hardware.reproducibility import set_deterministic
        from training.processes.same_data import check_same
        from training.reference_curves.curve import closing_lines
        from training.run_folder.initial_state import opened_folder, restore, save_inputs, starting_point
        from training.run_folder.loaded_run import build_model
        from training.run_folder.log import opened_log
        from training.run_folder.step_report import final_lines
        from training.run_summary import about, announce
        from training.trainer import Trainer

    # Where training starts: nowhere, at the weights of another model, or at the last checkpoint of a run to resume.
    with advised(lambda: training_advice(config)), starting_point(config, processes) as start:
        config = start.config

        # The machine. Combinations that would be wrong, or slow without a word, are refused before the data are read.
        settings = config.trainer.device, config.trainer.precision, config.trainer.threads
        hardware = choose_hardware(*settings, local_rank=processes.local_rank)
        if config.trainer.deterministic:
            set_deterministic()
        check_attention(config, hardware)

        # The data: token files, cached for later runs; by the first process, from whose cache the others read.
        sizes = config.model.context, config.seed
        with processes.main_first():
            data = prepare(config.task, config.data, config.tokenizer, *sizes, start.tokenizers)
        check_same("data or tokenizer", lambda: data.keys, processes)
        batch_size = config.trainer.batch_size if config.task == "gpt" else config.data.batch_tokens

        # The model: random weights, or the weights of a checkpoint.
        torch.manual_seed(config.seed)
        model = build_model(config, data.tokenizers)
        check_apple_gpu(config, hardware.device, model.head.out_features)
        start.load_weights(model)
        stream = data.training(batch_size, seed=config.seed)
        flops = flops_per_token(model, *data.training_lengths())
        trainer = Trainer(config, model, stream, hardware, flops, processes)
        notes = [*processes.notes, *start.notes, *restore(start, trainer, data, changes)]

        # No file has been written up to here.
        with (
            opened_folder(start, processes) as (config, run),
            opened_log(run, trainer.progress.step, trainer.progress.evaluated_step, processes.is_main) as log,
            advised(lambda: f"{training_advice(config)}; {resume_hint(run)}"),
        ):
            # The run says what it is, before it trains: a log that ends early still names its data and its model.
            evaluator = evaluator_for(config, data, model, run, log, processes)
            if processes.is_main:
                evaluator.attention.forget_after(trainer.progress.step)
                save_inputs(run, config, data)
            processes.remember_run(run)
            announce(run, config, data, trainer, log, notes)

            # Train. A resumed run may have spent its budget already.
            ended = trainer.budget.end_of_training()
            if ended and not trainer.budget.evaluation_is_due():  # the last evaluation may have been interrupted
                log.line(f"already at step {trainer.progress.step}: {ended}")
            else:
                trainer.train(run, log, evaluator.evaluate, evaluator.record_attention, " ".join(data.keys.values()))
                log.line(f"finished at step {trainer.progress.step}: {trainer.budget.end_of_training()}")
            log.markdown("about", about(run, config, data, trainer), trainer.progress.step)

            # The test splits, once and with the best checkpoint: they have decided nothing until here.
            if config.trainer.test:
                evaluator.final_test(hardware.device, trainer.loss.compiled)

            compared = closing_lines(config, data.keys, trainer.progress)
            for line in (*final_lines(trainer.progress), *compared, f"everything is in {run}"):
                log.line(line)
    return trainer.progress.best_loss


if __name__ == "__main__":
    run_guarded(main)
