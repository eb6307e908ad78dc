"""Report on a run: the scores of a language model or of a translator, or the tuning of a setting."""

from __future__ import annotations

from training.evaluation.reports.evaluated_run import Subject
from training.evaluation.reports.result import Result
from training.evaluation.reports.settings import EvaluateSettings
from training.evaluation.reports.text import text_report
from training.evaluation.reports.translation import translation_report
from training.evaluation.reports.tuning import tuning_report
from training.hardware.gpu_attention import evaluation_kernels


def report(subject: Subject, other: Subject | None, settings: EvaluateSettings) -> Result:
    """Score a run on its split. other: a second run on the same texts, whose scores are compared; None for none."""
    with evaluation_kernels(next(subject.model.parameters()).device):
        if settings.tune:
            return tuning_report(subject, settings)
        if subject.config.task == "gpt":
            return text_report(subject, other, settings)
        return translation_report(subject, other, settings)
