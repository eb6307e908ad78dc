"""evaluate.py and generate.py with other ways to decode: tuned settings, retrieval, the other direction, ensembles."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from run import Run
from tests.training.evaluation.reports.programs import Program, result


@pytest.mark.slow
def test_the_length_penalty_is_tuned_on_the_validation_split(folder: Path, evaluate: Program) -> None:
    """Guards against advice that is not the best value of the table, and a tuning that touches the test split."""
    code, out, _ = evaluate("run=runs/pairs", "tune=length_penalty", "resamples=100")
    assert code == 0
    outcome = result(folder, "pairs", "valid.length_penalty")
    scores = {setting: each["chrf"]["value"] for setting, each in outcome["tried"].items()}
    assert scores[outcome["best"]] == max(scores.values())
    assert "length_penalty=1 (now)" in out
    assert evaluate("run=runs/pairs", "split=valid", outcome["best"])[0] == 0
    assert result(folder, "pairs", "valid")["scores"]["chrf"]["value"] == scores[outcome["best"]]


@pytest.mark.slow
def test_a_run_on_the_built_in_corpus_is_tested_on_a_file(folder: Path, evaluate: Program) -> None:
    """Guards against a dead end: such a run has no files that could have moved."""
    code, out, _ = evaluate("run=runs/stories", "data.test_path=book.txt", "resamples=0")
    assert code == 0
    assert f"{(folder / 'book.txt').stat().st_size:,} bytes" in out
    assert "answers" not in result(folder, "stories")["scores"]
    code, _, err = evaluate("run=runs/stories", "data.path=book.txt")
    assert (code, err.count("\n")) == (2, 1)
    assert "data.test_path=FILE" in err
    shutil.rmtree(folder / "runs" / "stories" / "evaluation")


@pytest.mark.slow
@pytest.mark.parametrize(("run", "file"), [("pairs", "pairs.tsv"), ("chars", "book.txt")])
def test_a_run_and_a_test_file_are_enough(run: str, file: str, folder: Path, evaluate: Program) -> None:
    """Guards against a copied run that cannot be scored without its training files; guards the leak warning, which
    needs them."""
    lines = (folder / file).read_text(encoding="utf-8").splitlines(keepends=True)
    test = f"test{Path(file).suffix}"
    (folder / test).write_text("".join(lines[-40:]), encoding="utf-8")
    arguments = f"run=runs/{run}", f"data.test_path={test}", "resamples=0"
    code, out, _ = evaluate(*arguments)
    assert code == 0
    assert "was trained on other data than this" in out
    scores = result(folder, run)["scores"]
    (folder / file).rename(folder / "gone")
    try:
        code, out, err = evaluate(*arguments)
        assert (code, err) == (0, "")
        assert "the training data are not read: whether they contain parts of test is not checked" in " ".join(
            out.split()
        )
        assert result(folder, run)["scores"] == scores
        code, _, err = evaluate(f"run=runs/{run}")
        assert (code, err.count("\n")) == (2, 1)
        assert f"data.path={file}: no such file" in err
        code, _, err = evaluate(f"run=runs/{run}", "data.test_path=nowhere.txt")
        assert (code, err.count("\n")) == (2, 1)
        assert "data.test_path=nowhere.txt: no such file" in err
        if run == "pairs":
            code, _, err = evaluate(*arguments, "neighbours.sentences=4")
            assert (code, err.count("\n")) == (2, 1)
            assert "the training pairs are not there" in err
    finally:
        (folder / "gone").rename(folder / file)
        shutil.rmtree(folder / "runs" / run / "evaluation")  # results of other data, which other tests would rename


@pytest.mark.slow
def test_neighbours_are_retrieved_from_the_training_pairs_and_tuned(
    folder: Path, evaluate: Program, generate: Program
) -> None:
    """Guards against settings of the retrieval that have no effect, a result without them in its protocol, and advice
    that is not the best value; guards the message if the training pairs are gone."""
    code, out, _ = evaluate("run=runs/pairs", "tune=neighbours", "resamples=100", "beam_size=1")
    assert code == 0
    assert "sentences=0 (now)" in out
    assert max(map(len, out.splitlines())) <= 100
    scores = result(folder, "pairs", "valid.neighbours")["tried"]
    assert len({each["chrf"]["value"] for each in scores.values()}) > 1
    setting = "neighbours.sentences=8 neighbours.weight=0.8 neighbours.temperature=0.4"
    code, out, _ = evaluate("run=runs/pairs", "split=valid", "beam_size=1", *setting.split())
    assert "8 neighbours: weight=0.8, temperature=0.4" in out
    outcome = result(folder, "pairs", "valid")
    assert outcome["scores"]["chrf"]["value"] == scores[setting]["chrf"]["value"]
    assert outcome["protocol"]["neighbours"]["weight"] == 0.8

    cats = "run=runs/pairs", "prompt=3 cats sing"
    setting = "neighbours.sentences=4 neighbours.weight=1 neighbours.temperature=1000"
    assert generate(*cats)[1] != generate(*cats, *setting.split())[1]
    (folder / "pairs.tsv").rename(folder / "moved.tsv")
    try:
        code, _, err = generate(*cats, "neighbours.sentences=4")
        assert (code, err.count("\n")) == (2, 1)
        assert "neighbours.sentences=4: cannot read the training pairs to retrieve from: " in err
        assert "pairs.tsv" in err
        assert "set neighbours.path" in err
        assert generate(*cats, "neighbours.path=moved.tsv", *setting.split())[0] == 0
    finally:
        (folder / "moved.tsv").rename(folder / "pairs.tsv")


@pytest.mark.slow
def test_minimum_bayes_risk_decoding_is_evaluated_and_translates(
    folder: Path, evaluate: Program, generate: Program
) -> None:
    """Guards against samples without effect, a result without them in its protocol, and translations of generate.py
    that are not those of evaluate.py."""
    mbr = ["mbr.samples=16", "mbr.epsilon=0.01", "beam_size=2"]
    for run, options in (("pairs", []), ("both", ["reverse=true"])):
        code, out, _ = evaluate(f"run=runs/{run}", "split=valid", *mbr, *options)
        assert code == 0
        assert "MBR: samples=16, epsilon=0.01" in out
        outcome = result(folder, run, "valid.reverse" if options else "valid")
        assert outcome["protocol"]["mbr"] == {"samples": 16, "epsilon": 0.01}
        translations = {each["source"]: each["hypothesis"] for each in outcome["translations"]}
        lines = list(translations)[::-1][:8]
        code, out, _ = generate(f"run=runs/{run}", "prompt=" + "\n".join(lines), *mbr, *options)
        assert (code, out.splitlines()) == (0, [translations[line] for line in lines])
    assert evaluate("run=runs/pairs", "split=valid", "beam_size=2")[0] == 0
    without = result(folder, "pairs", "valid")
    assert "mbr" not in without["protocol"]
    assert evaluate("run=runs/pairs", "split=valid", *mbr, "neighbours.sentences=2")[0] == 0
    assert generate("run=runs/pairs,runs/pairs", "prompt=3 cats sing", *mbr)[0] == 0
    problem = "mbr: runs/chars is a language model and has no such setting (task=gpt)"
    assert evaluate("run=runs/chars", "mbr.samples=8") == (2, "", f"error: {problem}\n")


@pytest.mark.slow
def test_a_run_with_both_directions_translates_both_ways(folder: Path, evaluate: Program, generate: Program) -> None:
    """Guards against a direction that the model ignores, scores of the wrong side, and a run that has one direction
    only."""
    for options in ([], ["reverse=true"]):
        assert evaluate("run=runs/both", "neighbours.sentences=2", *options)[0] == 0
        outcome = result(folder, "both", "test.reverse" if options else "test")
        assert outcome["scores"]["chrf"]["value"] > 15
        assert outcome["protocol"].get("reverse", False) is bool(options)
        for each in outcome["translations"]:
            assert each["hypothesis"].isascii() == each["reference"].isascii() == bool(options)
            assert each["source"].isascii() != bool(options)
        assert outcome["baselines"]["nearest training sentence"]["chrf"]["value"] > 20

    prompts = {"7 cats sing": [], "7 匹 の 猫 が うたう 。": ["reverse=true"]}
    answers = [generate("run=runs/both", f"prompt={prompt}", *more) for prompt, more in prompts.items()]
    assert [code for code, _, _ in answers] == [0, 0]
    assert "匹" in answers[0][1]
    assert answers[1][1].strip().isascii()
    assert answers[1][2] == "", "the alphabet of the sources is that of the other direction"
    assert "attention maps" in generate("run=runs/both", "prompt=7 匹", "reverse=true", "attention=true")[2]
    problem = "reverse=true: runs/pairs was trained in one direction only (data.both_directions=false)"
    for answer in (evaluate("run=runs/pairs", "reverse=true"), generate("run=runs/pairs", "prompt=x", "reverse=true")):
        assert answer == (2, "", f"error: {problem}\n")
    mixed = problem.replace("runs/pairs", "runs/both,runs/pairs")
    asked = evaluate("run=runs/both,runs/pairs", "compare=runs/both", "reverse=true")
    assert asked == (2, "", f"error: {mixed}\n"), "the ensemble has a member of one direction, the other run has not"


@pytest.mark.slow
def test_an_ensemble_of_runs_is_evaluated_and_generates(folder: Path, evaluate: Program, generate: Program) -> None:
    """Guards the loss of an ensemble, its own output file, and what an ensemble cannot do."""
    names = [f"runs/chars/checkpoints/step-0000000{step}" for step in (3, 6)]
    code, out, _ = evaluate(f"run={','.join(names)}", "compare=runs/chars")
    assert code == 0
    assert "test: step 3, 6" in out
    outcome = result(folder, "chars", "test.ensemble")
    assert [member["step"] for member in outcome["model"]["members"]] == [3, 6]
    text = (folder / "book.txt").read_text(encoding="utf-8")
    runs = [Run(folder / "runs" / "chars", Path(name).name) for name in names]
    ids = torch.tensor([runs[0].tokenizers[0].eos_id, *runs[0].tokenizers[0].encode(text[len(text) * 9 // 10 :])])
    nats = 0.0
    with torch.no_grad():
        for start in range(0, len(ids) - 1, 32):
            window, targets = ids[start : start + 32][: len(ids) - 1 - start], ids[start + 1 : start + 33]
            mean = torch.stack([run.model(window.unsqueeze(0))[0].softmax(-1) for run in runs]).mean(0)
            nats -= float(mean.gather(1, targets.unsqueeze(1)).log().sum())
    assert outcome["scores"]["loss"]["value"] == pytest.approx(nats / (len(ids) - 1), rel=1e-4)

    code, text, _ = generate(f"run={','.join(names)}", "prompt=the ", "max_tokens=5")
    assert (code, text[:4]) == (0, "the ")
    for argument, problem in (
        ("run=runs/chars,runs/pieces", "runs/pieces has another tokenizer than runs/chars"),
        ("run=runs/chars,runs/pairs", "runs/pairs has task=translate, not task=gpt"),
        ("run=runs/chars,", "runs/chars,: one of the names is empty; write runs/A,runs/B"),
    ):
        for answer in (evaluate(argument), generate(argument, "prompt=x")):
            assert (answer[0], answer[2].count("\n")) == (2, 1)
            assert problem in answer[2]
    code, _, err = generate(f"run={','.join(names)}", "prompt=x", "attention=true")
    assert (code, err) == (2, "error: attention=true: an ensemble has no attention maps; record one run at a time\n")
