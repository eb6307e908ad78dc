"""Tokenizers of imported models give the ids of transformers, and the text back."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Foreign
from tokenizers import models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer

from configs.errors import UserError
from data.tokens.loading import load_tokenizer, tokenizer_from
from data.tokens.tokenizer import Tokenizer
from generation.text_streaming import StreamingDecoder
from interop.pretrained.folder import read_folder
from interop.pretrained.tokenizers import imported_tokenizers, tokenizer_config
from interop.pretrained.writing import write_tokenizers
from tests.interop.pretrained.conftest import EOT, JAPANESE, lines

ODD = ["", " ", "a", "  two  spaces ", "tab\tand\nnewline\n\n", "naïve 日本語 🎉", "\u2581 x", "<unk> <pad>"]
TEXTS = [*lines(300, 1), *lines(100, 2, JAPANESE), *ODD, f"one{EOT}two"]


def test_ids_of_a_language_model_are_those_of_transformers(gpt2: Path) -> None:
    """Guards tokens that differ from those that the model was trained with, and text that does not come back."""
    (ours,) = imported_tokenizers(read_folder(gpt2))
    assert ours.encode_batch(TEXTS) == AutoTokenizer.from_pretrained(gpt2)(TEXTS)["input_ids"]
    for text in TEXTS[:-1]:
        ids = ours.encode(text)
        assert ours.decode(ids) == text
        decoder = StreamingDecoder(ours)
        assert "".join(decoder.feed([token]) for token in ids) + decoder.flush() == text
        assert sum(ours.byte_lengths[ids]) == len(text.encode())
        again, spans = ours.spans(text)
        assert again == ids
        if text.isascii():
            assert [text[start:end].encode() for start, end in spans] == [ours.piece_bytes(token) for token in ids]
    assert (ours.start_id, ours.eos_id, ours.vocab_size) == (0, 0, 300)
    assert ours.never_written == list(range(290, 300)), "rows without a token"


def test_ids_of_a_translator_are_those_of_transformers(marian: Path) -> None:
    """Guards the ids of both sides, which share a table, and the tag of the target language."""
    source, target = imported_tokenizers(read_folder(marian))
    theirs = AutoTokenizer.from_pretrained(marian)
    texts = [text for text in [*TEXTS, ">>jpn<< the cat", ">>jpn<<"] if "<unk>" not in text]  # there a special token
    assert source.encode_batch(texts) == theirs(texts, add_special_tokens=False)["input_ids"]
    assert target.encode_batch(texts) == theirs(text_target=texts, add_special_tokens=False)["input_ids"]
    for text in lines(20, 3, JAPANESE):
        assert target.decode(target.encode(text)) == text
        assert target.spans(text)[0] == target.encode(text)
    assert source.unk_id in source.encode("🎉")
    assert (source.eos_id, source.pad_id, target.bos_id) == (0, source.vocab_size - 1, source.vocab_size - 1)
    assert target.bos_id in target.never_written


def test_a_translator_with_a_piece_that_is_not_utf8_is_damaged(marian: Path) -> None:
    """Guards against a traceback at the first word that contains the piece: SentencePiece loads such a model."""
    source, _ = imported_tokenizers(read_folder(marian))
    content = json.loads(source.model)
    model = base64.b64decode(content["sentencepiece"]).replace("\u2581".encode(), b"\xbb\x96\x81", 1)
    damaged = json.dumps(content | {"sentencepiece": base64.b64encode(model).decode()}).encode()
    assert tokenizer_from(source.model, source.suffix).vocab_size == source.vocab_size
    with pytest.raises(ValueError, match="utf-8"):
        tokenizer_from(damaged, source.suffix)


@pytest.mark.parametrize("name", ["gpt2", "marian"])
def test_tokenizers_survive_a_run_and_an_export(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Guards the files of a run, and a folder that transformers reads as another tokenizer."""
    folder = request.getfixturevalue(name)
    source = read_folder(folder)
    result = imported_tokenizers(source)
    kept: list[Tokenizer] = []
    for number, tokenizer in enumerate(result):
        tokenizer.save(tmp_path / f"{number}.json")
        kept.append(load_tokenizer(tmp_path / f"{number}.json"))
        assert kept[-1].encode_batch(TEXTS) == tokenizer.encode_batch(TEXTS)
        assert kept[-1].fingerprint == tokenizer.fingerprint
    write_tokenizers(kept, source.config.context, tmp_path)
    mine, theirs = (AutoTokenizer.from_pretrained(each) for each in (tmp_path, folder))
    assert mine(TEXTS)["input_ids"] == theirs(TEXTS)["input_ids"]
    assert mine.model_max_length == source.config.context
    described = tokenizer_config(source)
    assert (described.kind, described.shared) == ({"gpt2": "bpe", "marian": "unigram"}[name], True)


