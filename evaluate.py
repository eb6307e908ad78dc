"""Evaluate a trained run: `python evaluate.py run=runs/NAME split=test`. `--help` lists every setting."""

from __future__ import annotations

import sys

from configs.program import check_system, importing, run_guarded

check_system()
with importing():
    from training.evaluation.reports.settings import EvaluateSettings, evaluate_help, parse_settings, run_problems


def main() -> None:
    """Evaluate the run that the command line names, or print the help."""
    arguments = sys.argv[1:]
    if {"--help", "-h"} & set(arguments):
        print(evaluate_help())
    else:
        evaluate(parse_settings(arguments))


def evaluate(settings: EvaluateSettings) -> None:
    """Load the run and the split, score it, print a table and write the result. Raises UserError."""
    with importing():  # late, so that --help and errors need not wait a second for torch
        from configs.errors import UserError
        from run import Run
        from training.evaluation.reports.evaluated_run import moved, prepare_subject
        from training.evaluation.reports.report import report
        from training.evaluation.reports.result import result_path, save_result
        from training.hardware.device import choose_hardware
        from training.hardware.out_of_memory import advised
        from training.run_folder.log import wrapped
        from training.run_folder.saved_config import load_config, named_runs

    # What is wrong is reported before anything is loaded.
    name, other_name, split = str(settings.run), settings.compare, str(settings.split)
    runs = named_runs(name, settings.checkpoint)
    others = named_runs(other_name, settings.checkpoint) if other_name else []
    members = [[load_config(run) for run, _ in models] for models in (runs, others) if models]
    config = members[0][0]
    tasks = [configs[0].task for configs in members]
    contexts = [min(member.model.context for member in configs) for configs in members]
    both = [all(member.data.both_directions for member in configs) for configs in members]
    if problems := run_problems(settings, tasks, contexts, both):
        raise UserError(*problems)
    path = result_path(settings, runs[0][0], len(runs))

    # The model and the split, tokenised with its tokenizer; the same texts for the second run.
    device = str(choose_hardware(settings.device, "float32", None, key="device").device)
    texts = moved(config.data, settings.data, config.task, split)
    subject = prepare_subject(Run(name, settings.checkpoint, device), texts, split)
    other = prepare_subject(Run(other_name, settings.checkpoint, device), texts, split) if other_name else None

    # The scores.
    with advised(lambda: "choose device=cpu, or a smaller beam_size"):
        result = report(subject, other, settings)

    notes = dict.fromkeys(subject.notes + (other.notes if other else []))
    print(*wrapped([*result.lines, *notes]), sep="\n")
    print(*save_result(path, result, subject), sep="\n")


if __name__ == "__main__":
    run_guarded(main)
