"""Steps that a GPU captures in CUDA graphs obey the rules of a capture, as far as a CPU can check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from generation.config import SamplingConfig
from generation.cuda.beam_search import GraphBeamSearch, beam_search_with_graphs
from generation.cuda.graph import GraphRunner
from generation.cuda.host_copy import HostCopy
from generation.cuda.sampling import GraphSampling, generate_with_graphs
from generation.fast_decoding import prepare
from generation.sampling import UniformDraws
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from tests.model.conftest import FLAVOURS
from tests.recorded_graph import record_graphs

GraphForm = GraphSampling | GraphBeamSearch
SAMPLING = SamplingConfig(temperature=0.8, top_k=9, top_p=0.9, min_p=0.01, repetition_penalty=1.2, max_tokens=20)


def texts(config: ModelConfig, device: str) -> GraphSampling:
    """Return batched sampling of two texts in a model prepared for decoding, with every sampling setting."""
    model = prepare(GPT(config, 19).to(device), "float32")
    seen, banned = torch.zeros(2, 19, dtype=torch.bool, device=device), torch.tensor([2, 5], device=device)
    return GraphSampling(model, [[1, 4, 6], [3]], SAMPLING, UniformDraws(2, 0), banned, seen)


def search(config: ModelConfig, device: str) -> GraphBeamSearch:
    """Return a beam search of two sources, one of them padded."""
    model = prepare(EncoderDecoder(config, 11, 9).to(device), "float32")
    source, mask = torch.ones(2, 4, dtype=torch.int64, device=device), torch.ones(2, 4, dtype=torch.bool, device=device)
    mask[1, 2:] = False
    banned = torch.tensor([0, 2], device=device)
    return GraphBeamSearch(model, source, mask, bos_id=2, eos_id=3, limits=[12, 9], beam_size=3, banned=banned)


@pytest.fixture(params=[texts, search], ids=["texts", "search"])
def made(request: pytest.FixtureRequest, config: ModelConfig) -> Callable[[str], GraphForm]:
    """Return a search or sampling with CUDA graphs on any device."""
    return lambda device: request.param(config, device)


class Operations(TorchDispatchMode):
    """Records name and shapes of every operation of torch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[Any, ...]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        shapes = [tuple(value.shape) if isinstance(value, Tensor) else value for value in args]
        self.found.append((str(func), [shape for shape in shapes if isinstance(shape, int | float | tuple)]))
        return func(*args, **(kwargs or {}))


@torch.no_grad()
def test_a_step_asks_nothing_of_the_device(made: Callable[[str], GraphForm]) -> None:
    """Guards against a step that reads a value or copies one from the CPU: meta tensors have no values and mix with
    no others."""
    form = made("meta")
    form.cache.cover(5)
    for _ in range(2):
        form.step()


@torch.no_grad()
def test_all_steps_are_the_same_operations(made: Callable[[str], GraphForm]) -> None:
    """Guards against numbers counted in Python, which a replay would repeat."""
    form, steps = made("cpu"), []
    form.cache.cover(5)
    form.step()
    for _ in range(3):
        with Operations() as operations:
            form.step()
        steps.append(operations.found)
    assert len(steps[0]) > 50
    assert steps[0] == steps[1] == steps[2]


@torch.no_grad()
def test_all_that_outlives_a_step_stays_where_it_is(made: Callable[[str], GraphForm]) -> None:
    """Guards against an attribute assigned a new tensor, while the graph continues to use the old one."""
    form = made("cpu")
    form.cache.cover(5)
    form.step()

    def places() -> dict[str, int]:
        held = {**vars(form), **vars(form.cache)}
        stores = dict(enumerate([*form.cache._keys, *form.cache._values]))
        within_a_step = {"_mask", "_columns"}
        tensors = {str(name): value for name, value in (held | stores).items() if isinstance(value, Tensor)}
        return {name: value.data_ptr() for name, value in tensors.items() if name not in within_a_step}

    before = places()
    form.step()
    assert places() == before
    assert len(before) > 8


def test_replayed_steps_write_what_plain_ones_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against Python between the steps that moves a tensor which a graph refers to, or changes a number in it:
    texts leave the context and pass from one block of random numbers to the next."""
    config = FLAVOURS["grouped"]  # with token shift, whose inputs are kept too
    gpt, translator = prepare(GPT(config, 19), "float32"), prepare(EncoderDecoder(config, 11, 9), "float32")
    source = torch.randint(4, 11, (3, 4))
    options: dict[str, Any] = {"bos_id": 2, "eos_id": 3, "max_length": 14, "beam_size": 3, "n_best": 3}

    def written() -> tuple[Any, Any]:
        sampling = replace(SAMPLING, max_tokens=70)
        texts = list(generate_with_graphs(gpt, [[1, 4, 6], [3]], sampling))
        return texts, beam_search_with_graphs(translator, source, None, **options)

    graphs = record_graphs(monkeypatch)
    replayed = written()
    assert [graph.replays > 5 for graph in graphs] == [True, True]
    monkeypatch.setattr(GraphRunner, "WARM_UP", 10**9)
    assert written() == replayed
    assert len(graphs) == 2


def test_without_a_gpu_a_step_is_run_each_time() -> None:
    """Guards against decoding that stops, or counts twice, if nothing can be captured."""
    number, replay = torch.zeros(()), GraphRunner(torch.device("cpu"))
    for expected in range(1, 10):
        replay(lambda: number.add_(1), 0)
        assert number == expected


def test_a_readback_has_the_values_of_its_time() -> None:
    """Guards against reading the token of the next step."""
    tensor = torch.tensor([1, 2])
    readback = HostCopy(tensor)
    tensor.add_(10)
    assert readback.values() == [1, 2]
