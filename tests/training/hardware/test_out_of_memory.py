"""An out-of-memory error is one line with a fix."""

from __future__ import annotations

import pytest
import torch

from configs.errors import UserError
from training.config import TrainConfig
from training.hardware.out_of_memory import advised, is_out_of_memory, training_advice

MESSAGES = [
    torch.OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 12.50 GiB. GPU 0 has a total capacity of 79.10 GiB of which 3.20 GiB is"
        " free."
    ),
    RuntimeError(
        "MPS backend out of memory (MPS allocated: 5.56 GB, max allowed: 6.80 GB). Tried to allocate 768.00 MB on"
        " private pool."
    ),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"),
    MemoryError(),
]


@pytest.mark.parametrize("error", MESSAGES, ids=lambda error: str(error)[:24] or "python")
def test_every_allocator_is_known(error: Exception) -> None:
    """Guards against a traceback for the CPU's error, which has no exception class of its own."""
    with (
        pytest.raises(UserError, match=r"^out of memory.*: lower trainer\.batch_size"),
        advised(lambda: training_advice(TrainConfig())),
    ):
        raise error


def test_the_cpus_own_error_is_known_and_says_how_much_was_asked_for() -> None:
    """Guards against a traceback for `DefaultCPUAllocator: can't allocate memory`, the message that torch really
    prints."""
    with (
        pytest.raises(UserError, match=r"^out of memory \(tried to allocate 4000000000000000 bytes\): less"),
        advised(lambda: "less"),
    ):
        torch.empty(10**15)


def test_other_errors_stay_what_they_are() -> None:
    """Guards against a bug of the program reported as a lack of memory."""
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    with pytest.raises(RuntimeError, match="mat1"), advised(lambda: ""):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")


def test_training_advice_names_what_the_task_has_and_what_is_not_set_yet() -> None:
    """Guards against advice to lower a setting without effect, or to set what is already set."""
    config = TrainConfig()
    assert "trainer.batch_size (now 32) and raise trainer.accumulate (now 1)" in training_advice(config)
    assert "trainer.recompute=true" in training_advice(config)
    config.task, config.trainer.recompute = "translate", True
    assert "data.batch_tokens (now" in training_advice(config)
    assert "recompute" not in training_advice(config)
