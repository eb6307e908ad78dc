"""What works on a run works on one that starts from an imported model: the real programs, on small folders."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import ctranslate2
import pytest
import sentencepiece
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

from attention_maps.files.store import load
from attention_maps.record.recording import Kind
from generation.beam_search import beam_search
from generation.config import TranslationConfig
from generation.translation import best_translations
from interop.pretrained.conversion import load_weights
from interop.pretrained.folder import read_folder
from interop.pretrained.tokenizers import imported_tokenizers
from model.encoder_decoder import EncoderDecoder
from run import Run
from tests.conftest import evaluate_command, export_command, generate_command, train_command
from tests.interop.pretrained.conftest import JAPANESE, WORDS, lines
from tests.interop.pretrained.foreign import built
from tests.training.evaluation.reports.programs import command
from training.checkpoints.loading import read_checkpoint

RECIPE = (
    "trainer.evaluate_every=10 trainer.log_every=10 optim.lr=3e-3 schedule.warmup=2 trainer.test=false"
    " trainer.samples=1 trainer.batch_size=8 data.batch_tokens=256 trainer.evaluate_sentences=8 attention.examples=1"
    " model.dropout=0.1"
).split()
TEXT = ["data=text", "data.path=book.txt", *RECIPE]
PAIRS = ["task=translate", "data=pairs", "data.path=pairs.tsv", *RECIPE]

Program = Callable[..., int]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Return a function that runs a program in `tmp_path`, where the data are, in this process."""
    monkeypatch.chdir(tmp_path)
    Path("book.txt").write_text("\n".join(lines(400)))
    translated = dict(zip(sorted(set(WORDS)), JAPANESE * 2, strict=False))
    pairs = [(line, "".join(translated[word] for word in line[:-1].split())) for line in lines(400, 5)]
    Path("pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    return lambda run, *arguments: command(monkeypatch, run, *arguments)


def curve(run: str) -> list[float]:
    """Return the validation losses of a run."""
    return [json.loads(line)["val/loss"] for line in Path(run, "metrics.jsonl").read_text().splitlines()]


def check_maps(run: str, *kinds: Kind) -> None:
    """Assert that the last recording of a run has maps of these kinds."""
    recording = load(max(Path(run, "attention").glob("step_*.safetensors")))
    assert recording.step == 30
    for kind in kinds:
        assert recording.maps(0, kind, 1).sum(-1) == pytest.approx(1, abs=2e-2)


def check_export(run: str, folder: Path, original: Path) -> None:
    """Assert that an exported folder is the run, and in everything but the weights the folder that it came from."""
    before, after = read_folder(original), read_folder(folder)
    assert after.config == before.config
    assert after.architecture is before.architecture
    weights = read_checkpoint(Path(run), "best").weights
    assert all(torch.equal(tensor, weights[name]) for name, tensor in load_weights(after).items())
    texts = [*lines(50, 9), *lines(50, 9, JAPANESE)]
    for mine, theirs in zip(imported_tokenizers(after), imported_tokenizers(before), strict=True):
        assert mine.encode_batch(texts) == theirs.encode_batch(texts)
        assert (mine.special_ids, mine.stop_ids, mine.bos_id) == (theirs.special_ids, theirs.stop_ids, theirs.bos_id)


@pytest.mark.slow
def test_a_language_model_is_fine_tuned(program: Program, gpt2: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards the whole way: import, training, maps, resume, generation, scores, export, and import of the export."""
    assert program(train_command, f"init_from={gpt2}", *TEXT, "name=tuned", "trainer.steps=30") == 0
    shown = capsys.readouterr()
    assert f"starts from {gpt2}, GPT2LMHeadModel of transformers" in shown.out
    assert "warning" not in shown.out + shown.err
    losses = curve("runs/tuned")
    assert losses[-1] < losses[0] - 0.3
    check_maps("runs/tuned", "decoder")

    assert program(train_command, "resume=runs/tuned", "trainer.steps=40") == 0
    assert len(curve("runs/tuned")) == len(losses) + 1
    assert program(generate_command, "run=runs/tuned", "prompt=the cat", "max_tokens=20") == 0
    capsys.readouterr()
    assert program(evaluate_command, "run=runs/tuned", "split=valid") == 0
    measured = json.loads(Path("runs/tuned/evaluation/valid.json").read_text())["scores"]
    assert measured["loss"]["value"] == pytest.approx(min(curve("runs/tuned")), abs=0.02)

    assert program(export_command, "run=runs/tuned", "to=out") == 0
    assert "logits equal" in capsys.readouterr().out
    check_export("runs/tuned", Path("out"), gpt2)
    written = pipeline("text-generation", "out")("the cat", do_sample=False)[0]["generated_text"]
    assert written.startswith("the cat")
    greedy = ["run=runs/tuned", "prompt=the cat", "max_tokens=40", "temperature=0"]
    assert program(generate_command, *greedy, "engine=torch") == 0
    expected = capsys.readouterr().out
    assert program(generate_command, *greedy, "engine=ctranslate2") == 0
    assert capsys.readouterr().out == expected
    for other in ("ctranslate2", "gguf"):
        assert program(export_command, "run=runs/tuned", "to=other", f"format={other}") == 2
        (refused,) = capsys.readouterr().err.splitlines()
        assert "use format=huggingface, and" in refused

    again = [*TEXT, "name=again", "trainer.steps=1", "optim.lr=1e-9", "trainer.evaluate_every=1"]
    assert program(train_command, "init_from=out", *again) == 0
    assert curve("runs/again")[-1] == pytest.approx(min(curve("runs/tuned")), abs=0.01)


@pytest.mark.slow
def test_a_translator_is_fine_tuned(program: Program, marian: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards the same for an encoder-decoder with post-norm, a tokenizer for each side and one table for both."""
    assert program(train_command, f"init_from={marian}", *PAIRS, "name=tuned", "trainer.steps=30") == 0
    shown = capsys.readouterr()
    assert "warning" not in shown.out + shown.err
    losses = curve("runs/tuned")
    assert losses[-1] < losses[0] - 0.3
    check_maps("runs/tuned", "encoder", "decoder", "cross")

    assert program(train_command, "resume=runs/tuned", "trainer.steps=40") == 0
    capsys.readouterr()
    assert program(generate_command, "run=runs/tuned", "prompt=the cat sat.") == 0
    translated = capsys.readouterr().out.strip()
    assert translated
    assert program(evaluate_command, "run=runs/tuned", "split=valid") == 0
    assert "bleu" in capsys.readouterr().out.lower()

    assert program(export_command, "run=runs/tuned", "to=out") == 0
    check_export("runs/tuned", Path("out"), marian)
    tokenizer, model = AutoTokenizer.from_pretrained("out"), AutoModelForSeq2SeqLM.from_pretrained("out")
    result = model.generate(**tokenizer(["the cat sat."], return_tensors="pt"))
    assert tokenizer.batch_decode(result, skip_special_tokens=True) == [translated]

    assert program(export_command, "run=runs/tuned", "to=engine", "format=ctranslate2") == 0
    check_engine("runs/tuned", Path("engine"))
    capsys.readouterr()
    for engine in ("torch", "ctranslate2"):
        assert program(generate_command, "run=runs/tuned", "prompt=the cat sat.", f"engine={engine}") == 0
        assert capsys.readouterr().out.strip() == translated


@torch.no_grad()
def check_engine(run: str, folder: Path) -> None:
    """Assert that an exported translator has our log-probabilities and our hypotheses in CTranslate2."""
    loaded = Run(Path(run))
    model, (source, target) = loaded.model, loaded.tokenizers
    assert isinstance(model, EncoderDecoder)
    assert model.target_embedding.tokens.weight[target.bos_id].abs().max() > 0.1, "it is 0 in OPUS-MT, before training"
    peer = ctranslate2.Translator(str(folder), intra_threads=1)
    pieces = sentencepiece.SentencePieceProcessor(str(folder / "sentencepiece.source.model"))
    texts = lines(30, 3)
    limits = {"max_decoding_length": 20, "min_decoding_length": 0}
    outcome = peer.translate_batch(pieces.encode(texts, out_type=str), beam_size=4, **limits)
    for text, result in zip(texts, outcome, strict=True):
        ids = torch.tensor([[*source.encode(text), source.eos_id]])
        special = {"bos_id": target.bos_id, "eos_id": target.eos_id, "banned_ids": target.never_written}
        ((best,),) = beam_search(model, ids, torch.ones_like(ids).bool(), **special, beam_size=4, max_length=20)
        assert result.hypotheses[0] == [target.spellings[token] for token in best.tokens]
        (scored,) = peer.score_batch([pieces.encode(text, out_type=str)], [result.hypotheses[0]])
        logits = model(ids, torch.tensor([[target.bos_id, *best.tokens]]))[0]
        logits[:, target.never_written] = float("-inf")
        labels = torch.tensor([*best.tokens, target.eos_id])
        expected = logits.log_softmax(-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
        assert scored.log_probs == pytest.approx(expected.tolist(), abs=1e-4)


@torch.no_grad()
def test_translations_are_those_of_transformers(marian: Path) -> None:
    """Guards beam search with the special ids of an imported model: the first token of a target is its padding."""
    source = read_folder(marian)
    tokenizers = imported_tokenizers(source)
    model = built(source)
    tokenizer, theirs = AutoTokenizer.from_pretrained(marian), AutoModelForSeq2SeqLM.from_pretrained(marian)
    for bias in (model.head.bias, theirs.final_logits_bias[0]):
        bias[0] += 5.0  # more translations end
    settings = {"early_stopping": True, "renormalize_logits": True, "suppress_tokens": tokenizers[-1].never_written}
    texts, ended = lines(30, 3), []
    for beams in (1, 4):
        result = best_translations(model, tokenizers, texts, TranslationConfig(beam_size=beams))
        for text, translation in zip(texts, result, strict=True):
            inputs = tokenizer([text], return_tensors="pt")
            (expected,) = theirs.generate(**inputs, num_beams=beams, max_length=32, **settings).tolist()
            if beams == 1:
                common = min(len(translation.tokens), len(expected) - 2)  # theirs always ends with eos
                assert expected[1 : 1 + common] == translation.tokens[:common]
            elif len(expected) < 20:  # at the limit, they choose differently (docs/interop.md)
                assert [tokenizers[-1].bos_id, *translation.tokens, tokenizers[-1].eos_id] == expected
                ended.append(translation.text)
        assert len({translation.text for translation in result}) >= 4
    assert len(ended) >= 3


@pytest.mark.slow
def test_windows_may_be_shorter(program: Program, gpt2: Path) -> None:
    """Guards fine-tuning of long contexts on small machines: learned positions beyond the window are left out."""
    short = [*TEXT, "model.context=16", "name=short", "trainer.steps=1", "trainer.evaluate_every=1"]
    assert program(train_command, f"init_from={gpt2}", *short) == 0
    run = Run(Path("runs/short"))
    source = read_folder(gpt2)
    assert run.config.model == replace(source.config, context=16, dropout=0.1)
    positions = load_weights(source)["embedding.positions.weight"]
    assert (run.model.embedding.positions.weight - positions[:16]).abs().max() < 0.01
