"""The state of the random numbers that training draws: the CPU's, and those of the device that it runs on."""

from __future__ import annotations

from typing import Any

import torch


def random_state(device: torch.device) -> dict[str, Any]:
    """`{"cpu": state}`, and for another device `{…, "cuda": [state]}` by its type; states are [bytes] uint8
    on the CPU."""
    state: dict[str, Any] = {"cpu": torch.get_rng_state()}
    if device.type != "cpu":
        state[device.type] = [torch.get_device_module(device).get_rng_state(device)]
    return state


def restore_random_state(state: dict[str, Any], device: torch.device) -> None:
    """Go on with the numbers that would have followed there; on another kind of device, which has no state in it, with
    fresh ones.

    One GPU stands for another. (Older checkpoints have a state for each GPU of the machine, of which the first was
    used.)
    """
    torch.set_rng_state(state["cpu"])
    for saved in state.get(device.type, [])[:1] if device.type != "cpu" else []:
        torch.get_device_module(device).set_rng_state(saved, device)
