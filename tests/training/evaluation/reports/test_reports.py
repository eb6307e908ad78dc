"""evaluate.py: scores that agree with the training's, with numbers computed by hand, and with sacreBLEU."""

from __future__ import annotations

import gzip
import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from data.batches.batch import IGNORED, Batch
from data.config import TokenizerConfig
from data.tokens.lost_characters import Losses, LossWriter
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from run import Run
from tests.training.evaluation.reports.programs import Program, result
from training.evaluation.reports.bootstrap import interval, p_value, resampled
from training.evaluation.reports.settings import EvaluateSettings, evaluate_help, parse_settings
from training.evaluation.reports.text import TokenLosses, Units, count_words, paired_difference
from training.evaluation.reports.translation import NO_MECAB, Translated, all_metrics


@pytest.mark.slow
@pytest.mark.parametrize("run", ["chars", "pairs", "stories"])
def test_a_run_gets_the_scores_of_the_end_of_its_training(run: str, folder: Path, evaluate: Program) -> None:
    """Guards against a second way to compute the same figure, which gives another number."""
    code, out, err = evaluate(f"run=runs/{run}")
    assert (code, err) == (0, "")
    tested = json.loads((folder / "runs" / run / "test.json").read_text(encoding="utf-8"))
    outcome = result(folder, run)
    assert outcome["model"]["step"] == tested.pop("step")
    tested = {name: value for name, value in tested.items() if name.startswith("test/")}
    assert tested
    assert {f"test/{name}": score["value"] for name, score in outcome["scores"].items()} | tested == {
        f"test/{name}": score["value"] for name, score in outcome["scores"].items()
    }
    for score in outcome["scores"].values():
        assert score["low"] is None or score["low"] <= score["value"] <= score["high"]
    assert outcome["scores"]["exact" if run == "pairs" else "loss"]["low"] is not None
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.slow
@pytest.mark.parametrize("stride", [None, 5, 32])
def test_the_loss_is_the_mean_over_all_tokens_each_predicted_once(
    stride: int | None, folder: Path, evaluate: Program
) -> None:
    """Guards the loss, bits per byte and perplexity per word against a formula computed token by token."""
    code, out, _ = evaluate("run=runs/chars", "split=valid", *([] if stride is None else [f"stride={stride}"]))
    assert code == 0
    run = Run(folder / "runs" / "chars")
    context, step = 32, stride or 32
    text = (folder / "book.txt").read_text(encoding="utf-8")
    valid = text[len(text) * 8 // 10 : len(text) * 9 // 10]
    tokens = torch.tensor([run.tokenizers[0].eos_id, *run.tokenizers[0].encode(valid)])
    nats = 0.0
    with torch.no_grad():
        for place in range(1, len(tokens)):
            windows = max(0, -(-(place - context) // step))  # the window that predicts the token at `place`
            logits = run.model(tokens[windows * step : place].unsqueeze(0))[0, -1]
            nats -= float(logits.log_softmax(-1)[tokens[place]])
    scores = result(folder, "chars", "valid")["scores"]
    assert scores["loss"]["value"] == pytest.approx(nats / (len(tokens) - 1), rel=1e-5)
    assert scores["bits_per_byte"]["value"] == pytest.approx(nats / math.log(2) / len(valid.encode()), rel=1e-5)
    words = len(valid.split()) + len(valid.splitlines())
    assert scores["word_perplexity"]["value"] == pytest.approx(math.exp(nats / words), rel=1e-4)
    assert f"{len(tokens) - 1:,} tokens, {len(valid.encode()):,} bytes, {words:,} words" in " ".join(out.split())


def test_words_are_counted_with_the_end_of_each_line() -> None:
    """Guards against another denominator than that of published perplexities on WikiText-2."""
    assert count_words([" = Robert Boulter = \n", " \n", "he was\tan  actor ."]) == (4 + 1) + 1 + (5 + 1)


NOTHING_LOST = Losses(*np.zeros((4, 0), dtype=np.int64))


def token_losses(tokenizer: SentencePieceTokenizer, text: str, nats: np.ndarray) -> Units:
    """Sum made-up losses of a text, which begins with a document, over units."""
    ids = tokenizer.encode(text)
    writer = LossWriter(tokenizer)
    writer.add(text, ids, 0, 1)
    losses = TokenLosses()
    targets = torch.tensor([ids])
    losses.add(Batch(targets, targets, rows=np.array([0])), torch.from_numpy(nats[None, : len(ids)]))
    return losses.units(tokenizer, writer.losses(), len(text.encode()))


def test_estimate_lies_inside_its_interval() -> None:
    """Guards against an estimate by one definition and an interval by another one."""
    random = np.random.default_rng(0)
    few, many = (SentencePieceTokenizer.train(["abcdefgh \n"], TokenizerConfig("char", size)) for size in (8, 20))
    for number in range(100):
        text = "".join(random.choice([*"abcdefgh \n犬"], size=int(random.integers(20, 400))))
        nats = random.gamma(0.1 + number % 3, size=(2, len(text)))
        mine, theirs = token_losses(few, text, nats[0]), token_losses(many, text, nats[1])
        assert mine.bytes.sum() == theirs.bytes.sum() == len(text.encode())
        better, drawn = paired_difference(mine, theirs, 40)
        low, high = interval(drawn)
        assert low <= better <= high


def test_losses_are_summed_over_documents_or_passages_in_the_order_of_the_text() -> None:
    """Guards against units of unequal text, or tokens lost between batches in any order."""
    tokenizer = SentencePieceTokenizer.train(["ab\n"], TokenizerConfig(kind="char"))
    (a,) = tokenizer.encode("a")
    losses = TokenLosses()
    for start in (100, 0):
        targets = torch.full((2, 50), a)
        targets[0, 0] = IGNORED if start == 100 else a
        nats = torch.arange(100.0).view(2, 50) + start
        losses.add(Batch(targets, targets, rows=np.array([start, start + 50])), nats)
    units = losses.units(tokenizer, NOTHING_LOST, 199)
    assert units.kind == "passages of 50 bytes"
    assert units.nats.tolist() == [sum(range(50)), sum(range(50, 100)), sum(range(101, 151)), sum(range(151, 200))]
    assert units.tokens.tolist() == units.bytes.tolist() == [50, 50, 50, 49]
    documents = TokenLosses()
    targets = torch.tensor([[a, tokenizer.eos_id]] * 150)
    documents.add(Batch(targets, targets, rows=np.arange(150) * 2), torch.ones(150, 2))
    units = documents.units(tokenizer, NOTHING_LOST, 300)
    assert (units.kind, units.nats.tolist(), units.bytes.tolist()) == ("documents", [2.0] * 150, [2.0] * 150)


def test_intervals_and_p_values_are_those_of_the_normal_distribution() -> None:
    """Guards against an interval of another width, and a test that finds differences in noise or none at all."""
    values = np.random.default_rng(1).normal(size=(2, 400))
    low, high = interval([total / 400 for (total,) in resampled([values[0]], 2000)])
    error = 1.96 * values[0].std() / 20
    assert low == pytest.approx(values[0].mean() - error, abs=0.02)
    assert high == pytest.approx(values[0].mean() + error, abs=0.02)
    for shift, expected in ((0.0, 1.0), (1.0, 0.3173), (2.0, 0.0455), (5.0, 0.0)):  # in standard errors
        difference = values[0] - values[0].mean() + shift * values[0].std() / 20
        result = [total / 400 for (total,) in resampled([difference], 2000)]
        assert p_value(float(difference.mean()), result) == pytest.approx(expected, abs=0.03)
    same = [0.0] * 1000
    assert p_value(0.0, same) == 1


HYPOTHESES = ["彼 は 本 を 読む 。", "猫 が ねる", "犬 は 走る 。"] * 5
REFERENCES = ["彼 は 本 を 読んだ 。", "猫 が ねる 。", "犬 は 走る 。"] * 5


def test_translation_scores_are_those_of_sacrebleu() -> None:
    """Guards the values, intervals and signatures against a direct call, and the tokens of tokenised references."""
    used, notes = all_metrics(REFERENCES)
    assert list(used)[:3] == ["chrf", "bleu", "bleu_tokens"]
    assert ("bleu_mecab" in used) == (notes != [NO_MECAB])
    figures = Translated("run", HYPOTHESES, REFERENCES, used).figures(200)
    for name, metric in (("chrf", CHRF()), ("bleu", BLEU(tokenize="char")), ("bleu_tokens", BLEU(tokenize="none"))):
        score = metric.corpus_score(HYPOTHESES, [REFERENCES], n_bootstrap=200)
        assert figures[name].value == score.score
        assert figures[name].signature == str(metric.get_signature())
        assert figures[name].high - figures[name].low == pytest.approx(2 * score._ci)  # type: ignore[operator]
    assert figures["exact"].value == pytest.approx(100 / 3)
    assert list(all_metrics(["Er geht nach Hause."] * 3)[0]) == ["chrf", "bleu", "bleu_13a"]
    assert "bleu_tokens" not in all_metrics(["彼は本を読んだ。"])[0]


@pytest.mark.slow
def test_translations_that_are_cut_are_counted(evaluate: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against scores of translations without their ends that say nothing of it."""
    limit = "generation.translation.longest_target"
    monkeypatch.setattr(limit, lambda length, context: 1)
    code, out, _ = evaluate("run=runs/pairs", "resamples=0")
    assert code == 0
    pairs = re.search(r"test: (\d+) pairs", out)
    assert pairs
    assert f"{pairs[1]} of {pairs[1]} translations did not end and are cut" in " ".join(out.split())


@pytest.mark.slow
def test_two_checkpoints_are_compared_with_sacrebleus_test(folder: Path, evaluate: Program) -> None:
    """Guards the p-value against a direct call, and against a comparison with other texts."""
    first, second = "runs/pairs/checkpoints/step-00000200", "runs/pairs/checkpoints/step-00000100"
    code, out, _ = evaluate(f"run={first}", f"compare={second}", "resamples=100")
    assert code == 0
    mine = result(folder, "pairs")
    assert evaluate(f"run={second}", "resamples=100")[0] == 0
    theirs = result(folder, "pairs")
    assert theirs["scores"]["chrf"]["value"] == mine["compared_with"]["scores"]["chrf"]["value"]
    texts = [[each["hypothesis"] for each in outcome["translations"]] for outcome in (theirs, mine)]
    references = [each["reference"] for each in mine["translations"]]
    _, scores = PairedTest([("a", texts[0]), ("b", texts[1])], {"chrf": CHRF()}, [references], "bs", 100)()
    p = scores["chrF2"][1].p_value  # type: ignore[union-attr]
    assert mine["compared_with"]["tests"]["chrf"] == p
    assert f"chrF: {first} is" in out
    assert f"(p = {p:.3f})" in out


@pytest.mark.slow
def test_runs_with_different_tokenizers_are_compared_per_byte(folder: Path, evaluate: Program) -> None:
    """Guards against comparing the losses of tokens of different length."""
    code, out, _ = evaluate("run=runs/chars", "compare=runs/pieces")
    assert code == 0
    other = result(folder, "chars")["compared_with"]
    assert evaluate("run=runs/pieces")[0] == 0
    alone = result(folder, "pieces")["scores"]
    assert other["scores"]["bits_per_byte"]["value"] == alone["bits_per_byte"]["value"]
    test = other["bits_per_byte"]
    mine = result(folder, "chars")["scores"]["bits_per_byte"]["value"]
    assert test["better_by"] == pytest.approx(alone["bits_per_byte"]["value"] - mine, rel=1e-6)
    assert test["low"] < test["better_by"] < test["high"]
    assert "the tokenizers differ" in out


@pytest.mark.slow
def test_a_result_of_another_checkpoint_is_kept(folder: Path, evaluate: Program) -> None:
    """Guards against a score that silently becomes that of other weights, and other files that are overwritten."""
    place = folder / "runs" / "chars" / "evaluation"
    shutil.rmtree(place, ignore_errors=True)
    for _ in range(2):  # the same result is written again
        assert "earlier" not in evaluate("run=runs/chars")[1]
    before = (place / "test.json").read_bytes()
    out = evaluate("run=runs/chars", "checkpoint=step-00000003")[1]
    assert "the earlier result, of another checkpoint" in out
    assert (place / "test.step-6.json").read_bytes() == before
    assert result(folder, "chars")["model"]["step"] == 3
    assert "is now" in evaluate("run=runs/chars/checkpoints/best", "stride=16")[1]
    assert sorted(path.name for path in place.iterdir()) == ["test.json", "test.step-3.json", "test.step-6.json"]
    (place / "test.json").write_text("{}", encoding="utf-8")
    code, _, err = evaluate("run=runs/chars")
    assert (code, err.count("\n")) == (2, 1)
    assert "is not a result of evaluate.py" in err
    assert (place / "test.json").read_text(encoding="utf-8") == "{}"
    (place / "test.json").unlink()


@pytest.mark.slow
def test_moved_data_are_found_and_other_data_are_noticed(folder: Path, evaluate: Program, tmp_path: Path) -> None:
    """Guards against a test on sentences of the training data, after the file has changed."""
    book = (folder / "book.txt").read_text(encoding="utf-8")
    (tmp_path / "same.txt").write_text(book, encoding="utf-8")
    (tmp_path / "other.txt").write_text(book[len(book) // 2 :] + book[: len(book) // 2], encoding="utf-8")
    target = tmp_path / "result.json"
    code, out, _ = evaluate("run=runs/chars", f"data.path={tmp_path / 'same.txt'}", f"json={target}")
    assert code == 0
    assert "warning" not in out
    loss = json.loads((folder / "runs" / "chars" / "test.json").read_text(encoding="utf-8"))["test/loss"]
    assert json.loads(target.read_text(encoding="utf-8"))["scores"]["loss"]["value"] == loss
    out = evaluate("run=runs/chars", f"data.path={tmp_path / 'other.txt'}", f"json={target}")[1]
    assert "warning: runs/chars was trained on other data" in out
    packed = tmp_path / "test.txt.gz"
    packed.write_bytes(gzip.compress("the café .\n".encode("cp1252") * 20))
    code, _, _ = evaluate("run=runs/chars", f"data.test_path={packed}", "data.encoding=cp1252", f"json={target}")
    assert code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["run=runs/pairs", "tune=length_penalty", "split=test"], "split=test: tune= chooses on the validation split"),
        (["run=runs/none"], "runs/none: no such run folder"),
        (["run=runs/chars", "split=novel"], "the data of runs/chars has no such split; there is: valid, test"),
        (["run=runs/chars", "compare=runs/pairs"], "runs/pairs: has task=translate, but runs/chars has task=gpt"),
        (["run=runs/chars", "compare=runs/chars"], "compare=runs/chars: is the run itself"),
        (["run=runs/chars", "beam_size=2"], "beam_size: runs/chars is a language model and has no such setting"),
        (["run=runs/pairs", "neighbours.weight=0.2"], "neighbours.sentences=0: the other settings of neighbours need"),
        (["run=runs/pairs", "neighbours.sentences=99"], "neighbours.sentences=99: must be from 0 to 64"),
        (["run=runs/chars", "neighbours.sentences=8"], "neighbours: runs/chars is a language model and has no such"),
        (["run=runs/pairs", "stride=2"], "stride: runs/pairs translates and has no such setting"),
        (["run=runs/chars", "stride=33"], "stride=33: must not exceed model.context=32"),
        (["run=runs/chars", "checkpoint=step-4"], "no such checkpoint; available: step-00000003, step-00000006"),
        (["run=runs/chars", "checkpoint=../../x"], "checkpoint=../../x: must be best, last or the name of a step"),
        (["run=runs/chars", "json=none/x.json"], "json=none/x.json: there is no folder none"),
        (["run=runs/chars", "data.pth=x"], "data.pth: unknown setting (did you mean data.path?)"),
        (["run=runs/chars", "split=train"], "split=train: must be valid or test or novel"),
    ],
)
def test_an_impossible_evaluation_is_one_line(arguments: list[str], problem: str, evaluate: Program) -> None:
    """Guards against a traceback, and against an hour of work before the error."""
    code, out, err = evaluate(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert problem in err


def test_the_help_documents_every_setting() -> None:
    """Guards against a setting without a description."""
    shown = evaluate_help()
    for key in ("run", "split", "stride", "beam_size", "tune", "data.path", "data.cache"):
        assert f"  {key}=" in shown
    assert max(map(len, shown.splitlines())) <= 120
    assert parse_settings(["run=x"]).split == "test"
    assert parse_settings(["run=x", "tune=length_penalty"]).split == "valid"
    assert isinstance(parse_settings(["run=x", "data.path=y"]), EvaluateSettings)
    assert parse_settings(["run=x", "data.path=y"]).data.path == "y"
