"""Answers to questions about two tiny runs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attention_maps.files import store
from generation.config import SamplingConfig, TranslationConfig
from generation.sampling import generate
from generation.translation import best_translations
from interpretability.ablation import Head, head_places, replace_head_outputs
from model.gpt import GPT
from run import Run
from tab_answers.head_effects import effects_of
from tab_answers.model_cache import Models
from tab_answers.question import EffectsQuestion
from tab_answers.replaced_outputs import means_of
from tests.conftest import ROOT, environment
from tests.interop.conftest import sharpened
from tests.tab_answers.conftest import Asking
from training.checkpoints.files import load_weights, write_weights_alone
from training.checkpoints.snapshot import Snapshot
from training.checkpoints.summary import WEIGHTS
from training.run_folder.loaded_run import build_model
from training.run_folder.saved_config import load_config
from training.run_folder.tokenizers import load_tokenizers

TEXT = "Emi likes the apple."
STORY = "Ken had a pen. He lent it to Emi."


@pytest.fixture
def gpt(trained: Path) -> Path:
    """Return the folder of a GPT."""
    return trained / "runs" / "gpt"


@pytest.fixture
def translator(trained: Path) -> Path:
    """Return the folder of a translator."""
    return trained / "runs" / "translate"


def test_a_gpt_reads_and_continues_a_text(asking: Asking, gpt: Path) -> None:
    """Guards against an answer about other tokens than those of the recording, or by other weights."""
    answer = asking.ask(gpt, text=TEXT, **{"continue": 3})
    recording = store.load(asking.folder / "to.safetensors")
    (sample,) = recording.samples
    assert list(sample.reads.pieces) == answer["tokens"]
    assert answer["task"] == "gpt"
    assert (answer["whole"], answer["notes"]) == (None, [])
    assert len(answer["tokens"]) <= answer["typed"] + 3
    run = Run(gpt)
    example = run.example(TEXT)
    assert list(example.target_ids) == list(sample.reads.ids[: answer["typed"]])
    with torch.no_grad():
        logits = run.model(torch.tensor([list(sample.reads.ids)]))[0]
    best = int(logits[answer["typed"] - 1].argmax())
    token, _, probability, other = answer["next"][answer["typed"] - 1][0]
    assert (token, other) == (best, None)
    assert probability == pytest.approx(float(logits[answer["typed"] - 1].softmax(-1)[best]), abs=1e-4)
    assert len(answer["next"]) == len(answer["tokens"])
    assert sum(answer["losses"]) == pytest.approx(sum(sample.losses), rel=1e-3)
    assert recording.step == answer["step"] == run.step


def test_a_continuation_is_that_of_generate(asking: Asking, gpt: Path) -> None:
    """Guards against settings that are ignored, a text that cannot be had again, and heads that stay while writing."""
    run = Run(gpt)
    assert isinstance(run.model, GPT)
    ids, tokenizer = list(run.example("Ken").target_ids), run.tokenizer
    heads: dict[Head, float] = {("decoder", 0, 1): 0.0}

    def expected(seed: int, **settings: Any) -> str:
        config, stop = SamplingConfig(max_tokens=12, **settings), tokenizer.stop_ids
        steps = generate(run.model, [ids], config, seed=seed, stop_ids=stop, banned_ids=tokenizer.never_written)
        return tokenizer.decode([token for (token,) in steps if token is not None])

    written = set()
    for seed, settings in enumerate(
        [{"temperature": 1.0}, {"temperature": 1.0}, {"temperature": 1.5, "top_k": 9}, {"temperature": 2, "top_p": 0.5}]
    ):
        question: dict[str, Any] = {"text": "Ken", "continue": 12, "seed": seed, **settings}
        answer = asking.ask(gpt, **question)
        assert answer["decoding"] == {"temperature": 0.0, "top_k": None, "top_p": None, "seed": seed} | settings
        assert answer["written"] == asking.ask(gpt, **question)["written"] == expected(seed, **settings)
        removed = asking.ask(gpt, **question, removed=[["decoder", 0, 1]])
        assert removed["whole"]["written"] == answer["written"]
        with replace_head_outputs(run.model, heads):
            assert removed["written"] == expected(seed, **settings)
        written.add(answer["written"])
    assert len(written) == 4
    likely = {asking.ask(gpt, text="Ken", seed=seed, **{"continue": 12})["written"] for seed in (1, 2)}
    assert likely == {expected(0, temperature=0.0)}, "without a temperature, the most likely tokens"
    assert asking.ask(gpt, text="Ken")["decoding"] is None


def test_a_translation_is_that_of_the_beam(asking: Asking, translator: Path, tmp_path: Path) -> None:
    """Guards against a beam size that is ignored, also without some heads and for the other text of patched heads."""
    folder = shutil.copytree(translator, tmp_path / "sharp", symlinks=True)
    last = (folder / "checkpoints" / "last").resolve()
    random = build_model(load_config(folder), load_tokenizers(folder))
    sharpened(random, 3)
    write_weights_alone(last, 6, Snapshot(dict(random.named_parameters()), {}))
    run = Run(folder)
    sources = ["Emi runs.", "Ken saw a cat.", "エミは走る。"]

    def expected(source: str, beam_size: int) -> str:
        return best_translations(run.model, run.tokenizers, [source], TranslationConfig(beam_size=beam_size))[0].text

    texts = {size: [expected(source, size) for source in sources] for size in (1, 4, 6)}
    assert texts[1] != texts[4] != texts[6]
    for size, translations in texts.items():
        for source, translation in zip(sources, translations, strict=True):
            answer = asking.ask(folder, source=source, beam_size=size)
            assert (answer["written"], answer["decoding"]) == (translation, {"beam_size": size})
            removed = asking.ask(folder, source=source, beam_size=size, removed=[["cross", 0, 1]])
            assert removed["whole"]["written"] == translation
            with replace_head_outputs(run.model, {("cross", 0, 1): 0.0}):
                assert removed["written"] == expected(source, size)
            patch = {"text": source, "heads": [["decoder", 0, 0]]}
            asking.ask(
                folder, source=source, beam_size=size, patch=patch
            )  # refused if the translations differ in length
    assert asking.ask(folder, source=sources[0])["written"] == texts[4][0]
    assert asking.ask(folder, source=sources[0], target="エミ。", beam_size=1)["decoding"] is None


def test_a_sentence_is_translated_or_compared_with_its_translation(asking: Asking, translator: Path) -> None:
    """Guards against a given translation that is ignored, and one by other settings than those of generate.py."""
    translated = asking.ask(translator, source="エミはりんごが好きです。")
    assert translated["tokens"][0] == "<s>"
    assert translated["source"][-1] == "</s>"
    assert isinstance(translated["written"], str)
    forced = asking.ask(translator, source="エミはりんごが好きです。", target="Emi likes apples.")
    assert forced["written"] is None
    assert "".join(forced["tokens"][1:]).replace("▁", " ").strip() == "Emi likes apples."
    (sample,) = store.load(asking.folder / "to.safetensors").samples
    assert {kind for kind, _ in sample.weights} == {"encoder", "decoder", "cross"}


def test_a_translator_of_both_directions_translates_back(asking: Asking, translator: Path, tmp_path: Path) -> None:
    """Guards against a source without the mark of the other direction, and a run that never learned to read it."""
    assert "one direction only" in asking.refused(translator, source="x", reverse=True)
    both = tmp_path / "both"
    shutil.copytree(translator, both, symlinks=True)
    config = (both / "config.yaml").read_text(encoding="utf-8")
    (both / "config.yaml").write_text(config.replace("both_directions: false", "both_directions: true"), "utf-8")
    back = asking.ask(both, source="Emi runs.", reverse=True)
    assert back["source"] == ["<s>", *asking.ask(both, source="Emi runs.")["source"]]
    run = Run(both)
    (expected,) = best_translations(run.model, run.tokenizers, ["Emi runs."], TranslationConfig(reverse=True))
    assert back["written"] == expected.text
    forced = asking.ask(both, source="Emi runs.", target="エミは走る。", reverse=True, removed=[["cross", 0, 0]])
    assert (forced["source"], forced["written"]) == (back["source"], None)


@pytest.mark.parametrize("task", ["gpt", "translate"])
def test_the_effect_of_each_head_is_that_of_removing_it(asking: Asking, trained: Path, task: str) -> None:
    """Guards a table of all heads against effects of another head, word or replacement."""
    folder = trained / "runs" / task
    text = {"text": STORY} if task == "gpt" else {"source": "エミは走る。", "target": "Emi runs."}
    answer = asking.ask(folder, **text)
    shutil.copy(asking.folder / "to.safetensors", asking.folder / "asked.safetensors")
    asked = {"run": str(folder), "effects": str(asking.folder / "asked.safetensors")}
    effects_by_method = {how: asking.line(json.dumps(asked | {"how": how}))["ok"] for how in ("zero", "mean")}
    run = Run(folder)
    assert [tuple(head) for head in effects_by_method["zero"]["heads"]] == head_places(run.model)
    assert effects_by_method["zero"]["left"] == 0
    known = len(answer["losses"])
    for how, effects in effects_by_method.items():
        assert effects["whole"][:known] == pytest.approx(answer["losses"], abs=1e-4)
        assert effects["predicts"][:known] == answer["predicts"]
        assert len(effects["predicts"]) == len(answer["tokens"])
        for place in (0, -1):
            removed = asking.ask(folder, **text, removed=[effects["heads"][place]], how=how)
            assert effects["losses"][place][:known] == pytest.approx(removed["losses"], abs=1e-4)
            assert effects["losses"][place] != pytest.approx(effects["whole"], abs=1e-4)
    if known < len(answer["tokens"]):  # the most likely next token, where the text ends
        assert effects_by_method["zero"]["predicts"][-1] == answer["next"][-1][0][1]
        assert effects_by_method["zero"]["whole"][-1] == pytest.approx(-np.log(answer["next"][-1][0][2]), abs=1e-3)
    assert effects_by_method["zero"]["losses"] != effects_by_method["mean"]["losses"]


def test_head_effects_stop_in_time_and_need_a_recording(
    asking: Asking, gpt: Path, translator: Path, tmp_path: Path
) -> None:
    """Guards against a model of many heads that keeps everybody waiting, and the text of another model."""
    asking.ask(gpt, text=TEXT)
    recording = asking.folder / "to.safetensors"
    late = effects_of(EffectsQuestion(gpt, "best", recording, "zero"), Models(), seconds=-1)
    assert (late["heads"], late["losses"], late["left"]) == ([], [], len(head_places(Run(gpt).model)))
    for run, file in ((gpt, tmp_path / "x"), (translator, recording)):
        line = json.dumps({"run": str(run), "effects": str(file)})
        assert "ask again" in asking.line(line)["error"]
    assert "'how' must be" in asking.line(json.dumps({"run": str(gpt), "effects": "x", "how": "other"}))["error"]


def test_heads_keep_the_labels_of_the_nearest_recorded_step(asking: Asking, gpt: Path, tmp_path: Path) -> None:
    """Guards against labels that are measured on a single sentence: a removed head would change its name."""
    run = tmp_path / "gpt"
    shutil.copytree(gpt, run, symlinks=True)
    recorded = store.steps(run)
    labels = {step: {"decoder": [[f"at {step}", "x"]]} for step in recorded}
    for step, file in recorded.items():
        store.write(replace(store.load(file), labels=labels[step]), file)
    answer = asking.ask(run, text=STORY, removed=[["decoder", 0, 1]])
    nearest = min(recorded, key=lambda step: abs(step - answer["step"]))
    for name in ("to", "whole"):
        assert store.load(asking.folder / f"{name}.safetensors").labels == labels[nearest]
    (sample,) = store.load(asking.folder / "to.safetensors").samples
    assert sample.name == "without layer 0 · head 1 (zero ablation)"
    shutil.rmtree(run / "attention")
    asking.ask(shutil.copytree(run, tmp_path / "bare", symlinks=True), text=STORY, removed=[["decoder", 0, 1]])
    both = [store.load(asking.folder / f"{name}.safetensors").labels for name in ("to", "whole")]
    assert both[0] == both[1] != labels[nearest], "without recordings, those of the whole model"


@pytest.mark.parametrize("task", ["gpt", "translate"])
def test_removed_head_equals_zero_ablation(asking: Asking, trained: Path, task: str) -> None:
    """Guards against predictions, a recording or an attribution that still contain the head."""
    folder = trained / "runs" / task
    kind = "decoder" if task == "gpt" else "cross"
    text = {"text": STORY} if task == "gpt" else {"source": "エミは走る。", "target": "Emi runs."}
    answer = asking.ask(folder, **text, removed=[[kind, 0, 1]])
    recording = store.load(asking.folder / "to.safetensors")
    (sample,) = recording.samples
    run = Run(folder)
    inputs = [torch.tensor([list(sample.reads.ids)])]
    if sample.source is not None:
        inputs.insert(0, torch.tensor([list(sample.source.ids)]))
    with torch.no_grad(), replace_head_outputs(run.model, {(kind, 0, 1): 0.0}):
        expected = run.model(*inputs)[0].softmax(-1)
    with torch.no_grad():
        whole = run.model(*inputs)[0].softmax(-1)
    for row, tokens in enumerate(answer["next"]):
        for token, _, probability, before in tokens:
            assert probability == round(float(expected[row, token]), 6)
            assert before == round(float(whole[row, token]), 6)
    part = next(n for n, entry in enumerate(recording.parts) if tuple(entry) == (kind, 0, 1))
    assert sample.attribution is not None
    assert sample.logits is not None
    assert not sample.attribution[:, part].any()
    np.testing.assert_allclose(sample.attribution.sum(axis=1), sample.logits, rtol=1e-4, atol=1e-4)
    before = store.load(asking.folder / "whole.safetensors")
    assert before.samples[0].reads == sample.reads
    assert before.samples[0].attribution is not None
    assert before.samples[0].attribution[:, part].any()
    assert sum(before.samples[0].losses) == pytest.approx(sum(answer["whole"]["losses"]), rel=1e-3)
    assert sum(sample.losses) == pytest.approx(sum(answer["losses"]), rel=1e-3)


def test_a_layer_is_removed_and_the_mean_is_another_replacement(asking: Asking, gpt: Path) -> None:
    """Guards against a layer of which only one head is removed, and a mean that is zero."""
    layer = asking.ask(gpt, text=STORY, removed=[["decoder", 0, None]])
    heads = asking.ask(gpt, text=STORY, removed=[["decoder", 0, 0], ["decoder", 0, 1]])
    mean = asking.ask(gpt, text=STORY, removed=[["decoder", 0, None]], how="mean")
    assert layer["next"] == heads["next"] != mean["next"]
    assert mean["whole"] == layer["whole"]
    (sample,) = store.load(asking.folder / "to.safetensors").samples
    assert sample.attribution is not None
    assert sample.attribution[:, 1:3].any(), "a mean output contributes to the logits"


def test_without_recordings_the_mean_output_is_that_of_each_text(gpt: Path, tmp_path: Path) -> None:
    """Guards against mean outputs of the first text that anybody asked in all later answers."""
    run = tmp_path / "gpt"
    shutil.copytree(gpt, run, symlinks=True)
    shutil.rmtree(run / "attention")
    cached = Models().get(run, "best")
    first, second = (means_of(cached, cached.run.example(text)) for text in (TEXT, STORY))
    assert first.keys() == second.keys() == set(head_places(cached.run.model))
    assert not any(torch.equal(first[head], second[head]) for head in first)


def test_a_head_is_patched_from_another_text(asking: Asking, gpt: Path) -> None:
    """Guards against outputs of other positions: with those of the same text, nothing changes."""
    same = asking.ask(gpt, text="Ken runs.", patch={"text": "Ken runs.", "heads": [["decoder", 0, 1]]})
    for row in same["next"]:
        assert all(abs(with_it - without) < 1e-5 for _, _, with_it, without in row)
    run = Run(gpt)
    texts = ("Ken", "Emi", "Tom", "Hana", "a pen", "the", "in", "it", "he", "she")
    lengths = {text: len(run.tokenizers[0].encode(text)) for text in texts}
    first, other = next((a, b) for a in texts for b in texts if a != b and lengths[a] == lengths[b])
    longer = next(text for text in (STORY, TEXT) if len(run.tokenizers[0].encode(text)) != lengths[first])
    changed = asking.ask(gpt, text=first, patch={"text": other, "heads": [["decoder", 0, 1]]})
    assert any(with_it != without for row in changed["next"] for _, _, with_it, without in row)
    sentence = asking.refused(gpt, text=first, patch={"text": longer, "heads": [["decoder", 0, 1]]})
    assert "equal length" in sentence


def test_invalid_questions_are_refused_in_a_sentence(asking: Asking, gpt: Path, translator: Path) -> None:
    """Guards against a process that ends, and a traceback as an answer."""
    assert asking.line("[" * 50_000) == {"error": "the question is not JSON"}
    assert "2,001 characters" in asking.refused(gpt, text="x" * 2001)
    assert "the source has" in asking.refused(translator, source="エミは走る。" * 60)
    assert "is a GPT" in asking.refused(gpt, source="x")
    assert "is a translator" in asking.refused(translator, text="x")
    assert "contains no checkpoint" in asking.refused(gpt.parent / "absent", text="x")
    assert "no such checkpoint" in asking.refused(gpt, text="x", checkpoint="step-00000077")
    assert "'checkpoint' must be" in asking.refused(gpt, text="x", checkpoint="../../x")
    assert "no head 9 in decoder layer 0" in asking.refused(gpt, text="x", removed=[["decoder", 0, 9]])
    assert "'removed' must be" in asking.refused(gpt, text="x", removed=[["decoder", "0", None]])
    assert "'reverse' must be" in asking.refused(translator, source="x", reverse=1)
    assert "'reverse' must be" in asking.refused(gpt, text="x", reverse=True)
    assert "ask one run at a time" in asking.refused(f"{gpt},{translator}", text="x")
    assert "'how' must be" in asking.refused(gpt, text="x", how="median")
    assert asking.refused(gpt, text="x", beam_size=4) == "'beam_size' needs a source"
    assert asking.refused(translator, source="x", seed=1) == "'seed' needs a text"
    assert asking.refused(gpt, text="x", temperature="hot") == "'temperature' must be a number"
    assert asking.refused(gpt, text="x", seed=None) == "'seed' must be a whole number"
    assert asking.refused(gpt, text="x", top_k=True) == "'top_k' must be a whole number"
    wrong = "seed=-1: must be from 0 to 9223372036854775807; top_p=0: must be greater than 0 and at most 1; null"
    assert asking.refused(gpt, text="x", top_p=0, seed=-1).startswith(wrong)
    assert asking.refused(translator, source="x", beam_size=0) == "beam_size=0: must be from 1 to 1000"
    assert "the text is empty" in asking.refused(gpt, text=" ")
    assert "either a text" in asking.refused(gpt)
    assert asking.ask(gpt, text=TEXT)["task"] == "gpt"


def test_long_text_is_cut_to_its_last_tokens(asking: Asking, gpt: Path) -> None:
    """Guards against an error for the examples that fill the context, and a text that is cut without a word."""
    answer = asking.ask(gpt, text="Ken runs. " * 60, **{"continue": 5})
    assert len(answer["tokens"]) == answer["typed"] == 32
    assert "only the last 32 are read" in answer["notes"][0]


def test_cached_model_is_dropped_when_its_weights_change(asking: Asking, gpt: Path, tmp_path: Path) -> None:
    """Guards against answers by weights that are no longer those of the run."""
    run = tmp_path / "run"
    shutil.copytree(gpt, run, symlinks=True)
    before = asking.ask(run, text=TEXT)
    assert before["step"] == 6
    last = (run / "checkpoints" / "last").resolve()
    write_weights_alone(last, 6, Snapshot({name: tensor * 0 for name, tensor in load_weights(last).items()}, {}))
    assert asking.ask(run, text=TEXT)["losses"] != before["losses"], "the weights in memory are those of another file"
    shutil.rmtree(run / "checkpoints")
    assert "contains no checkpoint" in asking.refused(run, text=TEXT)


@pytest.mark.parametrize("file", ["config.yaml", "tokenizer.model", f"checkpoints/last/{WEIGHTS}"])
@pytest.mark.parametrize("content", [None, b"", b"\xff{broken: ["])
def test_damaged_run_files_are_named(
    asking: Asking, gpt: Path, tmp_path: Path, file: str, content: bytes | None
) -> None:
    """Guards against a process that ends, a traceback, and a riddle about a run with a missing or damaged file."""
    run = tmp_path / "broken"
    shutil.copytree(gpt, run, symlinks=True)
    (run / file).unlink()
    if content is not None:
        (run / file).write_bytes(content)
    sentence = asking.refused(run, text=TEXT)
    assert "the question failed" not in sentence
    assert "broken" in sentence, "the file is named"
    assert asking.ask(gpt, text=TEXT)["task"] == "gpt"


def test_the_process_answers_on_its_pipes_and_deletes_its_folder_at_the_end(tmp_path: Path) -> None:
    """Guards the lines that TensorBoard reads, and against recordings that stay after it was killed."""
    folder = tmp_path / "asked"
    folder.mkdir()
    (folder / "asked_00001.safetensors").write_bytes(b"x")
    command = [sys.executable, "-m", "tab_answers.worker", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), input="x\n\n3\n", capture_output=True, text=True, check=True
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert answers == [{"error": "the question is not JSON"}, {"error": "the question is not a JSON object"}]
    assert not folder.exists()
