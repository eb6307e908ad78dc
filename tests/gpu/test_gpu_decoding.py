"""Decoding on a GPU: captured CUDA graphs generate the same output as eager steps. Run with `pytest -m gpu`.

On a CPU (`tests.gpu.device`), recorded operations stand in for the graphs.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from generation.beam_search import beam_search
from generation.config import SamplingConfig
from generation.cuda.beam_search import beam_search_with_graphs
from generation.cuda.graph import GraphRunner
from generation.cuda.host_copy import HostCopy
from generation.cuda.sampling import generate_with_graphs
from generation.fast_decoding import prepare
from generation.sampling import generate
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from tests.conftest import ROOT, environment
from tests.gpu.device import DEVICE, ON_GPU, marks, needs_cuda
from tests.recorded_graph import record_graphs
from training.hardware.bfloat16 import decoding_format

pytestmark = marks

CONFIGS = {
    "rotary": ModelConfig(layers=2, heads=4, width=128, context=192),
    "grouped": ModelConfig(layers=2, heads=4, kv_heads=2, width=128, context=192, position="sinusoidal"),
    "learned": ModelConfig(layers=2, heads=4, width=128, context=192, position="learned", norm="layer", bias=True),
}
SAMPLING = SamplingConfig(temperature=0.9, top_k=40, top_p=0.95, repetition_penalty=1.1, max_tokens=220)
"""More tokens than the context of 192: covers two attention widths and texts whose window is recomputed."""
VOCABULARY = 500


@pytest.fixture(autouse=True)
def _recorded_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    if not ON_GPU:
        record_graphs(monkeypatch)


@pytest.fixture(autouse=True)
def _no_plain_decoding_by_surprise() -> Iterator[None]:
    """Turn the warning of a failed graph capture, after which decoding continues eagerly, into a failure."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="decoding continues without CUDA graphs")
        yield


def gpt(config: ModelConfig, weights: str) -> GPT:
    """Return a random GPT on the GPU, prepared as in `generate.py`."""
    torch.manual_seed(0)
    return prepare(GPT(config, VOCABULARY).to(DEVICE), weights)


def translator(config: ModelConfig, weights: str) -> EncoderDecoder:
    """Return a random translator on the GPU, prepared as in `generate.py`."""
    torch.manual_seed(0)
    return prepare(EncoderDecoder(config, VOCABULARY, VOCABULARY).to(DEVICE), weights)


def prompts(count: int) -> list[list[int]]:
    """Return `count` prompts of 1, 8, 15, … tokens."""
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(VOCABULARY, (1 + 7 * row % 150,), generator=generator).tolist() for row in range(count)]


