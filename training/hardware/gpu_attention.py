"""Choose the attention kernels of a GPU, log those that run, and reject configs that would use the slow kernel.

The slow kernel, `math`, writes the whole attention matrix to memory. Torch uses it silently if no fused kernel supports
the inputs; here it is excluded, and such a run raises UserError at the start. The rules follow torch's `sdp_utils.cpp`
(2.11 to 2.13). On CPUs and Apple GPUs this module has no effect; see `model.fast_kernels`.

Training a decoder passes the causal flag and no mask, which flash and cuDNN support in bf16. Encoder and
cross-attention pass neither if no row of the batch is padded, and so run the same kernels; otherwise they pass a mask
[B, 1, 1, S], which flash does not support but cuDNN and the efficient kernel do. (Any S: the efficient kernel reads
rows of 8, and torch pads the mask.) Only the efficient kernel supports float32; it needs as many key heads as query
heads.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from configs.errors import UserError
from model.attention import attention
from model.config import ModelConfig
from model.fast_kernels import explicit_is_faster, fused_arguments
from model.masks import Mask
from training.config import TrainConfig
from training.hardware.device import Hardware

CUDNN, FLASH = SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION
EFFICIENT, MATH = SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH

_CUDNN_VERSION = 91500
"""cuDNN above this version (9.15.0) is correct for all lengths, and the fastest on Hopper and Blackwell."""


@dataclass(frozen=True)
class Demand:
    """Requirements of a training step on an attention kernel."""

    dtype: torch.dtype
    head_width: int
    dropout: float = 0.0
    masked: bool = False
    """Whether some keys are masked: source padding or other documents."""


def demands(config: TrainConfig, dtype: torch.dtype) -> list[Demand]:
    """Return the requirements of each kind of attention in training with `config`."""
    model = config.model
    decoder = Demand(dtype, model.head_width, model.attention_dropout, masked=model.mask_documents)
    return [decoder] if config.task == "gpt" else [decoder, replace(decoder, masked=True)]


# --- the rules


def preferred(
    capability: tuple[int, int], cudnn: int | None, *, one_shape: bool, deterministic: bool
) -> list[SDPBackend]:
    """Return the fused kernels to use, best first.

    cudnn: version as returned by `torch.backends.cudnn.version()`. one_shape: whether all batches have one shape and no
    mask. For each new shape cuDNN builds a plan, which takes half a second (github.com/modelscope/FunASR/issues/3704);
    with a mask its gradients may be NaN (github.com/pytorch/pytorch/issues/196678). deterministic: excludes cuDNN,
    whose backward pass is not deterministic.
    """
    newer = capability[0] in (9, 10) and (cudnn or 0) > _CUDNN_VERSION
    use_cudnn = newer and one_shape and not deterministic
    return [CUDNN, FLASH, EFFICIENT] if use_cudnn else [FLASH, EFFICIENT]


def obstacle(demand: Demand, capability: tuple[int, int]) -> str | None:
    """Return why no fused kernel supports `demand`, naming the keys to change, or None if one does.

    Flash pads heads to a multiple of 8 but supports neither masks nor float32 nor heads wider than 256. The efficient
    kernel supports all of these if heads are multiples of 16 bytes. Both support dropout.
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
            f"model.heads: heads of width {demand.head_width} (model.width / model.heads) have no fused"
            f" attention kernel in {'bf16' if half else 'float32'}; choose a width that is a multiple of {multiple}"
        )
    return None


# --- on this machine


def training_kernels(config: TrainConfig, device: torch.device) -> Callable[[], AbstractContextManager[object]]:
    """Return a context for training steps, which restricts attention on a GPU to the fused kernels of `preferred`; code
    compiled inside the context keeps them."""
    if device.type != "cuda":
        return nullcontext
    return partial(sdpa_kernel, _kernels(config, device), set_priority=True)


def evaluation_kernels(device: torch.device) -> AbstractContextManager[object]:
    """Restrict attention on a GPU to kernels without setup per sequence length, with the slow kernel as fallback."""
    return sdpa_kernel([FLASH, EFFICIENT, MATH], set_priority=True) if device.type == "cuda" else nullcontext()


def allowed_kernels() -> str:
    """Describe the currently enabled kernels."""
    allowed = {
        "cudnn": torch.backends.cuda.cudnn_sdp_enabled(),
        "flash": torch.backends.cuda.flash_sdp_enabled(),
        "efficient": torch.backends.cuda.mem_efficient_sdp_enabled(),
        "math": torch.backends.cuda.math_sdp_enabled(),
    }
    return "attention: " + ", ".join(name for name, on in allowed.items() if on)


def _kernels(config: TrainConfig, device: torch.device) -> list[SDPBackend]:
    fused = preferred(
        torch.cuda.get_device_capability(device),
        torch.backends.cudnn.version(),
        one_shape=config.task == "gpt" and not config.model.mask_documents,
        deterministic=config.trainer.deterministic,
    )
    return [*fused, MATH] if config.trainer.slow_attention else fused


