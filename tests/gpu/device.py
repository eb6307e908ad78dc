"""Where the tests of this folder run: on a GPU, or with GPU_TESTS=cpu, except those that need CUDA, on a CPU.

Elsewhere they are skipped: the tests of the other folders prove on a CPU what a CPU can prove of the code for a GPU.
"""

from __future__ import annotations

import os

import pytest
import torch

ON_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda:0" if ON_GPU else "cpu")
CPU = torch.device("cpu")

marks = [
    pytest.mark.gpu,
    pytest.mark.skipif(not ON_GPU and os.environ.get("GPU_TESTS") != "cpu", reason="needs a CUDA device"),
]
"""Of every test of this folder."""
needs_cuda = pytest.mark.skipif(not ON_GPU, reason="needs a CUDA device")
