"""Benchmark the forward and backward pass of fused attention by backend, sequence length, head width and mask.

Operations are counted as in the FlashAttention papers: 4 B H T² D in the forward pass, half of that if causal, and 2.5
times as many in the backward pass (five products instead of two). B T and H D are constant over all lengths, so that
all inputs have the same size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from statistics import median

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile

from benchmarks.device import device, mean_seconds, synchronize
from benchmarks.gpu.figures import Figure, Inputs, attempt

BACKENDS = {
    "cuDNN": SDPBackend.CUDNN_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}
TOKENS, WIDTH = 16384, 2048
"""B T and H D."""

LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
"""Sequence lengths; a backend that rejects one is not asked for longer ones."""


@dataclass(frozen=True)
class Case:
    """One row of the table, measured at several lengths."""

    backend: str
    head_width: int
    causal: bool
    masked: bool

    @property
    def name(self) -> str:
        """Name of the row, without the lengths."""
        mask = "padding mask" if self.masked else "causal" if self.causal else "no mask"
        return f"attention, head width {self.head_width}, {mask}, {self.backend}"


def cases() -> Iterator[Case]:
    """Yield causal, unmasked, then masked cases. (Flash kernels accept no mask; a single row shows this.)"""
    for causal, masked in ((True, False), (False, False), (False, True)):
        for head_width in (128, 64):
            for backend in BACKENDS:
                if not (masked and backend == "flash" and head_width == 64):
                    yield Case(backend, head_width, causal, masked)


def attention(settings: Inputs) -> Iterator[Figure]:
    """Measure fused attention in TFLOP/s by length, head width, mask and backend."""
    for case in cases():
        yield attempt(case.name, partial(measure_case, case, settings.dry_run))


def measure_case(case: Case, dry_run: bool) -> Figure:
    """Measure a case at all lengths, or up to the first length that the backend rejects."""
    lengths, tokens, width = ((64, 128), 128, 128) if dry_run else (LENGTHS, TOKENS, WIDTH)
    rates: list[dict[str, float]] = []
    refused = ""
    for length in lengths:
        try:
            forward, backward = measure_rates(case, length, tokens, width)
        except RuntimeError as error:  # the backend rejects the case
            if "CUDA error" in str(error) or isinstance(error, torch.OutOfMemoryError):
                raise
            refused = str(error).split(".")[0][:90] or type(error).__name__
            break
        rates.append({"length": length, "forward": forward, "backward": backward})
    if not rates:
        return Figure(case.name, status=f"skipped: {refused}")
    text = ", ".join(
        f"{rate['length']:.0f} {rate['forward'] / 1e12:.3g}/{rate['backward'] / 1e12:.3g}" for rate in rates
    )
    facts = asdict(case) | {"rates": rates, "kernels": kernels(case, min(lengths), tokens, width), "stopped": refused}
    return Figure(case.name, f"{text} TFLOP/s", f"longer ones: {refused}" if refused else "", facts=facts)


def operations(tokens: int, width: int, length: int, causal: bool) -> float:
    """Return the operations of a forward pass: 4 B H T² D, or half of that if causal."""
    return 4 * tokens * width * length / (2 if causal else 1)


def inputs(case: Case, length: int, tokens: int, width: int) -> tuple[list[Tensor], Tensor | None]:
    """Return query, key and value [B, H, T, D] bf16 with `requires_grad`, and a key mask [B, 1, 1, T] bool (or None)
    for sentence lengths from T / 2 to T."""
    rows = max(1, tokens // length)
    shape = (rows, length, width // case.head_width, case.head_width)
    drawn = [torch.randn(shape, device=device(), dtype=torch.bfloat16) for _ in range(3)]
    tensors = [tensor.transpose(1, 2).requires_grad_() for tensor in drawn]
    if not case.masked:
        return tensors, None
    real = torch.linspace(length // 2, length, rows, device=device()).long()  # [B]
    return tensors, (torch.arange(length, device=device()) < real[:, None])[:, None, None, :]


def measure_rates(case: Case, length: int, tokens: int, width: int) -> tuple[float, float]:
    """Return FLOP/s of the forward and the backward pass. Raises RuntimeError if the backend rejects the case."""
    (query, key, value), mask = inputs(case, length, tokens, width)
    with sdpa_kernel(BACKENDS[case.backend]):

        def forward() -> Tensor:
            return F.scaled_dot_product_attention(query, key, value, mask, is_causal=case.causal)

        out = forward()
        gradient = torch.randn_like(out)
        with torch.no_grad():
            forwards = median_seconds(forward)
        backwards = median_seconds(lambda: torch.autograd.grad(out, (query, key, value), gradient, retain_graph=True))
    count = operations(tokens, width, length, case.causal)
    return count / forwards, 2.5 * count / backwards


def median_seconds(call: Callable[[], object], seconds: float = 0.06) -> float:
    """Return the median time of a call, over about `seconds` after a warm-up."""
    call()  # selects kernels and builds plans
    synchronize()
    count = max(5, min(200, int(seconds / max(mean_seconds(call, 1), 1e-6))))
    if not torch.cuda.is_available():
        return median(mean_seconds(call, 1) for _ in range(count))
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    events[0].record()
    for event in events[1:]:
        call()
        event.record()
    torch.cuda.synchronize()
    return median(before.elapsed_time(after) for before, after in pairwise(events)) / 1000


def kernels(case: Case, length: int, tokens: int, width: int) -> list[str]:
    """Profile a forward and backward pass and return the names of its attention kernels (without a GPU: operators)."""
    (query, key, value), mask = inputs(case, length, tokens, width)
    gpu = torch.cuda.is_available()
    activities = [ProfilerActivity.CUDA] if gpu else [ProfilerActivity.CPU]
    with sdpa_kernel(BACKENDS[case.backend]), profile(activities=activities) as running:
        out = F.scaled_dot_product_attention(query, key, value, mask, is_causal=case.causal)
        torch.autograd.grad(out, (query, key, value), torch.ones_like(out))
        synchronize()
    words = ("fmha", "flash", "attention", "sdpa", "cudnn")
    return sorted({event.key for event in running.key_averages() if any(word in event.key.lower() for word in words)})
