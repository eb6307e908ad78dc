"""The device of a run, and the errors for devices that are unavailable."""

from __future__ import annotations

import os

import pytest
import torch

import generation.config
from configs.errors import UserError
from generation.config import GenerateConfig
from training import config
from training.config import TrainConfig
from training.hardware import apple_gpu
from training.hardware.device import choose_device, choose_hardware, peak_flops
from training.hardware.reproducibility import random_state, restore_random_state

CPU, MPS = torch.device("cpu"), torch.device("mps")


@pytest.mark.parametrize("name", ["auto", "cpu", "mps", "cuda", "cuda:0", "cuda:11"])
def test_devices_are_named_as_torch_names_them(name: str) -> None:
    """Guards against a machine with several GPUs of which only the first can be used."""
    assert not config.problems(TrainConfig(trainer=config.TrainerConfig(device=name)))
    assert not generation.config.problems(GenerateConfig(run="runs/x", device=name))


@pytest.mark.parametrize("name", ["", "gpu", "cuda:", "cuda:-1", "cuda:1 ", "cuda:999", "CUDA", "meta", "cpu:0"])
def test_other_names_are_refused_before_torch_sees_them(name: str) -> None:
    """Guards against torch's traceback for an unknown name, or for a device that only torch supports."""
    (message,) = config.problems(TrainConfig(trainer=config.TrainerConfig(device=name)))
    assert message == f"trainer.device={name}: must be one of auto, cpu, cuda, cuda:N or mps"
    (message,) = generation.config.problems(GenerateConfig(run="runs/x", device=name))
    assert message.startswith(f"device={name}: must be one of")


@pytest.mark.skipif(torch.cuda.is_available(), reason="what a machine without a GPU says")
def test_a_device_that_is_not_there_is_named_with_the_setting() -> None:
    """Guards against advice to set a key that the program does not have."""
    with pytest.raises(UserError, match=r"^trainer\.device=cuda:1: torch found no CUDA GPU; trainer\.device=cpu"):
        choose_hardware("cuda:1", "auto", None)
    with pytest.raises(UserError, match=r"^device=mps: torch found no Apple GPU; device=cpu"):
        choose_hardware("mps", "auto", None, key="device")
    assert choose_device("auto") == CPU


def test_unknown_gpu_index_lists_available_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against "invalid device ordinal" after a run folder was created."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(UserError, match="the CUDA GPUs are cuda:0 to cuda:1"):
        choose_device("cuda:2")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(UserError, match="the only CUDA GPU is cuda:0"):
        choose_device("cuda:1")


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU that torch was built without")
def test_a_device_that_is_listed_and_does_not_compute_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a traceback during the first step: torch without kernels for this GPU, a GPU in exclusive use."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    for name in ("auto", "cuda", "cuda:0"):
        with pytest.raises(UserError, match=r"the device does not work \(.+\); trainer\.device=cpu"):
            choose_device(name)


@pytest.mark.parametrize(
    ("name", "teraflops"),
    [
        ("NVIDIA H200", 989),
        ("NVIDIA H200 NVL", 835),
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA H100 NVL", 835),
        ("NVIDIA A100-SXM4-80GB", 312),
        ("A100-SXM4-40GB", 312),
        ("NVIDIA A100 80GB PCIe", 312),
        ("NVIDIA L4", 121),
        ("NVIDIA GeForce RTX 4090", 165),
        ("NVIDIA GeForce RTX 4090 D", None),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("NVIDIA A100-SXM-64GB", None),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", None),
        ("NVIDIA H100 80GB HBM3 MIG 3g.40gb", None),
        ("NVIDIA H100 64GB HBM2", None),
        ("NVIDIA GH200 480GB", None),
        ("NVIDIA L40", None),
    ],
)
def test_a_peak_is_that_of_the_variant(name: str, teraflops: float | None) -> None:
    """Guards against a utilisation by the peak of a larger card of the same family."""
    assert peak_flops(name) == (None if teraflops is None else teraflops * 1e12)


