"""Benchmark the forward and backward pass of fused attention by backend, sequence length, head width and mask.

Operations are counted as in the FlashAttention papers: 4 B H T² D in the forward pass, half of that if causal, and 2.5
times as many in the backward pass (five products instead of two). B T and H D are constant over all lengths, so that
all inputs have the same size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile

from benchmarks.device import device, median_seconds, synchronize
from benchmarks.gpu.figures import Figure
from benchmarks.gpu.stage import Measurement, Report, StageSettings, stage

BACKENDS = {
    "cuDNN": SDPBackend.CUDNN_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}
TOKENS, WIDTH = 16384, 2048
"""B T and H D."""

LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
"""Sequence lengths; a backend that rejects one is not asked for longer ones."""

SECONDS = 3.0
"""Time of a case: 6 lengths of 0.2 s, and cuDNN's plans."""


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


@stage
def attention(settings: StageSettings) -> Iterator[Measurement]:
    """Measure fused attention in TFLOP/s by length, head width, mask and backend."""
    return (measurement(case, settings.dry_run) for case in cases())


def measurement(case: Case, dry_run: bool) -> Measurement:
    """Return the measurement of a case at all lengths, or up to the first length that the backend rejects."""
    lengths, tokens, width = ((64, 128), 128, 128) if dry_run else (LENGTHS, TOKENS, WIDTH)

    def take(_: Sequence[str], report: Report) -> None:
        rates: dict[int, tuple[float, float]] = {}
        refused = ""
        for length in lengths:
            try:
                rates[length] = measured(case, length, tokens, width)
            except RuntimeError as error:  # the backend rejects the case
                if "CUDA error" in str(error) or isinstance(error, torch.OutOfMemoryError):
                    raise
                refused = str(error).split(".")[0][:90] or type(error).__name__
                break
            report(Figure.underway(case.name, f"measuring; so far {line(case, rates, refused, []).figure}"))
        if rates:
            report(line(case, rates, refused, kernels(case, min(lengths), tokens, width)))
        else:
            report(Figure(case.name, status=f"skipped: {refused}"))

    return Measurement((case.name,), take, SECONDS)


def line(case: Case, rates: dict[int, tuple[float, float]], refused: str, names: list[str]) -> Figure:
    """Return the row of a case: forward/backward TFLOP/s by length, of which the highest is compared with the peak, why
    longer ones were refused, and the kernels found by the profiler."""
    ordered = [(length, *rates[length]) for length in sorted(rates)]
    short = [f"{length // 1024}k" if length >= 1024 else str(length) for length in sorted(rates)]
    shown = ", ".join(
        f"{name} {there / 1e12:.3g}/{back / 1e12:.3g}" for name, (_, there, back) in zip(short, ordered, strict=True)
    )
    facts = asdict(case) | {
        "kernels": names,
        "rates": [{"length": length, "forward": there, "backward": back} for length, there, back in ordered],
        "operations": list(max(rates.values())),
        "stopped": refused,
    }
    return Figure(case.name, f"{shown} TFLOP/s", f"longer ones: {refused}" if refused else "", facts=facts)


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


def measured(case: Case, length: int, tokens: int, width: int) -> tuple[float, float]:
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
