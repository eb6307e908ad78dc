"""Run llama.cpp on the GGUF file that `interop.gguf` writes, through its C interface: all texts of a batch advance
together, one token each in every call of `llama_decode`, as in its example `batched`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import llama_cpp as library
import torch

from benchmarks.contender import Skipped
from interop.gguf.architecture import architecture
from interop.gguf.export import add_shape, write
from interop.gguf.tensors import tensors
from model.gpt import GPT

FILE_TYPES = {"q8_0": library.LLAMA_FTYPE_MOSTLY_Q8_0, "q4_0": library.LLAMA_FTYPE_MOSTLY_Q4_0}
"""Number formats to which llama.cpp converts a float32 file."""


def write_model(model: GPT, path: Path) -> None:
    """Write a GPT without a tokenizer, in float32. Raises UserError if llama.cpp does not compute it."""
    kind = architecture(model.config)
    writer = gguf.GGUFWriter(path, kind)
    add_shape(writer, model, kind)
    writer.add_tokenizer_model("none")
    writer.add_vocab_size(model.vocab_size)
    write(writer, tensors(model, kind, byte_rows=0, unk_id=0))


def quantize(source: Path, weights: str, target: Path) -> None:
    """Convert a float32 file to a format of `FILE_TYPES`, with llama.cpp's defaults, as `llama-quantize` does."""
    options: Any = library.llama_model_quantize_default_params()
    options.ftype = FILE_TYPES[weights]
    if library.llama_model_quantize(str(source).encode(), str(target).encode(), options):
        raise RuntimeError(f"llama.cpp cannot convert the model to {weights}")


TIE = 0.01
"""Largest distance of two logits, in standard deviations of all logits, that llama.cpp may order otherwise: its GELU is
a table in float16."""


@torch.no_grad()
def require_our_texts(model: GPT, prompts: list[int], texts: list[list[int]]) -> None:
    """Raise RuntimeError unless every token of every text is the one that our model finds most probable, or tied."""
    for prompt, text in zip(prompts, texts, strict=True):
        row = torch.tensor([[prompt, *text]])
        logits = model(row[:, :-1])[0]
        behind = logits.max(dim=-1).values - logits.gather(-1, row[0, 1:, None])[:, 0]
        if bool((behind > TIE * logits.std(dim=-1)).any()):
            raise RuntimeError("the texts of llama.cpp differ from ours")


class LlamaCpp:
    """A loaded model that continues `batch` texts of at most `length` tokens at once. Everything else has llama.cpp's
    defaults: keys and values are stored in float16, flash attention is used where it is supported."""

    def __init__(self, path: Path, batch: int, length: int, threads: int, gpu: bool = False) -> None:
        """Load a file. Raises Skipped if llama.cpp cannot use the GPU, or for a batch larger than its limit."""
        if gpu and not library.llama_supports_gpu_offload():
            raise Skipped("this build of llama.cpp cannot use the GPU")
        if batch > (most := library.llama_max_parallel_sequences()):
            raise Skipped(f"llama.cpp continues at most {most} texts at once")
        library.llama_backend_init()
        options: Any = library.llama_model_default_params()
        options.n_gpu_layers = -1 if gpu else 0
        # Its AMX kernels for quantized weights crash with several texts here, as in llama.cpp issue 20824.
        options.use_extra_bufts = batch == 1 or b"AMX_INT8 = 1" not in library.llama_print_system_info()
        self.model: Any = library.llama_model_load_from_file(str(path).encode(), options)
        if not self.model:
            raise RuntimeError(f"llama.cpp cannot load {path}")
        limits: Any = library.llama_context_default_params()
        limits.n_ctx, limits.n_batch, limits.n_seq_max = batch * length, batch, batch
        limits.n_threads = limits.n_threads_batch = threads
        self.context: Any = library.llama_init_from_model(self.model, limits)
        if not self.context:
            raise RuntimeError("llama.cpp cannot create a context")
        self.batch: Any = library.llama_batch_init(batch, 0, 1)

    def close(self) -> None:
        """Free the memory outside Python."""
        library.llama_batch_free(self.batch)
        library.llama_free(self.context)
        library.llama_model_free(self.model)

    def continued(self, prompts: list[int], new_tokens: int, temperature: float, top_k: int | None) -> list[list[int]]:
        """Continue one text for each prompt of one token -> the new tokens of each text. The most probable token is
        chosen if the temperature is 0."""
        chain = self._sampler(temperature, top_k)
        library.llama_memory_clear(library.llama_get_memory(self.context), False)
        tokens, written = list(prompts), []
        for position in range(new_tokens):
            self._decode(tokens, position)
            tokens = [library.llama_sampler_sample(chain, self.context, row) for row in range(len(tokens))]
            written.append(tokens)
        library.llama_sampler_free(chain)
        return [list(text) for text in zip(*written, strict=True)]

    def _decode(self, tokens: list[int], position: int) -> None:
        batch = self.batch
        batch.n_tokens = len(tokens)
        for row, token in enumerate(tokens):
            batch.token[row], batch.pos[row], batch.logits[row] = token, position, 1
            batch.n_seq_id[row], batch.seq_id[row][0] = 1, row
        if status := library.llama_decode(self.context, batch):
            raise RuntimeError(f"llama.cpp cannot decode: status {status}")

    @staticmethod
    def _sampler(temperature: float, top_k: int | None) -> Any:
        parts = [library.llama_sampler_init_greedy()]
        if temperature:
            parts = [library.llama_sampler_init_top_k(top_k)] if top_k else []
            parts += [library.llama_sampler_init_temp(temperature), library.llama_sampler_init_dist(1)]
        chain = library.llama_sampler_chain_init(library.llama_sampler_chain_default_params())
        for part in parts:
            library.llama_sampler_chain_add(chain, part)
        return chain
