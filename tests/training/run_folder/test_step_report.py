"""The last lines of a run's log."""

from __future__ import annotations

from training.counters import Progress
from training.run_folder.step_report import final_lines


def test_worse_last_loss_is_reported_with_its_step() -> None:
    """Guards against a run that went from .834 to .908 and reports only 'best 0.8339'."""
    over = Progress(step=6000, evaluated_step=6000, evaluated_loss=0.9081, best_loss=0.8339, best_step=4000)
    over.best_training_loss, over.training_loss = 0.5, 0.4
    best, note = final_lines(over)
    assert best == "best validation loss 0.8339 nats per token at step 4000"
    assert "0.9081 at step 6000, is 8.9 % higher, while the training loss fell from 0.5000 to 0.4000" in note
    assert "the model overfits" in note
    assert "trainer.patience" in note


def test_only_a_training_loss_that_fell_meanwhile_is_overfitting() -> None:
    """Guards against recommending dropout if the learning rate is too high, or if the training loss is unknown."""
    over = Progress(evaluated_step=6000, evaluated_loss=0.9081, best_loss=0.8339, best_step=4000)
    for then, now in ((0.5, 0.6), (None, None)):
        over.best_training_loss, over.training_loss = then, now
        _, note = final_lines(over)
        assert "0.9081 at step 6000, is 8.9 % higher. The best checkpoint is kept" in note
        assert "overfits" not in note
        assert "dropout" not in note


def test_a_last_loss_that_is_the_best_or_as_good_needs_no_note() -> None:
    """Guards against a warning about noise, and against runs of an older version with fewer counters."""
    for last in (0.8339, 0.8342):
        assert len(final_lines(Progress(evaluated_loss=last, best_loss=0.8339, best_step=10))) == 1
    assert final_lines(Progress(best_loss=0.8339)) == ["best validation loss 0.8339 nats per token"]
