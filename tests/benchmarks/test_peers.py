"""Peers compute what ours compute, and comparisons are between equals. Tests are skipped if a peer is not installed."""

from __future__ import annotations

import itertools
import json
from contextlib import suppress
from operator import attrgetter
from pathlib import Path

import pytest
import torch

from benchmarks import beam, sample, train_gpt, train_translator, worker
from benchmarks.contender import Contender, Skipped
from benchmarks.peers.gpt import adamw
from data.primer import rows
from tests.conftest import TINY, Run


@pytest.mark.slow
@pytest.mark.parametrize(
    "contender",
    [one for one in sample.benchmark("0.8M", 2).contenders if "threads" not in one.name],
    ids=attrgetter("name"),
)
def test_every_sampler_writes_all_tokens(contender: Contender) -> None:
    """Guards against settings that a peer's release no longer accepts, and texts that end early and thus look fast."""
    assert stepped(contender) == 2 * 63


def test_every_beam_search_of_a_run_finds_the_same(in_process: Run, tmp_path: Path) -> None:
    """Guards against a contender that truncates, pads or reorders sources differently, and special tokens in a
    result."""
    settings = "model.norm=layer model.position=sinusoidal model.activation=gelu model.qk_norm=false trainer.test=false"
    done = in_process("train.py", "task=translate", *TINY, *settings.split(), "name=tiny")
    assert done.returncode == 0, done.stderr
    sentences = tmp_path / "sentences.txt"
    # Long enough that our length limit, which depends on each sentence, is the end of the context, as for the peers.
    lines = (
        "Ken gave Mary a red book .",
        "the old dog slept in the garden .",
        "who gave the child of the teacher a flower ?",
    )
    sentences.write_text("\n".join(lines * 2) + "\n", encoding="utf-8")
    work = {"run": str(tmp_path / "runs" / "tiny"), "sentences": str(sentences), "beam_size": 3}
    ours, *others = [one for one in beam.benchmark(work, tmp_path).contenders if "float32" in one.name]
    assert stepped(ours) == 6
    for contender in others:
        if "threads" not in contender.name:
            with suppress(pytest.skip.Exception):
                assert stepped(contender) == 6
                hypotheses, expected = ((tmp_path / f"{one.name}.json").read_text() for one in (contender, ours))
                assert json.loads(hypotheses) == json.loads(expected), contender.name


def stepped(contender: Contender) -> int:
    """Build a contender and run one step; skip the test if its package is not installed."""
    try:
        return worker.imported(contender.build)(**contender.arguments)()
    except (ImportError, Skipped) as reason:
        pytest.skip(f"{contender.name}: {reason}")


def test_nanogpt_is_compiled_and_rounded_at_every_batch_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against a comparison with the fastest peer in which only ours are compiled, or only ours use bf16."""
    monkeypatch.chdir(tmp_path)
    text = tmp_path / "input.txt"
    text.write_text("".join(f"{row['source']}\n" for row in rows("sentences", 400, seed=1)), encoding="utf-8")
    benchmark = train_gpt.benchmark("cpu", text, "")
    contenders = {one.name: one for one in benchmark.contenders}
    fastest = [one for one in benchmark.comparisons if "against the fastest peer" in one.what]
    assert len(fastest) == 2
    for comparison in fastest:
        assert any("compiled" in name for name in comparison.ours)
        peers = [contenders[name].arguments for name in comparison.peers]
        forms = {(one.get("bf16", False), one.get("compiled", False)) for one in peers}
        assert forms == set(itertools.product((False, True), repeat=2)), comparison.what


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


def test_the_adamw_of_plain_loops_is_fused() -> None:
    """Guards against torch's default on a CPU, a loop over the parameters, beside our fused update."""
    assert adamw(torch.nn.Linear(3, 2).parameters()).param_groups[0]["fused"]
