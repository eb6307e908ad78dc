"""Measure the machine's peak rates of matrix products and copies, to which percentages in other stages refer."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch.nn import functional as F

from benchmarks.device import device, median_seconds
from benchmarks.gpu.figures import Figure
from benchmarks.gpu.stage import Measurement, StageSettings, single, stage
from benchmarks.machine import describe_machine, versions
from training.hardware.device import PEAK_FLOPS

PRODUCTS = (
    ("square", 4096, 4096, 4096),
    ("square", 8192, 8192, 8192),
    ("square", 16384, 8192, 8192),
    ("10.7M, MLP", 65536, 384, 1536),
    ("124M, MLP", 65536, 768, 3072),
    ("124M, output", 8192, 768, 50304),
    ("350M, MLP", 32768, 1024, 4096),
)
"""Name, M, K, N: large square products, and layers of the trained models; the peak is the fastest product."""

TINY = (("square", 128, 128, 128), ("MLP", 64, 32, 128))

COPIED = 4 << 30
"""Bytes of the copy, far larger than any cache."""

DATA_SHEET = {"H200": 4.8e12, "H100 80GB HBM3": 3.35e12, "A100-SXM4-80GB": 2.04e12}
"""Memory bandwidth in bytes/s by GPU name, as in `PEAK_FLOPS`, from the vendor's data sheets."""


@stage
def machine(settings: StageSettings) -> Iterator[Measurement]:
    """Measure the matrix peak in bf16 and the copy bandwidth of this machine."""
    yield single("device", described, 1.0)
    for what, rows, inner, columns in TINY if settings.dry_run else PRODUCTS:
        name = f"bf16 product, {what}: {rows} x {inner} x {columns}"
        yield single(name, partial(product, name, rows, inner, columns), 1.0)
    size = 1 << 20 if settings.dry_run else COPIED
    name = f"copy of {size / 2**30:.3g} GiB, bytes read and written"
    yield single(name, partial(copy, name, size), 1.0)


def described() -> Figure:
    """Return the figure with the machine's name and the versions of its software."""
    description = describe_machine()
    software = f"torch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN {cudnn_version()}"
    name = str(description.get("gpu", description["processor"]))
    return Figure("device", name, software, facts={"machine": description, "versions": versions()})


def product(name: str, rows: int, inner: int, columns: int) -> Figure:
    """Measure a matrix product."""
    x = torch.randn(rows, inner, device=device(), dtype=torch.bfloat16)
    weight = torch.randn(columns, inner, device=device(), dtype=torch.bfloat16)
    rate = 2 * rows * inner * columns / median_seconds(partial(F.linear, x, weight), 0.3)
    facts = {"product": [rows, inner, columns], "flops": rate}
    return Figure(name, f"{rate / 1e12:.4g} TFLOP/s", data_sheet_share(rate, PEAK_FLOPS), facts=facts)


def copy(name: str, size: int) -> Figure:
    """Measure a copy of `size` bytes."""
    source, target = (torch.zeros(size, dtype=torch.uint8, device=device()) for _ in range(2))
    source.random_()
    bandwidth = 2 * size / median_seconds(lambda: target.copy_(source), 0.3)
    shown = f"{bandwidth / 1e12:.3g} TB/s"
    return Figure(name, shown, data_sheet_share(bandwidth, DATA_SHEET), facts={"bandwidth": bandwidth})


def data_sheet_share(rate: float, sheet: dict[str, float]) -> str:
    """Return the rate as a percentage of the vendor's figure for this GPU, if known."""
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    known = sheet.get(name.removeprefix("NVIDIA "))
    return f"{100 * rate / known:.0f} % of the data sheet's {known / 1e12:.4g}" if known else ""


def cudnn_version() -> str:
    """Return the cuDNN version, e.g. 9.19.0, or `none`."""
    version = torch.backends.cudnn.version()
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}" if version else "none"
