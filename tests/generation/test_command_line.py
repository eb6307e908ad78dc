"""Limits of the settings of generate.py."""

import pytest

from configs.errors import UserError
from generation.command_line import parse_command


@pytest.mark.parametrize(
    "setting",
    [
        "temperature=nan",
        "temperature=inf",
        "temperature=1e-300",
        "temperature=-1",
        "repetition_penalty=0",
        "top_k=0",
        "min_p=1.5",
        "max_tokens=0",
        "samples=0",
        f"seed={10**23}",
        "seed=-1",
        "length_penalty=9999",
        "length_penalty=nan",
        "beam_size=1000000",
        "n_best=5",
        "batch_tokens=0",
        "neighbours.sentences=-1",
        "checkpoint=first",
        "device=tpu",
    ],
)
def test_a_number_out_of_bounds_is_refused_before_any_work(setting: str) -> None:
    """Guards against nan and overflow within the model, and the resulting traceback."""
    with pytest.raises(UserError) as refused:
        parse_command(["run=runs/gpt", setting])
    (message,) = refused.value.args
    assert message.startswith(f"{setting.partition('=')[0]}=")
    assert "must be" in message


@pytest.mark.parametrize("setting", ["top_k=0", "top_k=-1", "top_p=0", "min_p=-1"])
def test_what_switches_a_setting_off_is_said(setting: str) -> None:
    """Guards against a dead end: 0 or -1 switches top-k off elsewhere."""
    with pytest.raises(UserError, match="null switches it off"):
        parse_command(["run=runs/gpt", setting])


@pytest.mark.parametrize(
    ("setting", "value"), [("top_k=0", "null"), ("top_p=0", "null"), ("repetition_penalty=0", "1")]
)
def test_a_value_that_means_off_elsewhere_is_answered_with_ours(setting: str, value: str) -> None:
    """Guards against a user of transformers who is only told that 0 is wrong."""
    with pytest.raises(UserError, match=f"^{setting}.*: must be .*; {value} switches it off$"):
        parse_command(["run=runs/gpt", setting])
    parse_command(["run=runs/gpt", f"{setting.partition('=')[0]}={value}"])


@pytest.mark.parametrize(
    "setting", ["min_p=0", "temperature=0", f"top_k={10**40}", f"seed={2**63 - 1}", f"max_tokens={10**13}"]
)
def test_what_only_looks_extreme_is_accepted(setting: str) -> None:
    """Guards against bounds stricter than the model's."""
    parse_command(["run=runs/gpt", setting])
