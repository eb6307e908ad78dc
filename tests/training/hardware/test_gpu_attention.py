"""Selection of a GPU's attention kernels; the rules are tested without a GPU."""

import pytest
import torch
from torch.nn.attention import sdpa_kernel

from model.config import ModelConfig
from training.config import TrainConfig
from training.hardware.device import Hardware
from training.hardware.gpu_attention import (
    CUDNN,
    EFFICIENT,
    FLASH,
    Demand,
    allowed_kernels,
    check_attention,
    demands,
    describe_attention,
    evaluation_kernels,
    kernels_of,
    obstacle,
    preferred,
    short_name,
    training_kernels,
)

CPU = Hardware(torch.device("cpu"), torch.bfloat16, None, "cpu")
HOPPER, AMPERE, TURING = (9, 0), (8, 0), (7, 5)
HALF, FULL = torch.bfloat16, torch.float32


def test_cudnn_comes_first_only_where_it_is_fast_and_allowed() -> None:
    """Guards against a plan of half a second for each sentence length, a kernel that deterministic mode forbids, and
    an old cuDNN."""
    usual = {"one_shape": True, "deterministic": False}
    assert preferred(HOPPER, 91900, **usual) == [CUDNN, FLASH, EFFICIENT]
    assert preferred((10, 0), 91900, **usual)[0] == CUDNN
    assert preferred(AMPERE, 91900, **usual) == [FLASH, EFFICIENT]
    assert preferred((12, 0), 91900, **usual)[0] == FLASH
    for version in (None, 91002, 91500):
        assert preferred(HOPPER, version, **usual)[0] == FLASH
    for other in ({"one_shape": False}, {"deterministic": True}):
        assert preferred(HOPPER, 91900, **usual | other) == [FLASH, EFFICIENT]


@pytest.mark.parametrize(
    "demand",
    [
        Demand(HALF, 64),
        Demand(HALF, 128, dropout=0.1),
        Demand(HALF, 20),  # flash pads it
        Demand(HALF, 512),
        Demand(HALF, 64, masked=True),
        Demand(FULL, 20, masked=True),
    ],
)
def test_what_a_fused_kernel_takes_is_no_obstacle(demand: Demand) -> None:
    """Guards against rejecting a run that would be fast."""
    assert obstacle(demand, HOPPER) is None


@pytest.mark.parametrize(
    ("demand", "capability", "words"),
    [
        (Demand(HALF, 20, masked=True), HOPPER, ("model.heads", "width 20", "bf16", "multiple of 8")),
        (Demand(HALF, 260), HOPPER, ("model.heads", "multiple of 8")),
        (Demand(FULL, 18), HOPPER, ("model.heads", "width 18", "float32", "multiple of 4")),
        (Demand(HALF, 64), TURING, ("trainer.precision=float32", "7.5")),
    ],
)
def test_what_no_fused_kernel_takes_is_named_with_its_fix(
    demand: Demand, capability: tuple[int, int], words: tuple[str, ...]
) -> None:
    """Guards against a rejection that does not name the setting."""
    reason = obstacle(demand, capability)
    assert reason is not None
    assert all(word in reason for word in words)


def test_a_translator_asks_for_masks_and_a_gpt_only_for_those_of_documents() -> None:
    """Guards against a check of the decoder alone."""
    config = TrainConfig(model=ModelConfig(width=64, heads=4, kv_heads=2, attention_dropout=0.1))
    assert demands(config, HALF) == [Demand(HALF, 16, 0.1)]
    config.model.mask_documents = True
    assert demands(config, HALF) == [Demand(HALF, 16, 0.1, masked=True)]
    config.task, config.model.mask_documents = "translate", False
    assert [demand.masked for demand in demands(config, HALF)] == [False, True]


@pytest.mark.parametrize(
    ("full", "short"),
    [
        (
            (
                "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128>,"
                " false>(pytorch_flash::Flash_fwd_params)"
            ),
            "flash_fwd_kernel",
        ),
        ("void (anonymous namespace)::softmax_warp_forward<float>(float*, int)", "softmax_warp_forward"),
        (
            "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::Params)",
            "fmha_cutlassF_bf16_aligned_64x64_rf_sm80",
        ),
        (
            "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma",
            "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma",
        ),
    ],
)
def test_kernel_names_are_short_enough_for_a_line(full: str, short: str) -> None:
    """Guards against a log line with a thousand template arguments."""
    assert short_name(full) == short


def test_a_cpu_is_left_alone() -> None:
    """Guards against a CPU run that is rejected for a GPU's reasons, described in other words, or run by other
    kernels."""
    odd = TrainConfig(task="translate", model=ModelConfig(width=36, heads=2))
    check_attention(odd, CPU)
    assert describe_attention(odd, CPU) == "explicit bfloat16 products"
    before = allowed_kernels()
    with training_kernels(odd, CPU.device)(), evaluation_kernels(CPU.device):
        assert allowed_kernels() == before


def test_allowed_kernels_are_told_apart() -> None:
    """Guards against code compiled for other kernels that is loaded from the disk cache."""
    with sdpa_kernel([FLASH, EFFICIENT], set_priority=True):
        without = allowed_kernels()
    with sdpa_kernel([CUDNN, FLASH, EFFICIENT], set_priority=True):
        assert allowed_kernels() != without
    assert without == "attention: flash, efficient"


@pytest.mark.skipif(torch.cuda.is_available(), reason="what a machine without a GPU says")
def test_where_no_gpu_is_seen_no_kernel_is_named() -> None:
    """Guards against CPU operators reported as profiled kernels."""
    assert kernels_of(lambda: None) is None
