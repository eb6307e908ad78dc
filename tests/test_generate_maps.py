"""generate.py with `attention=true`: the maps of what it writes."""

import subprocess
from collections.abc import Callable
from pathlib import Path

from attention_maps.files import store
from attention_maps.files.store import load
from run import Run

Program = Callable[..., "subprocess.CompletedProcess[str]"]


def test_maps_of_what_is_written_go_into_the_run(generate: Program, trained: Path) -> None:
    """Guards against maps (`attention=true`) of another text than the printed text, which includes the prompt."""
    done = generate("run=runs/gpt", "prompt=Emi ran.", "attention=true", "samples=2", "max_tokens=12", "seed=3")
    assert done.returncode == 0, done.stderr
    recorded = load(store.generated(trained / "runs/gpt")[1])
    texts = done.stdout.split("--------------------\n")
    assert len(recorded.samples) == len(texts) == 2
    assert recorded.about["title"] == "gpt"
    tokenizer = Run(trained / "runs/gpt").tokenizers[0]
    for sample, text in zip(recorded.samples, texts, strict=True):
        assert tokenizer.decode(sample.reads.ids) == text.removesuffix("\n")
        assert sample.name == "Emi ran."
        assert sample.weights["decoder", 0].shape[1:] == (len(sample.reads), len(sample.reads))
    assert done.stderr.splitlines() == [
        "attention maps: runs/gpt/attention/generated_00001.safetensors",
        "to view them: tensorboard --logdir runs, tab Attention, run gpt, generated 1",
    ]


def test_maps_of_translations_go_into_the_run(shell: Program, trained: Path) -> None:
    """Guards against lines paired with the wrong translations if there are blank lines or n-best lists, and spaces
    around a line, which never occur in training."""
    done = shell("generate run=runs/translate attention=true n_best=2 beam_size=2", b"Emi ran.\n \n Taro likes tea. \n")
    assert done.returncode == 0, done.stderr
    recorded = load(store.generated(trained / "runs/translate")[1])
    best = [line.split("\t")[3] for line in done.stdout.splitlines() if line.split("\t")[1:2] == ["1"]]
    source, target = (Run(trained / "runs/translate").tokenizers * 2)[:2]
    assert [source.decode((sample.source or sample.reads).ids) for sample in recorded.samples] == [
        "Emi ran.",
        "Taro likes tea.",
    ]
    assert [target.decode(sample.predicts.ids) for sample in recorded.samples] == [best[0], best[-1]]


def test_maps_of_part_of_what_was_written_say_so(generate: Program) -> None:
    """Guards against an unclear message ("1 cut at 32 tokens"), and memory for the tokens of every text although only
    16 are kept."""
    done = generate("run=runs/gpt", "prompt=Emi", "attention=true", "samples=20", "max_tokens=40")
    assert "the first 16 of 20 texts; " in done.stderr
    assert "longer than a map, which shows the last 32 tokens" in done.stderr


def test_without_a_wish_nothing_is_kept(generate: Program, trained: Path) -> None:
    """Guards against a run folder that grows with every generated text."""
    before = sorted((trained / "runs/gpt/attention").iterdir())
    assert generate("run=runs/gpt", "prompt=Emi", "max_tokens=5").returncode == 0
    assert sorted((trained / "runs/gpt/attention").iterdir()) == before
    assert "attention=maybe" in generate("run=runs/gpt", "attention=maybe").stderr
