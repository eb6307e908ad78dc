"""Signals that ask training to stop."""

import os
import signal

import pytest

from training.progress import Interrupted, StopRequest


def test_a_hang_up_asks_to_stop_where_the_terminal_is_gone() -> None:
    """Guards: a closed terminal window ending a run without saving, since what is said to it cannot be written."""
    primary, terminal = os.openpty()
    saved = os.dup(2)
    os.dup2(terminal, 2)
    os.close(terminal)
    os.close(primary)
    try:
        with StopRequest() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert stop.received == signal.SIGHUP
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def test_a_signal_that_came_before_an_evaluation_ends_it_at_once() -> None:
    """Guards: a whole evaluation after a signal that came while the checkpoint before it was written."""
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Interrupted), stop.at_once():
            raise AssertionError("the evaluation began")
