"""What the machine likes: device, number format, compilation. The one place that asks about hardware."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from data.processes import cores
from model.config import ModelConfig
from model.fast.attention import attention_backend
from training.hardware.device import choose_device

PEAK_FLOPS = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "L40S": 362e12, "L4": 121e12, "RTX 4090": 165e12}
"""Dense bf16 peak by GPU name (vendors' data sheets), for the model FLOP utilisation."""

CPUINFO = Path("/proc/cpuinfo")
"""Where Linux says what the processor can do."""


@dataclass(frozen=True)
class Hardware:
    """Where and how the run computes."""

    device: torch.device
    dtype: torch.dtype
    """Number format of weights and activations; float32 master copies are kept beside bf16 weights."""
    peak_flops: float | None
    """Dense peak in FLOP/s where it is known, else None."""
    description: str


def choose_hardware(device: str, precision: str, threads: int | None, key: str = "trainer.device") -> Hardware:
    """Pick device and number format by capability; the arguments are the settings of those names in `TrainerConfig`.

    threads: None takes the physical cores, as torch does, but no more than a container's quota. key: the setting that
    names the device. Raises UserError when a device is asked for that is not there.
    """
    chosen = choose_device(device, key)
    name = chosen.type
    wanted = threads or min(torch.get_num_threads(), cores())
    if wanted != torch.get_num_threads():
        torch.set_num_threads(wanted)
    if name == "cpu":
        keep_freed_memory()
    dtype = {"float32": torch.float32, "bf16": torch.bfloat16}.get(precision) or (
        torch.bfloat16 if bf16_is_fast(chosen) else torch.float32
    )
    model = f"{torch.cuda.get_device_name(chosen)} ({chosen})" if name == "cuda" else name
    peaks = (flops for gpu, flops in PEAK_FLOPS.items() if re.search(rf"\b{gpu}\b", model))
    peak = next(peaks, None) if dtype == torch.bfloat16 else None
    used = f" ({torch.get_num_threads()} threads, {instruction_set()})" if name == "cpu" else ""
    emulated = name == "cpu" and dtype == torch.bfloat16 and not bf16_is_fast(chosen)
    words = str(dtype).removeprefix("torch.") + (" (emulated: float32 is many times as fast)" if emulated else "")
    return Hardware(chosen, dtype, peak, f"{model}{used}, {words}")


def training_attention(config: ModelConfig, hardware: Hardware) -> str:
    """Which attention kernel training will really run, asked of torch with tensors like those of a training step."""
    query, key = (
        torch.empty(
            1,
            heads,
            config.context,
            config.head_width,
            dtype=hardware.dtype,
            device=hardware.device,
            requires_grad=True,
        )
        for heads in (config.heads, config.key_value_heads)
    )
    mask = None
    if config.mask_documents:  # in code that is not compiled; see `model.fast.document_mask`
        mask = torch.ones(1, config.context, config.context, dtype=torch.bool, device=hardware.device).tril()
    return attention_backend(query, key, key, causal=True, key_mask=mask, dropout=config.attention_dropout)


@cache
def keep_freed_memory() -> None:
    """Ask glibc to reuse freed blocks instead of returning them to the system, and Linux to back them with huge pages.

    Activations come and go in every step; by default each large one is mapped and zeroed by the kernel anew, 10-25 % of
    a step. With pages of 4 kB, looking up addresses takes another 5 % of a step that works on gigabytes.
    """
    if sys.platform == "linux" and platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL("libc.so.6")
        trim_threshold, mmap_threshold, gibibyte = -1, -3, 1 << 30  # parameters of mallopt(3)
        libc.mallopt(trim_threshold, 2 * gibibyte - 1)
        if not libc.mallopt(mmap_threshold, gibibyte):  # before 2.35
            libc.mallopt(mmap_threshold, gibibyte // 32)
        elif addresses_are_free():
            use_huge_pages(libc)


def addresses_are_free() -> bool:
    """Whether a process may reserve as many addresses as it likes: neither a limit nor an account of them is kept."""
    import resource

    limits = (resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA))
    strict = Path("/proc/sys/vm/overcommit_memory")
    return set(limits) == {resource.RLIM_INFINITY} and not (strict.exists() and strict.read_text().strip() == "2")


def use_huge_pages(libc: ctypes.CDLL) -> None:
    """Let half as much heap as there is memory grow in pages of 2 MB, where Linux grants them on request. Takes no
    memory yet.

    The request is for addresses, so the heap is extended here, marked, and freed again for the allocations to come. The
    last block stays, or the C library would return what lies before it; being never touched, it takes addresses alone.
    What the heap has once held then stays with the process, as the next step would ask for it again.
    """
    libc.malloc.argtypes, libc.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    page, block, advice = os.sysconf("SC_PAGE_SIZE"), 1 << 29, 14  # MADV_HUGEPAGE of madvise(2)
    count = page * os.sysconf("SC_PHYS_PAGES") // 2 // block
    blocks = [address for _ in range(count) if (address := libc.malloc(block))]
    for address in blocks[:-1]:
        libc.madvise(address - address % page, block + page, advice)  # to the page where the next one begins
    for address in blocks[:-1]:
        libc.free(address)


def bf16_is_fast(device: torch.device) -> bool:
    """Whether bf16 matrix products run on hardware of their own, not in emulation.

    On CPUs that is AMX: bf16 products are then 4-9 times as fast as float32. With AVX-512 alone they take 1.6 (bf16
    instructions) to 5 times as long as float32, with AVX2 7 to 100 times (2 threads of a Xeon, each held to these
    instructions, torch 2.13).
    """
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    return device.type == "cpu" and amx_is_used()


def amx_is_used() -> bool:
    """Whether the processor has AMX for bf16 and oneDNN, which multiplies bf16 matrices for torch, may use it.

    oneDNN can be held to an older instruction set (its "CPU Dispatcher Control"): then what the processor has does not
    count.
    """
    allowed = os.environ.get("ONEDNN_MAX_CPU_ISA", os.environ.get("DNNL_MAX_CPU_ISA", "DEFAULT")).upper()
    if "AMX" not in allowed and allowed not in ("DEFAULT", "ALL"):
        return False
    return CPUINFO.exists() and "amx_bf16" in CPUINFO.read_text()


def instruction_set() -> str:
    """What torch's libraries may use of this processor, as its makers call it: AMX, AVX512, AVX2, SVE256, …"""
    return "AMX" if amx_is_used() else torch.backends.cpu.get_cpu_capability()


def decoding_format(device: torch.device, parameters: int) -> str:
    """Format of the weights, as `model.fast.decoding.prepare` names it, in which a model of so many parameters writes
    fastest.

    Below four million a step is all calls, of which bf16 needs more; above, products and reading weights take the time.
    Measured on CPUs. A GPU has the same two costs, and by default bf16 weights are the very ones that it has trained
    with.
    """
    return "bf16" if bf16_is_fast(device) and parameters >= 4_000_000 else "float32"


def set_deterministic() -> None:
    """Refuse kernels whose result depends on timing."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)


@contextmanager
def process_settings_restored() -> Iterator[None]:
    """Within: one of several runs; the threads and deterministic kernels that it sets for the whole process are not the
    next one's."""
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    try:
        yield
    finally:
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        if torch.are_deterministic_algorithms_enabled() != deterministic:
            torch.use_deterministic_algorithms(deterministic)
