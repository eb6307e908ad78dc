"""An exported folder: what it contains, and how transformers uses it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
import yaml
from transformers import ApertusForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

from configs.errors import UserError
from data.config import DataConfig, TokenizerConfig
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from data.tokens.tokenizer import Tokenizer
from generation.config import SamplingConfig, TranslationConfig
from generation.sampling import generate
from generation.translation import best_translations
from interop.about import data
from interop.export_input import Trained, weights_hash
from interop.huggingface import check
from interop.huggingface.export import write_huggingface
from interop.model_card import scores
from interop.settings import ExportSettings
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from tests.data.conftest import made_pairs, made_text
from tests.interop.conftest import sharpened
from training.config import TrainConfig

SIZE = ModelConfig(layers=1, heads=2, width=32, context=48)
SENTENCES = [english for english, _ in made_pairs(20)]


def small(texts: list[str]) -> Tokenizer:
    return SentencePieceTokenizer.train(texts, TokenizerConfig(kind="bpe", vocab_size=120))


@pytest.fixture
def gpt(tmp_path: Path) -> Trained:
    """Return a GPT with random weights, in a run folder with curve and scores."""
    run = tmp_path / "runs" / "writer"
    (run / "evaluation").mkdir(parents=True)
    lines = [{"step": step, "train/loss": 5 / step, "val/loss": 6 / step} for step in range(1, 101)]
    (run / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines) + '{"step": 10', "utf-8")
    tested = {"step": 77, "importance": False, "beam_size": 4, "test/loss": 1.25, "test/perplexity": 3.4903}
    (run / "test.json").write_text(json.dumps(tested), "utf-8")
    scores = {"bits_per_byte": {"value": 1.5, "low": 1.4, "high": 1.625}, "loss": {"value": 2}}
    result = {"format": "chumoku evaluation 1", "model": {"step": 77}, "split": "test", "scores": scores}
    (run / "evaluation" / "test.json").write_text(json.dumps(result), "utf-8")
    data = DataConfig(source="text", path="/home/somebody/secret/book.txt")
    config = TrainConfig(name="writer", experiment="shakespeare_cpu", data=data, model=SIZE)
    tokenizer = small([made_text()])
    model = sharpened(GPT(SIZE, tokenizer.vocab_size, tokenizer.eos_id))
    assert isinstance(model, GPT)
    return Trained(model, [tokenizer], run, 77, asdict(config))


def translator(run: Path, shared: bool) -> Trained:
    """Return a translator with random weights, whose two sides share a tokenizer or not."""
    english, japanese = map(list, zip(*made_pairs(100), strict=True))
    tokenizers = [small(english + japanese)] if shared else [small(english), small(japanese)]
    sizes = tokenizers[0].vocab_size, tokenizers[-1].vocab_size
    model = sharpened(EncoderDecoder(SIZE, *sizes, shared=shared), seed=1)
    assert isinstance(model, EncoderDecoder)
    with torch.no_grad():
        model.head.weight[tokenizers[-1].eos_id] *= 8
    config = TrainConfig(task="translate", name=run.name, model=SIZE, tokenizer=TokenizerConfig(shared=shared))
    return Trained(model, tokenizers, run, 5, asdict(config))


def write(trained: Trained, folder: Path) -> list[str]:
    folder.mkdir()
    return write_huggingface(trained, folder, ExportSettings(to=str(folder)))


def test_a_pipeline_writes_what_generate_writes(gpt: Trained, tmp_path: Path) -> None:
    """Guards the way from a prompt to text: eos before it, ids that are not generated, decoding, and no stray text."""
    written = write(gpt, tmp_path / "out")
    assert "ApertusForCausalLM" in written[0]
    prompt, tokenizer = "Line 7: the\told </s>", gpt.tokenizers[0]
    text = pipeline("text-generation", str(tmp_path / "out"))(prompt, do_sample=False)[0]["generated_text"]
    settings = SamplingConfig(temperature=0, max_tokens=24)
    assert isinstance(gpt.model, GPT)
    banned = tokenizer.never_written
    steps = generate(gpt.model, [[3, *tokenizer.encode(prompt)]], settings, stop_ids={3}, banned_ids=banned)
    assert text == prompt + tokenizer.decode(token for (token,) in steps if token is not None)
    assert text != prompt


@pytest.mark.parametrize("shared", [True, False])
def test_a_translator_and_its_tokenizers_translate_sentences(shared: bool, tmp_path: Path) -> None:
    """Guards the way from a sentence to its translation, with one or two tokenizers, and sources that are too long."""
    trained = translator(tmp_path / "translator", shared)
    folder = tmp_path / "out"
    write(trained, folder)
    source = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
    target = source if shared else AutoTokenizer.from_pretrained(folder / "target_tokenizer")
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True)
    texts = [*SENTENCES, "very " * 60 + "long"]
    inputs = source(texts, return_tensors="pt", padding=True, truncation=True)
    result = target.batch_decode(model.generate(**inputs), skip_special_tokens=True)
    assert isinstance(trained.model, EncoderDecoder)
    ours = best_translations(trained.model, trained.tokenizers, texts, TranslationConfig())
    assert result == [our.text for our in ours]
    assert sum(not our.cut for our in ours) > 5


def test_the_model_card_tells_what_the_run_knows(gpt: Trained, tmp_path: Path) -> None:
    """Guards the card: valid fields, curve with the exported step, scores, and no path of this machine."""
    write(gpt, tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text("utf-8")
    _, fields, body = card.split("---\n", 2)
    assert yaml.safe_load(fields) == {
        "license": None,
        "language": [],
        "pipeline_tag": "text-generation",
        "tags": ["chumoku", "apertus"],
        "library_name": "transformers",
    }
    assert "`book.txt`" in body
    assert "secret" not in card
    assert "python train.py +experiment=shakespeare_cpu" in body
    rows = [line.split(" | ") for line in body.splitlines() if line.startswith("| ")]
    steps = [int(row[0].removeprefix("| ")) for row in rows if row[0].removeprefix("| ").isdigit()]
    assert steps[0] == 1
    assert steps[-1] == 100
    assert 77 in steps
    assert len(steps) <= 13
    assert "the training, step 77, beam_size 4:\n\n| score | value |\n| --- | --- |\n| test/loss | 1.25 |" in body
    assert "| test/perplexity | 3.49 |" in body
    assert "| bits_per_byte | 1.5 | 1.4 to 1.625 |" in body
    assert "Left out" not in body
    settings = yaml.safe_load(body.partition("```yaml\n")[2].partition("```")[0])
    assert settings["model"] == asdict(SIZE)


@pytest.mark.parametrize(
    ("model", "protocol", "reason"),
    [
        ({"members": [{"run": "a"}, {"run": "b"}], "weights_sha256": "0"}, {}, "an ensemble"),
        ({"weights_sha256": "0"}, {}, "other weights, step 77"),
        ({}, {"reverse": True}, "reversed"),
        ({}, {"neighbours": {"sentences": 8}}, "with retrieval"),
        ({}, {"mbr": {"samples": 16}}, "minimum Bayes risk decoding"),
        ({}, {"tried": [0.6, 1.0]}, "settings chosen on this split"),
        ({}, {"context": 32, "stride": 8}, "stride=8, context=32"),
    ],
)
def test_the_card_lists_scores_of_the_plain_model_only(gpt: Trained, model: dict, protocol: dict, reason: str) -> None:
    """Guards against the score of several models, or of another search, under the name of the exported one."""
    path = gpt.run / "evaluation" / "test.json"
    result = json.loads(path.read_text("utf-8"))
    own = {"weights_sha256": weights_hash(gpt.model)}
    path.write_text(
        json.dumps(result | {"model": {"step": 77} | own, "protocol": {"context": 32, "stride": 32}}), "utf-8"
    )
    assert "| bits_per_byte | 1.5 | 1.4 to 1.625 |" in scores(gpt)
    path.write_text(json.dumps(result | {"model": {"step": 77} | own | model, "protocol": protocol}), "utf-8")
    assert "bits_per_byte" not in (said := scores(gpt))
    assert f"not those of this model alone: `test.json` ({reason})." in said
    assert "| test/perplexity | 3.49 |" in said
    assert "perplexity" not in (said := scores(replace(gpt, step=78)))
    assert "`test.json` (other weights, step 77)" in said


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("https://user:hunter2@example.org/a/book.txt?sig=hunter2,hunter2&x=/hunter2", "`book.txt`."),
        ("https://example.org/a.en?sig=hunter2,https://example.org/a.ja?sig=hunter2", "`a.en`, `a.ja`."),
        ("/home/hunter2/a.en,/home/hunter2/a.ja", "`a.en`, `a.ja`."),
    ],
)
def test_the_card_names_files_without_the_rest_of_their_addresses(gpt: Trained, path: str, named: str) -> None:
    """Guards against a published signature, with which anyone can download private data."""
    said = data(gpt.config["data"] | {"path": path}, "gpt")
    assert "hunter2" not in said
    assert said.startswith(f"Text from {named}")


def test_the_model_card_names_a_dataset_of_the_hub_but_no_folder_of_this_machine() -> None:
    """Guards against data that cannot be found again, and a private path in a published file."""
    hub = DataConfig(source="hub", path="someone/books", subset="en", revision="v1", train_split="train[:5%]")
    linked = "[someone/books](https://huggingface.co/datasets/someone/books)"
    assert data(asdict(hub), "gpt") == f"{linked}, subset `en`, revision `v1`, split `train[:5%]`."
    local = data(asdict(replace(hub, path="/home/somebody/secret/books")), "gpt")
    assert local == "Text from `books`."


def test_a_folder_that_computes_something_else_is_refused(gpt: Trained, tmp_path: Path) -> None:
    """Guards the comparison at the end of an export: a changed weight and a changed tokenizer are noticed."""
    write(gpt, tmp_path / "out")
    kind = ApertusForCausalLM
    assert len(check.check_exported(gpt, tmp_path / "out", kind)) == 2
    other = Trained(gpt.model, [small([made_text(50)])], gpt.run, gpt.step, gpt.config)
    with pytest.raises(UserError, match="other tokens"):
        check.check_exported(other, tmp_path / "out", kind)
    assert isinstance(gpt.model, GPT)
    with torch.no_grad():
        gpt.model.blocks[0].attention.output.weight[3, 4] += 1  # type: ignore[union-attr, index]
    with pytest.raises(UserError, match="other logits"):
        check.check_exported(gpt, tmp_path / "out", kind)


def test_a_flavour_without_an_architecture_is_refused(gpt: Trained, tmp_path: Path) -> None:
    """Guards against a folder that is written although nothing can hold the model."""
    model = GPT(replace(SIZE, token_shift=True), gpt.tokenizers[0].vocab_size).eval()
    with pytest.raises(UserError, match=r"model\.token_shift=true"):
        write(Trained(model, gpt.tokenizers, gpt.run, 1, gpt.config), tmp_path / "out")