@pytest.fixture
def apple(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Simulate a machine on which torch finds an Apple GPU."""
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.mps, "is_macos_or_newer", lambda major, minor: True)
    monkeypatch.setattr(torch, "__version__", torch.torch_version.TorchVersion("2.13.0"))
    return monkeypatch


def test_an_apple_gpu_has_to_be_asked_for(apple: pytest.MonkeyPatch) -> None:
    """Guards against a laptop whose first run uses an untested device."""
    assert apple_gpu.obstacle() is None
    assert choose_device("auto") == (torch.device("cuda:0") if torch.cuda.is_available() else CPU)


def test_versions_that_compute_wrongly_on_an_apple_gpu_are_refused(apple: pytest.MonkeyPatch) -> None:
    """Guards against attention over the keys of other heads, and gradients that are not written, without an error."""
    apple.setattr(torch, "__version__", torch.torch_version.TorchVersion("2.12.1"))
    with pytest.raises(UserError, match=r"trainer\.device=mps: torch 2\.12\.1 .* 2\.13 or later"):
        choose_device("mps")
    apple.setattr(torch, "__version__", torch.torch_version.TorchVersion("2.13.0"))
    apple.setattr(torch.backends.mps, "is_macos_or_newer", lambda major, minor: major < 15)
    with pytest.raises(UserError, match="macOS 15 or later"):
        choose_device("mps")


def test_sums_that_are_too_long_for_an_apple_gpu_are_refused() -> None:
    """Guards against gradients that include memory beyond the end of a tensor."""
    usual = TrainConfig()
    apple_gpu.check_apple_gpu(usual, MPS, 32_000)
    with pytest.raises(UserError, match=r"tokenizer\.vocab_size: a vocabulary of 50304"):
        apple_gpu.check_apple_gpu(usual, MPS, 50_304)
    usual.trainer.batch_size, usual.model.context = 32, 1024
    with pytest.raises(UserError, match=r"trainer\.batch_size: micro-batches of 32768 tokens"):
        apple_gpu.check_apple_gpu(usual, MPS, 32_000)
    apple_gpu.check_apple_gpu(usual, CPU, 50_304)
    usual.task, usual.data.batch_tokens = "translate", 40_000
    with pytest.raises(UserError, match=r"data\.batch_tokens: micro-batches of 40000 tokens"):
        apple_gpu.check_apple_gpu(usual, MPS, 32_000)


def test_dropout_that_an_apple_gpu_would_not_repeat_is_refused() -> None:
    """Guards against gradients for activations other than those of the forward pass."""
    usual = TrainConfig(trainer=config.TrainerConfig(recompute=True))
    apple_gpu.check_apple_gpu(usual, MPS, 1000)
    usual.model.attention_dropout = 0.1
    with pytest.raises(UserError, match=r"trainer\.recompute=true: .* model\.dropout=0"):
        apple_gpu.check_apple_gpu(usual, MPS, 1000)
    apple_gpu.check_apple_gpu(usual, CPU, 1000)
    assert not hasattr(torch.mps, "_initialized"), "torch's checkpoint may repeat an Apple GPU's random numbers now"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="not on this system")
def test_no_more_threads_than_cores_that_are_ours() -> None:
    """Guards against 64 threads on the two cores of a container, which wait for each other."""
    threads, allowed = torch.get_num_threads(), os.sched_getaffinity(0)
    try:
        torch.set_num_threads(3)
        os.sched_setaffinity(0, {min(allowed)})
        assert "(1 threads, " in choose_hardware("cpu", "float32", None).description
        assert "(2 threads, " in choose_hardware("cpu", "float32", 2).description  # what is asked for is taken
    finally:
        os.sched_setaffinity(0, allowed)
        torch.set_num_threads(threads)


@pytest.fixture
def apple_numbers(monkeypatch: pytest.MonkeyPatch) -> torch.Generator:
    """Stands in for the random generator of an Apple GPU."""
    generator = torch.Generator().manual_seed(1)
    monkeypatch.setattr(torch.mps, "get_rng_state", lambda device: generator.get_state())
    monkeypatch.setattr(torch.mps, "set_rng_state", lambda state, device: generator.set_state(state))
    return generator


def test_an_apple_gpus_random_numbers_go_on_where_they_were(apple_numbers: torch.Generator) -> None:
    """Guards against dropout masks that repeat after a resume."""
    saved = random_state(MPS)
    before = torch.rand(3), torch.rand(3, generator=apple_numbers)
    restore_random_state(saved, MPS)
    after = torch.rand(3), torch.rand(3, generator=apple_numbers)
    assert all(map(torch.equal, before, after))


def test_a_run_may_move_between_devices(apple_numbers: torch.Generator) -> None:
    """Guards against a checkpoint that cannot be restored on a machine with other devices, or that loses its random
    state."""
    state = apple_numbers.get_state()
    of_a_gpu = {"cpu": torch.get_rng_state(), "cuda": [torch.zeros(16, dtype=torch.uint8)]}
    for saved in (of_a_gpu, random_state(CPU)):
        restore_random_state(saved, MPS)
        assert torch.equal(apple_numbers.get_state(), state)
    restore_random_state(random_state(MPS), CPU)
