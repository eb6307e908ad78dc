"""Machine and package versions, saved with every result."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
from pathlib import Path

PACKAGES = ("torch", "numpy", "sentencepiece", "transformers", "ctranslate2", "joeynmt")
"""Packages whose versions are noted with every result; those that are not installed are left out."""


def describe_machine() -> dict[str, str | int]:
    """Processor, cores that this process may use, memory, GPU where there is one, system."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    found: dict[str, str | int] = {"processor": processor(), "cores": cores, "system": platform.system()}
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        found["memory_bytes"] = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    import torch

    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name()
    return found


def processor() -> str:
    """The processor's name, with the matrix extensions that decide how fast bf16 is."""
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text(encoding="utf-8") if cpuinfo.exists() else ""
    name = re.search(r"model name\s*:\s*(.+)", text)
    frequency = re.search(r"cpu MHz\s*:\s*([\d.]+)", text)
    extensions = [flag for flag in ("amx_bf16", "avx512_bf16", "avx512f", "avx2") if re.search(rf"\b{flag}\b", text)]
    parts = [" ".join(name[1].split()) if name else platform.processor() or platform.machine()]
    if frequency:
        parts.append(f"{float(frequency[1]) / 1000:.1f} GHz")
    return ", ".join(parts + extensions[:1])


def versions() -> dict[str, str]:
    """Python and the packages that matter here."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
