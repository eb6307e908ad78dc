"""Runs whose models are asked in Python and in the browser, with the same weights."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from attention_maps.files import store
from attention_maps.files.file_names import FOLDER
from attention_maps.files.header import opened, read_header, read_tensor
from attention_maps.files.recording_checks import maps, read_meta, readouts
from attention_maps.tensorboard.questions import of_the_whole_model
from data.config import TokenizerConfig
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from interpretability.recorder import record
from model.config import ModelConfig
from page.answer_data import answer_data
from page.tokenizer_data import tokenizer_data
from page.weights import FORMATS, describe_weights
from run import Run
from tab_answers.run_recordings import recorded_examples
from tests.interop.conftest import sharpened
from tests.page.conftest import Browser
from training.checkpoints.early_weights import save_early_weights
from training.checkpoints.files import write_weights_alone
from training.checkpoints.snapshot import Snapshot
from training.run_folder.loaded_run import Model, build_model
from training.run_folder.saved_config import load_config, save_config
from training.run_folder.tokenizers import load_tokenizers, tokenizer_paths

DTYPE = "bf16"
EARLY = 2
"""Step of the second checkpoint of each run."""

Question = dict[str, Any]
Tensors = dict[str, np.ndarray]

ASK = """
const {Answers} = await import('/engine/answers/answers.js');
const {Refusal} = await import('/engine/answers/refusal.js');
const {loadModel} = await import('/engine/model/load.js');
const {Tokenizer} = await import('/engine/tokenizer/tokenizer.js');
const read = async (name) => (await fetch(`/files/${name}`, {cache: 'no-store'})).arrayBuffer();
const [name, questions] = values;
const {checkpoints, tokenizers, data} = JSON.parse(new TextDecoder().decode(await read(`${name}.json`)));
const models = {};
for (const {name, step, description, weights} of checkpoints) {
  models[name] = {step, model: loadModel(description, await read(weights))};
}
const answers = new Answers({checkpoints: models, tokenizers: tokenizers.map((part) => new Tokenizer(part)), data});
const encoded = ({numbers, shape}) => {
  const bytes = new Uint8Array(numbers.slice().buffer);
  let text = '';
  for (let i = 0; i < bytes.length; i += 30000) text += String.fromCharCode(...bytes.subarray(i, i + 30000));
  return {shape, data: btoa(text)};
};
const given = [];
for (const {method, question, about} of questions) {
  const progress = [];
  const asked = about === undefined ? question : {...question, answer: given[about].result.answers.at(-1)};
  try {
    const result = answers[method](asked, (part) => progress.push(part));
    for (const {tensors} of Object.values(result.recordings ?? {})) {
      for (const key of Object.keys(tensors)) tensors[key] = encoded(tensors[key]);
    }
    given.push({result, progress});
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    given.push({refusal: error.message});
  }
}
return given;
"""
"""JavaScript for the body of `Browser.run`: answers questions {method, question, about: the number of an earlier one,
whose answer belongs to the question} to an exported run."""


@dataclass(frozen=True)
class Subject:
    """A run to ask: `task` of the tiny runs, and what differs from that one."""

    task: str
    model: Mapping[str, Any] | None = None
    """Options of a random model; None keeps the trained one."""
    both_directions: bool = False
    recorded: bool = True
    """Whether the run has recordings."""
    two_vocabularies: bool = False
    """Whether source and target have different tokenizers, of characters."""


@dataclass
class Asked:
    """What Python answers: the answers (of the whole model first), or the sentence of a refusal."""

    answers: list[dict[str, Any]] = field(default_factory=list)
    recordings: list[tuple[dict[str, Any], Tensors]] = field(default_factory=list)
    """Meta and tensors of each answer's recording."""
    refusal: str | None = None
    file: Path | None = None


def make_run(subject: Subject, trained: Path, folder: Path) -> Path:
    """Write the run of a subject, with two checkpoints whose weights are rounded, to a new folder, and return it."""
    shutil.copytree(trained / "runs" / subject.task, folder, symlinks=True)
    texts = recorded_texts(Run(folder))
    shutil.rmtree(folder / FOLDER)
    config = load_config(folder)
    if subject.model is not None:
        config = replace(config, model=ModelConfig(**({"context": 32} | dict(subject.model))))
    if subject.two_vocabularies:
        split_vocabulary(folder, texts)
    shared = replace(config.tokenizer, shared=not subject.two_vocabularies)
    data = replace(config.data, both_directions=subject.both_directions)
    save_config(replace(config, tokenizer=shared, data=data), folder)
    last = (folder / "checkpoints" / "last").resolve()
    trained_model = subject.model is None
    model: Model = Run(folder).model if trained_model else build_model(load_config(folder), load_tokenizers(folder))
    for seed, save in enumerate((save_last, save_early)):
        if seed or not trained_model:
            sharpened(model, seed)
        save(last, {name: weight.to(FORMATS[DTYPE]).float() for name, weight in model.named_parameters()})
    if subject.recorded:
        run = Run(folder)
        special, pieces = run.tokenizer.special_ids, run.tokenizer.pieces
        examples = [run.example(text, target) for text, target in texts]
        store.save(record(run.model, examples, special, run.step, pieces=pieces), folder)
    return folder


