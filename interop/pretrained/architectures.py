"""All architectures that can be imported, by their `model_type`."""

from __future__ import annotations

from interop.pretrained import llama
from interop.pretrained.architecture import Architecture
from interop.pretrained.gpt2 import GPT2
from interop.pretrained.gpt_neox import GPT_NEOX
from interop.pretrained.marian import MARIAN
from interop.pretrained.nanochat import NANOCHAT

ARCHITECTURES: dict[str, Architecture] = {
    each.model_type: each for each in (GPT2, GPT_NEOX, NANOCHAT, MARIAN, *llama.ARCHITECTURES)
}