def check_attention(config: TrainConfig, hardware: Hardware) -> None:
    """Raise UserError, with the key and the fix, if training on a GPU would use the slow kernel.

    The decision is left to torch, so that the rules of another version cannot reject a working config; `obstacle` only
    explains a rejection.
    """
    if hardware.device.type != "cuda" or config.trainer.slow_attention:
        return
    capability = torch.cuda.get_device_capability(hardware.device)
    for demand in demands(config, hardware.dtype):
        query, key, value, mask = _inputs(config, demand, hardware.device, 2)
        with sdpa_kernel([*_kernels(config, hardware.device), MATH], set_priority=True):
            choice = attention_backend(query, key, value, causal=mask is None, key_mask=mask, dropout=demand.dropout)
        if choice.endswith(MATH.name.lower()):
            unknown = f"model.heads: torch has no fused attention kernel for heads of width {demand.head_width}"
            reason = obstacle(demand, capability) or unknown
            raise UserError(f"{reason}, or trainer.slow_attention=true to train with the slow kernel")


def describe_attention(config: TrainConfig, hardware: Hardware) -> str:
    """Describe the attention kernels of training for the log; on a GPU by profiling them at the training shape."""
    on_gpu = hardware.device.type == "cuda"
    return _seen(config, hardware) if on_gpu else training_attention(config.model, hardware)


def attention_backend(
    query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False, key_mask: Mask = None, dropout: float = 0.0
) -> str:
    """Return the name of the kernel that `attention` would run for these arguments, for the log.

    torch reports the fused kernel, which depends on device, dtype, head width, mask and versions. For some devices,
    such as Apple's GPUs, torch reports none; the log then names only the function.
    """
    if explicit_is_faster(query, key, value, dropout):
        return f"explicit {str(query.dtype).removeprefix('torch.')} products"
    query, key, value, visible, flag, grouped = fused_arguments(query, key, value, causal, key_mask)
    try:
        choice = torch._fused_sdp_choice(query, key, value, visible, dropout, flag, enable_gqa=grouped)
    except NotImplementedError:
        return "scaled_dot_product_attention"
    return f"scaled_dot_product_attention, {SDPBackend(choice).name.lower().replace('_', ' ')}"


def training_attention(config: ModelConfig, hardware: Hardware) -> str:
    """Return the attention kernel that torch selects for tensors like those of a training step."""
    form: dict[str, Any] = {"dtype": hardware.dtype, "device": hardware.device, "requires_grad": True}
    query = torch.empty(1, config.heads, config.context, config.head_width, **form)
    key = torch.empty(1, config.key_value_heads, config.context, config.head_width, **form)
    mask = None
    if config.mask_documents:
        mask = torch.ones(1, config.context, config.context, dtype=torch.bool, device=hardware.device).tril()
    return attention_backend(query, key, key, causal=True, key_mask=mask, dropout=config.attention_dropout)


def _seen(config: TrainConfig, hardware: Hardware) -> str:
    """List the kernels of one forward and backward pass of each kind of attention. Preserves the random state."""
    rows = config.trainer.batch_size
    if config.task == "translate":
        rows = max(1, config.data.batch_tokens // (2 * config.model.context))

    def once() -> None:
        for demand in demands(config, hardware.dtype):
            query, key, value, mask = _inputs(config, demand, hardware.device, rows)
            mixed = attention(query, key, value, causal=mask is None, key_mask=mask, dropout=demand.dropout)
            mixed.backward(torch.ones_like(mixed))

    with training_kernels(config, hardware.device)(), torch.random.fork_rng([hardware.device]):
        once()  # warm-up: exclude one-time setup kernels
        names = kernels_of(once)
        if names is None:
            return f"{training_attention(config.model, hardware)} (selected by torch; the profiler is unavailable)"
    families = ("flash", "fmha", "sdpa", "attention", "attn")
    matches = [name for name in names if any(family in name.lower() for family in families)]
    return f"{', '.join(matches or names)} (recorded by the profiler)"


def kernels_of(work: Callable[[], None]) -> list[str] | None:
    """Return the short names of the GPU kernels run by `work`, each once, in order; None if profiling fails."""
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile, supported_activities

    if ProfilerActivity.CUDA not in supported_activities():
        return None
    try:
        with profile(activities=[ProfilerActivity.CUDA]) as seen:
            work()
            torch.cuda.synchronize()
        names = [short_name(event.name) for event in seen.events() or () if event.device_type == DeviceType.CUDA]
    except RuntimeError:  # CUPTI, which records kernels, may be missing or in use
        return None
    return list(dict.fromkeys(names)) or None


def short_name(kernel: str) -> str:
    """Return a kernel's name without return type, namespaces, templates and parameters, at most 60 characters."""
    bare = kernel.removeprefix("void ").replace("(anonymous namespace)::", "")
    return bare.split("<")[0].split("(")[0].split("::")[-1].strip()[:60]


def _inputs(
    config: TrainConfig, demand: Demand, device: torch.device, rows: int
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Return query [B, H, T, D], key and value [B, Hkv, T, D] in the model's layout, and a mask [B, T] or None."""
    model = config.model
    sizes = (model.heads, model.key_value_heads, model.key_value_heads)
    shape = (rows, model.context, sum(sizes), model.head_width)
    fused = torch.zeros(shape, dtype=demand.dtype, device=device, requires_grad=True)
    query, key, value = (part.transpose(1, 2) for part in fused.split(sizes, dim=2))
    mask = None
    if demand.masked:
        mask = torch.ones(rows, model.context, dtype=torch.bool, device=device)
        mask[:, model.context // 2 :] = False
    return query, key, value, mask
