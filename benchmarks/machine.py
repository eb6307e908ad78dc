"""Describe the machine and the package versions that are saved with every result."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import re
import subprocess
from contextlib import suppress
from pathlib import Path

PACKAGES = ("torch", "numpy", "sentencepiece", "transformers", "ctranslate2", "joeynmt")
"""Packages whose versions are saved with every result, if installed."""


def describe_machine() -> dict[str, str | int]:
    """Return the processor, the cores available to this process, memory in bytes, operating system, and GPU if any."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    description: dict[str, str | int] = {"processor": processor(), "cores": cores, "system": platform.system()}
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        description["memory_bytes"] = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    import torch

    if torch.cuda.is_available():
        description["gpu"] = torch.cuda.get_device_name()
    return description


def processor() -> str:
    """Return the processor's name, clock rate, and the best instruction set extension relevant to bf16 speed."""
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text(encoding="utf-8") if cpuinfo.exists() else ""
    name = re.search(r"model name\s*:\s*(.+)", text)
    frequency = re.search(r"cpu MHz\s*:\s*([\d.]+)", text)
    extensions = [flag for flag in ("amx_bf16", "avx512_bf16", "avx512f", "avx2") if re.search(rf"\b{flag}\b", text)]
    parts = [" ".join(name[1].split()) if name else platform.processor() or platform.machine()]
    if frequency:
        parts.append(f"{float(frequency[1]) / 1000:.1f} GHz")
    return ", ".join(parts + extensions[:1])


def gpu_and_torch() -> str:
    """Return the name of the GPU and the version of torch; raise RuntimeError if torch finds no GPU."""
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError(f"torch {torch.__version__} finds no CUDA GPU")
    return f"{torch.cuda.get_device_name()}, torch {torch.__version__}"


_ROOT = Path(__file__).resolve().parent.parent


def commit(root: Path = _ROOT) -> str:
    """Return the last commit of program files, if git knows it, and a hash of all program files as they are."""
    head = ""
    with suppress(OSError):  # without git
        command = ["git", "log", "-1", "--abbrev=10", "--format=%h", "--", "*.py", "*.yaml"]
        head = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False).stdout.strip()
    packages = (package.parent for package in root.glob("*/__init__.py"))
    files = [*root.glob("*.py"), *(path for package in packages for path in package.rglob("*.*"))]
    code = hashlib.sha256()
    for path in sorted(path for path in files if path.suffix in (".py", ".yaml")):
        code.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return f"{head or 'code'} {code.hexdigest()[:8]}"


def versions() -> dict[str, str]:
    """Return the versions of Python and of the installed `PACKAGES`."""
    installed = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            installed[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return installed
