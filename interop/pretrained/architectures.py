"""All architectures that can be imported, by their `model_type`."""

from __future__ import annotations

from interop.pretrained import llama
from interop.pretrained.architecture import Architecture
from interop.pretrained.gpt2 import GPT2
from interop.pretrained.marian import MARIAN

ARCHITECTURES: dict[str, Architecture] = {
    architecture.model_type: architecture for architecture in (GPT2, MARIAN, *llama.ARCHITECTURES)
}
