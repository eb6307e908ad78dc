"""Which attention kernels a GPU may run, which ones it runs, and what would send it to the slow one.

The slow one, `math`, writes the whole matrix of weights to memory. Torch takes it without a word where no fused kernel
fits; here it is left out, so that a run refuses to begin instead. The rules are those of torch's `sdp_utils.cpp`. On a
CPU and on Apple's GPUs nothing here does anything: `model.fast.attention` knows what is fast there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.attention import (
    SDPBackend,
    activate_flash_attention_impl,
    current_flash_attention_impl,
    list_flash_attention_impls,
    restore_flash_attention_impl,
    sdpa_kernel,
)

from configs.errors import UserError
from model.attention import attention
from model.config import ModelConfig
from model.fast.attention import attention_backend
from training.config import TrainConfig
from training.hardware.device import Hardware

CUDNN, FLASH, EFFICIENT, MATH = (
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
)

_CUDNN_VERSION = 91500
"""cuDNN is trusted with any sequence length above this version (9.15.0), and is then the fastest on Hopper and
Blackwell."""

_PACKAGES = {(9, 0): ("FA3", "FA4"), (10, 0): ("FA4",), (10, 3): ("FA4",)}
"""FlashAttention by compute capability, the one to prefer first."""

_FAMILIES = ("flash", "fmha", "sdpa", "attention", "attn")
"""What names of attention kernels contain, in small letters."""


@dataclass(frozen=True)
class Demand:
    """What the attention of a training step asks of a kernel."""

    dtype: torch.dtype
    head_width: int
    dropout: float = 0.0
    masked: bool = False
    """Some keys are hidden: the padding of a source, other documents."""


def demands(config: TrainConfig, dtype: torch.dtype) -> list[Demand]:
    """One for each kind of attention that training with `config` runs."""
    model = config.model
    decoder = Demand(dtype, model.head_width, model.attention_dropout, masked=model.mask_documents)
    return [decoder] if config.task == "gpt" else [decoder, replace(decoder, masked=True)]


# --- the rules


def preferred(
    capability: tuple[int, int], cudnn: int | None, *, one_shape: bool, deterministic: bool, package: str | None
) -> list[SDPBackend]:
    """The fused kernels to use, best first.

    cudnn: version as `torch.backends.cudnn.version()` gives it. one_shape: every batch has the same shape and no mask.
    For each new shape cuDNN makes a plan, which takes half a second (github.com/modelscope/FunASR/issues/3704); under a
    mask its gradients may be NaN (github.com/pytorch/pytorch/issues/196678). package: the FlashAttention that was
    activated. deterministic: cuDNN's backward pass is not.
    """
    newer = capability[0] in (9, 10) and (cudnn or 0) > _CUDNN_VERSION
    if newer and one_shape and not deterministic and package is None:
        return [CUDNN, FLASH, EFFICIENT]
    return [FLASH, EFFICIENT]


def obstacle(demand: Demand, capability: tuple[int, int]) -> str | None:
    """Why no fused kernel takes `demand`, naming the keys to change, or None where one does.

    Flash pads heads to a multiple of 8 by itself, but takes neither masks nor float32 nor heads wider than 256. The
    efficient kernel takes all of these, if heads are whole vectors of 16 bytes. Dropout stops neither.
    """
    half = demand.dtype == torch.bfloat16
    if half and capability < (8, 0):
        return (
            "trainer.precision=bf16: no fused attention in bf16 on this GPU (compute capability"
            f" {capability[0]}.{capability[1]}, 8.0 is needed); choose trainer.precision=float32"
        )
    multiple = 8 if half else 4 if capability >= (8, 0) else 1
    if half and not demand.masked and demand.head_width <= 256:
        return None
    if demand.head_width % multiple:
        return (
            f"model.heads: heads of width {demand.head_width} (model.width / model.heads) fit no fused attention kernel"
            f" in {'bf16' if half else 'float32'}; choose a width that is a multiple of {multiple}"
        )
    return None


# --- on the machine


def training_kernels(config: TrainConfig, device: torch.device) -> AbstractContextManager[object]:
    """Within, attention on a GPU runs the fused kernels of `preferred`, and code that is compiled keeps them."""
    if device.type != "cuda":
        return nullcontext()
    return sdpa_kernel(_kernels(config, device), set_priority=True)


def evaluation_kernels(device: torch.device) -> AbstractContextManager[object]:
    """Within, attention on a GPU runs kernels that need no preparation for a new length; the slow one where
    none fits."""
    return sdpa_kernel([FLASH, EFFICIENT, MATH], set_priority=True) if device.type == "cuda" else nullcontext()


def allowed_kernels() -> str:
    """The kernels that are allowed where this is called, in words."""
    allowed = {
        "cudnn": torch.backends.cuda.cudnn_sdp_enabled(),
        current_flash_attention_impl() or "flash": torch.backends.cuda.flash_sdp_enabled(),
        "efficient": torch.backends.cuda.mem_efficient_sdp_enabled(),
        "math": torch.backends.cuda.math_sdp_enabled(),
    }
    return "attention: " + ", ".join(name for name, on in allowed.items() if on)


def _kernels(config: TrainConfig, device: torch.device) -> list[SDPBackend]:
    unwanted = os.environ.get("TORCH_CUDNN_SDPA_DEPRIORITIZED") == "1"  # torch's own switch
    fused = preferred(
        torch.cuda.get_device_capability(device),
        None if unwanted else torch.backends.cudnn.version(),
        one_shape=config.task == "gpt" and not config.model.mask_documents,
        deterministic=config.trainer.deterministic,
        package=current_flash_attention_impl(),
    )
    return [*fused, MATH] if config.trainer.slow_attention else fused


def check_attention(config: TrainConfig, hardware: Hardware) -> None:
    """Raise UserError, with the key and the fix, where training on a GPU would fall to the slow kernel unasked.

    Torch is asked, so that no rule of another version refuses what works here; our own rules name the reason.
    """
    if hardware.device.type != "cuda" or config.trainer.slow_attention:
        return
    capability = torch.cuda.get_device_capability(hardware.device)
    for demand in demands(config, hardware.dtype):
        query, key, value, mask = _inputs(config, demand, hardware.device, rows=2)
        with sdpa_kernel([*_kernels(config, hardware.device), MATH], set_priority=True):
            choice = attention_backend(query, key, value, causal=mask is None, key_mask=mask, dropout=demand.dropout)
        if choice.endswith(MATH.name.lower()):
            unknown = f"model.heads: torch has no fused attention kernel for heads of width {demand.head_width} here"
            reason = obstacle(demand, capability) or unknown
            raise UserError(f"{reason}, or trainer.slow_attention=true to train with the slow kernel")


def activate_flash_attention(dropout: float, device: torch.device) -> str | None:
    """Let FlashAttention 3 or 4 stand in for torch's own flash kernel where its package is installed -> its name, or
    None.

    Neither has dropout: with it, torch's own comes back.
    """
    active = current_flash_attention_impl()
    if dropout:
        if active:
            restore_flash_attention_impl()
        return None
    if active:
        return active
    for name in _PACKAGES.get(torch.cuda.get_device_capability(device), ()):
        if name in list_flash_attention_impls():
            try:
                activate_flash_attention_impl(name)
            except (ImportError, RuntimeError):  # not installed, or not with the kernels that torch needs
                continue
            return name
    return None


def describe_attention(config: TrainConfig, hardware: Hardware) -> str:
    """What computes the attention of training, for the log: on a GPU the kernels that a profiler saw at the training
    shape."""
    if hardware.device.type != "cuda":
        return training_attention(config.model, hardware)
    package = activate_flash_attention(config.model.attention_dropout, hardware.device)
    if package is None:
        return _seen(config, hardware)
    try:
        return f"{_seen(config, hardware)}, {package} activated"
    except Exception:  # what a package raises for a shape that it does not take
        restore_flash_attention_impl()
        return f"{_seen(config, hardware)}, {package} is installed but does not take this model"


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


def _seen(config: TrainConfig, hardware: Hardware) -> str:
    """The kernels of one forward and backward pass of each kind of attention. The state of the random numbers stays."""

    def once() -> None:
        for demand in demands(config, hardware.dtype):
            query, key, value, mask = _inputs(config, demand, hardware.device, rows=_rows(config))
            mixed = attention(query, key, value, causal=mask is None, key_mask=mask, dropout=demand.dropout)
            mixed.backward(torch.ones_like(mixed))

    with training_kernels(config, hardware.device), torch.random.fork_rng([hardware.device]):
        once()  # what is prepared at the first call is not the kernel
        names = kernels_of(once)
        if names is None:
            return f"{training_attention(config.model, hardware)} (torch's choice; the profiler is not available)"
    found = [name for name in names if any(family in name.lower() for family in _FAMILIES)]
    return f"{', '.join(found or names)} (as the profiler saw them)"


def kernels_of(work: Callable[[], None]) -> list[str] | None:
    """Short names of the kernels that `work` runs on the GPU, each once, in order; None where the profiler
    sees none."""
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile, supported_activities

    if ProfilerActivity.CUDA not in supported_activities():
        return None
    try:
        with profile(activities=[ProfilerActivity.CUDA]) as seen:
            work()
            torch.cuda.synchronize()
        names = [short_name(event.name) for event in seen.events() or () if event.device_type == DeviceType.CUDA]
    except RuntimeError:  # CUPTI, through which kernels are seen, may be missing or in use
        return None
    return list(dict.fromkeys(names)) or None


def short_name(kernel: str) -> str:
    """A kernel's name without return type, namespaces, template arguments and parameters, of at most 60 letters."""
    bare = kernel.removeprefix("void ").replace("(anonymous namespace)::", "")
    return bare.split("<")[0].split("(")[0].split("::")[-1].strip()[:60]


def _rows(config: TrainConfig) -> int:
    """Rows of a micro-batch of full length."""
    if config.task == "gpt":
        return config.trainer.batch_size
    return max(1, config.data.batch_tokens // (2 * config.model.context))


def _inputs(
    config: TrainConfig, demand: Demand, device: torch.device, rows: int
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Query [B, H, T, D], key and value [B, Hkv, T, D], laid out as the model's, and a mask [B, T] with padding, or
    None."""
    model = config.model
    heads, shared, width = model.heads, model.key_value_heads, model.head_width
    fused = torch.zeros(
        rows, model.context, heads + 2 * shared, width, dtype=demand.dtype, device=device, requires_grad=True
    )
    query, key, value = (part.transpose(1, 2) for part in fused.split((heads, shared, shared), dim=2))
    mask = None
    if demand.masked:
        mask = torch.ones(rows, model.context, dtype=torch.bool, device=device)
        mask[:, model.context // 2 :] = False
    return query, key, value, mask
