"""Signals that stop training."""

import os
import signal

import pytest

from training.stop_request import Interrupted, StopRequest


def test_a_hang_up_asks_to_stop_where_the_terminal_is_gone() -> None:
    """Guards against a closed terminal window that ends a run without saving, because writing to the terminal fails."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored where `nohup` starts the tests
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
        signal.signal(signal.SIGHUP, before)


def test_a_signal_that_came_before_an_evaluation_ends_it_at_once() -> None:
    """Guards against a whole evaluation after a signal that arrives while the checkpoint before it is written."""
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Interrupted), stop.at_once():
            raise AssertionError("the evaluation began")


def test_a_request_to_stop_that_arrives_twice_is_one_request() -> None:
    """Guards against a worker of torchrun that dies while it saves, because the scheduler signals it too."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell starts the tests with `&`
    try:
        with StopRequest(pause=60) as stop:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            assert stop.received == signal.SIGINT
            stop.ignored_until = 0.0  # the pause is over
            with pytest.raises(KeyboardInterrupt):  # the default effect
                os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
