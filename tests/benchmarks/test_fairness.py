"""Comparisons are between equals: what one of our rows may use, a row of the peers uses too."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch
from torch import nn

from benchmarks.contender import Benchmark, Skipped
from benchmarks.decoding import sample
from benchmarks.instructions import LIMITS, restricted_to
from benchmarks.peers.gpt import adamw
from benchmarks.peers.llmc import ARCHITECTURES
from benchmarks.training import train_gpt, train_gpt2, train_translator
from data.primer import rows


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a short text, and work in its folder, which gets the cache of prepared data."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "input.txt"
    path.write_text("".join(f"{row['source']}\n" for row in rows("sentences", 400, seed=1)), encoding="utf-8")
    return path


def requires_all_forms_of_a_peer(benchmark: Benchmark) -> None:
    """Fail unless every comparison with the fastest peer has torch's peers in both number formats, compiled or not."""
    contenders = {one.name: one for one in benchmark.contenders}
    fastest = [one for one in benchmark.comparisons if "against the fastest peer" in one.what]
    assert fastest
    for comparison in fastest:
        assert any("compiled" in name for name in comparison.ours)
        peers = [contenders[name] for name in comparison.peers]
        forms = {
            (one.arguments.get("bf16", False), one.arguments.get("compiled", False))
            for one in peers
            if one.build.startswith("benchmarks.peers.gpt:")
        }
        assert forms == set(itertools.product((False, True), repeat=2)), comparison.what


def test_peers_of_gpt2_are_compiled_too() -> None:
    """Guards against our compiled rows compared with a peer that torch.compile could make faster as well."""
    requires_all_forms_of_a_peer(train_gpt2.benchmark(""))


def test_nanogpt_is_compiled_at_every_batch_size(text: Path) -> None:
    """Guards against a larger batch at which only ours are compiled."""
    requires_all_forms_of_a_peer(train_gpt.benchmark("cpu", text, ""))


def test_plain_loops_have_batches_as_large_as_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a ratio to peers with half as many tokens in a batch, which are slower for that reason alone."""
    monkeypatch.chdir(tmp_path)
    data = "task=translate tokenizer=bpe tokenizer.vocab_size=700 data.sentences=200"
    model = "model.layers=1 model.heads=2 model.width=32"
    benchmark = train_translator.benchmark([*data.split(), *model.split()], tmp_path / "pairs.npz")
    contenders = {one.name: one for one in benchmark.contenders}
    for comparison in benchmark.comparisons:
        settings = [setting for name in comparison.ours for setting in contenders[name].arguments["settings"]]
        ours = {int(one.partition("=")[2]) for one in settings if one.startswith("data.batch_tokens=")}
        peers = [contenders[name].arguments for name in comparison.peers]
        if "JoeyNMT" in comparison.what:
            assert ours == {one["batch_tokens"] for one in peers}
        else:
            assert {train_translator.SENTENCES[tokens] for tokens in ours} == {one["batch_size"] for one in peers}


@pytest.mark.parametrize("instructions", ["avx2", "avx512"])
def test_peers_in_c_are_restricted_like_the_others(instructions: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a peer compiled for this machine in a table of older processors."""
    assert (restricted_to(), ARCHITECTURES[restricted_to()]) == ("native", "native")
    for name, value in LIMITS[instructions].items():
        monkeypatch.setenv(name, value)
    assert restricted_to() == instructions
    assert ARCHITECTURES[restricted_to()].startswith("x86-64-v")
    with pytest.raises(Skipped, match=f"llama.cpp cannot be restricted to {instructions.upper()}"):
        sample.llama_cpp("0.8M", 1, "float32", 1)


def test_our_bf16_is_compared_with_the_fastest_rows_of_ctranslate2_too() -> None:
    """Guards against ratios only to CTranslate2's float32, and its speed shown as that of torch."""
    comparisons = sample.benchmark("0.8M", 2, "").comparisons
    by_torch = ("ours float32", "ours bf16")
    against = {peer for one in comparisons if one.ours == by_torch for peer in one.peers}
    assert any(peer.startswith("CTranslate2 int8") for peer in against)
    against_hugging_face = next(one for one in comparisons if one.what.endswith("against Hugging Face"))
    assert "ours float32, engine=ctranslate2" in against_hugging_face.ours
    assert "by torch or CTranslate2" in against_hugging_face.what


def test_the_adamw_of_plain_loops_is_fused() -> None:
    """Guards against torch's default on a CPU, a loop over the parameters, beside our fused update."""
    linear = nn.Linear(3, 2)
    optimizer = adamw([{"params": [linear.weight]}, {"params": [linear.bias], "weight_decay": 0.0}], rate=0.1)
    assert [(group["fused"], group["lr"], group["weight_decay"]) for group in optimizer.param_groups] == [
        (True, 0.1, 0.1),
        (True, 0.1, 0.0),
    ]
    before = linear.weight.detach().clone()
    linear(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    assert not torch.equal(linear.weight, before)
