"""The cost of `AttentionCallback`: a short real measurement."""

from __future__ import annotations

import re

import pytest

from benchmarks.attention.callback_cost import CallbackCostSettings, callback_cost
from configs.errors import UserError


@pytest.mark.slow
def test_the_cost_of_the_callback_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against a run without the callback on both sides, and recordings that are not counted."""
    callback_cost(CallbackCostSettings(steps=20, rounds=1, layers=1, width=64))
    told = capsys.readouterr().out
    (share,) = re.findall(r"spent in the callback: ([\d.]+) % of the run", told)
    assert 0 < float(share) < 100
    (made, left_out) = re.findall(r"recordings: (\d+) made, (\d+) left out", told)[0]
    assert int(made) >= 2, "the first and the last"
    assert int(made) + int(left_out) >= 20, "one for each evaluation"


def test_wrong_settings_are_refused() -> None:
    """Guards against a division by zero and a model without heads."""
    for wrong in ({"steps": 3}, {"rounds": 0}, {"width": 100}, {"layers": 0}):
        with pytest.raises(UserError, match="must be"):
            callback_cost(CallbackCostSettings(**wrong))