def recorded_texts(run: Run) -> list[tuple[str, str | None]]:
    """Return the text, or source and target, of each recorded example."""
    first, last = run.tokenizers[0], run.tokenizers[-1]
    return [
        (last.decode(part.target_ids), None)
        if part.source_ids is None
        else (first.decode(part.source_ids), last.decode(part.target_ids))
        for part in recorded_examples(run)
    ]


def split_vocabulary(folder: Path, texts: Sequence[tuple[str, str | None]]) -> None:
    """Replace the tokenizer of a translator by one for each side of its texts."""
    (folder / "tokenizer.model").unlink()
    sides = [text for text, _ in texts], [target or "" for _, target in texts]
    for path, lines in zip(tokenizer_paths(folder, 2), sides, strict=True):
        SentencePieceTokenizer.train(lines, TokenizerConfig("char")).save(path)


def save_last(last: Path, weights: dict[str, torch.Tensor]) -> None:
    """Replace the weights of the last checkpoint."""
    write_weights_alone(last, int(last.name.split("-")[1]), Snapshot(weights, {}))


def save_early(last: Path, weights: dict[str, torch.Tensor]) -> None:
    """Keep the weights of an early step."""
    save_early_weights(last.parent, EARLY, Snapshot(weights, {}))


def export(browser: Browser, name: str, folder: Path) -> None:
    """Write what the browser needs of a run."""
    run = Run(folder)
    kept = [run, Run(folder, f"weights-{EARLY:08d}")]
    checkpoints = []
    for member in kept:
        description, weights = describe_weights(member.model, DTYPE)
        file = f"{name}-{member.checkpoint.name}.bin"
        (browser.files / file).write_bytes(weights)
        checkpoints.append(
            {"name": member.checkpoint.name, "step": member.step, "description": description, "weights": file}
        )
    start = {
        "checkpoints": checkpoints,
        "tokenizers": [tokenizer_data(tokenizer) for tokenizer in run.tokenizers],
        "data": answer_data(run, kept),
    }
    (browser.files / f"{name}.json").write_text(json.dumps(start, allow_nan=False))


class PythonAnswers:
    """Asks a run in this process, as the worker of the tab is asked."""

    def __init__(self, run: Path, reply: Callable[[str], dict[str, Any]], folder: Path) -> None:
        self.run, self.reply, self.folder = run, reply, folder
        self.files = 0

    def ask(self, question: Question) -> Asked:
        """Answer a question about a text."""
        self.files += 1
        to, whole = (self.folder / f"{what}-{self.files}.safetensors" for what in ("to", "whole"))
        parts = {key: value for key, value in question.items() if key not in ("run", "after")}
        reply = self.line(parts | {"to": str(to), "whole_to": str(whole)})
        if "error" in reply:
            return Asked(refusal=reply["error"])
        answer = reply["ok"]
        if answer["whole"] is None:
            return Asked([answer], [recording_in(to)], file=to)
        return Asked([of_the_whole_model(answer), answer], [recording_in(whole), recording_in(to)], file=to)

    def effects(self, how: str, of: Asked) -> dict[str, Any]:
        """Answer a question about each head in the text of an answer."""
        checkpoint = of.answers[-1]["checkpoint"]
        ok: dict[str, Any] = self.line({"checkpoint": checkpoint, "effects": str(of.file), "how": how})["ok"]
        return ok

    def line(self, question: Question) -> dict[str, Any]:
        """Return {"ok": …} or {"error": …}."""
        reply: dict[str, Any] = json.loads(json.dumps(self.reply(json.dumps({"run": str(self.run)} | question))))
        return reply


def recording_in(file: Path) -> tuple[dict[str, Any], Tensors]:
    """Return what the tab's server reads of a recording: the meta, and the tensors by sample, kind, layer and type."""
    with opened(str(file)) as stream:
        header = read_header(stream)
        meta, tensors = read_meta(header), {}
        entries = [
            (f"{e.sample}|{e.kind}|{'' if e.layer is None else e.layer}|{e.what}", e.tensor) for e in maps(header)
        ]
        entries += [(f"0|||{what}", tensor) for what, tensor in readouts(header, 0)]
        for key, tensor in entries:
            dtype = "<f2" if tensor.dtype == "F16" else "<f4"
            numbers = np.frombuffer(read_tensor(stream, tensor), dtype).reshape(tensor.shape)
            tensors[key] = numbers.astype(np.float32)
    return meta, tensors


def decoded(tensors: Mapping[str, Mapping[str, Any]]) -> Tensors:
    """Return the tensors that `ASK` returns."""
    return {
        key: np.frombuffer(base64.b64decode(tensor["data"]), "<f4").reshape(tensor["shape"])
        for key, tensor in tensors.items()
    }


def asked_in(browser: Browser, name: str, questions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the answers of the exported run to questions {method, question, about}."""
    answers: list[dict[str, Any]] = browser.run(ASK, name, list(questions))
    return answers