def sources(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return padded sources [B, 40] and their mask."""
    torch.manual_seed(2)
    lengths = torch.arange(count, device=DEVICE) % 40 + 1
    mask = torch.arange(40, device=DEVICE) < lengths.unsqueeze(1)
    return torch.randint(4, VOCABULARY, (count, 40), device=DEVICE), mask


SEARCH: dict[str, Any] = {
    "bos_id": 2,
    "eos_id": 3,
    "beam_size": 5,
    "n_best": 5,
    "max_length": 150,
    "banned_ids": {0, 2},
}


@pytest.mark.parametrize("weights", ["float32", "bf16"])
@pytest.mark.parametrize("name", CONFIGS)
def test_replayed_steps_write_what_plain_ones_write(name: str, weights: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a captured graph that reads or writes stale addresses, over several generations with different
    batches."""
    model = gpt(CONFIGS[name], weights)
    replayed = [list(generate_with_graphs(model, prompts(count), SAMPLING)) for count in (1, 32, 3, 1)]
    monkeypatch.setattr(GraphRunner, "WARM_UP", 10**9)
    assert [list(generate_with_graphs(model, prompts(count), SAMPLING)) for count in (1, 32, 3, 1)] == replayed


@pytest.mark.parametrize("name", CONFIGS)
def test_sampling_with_a_static_cache_equals_a_growing_cache(name: str) -> None:
    """Guards against a different function of the text, in float32, where rounding does not change the chosen token."""
    model = gpt(CONFIGS[name], "float32")
    for count in (1, 32):
        growing = list(generate(model, prompts(count), SAMPLING, stop_ids={7}))
        assert list(generate_with_graphs(model, prompts(count), SAMPLING, stop_ids={7})) == growing


@pytest.mark.parametrize("weights", ["float32", "bf16"])
@pytest.mark.parametrize("name", CONFIGS)
def test_a_replayed_search_finds_what_a_plain_one_finds(
    name: str, weights: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against backpointers, ancestors and scores that a captured graph writes to the wrong place."""
    model = translator(CONFIGS[name], weights)
    replayed = [beam_search_with_graphs(model, *sources(count), **SEARCH) for count in (1, 32, 7)]
    monkeypatch.setattr(GraphRunner, "WARM_UP", 10**9)
    assert [beam_search_with_graphs(model, *sources(count), **SEARCH) for count in (1, 32, 7)] == replayed


@pytest.mark.parametrize("name", CONFIGS)
def test_beam_search_with_a_static_cache_equals_a_growing_cache(name: str) -> None:
    """Guards against a different search result: compares the best hypothesis of each source, in float32."""
    model = translator(CONFIGS[name], "float32")
    for count in (1, 32):
        growing = beam_search(model, *sources(count), **SEARCH)
        static = beam_search_with_graphs(model, *sources(count), **SEARCH)
        same = [mine[0].tokens == other[0].tokens for mine, other in zip(static, growing, strict=True)]
        assert sum(same) >= 0.95 * count, "a near tie may fall otherwise by rounding, not more"


@needs_cuda
def test_memory_does_not_grow_with_generations() -> None:
    """Guards against CUDA graphs, or tensors referenced by them, that outlive their text."""
    model, translating = gpt(CONFIGS["rotary"], "bf16"), translator(CONFIGS["rotary"], "bf16")
    reserved = []
    for _ in range(20):
        list(generate_with_graphs(model, prompts(8), SAMPLING))
        beam_search_with_graphs(translating, *sources(8), **SEARCH)
        reserved.append(torch.cuda.memory_reserved())
    assert max(reserved[3:]) <= reserved[2] + 16 * 2**20
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_allocated() < 200 * 2**20


def test_a_text_that_is_given_up_leaves_nothing_behind() -> None:
    """Guards against wrong text after Ctrl-C in a conversation, when the device was already one step ahead."""
    model = gpt(CONFIGS["rotary"], "float32")
    whole = list(generate_with_graphs(model, prompts(2), SAMPLING))
    for steps in (1, 3, 5, 70):
        given_up = generate_with_graphs(model, prompts(2), SAMPLING)
        assert [next(given_up) for _ in range(steps)] == whole[:steps]
        given_up.close()
    assert list(generate_with_graphs(model, prompts(2), SAMPLING)) == whole


@needs_cuda
def test_other_threads_may_use_the_device_while_a_step_is_recorded() -> None:
    """Guards against a failed capture when samples are generated during training while a thread pins and copies the
    next batches."""
    stop = threading.Event()

    def fetch() -> None:
        while not stop.is_set():
            torch.ones(1000).pin_memory().to("cuda", non_blocking=True)

    fetching = threading.Thread(target=fetch)
    fetching.start()
    try:
        model = gpt(CONFIGS["rotary"], "bf16")
        for _ in range(5):
            list(generate_with_graphs(model, prompts(4), SAMPLING))
    finally:
        stop.set()
        fetching.join()


def test_a_step_is_recorded_after_a_few_runs_and_then_counts_on() -> None:
    """Guards against a capture that also executes the step, or that never happens."""
    number, replay = torch.zeros((), device=DEVICE), GraphRunner(DEVICE)
    for expected in range(1, 10):
        replay(lambda: number.add_(1), 0)
        assert HostCopy(number).values() == expected
    assert len(replay._graphs) == 1


UNRECORDABLE = """
import warnings
import torch
from generation.cuda.graph import GraphRunner
from generation.cuda.host_copy import HostCopy

number, stream, told = torch.zeros((), device="cuda"), torch.cuda.current_stream(), []
warnings.showwarning = lambda message, *place: told.append(str(message))

def step():
    number.add_(1)
    number.item()  # waits for the device, which graph capture forbids

for replay in (GraphRunner(torch.device("cuda")), GraphRunner(torch.device("cuda"))):
    before = HostCopy(number).values()
    for run in range(1, 10):
        replay(step, 0)
        assert HostCopy(number).values() == before + run
        assert torch.cuda.current_stream() == stream
print(len(told), told[0])
"""


@needs_cuda
def test_a_step_that_cannot_be_recorded_goes_on_plainly() -> None:
    """Guards against a text that stops in the middle, computation on the wrong stream, and a warning for every text."""
    ran = subprocess.run(
        [sys.executable, "-c", UNRECORDABLE], cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    )
    assert ran.stdout.startswith("1 decoding continues without CUDA graphs, slower ("), ran.stderr


@needs_cuda
def test_large_models_decode_in_bf16() -> None:
    """Guards against reading twice as many bytes per token as necessary on a device with bf16 products."""
    fast = torch.cuda.get_device_capability() >= (8, 0)
    assert decoding_format(DEVICE, 124_000_000) == ("bf16" if fast else "float32")
    assert decoding_format(DEVICE, 800_000) == "float32"