def llama_like() -> Foreign:
    """Return a tokenizer as Llama 2 has it: BPE over characters, ▁ for spaces, bytes for what is unknown."""
    result = Foreign(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    result.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    bytes_of = [f"<0x{byte:02X}>" for byte in range(256)]
    result.train_from_iterator(
        lines(200),
        trainers.BpeTrainer(vocab_size=330, special_tokens=["<unk>", "<s>", "</s>", *bytes_of], show_progress=False),
    )
    content: dict[str, Any] = json.loads(result.to_str())
    for token in content["added_tokens"]:
        token["special"] = token["id"] < 3
    content["decoder"] = {
        "type": "Sequence",
        "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ],
    }
    content["added_tokens"] = content["added_tokens"][:3]
    return Foreign.from_str(json.dumps(content))


def test_tokenizers_with_byte_fallback_are_read(copied: Path) -> None:
    """Guards the other family of `tokenizer.json`: pieces with ▁, and bytes by name."""
    theirs = llama_like()
    theirs.save(str(copied / "tokenizer.json"))
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps(config | {"vocab_size": 400, "bos_token_id": 1, "eos_token_id": 2}))
    (ours,) = imported_tokenizers(read_folder(copied))
    for text in ["the cat sat", "日本 hat 🎉"]:
        ids = ours.encode(text)
        assert ids == theirs.encode(text, add_special_tokens=False).ids
        assert ours.decode(ids).removeprefix(" ") == text == theirs.decode(ids)
        assert ours.unk_id not in ids
    assert (ours.start_id, ours.eos_id, ours.unk_id) == (1, 2, 0)
    assert ours.pieces(ours.encode("the 🎉"))[-1] == "<0x89>"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content.update(decoder=None), r"its decoder \(none\) is not one of"),
        (lambda content: content["model"].update(type="WordPiece"), r"its model \(WordPiece\) is not one of"),
        (lambda content: content["model"]["vocab"].update(extra=300), r"has the id 300, but the model has 300"),
        (lambda content: content["model"].update(merges=[["x", "yz"]]), "its tokenizer is damaged"),
        (lambda content: content.update(model="BPE"), "its tokenizer is damaged"),
        (lambda content: content.update(decoder={}), "its tokenizer is damaged"),
        (lambda content: content.update(decoder={"type": None}), "its tokenizer is damaged"),
        (lambda content: content["model"].update(type=["BPE"]), "its tokenizer is damaged"),
        (
            lambda content: content["model"].update(type="Unigram", vocab=[["a", 0.0]], unk_id=7),
            r"its tokenizer is damaged \(list index out of range\)",
        ),
    ],
)
def test_tokenizers_that_cannot_be_used_are_refused(change: Any, message: str, copied: Path) -> None:
    """Guards against text that comes out wrong."""
    path = copied / "tokenizer.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match=message):
        imported_tokenizers(read_folder(copied))


def test_the_post_processor_of_a_tokenizer_adds_nothing(copied: Path) -> None:
    """Guards documents in which a start token would stand twice."""
    theirs = Foreign.from_file(str(copied / "tokenizer.json"))
    theirs.post_processor = processors.TemplateProcessing(single=[EOT, "$A"], special_tokens=[(EOT, 0)])
    theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True)
    theirs.save(str(copied / "tokenizer.json"))
    (ours,) = imported_tokenizers(read_folder(copied))
    assert ours.encode("the cat") == theirs.encode("the cat").ids[1:] != []
    assert ours.spans(" cat")[1][0][0] == 0, "the space belongs to the word after it"
