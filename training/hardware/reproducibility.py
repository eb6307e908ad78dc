"""Make runs reproducible: deterministic kernels, and the random state saved in checkpoints."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def set_deterministic() -> None:
    """Disable kernels whose result depends on timing."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)


@contextmanager
def process_settings_restored() -> Iterator[None]:
    """Restore the thread count and the deterministic mode after one run of a sweep."""
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    try:
        yield
    finally:
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        if torch.are_deterministic_algorithms_enabled() != deterministic:
            torch.use_deterministic_algorithms(deterministic)


def seed_process(seed: int, rank: int, step: int) -> None:
    """Seed a step of one of several processes: its dropout masks depend on nothing else, so that they are its own and
    neither saving nor resuming changes them."""
    torch.manual_seed(int(np.random.SeedSequence((seed, rank, step)).generate_state(1, np.uint64)[0]))


def random_state(device: torch.device) -> dict[str, Any]:
    """Return `{"cpu": state}` and, on another device, its type with `[state]`; states are [bytes] uint8 on the CPU."""
    state: dict[str, Any] = {"cpu": torch.get_rng_state()}
    if device.type != "cpu":
        state[device.type] = [torch.get_device_module(device).get_rng_state(device)]
    return state


def restore_random_state(state: dict[str, Any], device: torch.device) -> None:
    """Restore the random state of the CPU, and of the device if it is in `state`. The state of any GPU fits any
    other."""
    torch.set_rng_state(state["cpu"])
    for saved in state.get(device.type, []) if device.type != "cpu" else []:
        torch.get_device_module(device).set_rng_state(saved, device)
