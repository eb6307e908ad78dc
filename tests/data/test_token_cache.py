"""Prepared data depends on the content, not on the way it is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from data.config import DataConfig, TokenizerConfig
from data.errors import DataError
from data.token_cache import prepare
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from data.training_data import PreparedPairs, PreparedText
from tests.data.conftest import made_pairs, made_text, tsv, write

CHAR = TokenizerConfig(kind="char")
Config = Callable[..., DataConfig]


def write_pairs(folder: Path, train: list[tuple[str, str]], valid: list[tuple[str, str]]) -> None:
    for name, rows in (("train", train), ("valid", valid)):
        (folder / f"{name}.tsv").write_text(tsv(rows), "utf-8")


def all_tokens(prepared: PreparedText, split: str) -> list[int]:
    batches = list(prepared.evaluation(split, 4))
    return [int(batches[0].inputs[0, 0]), *predicted(prepared, split)]


def predicted(prepared: PreparedText, split: str) -> list[int]:
    return [token for batch in prepared.evaluation(split, 4) for token in batch.targets.flatten().tolist()]


def test_character_tokens_and_byte_counts(tmp_path: Path, text_config: Config) -> None:
    """Guards the sizes behind bits per byte: characters, bytes (猫 has three), and the text itself."""
    text = "猫 sat.\n" * 50
    (tmp_path / "train.txt").write_text(text, "utf-8")
    (tmp_path / "valid.txt").write_text("猫猫\n", "utf-8")
    data = prepare("gpt", text_config(tmp_path), CHAR, 8, seed=0)
    assert data.splits == ["train", "valid"]
    assert data.size("train") == 1 + len(text)
    assert (data.size("valid"), data.bytes("valid")) == (4, 7)
    assert data.tokenizer.decode(all_tokens(data, "train")) == text
    assert data.tokenizer.vocab_size == 4 + len(set(text))
    assert data.notes == []


def test_whole_words_are_tokens_between_two_spaces(tmp_path: Path, text_config: Config) -> None:
    """Guards the random sequences on which heads are measured: no parts of words where the vocabulary has words, and
    every token of the text where it has characters."""
    data = prepare("gpt", DataConfig(stories=1000), TokenizerConfig("bpe", 1000), 8, seed=0)
    words = set(data.tokenizer.pieces(data.whole_words))
    assert len(words) >= 100
    assert {"▁the", "▁because", "▁was"} <= words
    parts = set(data.tokenizer.pieces(range(data.tokenizer.vocab_size))) - words
    assert {"ing", "▁"} & parts
    assert not {piece for piece in words if not piece.startswith("▁")}
    characters = prepare("gpt", text_config(write(tmp_path / "book.txt", made_text())), CHAR, 8, seed=0)
    assert characters.whole_words == list(range(4, characters.tokenizer.vocab_size))


def test_every_character_of_a_text_is_predicted(tmp_path: Path, text_config: Config) -> None:
    """Guards the first character of each split, and generation without a prompt: the eos from which it starts precedes
    the text."""
    text = made_text()
    data = prepare("gpt", text_config(write(tmp_path / "book.txt", text), test_fraction=0.1), CHAR, 8, seed=0)
    assert "".join(data.tokenizer.decode(predicted(data, split)) for split in data.splits) == text
    for split in data.splits:
        assert all_tokens(data, split)[0] == data.tokenizer.eos_id
        assert data.bytes(split) == len(predicted(data, split))
    assert text.startswith(data.texts("train", 1)[0])


def test_each_document_is_preceded_by_eos(tmp_path: Path, text_config: Config) -> None:
    """Guards story corpora: the beginning of every document is learnt, including the first; an eos counts as one
    byte."""
    (tmp_path / "train.txt").write_text("one.\n\ntwo\nlines.\n\n\nthree.\n", "utf-8")
    (tmp_path / "valid.txt").write_text("one.\n\ntwo.", "utf-8")
    data = prepare("gpt", text_config(tmp_path, rows="paragraph"), CHAR, 8, seed=0)
    encode = data.tokenizer.encode
    assert all_tokens(data, "train") == [3, *encode("one."), 3, *encode("two\nlines."), 3, *encode("three.")]
    assert data.bytes("valid") == len("one.") + 1 + len("two.")
    assert data.texts("train", 2) == ["one.", "two\nline"]  # 8 tokens at most
    assert data.texts("train", 3, length=100) == ["one.", "two\nlines.", "three."]


def test_sample_texts_of_one_long_document_are_passages(tmp_path: Path, text_config: Config) -> None:
    """Guards prompts from a single long text: passages spread over it."""
    data = prepare("gpt", text_config(write(tmp_path / "book.txt", made_text())), CHAR, 16, seed=0)
    passages = data.texts("train", 3)
    assert len(set(passages)) == 3
    assert all(len(passage) == 16 and passage in made_text() for passage in passages)


@pytest.mark.slow
@pytest.mark.parametrize("rows", ["document", "paragraph", "line"])
@pytest.mark.parametrize(
    "tokenizer", [CHAR, TokenizerConfig(kind="unigram", vocab_size=150, byte_fallback=False)], ids=["char", "unigram"]
)
def test_streaming_gives_the_same_tokens(
    tmp_path: Path, text_config: Config, rows: str, tokenizer: TokenizerConfig
) -> None:
    """Guards texts larger than memory: streamed and loaded data have the same tokens, splits and vocabulary."""
    for n in range(3):
        text = made_text(200 + n).replace("hens.\n", "hens.\n\n" if n else "hens, 猫 \t\n")
        (tmp_path / f"{n}.txt").write_text(text, "utf-8")
    config = text_config(tmp_path / "*.txt", rows=rows, test_fraction=0.15)
    loaded = prepare("gpt", config, tokenizer, 8, seed=0)
    streamed = prepare("gpt", replace(config, streaming=True), tokenizer, 8, seed=0)
    assert streamed.tokenizer.fingerprint == loaded.tokenizer.fingerprint
    assert streamed.splits == loaded.splits == ["train", "valid", "test"]
    for split in loaded.splits:
        assert all_tokens(streamed, split) == all_tokens(loaded, split)
        assert streamed.bytes(split) == loaded.bytes(split)


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_streamed_tables_give_the_same_tokens(tmp_path: Path, text_config: Config, kind: str) -> None:
    """Guards streaming through the hub library, including empty rows."""
    import datasets

    table = datasets.Dataset.from_dict({"text": [*made_text(100).split("\n"), "", "end"]})
    path = tmp_path / f"rows.{kind}"
    (table.to_json if kind == "jsonl" else table.to_parquet)(str(path))
    loaded = prepare("gpt", text_config(path), CHAR, 8, seed=0)
    streamed = prepare("gpt", text_config(path, streaming=True), CHAR, 8, seed=0)
    for split in ("train", "valid"):
        assert all_tokens(streamed, split) == all_tokens(loaded, split)


def test_tokenizer_depends_on_the_training_split_only(
    tmp_path: Path, text_config: Config, pairs_config: Config
) -> None:
    """Guards valid evaluation: the tokenizer does not depend on validation and test text."""
    models = []
    for held_out in ("the end", "Ωmega ßharp 犬 犬 犬"):
        folder = tmp_path / held_out[:3]
        folder.mkdir()
        (folder / "train.txt").write_text(made_text(), "utf-8")
        for split in ("valid", "test"):
            (folder / f"{split}.txt").write_text(held_out * 50, "utf-8")
        (folder / "pairs").mkdir()
        write_pairs(folder / "pairs", made_pairs(), [(held_out, held_out)] * 20)
        unigram = TokenizerConfig(kind="unigram", vocab_size=100)
        text = prepare("gpt", text_config(folder), CHAR, 8, seed=0)
        pairs = prepare("translate", pairs_config(folder / "pairs"), unigram, 30, seed=0)
        models.append((text.tokenizer.model, pairs.source_tokenizer.model))
        assert all(
            character not in "".join(text.tokenizer.pieces(range(text.tokenizer.vocab_size))) for character in "Ωß犬"
        )
        if held_out.startswith("Ω"):
            assert any(note.startswith("valid: ") and "<unk>" in note for note in text.notes)
            assert any(note.startswith("valid source: ") and "<unk>" in note for note in pairs.notes)
    assert models[0] == models[1]


def test_summary_has_rounded_sizes(tmp_path: Path, text_config: Config, pairs_config: Config) -> None:
    """Guards the logged summary of the data for both tasks, and the list of tokenizers."""
    (tmp_path / "train.txt").write_text("a cat sat. " * 4000, "utf-8")
    (tmp_path / "valid.txt").write_text("a cat", "utf-8")
    text = prepare("gpt", text_config(tmp_path), CHAR, 8, 0)
    assert text.summary() == "train 44k tokens, valid 6 tokens"
    assert text.tokenizers == [text.tokenizer]
    folder = tmp_path / "pairs"
    folder.mkdir()
    write_pairs(folder, made_pairs(1234), made_pairs(999))
    pairs = prepare("translate", pairs_config(folder), CHAR, 80, 0)
    assert pairs.summary() == "train 1.23k pairs, valid 999 pairs"
    assert pairs.tokenizers == [pairs.source_tokenizer]
    own = prepare("translate", pairs_config(folder), replace(CHAR, shared=False), 80, 0)
    assert own.tokenizers == [own.source_tokenizer, own.target_tokenizer]


@pytest.mark.parametrize("task", ["gpt", "translate"])
def test_given_tokenizers_are_not_retrained(
    tmp_path: Path, text_config: Config, pairs_config: Config, task: str
) -> None:
    """Guards resume and init_from: ids keep their meaning although a new tokenizer would differ."""
    own = [
        SentencePieceTokenizer.train([made_text(), "猫がとても座った。"], TokenizerConfig(kind="bpe", vocab_size=90))
    ]
    if task == "gpt":
        (tmp_path / "book.txt").write_text("Other text, other letters. " * 30, "utf-8")
        data = prepare("gpt", text_config(tmp_path / "book.txt"), CHAR, 8, 0, tokenizers=own)
        assert data.tokenizer.fingerprint == own[0].fingerprint
        assert any("<unk>" in note for note in data.notes)
    else:
        write_pairs(tmp_path, made_pairs(), made_pairs(9))
        both = [*own, SentencePieceTokenizer.train([made_text()], TokenizerConfig(kind="char"))]
        pairs = prepare("translate", pairs_config(tmp_path), CHAR, 60, 0, tokenizers=both)
        assert [pairs.source_tokenizer, pairs.target_tokenizer] == both
        assert len(pairs.tokenizers) == 2
        alone = prepare("translate", pairs_config(tmp_path), CHAR, 60, 0, tokenizers=own)
        assert len(alone.tokenizers) == 1
        assert alone.source_tokenizer is alone.target_tokenizer


def test_notes_list_skipped_pairs_also_from_the_cache(
    tmp_path: Path, pairs_config: Config, caplog: pytest.LogCaptureFixture
) -> None:
    """Guards against silent loss, also in a second run that prepares nothing, and against repeated notes: the caller
    logs them."""
    write_pairs(tmp_path, [*made_pairs(), ("empty", "")], made_pairs(9))
    for _ in range(2):
        with caplog.at_level("INFO"):
            data = prepare("translate", pairs_config(tmp_path), CHAR, 40, 0)
        assert "train: 1 pairs with an empty side were left out" in data.notes
        assert any("longer than model.context=40" in note for note in data.notes)
    assert caplog.messages == []


def test_note_on_a_sampled_tokenizer_text(
    tmp_path: Path, pairs_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against text that is sampled silently, also where the tokenizer comes from the cache."""
    write_pairs(tmp_path, made_pairs(), made_pairs(9))
    read, limit = (sum(map(len, side)) for side in zip(*made_pairs(), strict=True))
    assert read > limit
    for module in ("data.token_cache", "data.tokens.tokenizer_training"):
        monkeypatch.setattr(f"{module}.SAMPLE_CHARACTERS", limit)
    config = TokenizerConfig(kind="char", shared=False)
    for _ in range(2):
        notes = prepare("translate", pairs_config(tmp_path), config, 80, 0).notes
        part = f"at most {limit:,} of {read:,} characters"
        assert f"tokenizer.source.model: trained on evenly spaced lines, {part}" in notes
        assert not any(note.startswith("tokenizer.target.model") for note in notes)


def test_preparing_is_quiet_without_a_terminal(
    tmp_path: Path, text_config: Config, capfd: pytest.CaptureFixture[str]
) -> None:
    """Guards logs and pipes against progress bars and SentencePiece's messages."""
    (tmp_path / "book.txt").write_text(made_text(), "utf-8")
    prepare("gpt", text_config(tmp_path / "book.txt"), TokenizerConfig(kind="unigram", vocab_size=100), 8, seed=0)
    written = capfd.readouterr()
    assert written.out == written.err == ""


def test_batch_to_device_keeps_all_fields(tmp_path: Path, pairs_config: Config) -> None:
    """Guards Batch.to: optional tensors stay None, and the model's inputs keep their order."""
    write_pairs(tmp_path, made_pairs(), made_pairs(9))
    batch = prepare("translate", pairs_config(tmp_path), CHAR, 80, 0).training().next_batch()
    moved = batch.to("meta")
    assert moved.inputs.device.type == moved.source.device.type == "meta"
    assert (moved.source_mask is None) == (batch.source_mask is None)
    assert batch.model_inputs[0] is batch.source
    assert batch.model_inputs[1] is batch.inputs
    assert torch.equal(batch.to("cpu").targets, batch.targets)


def test_large_validation_text_is_subsampled(tmp_path: Path, text_config: Config) -> None:
    """Guards huge texts, whose validation would take most of the time: fixed passages from the whole split, with their
    exact bytes; a split within the limit and a test split are used completely."""
    (tmp_path / "book.txt").write_text(made_text(2000).replace("fox", "é\t\u2581"), "utf-8")
    settings = {"valid_fraction": 0.5, "test_fraction": 0.2}
    whole = prepare("gpt", text_config(tmp_path / "book.txt", **settings), CHAR, 8, seed=0)
    size = whole.size("valid") - 1
    assert len(predicted(whole, "valid")) == size
    assert not any("data.valid_tokens" in note for note in whole.notes)
    part = prepare("gpt", text_config(tmp_path / "book.txt", valid_tokens=1000, **settings), CHAR, 8, seed=0)
    assert part.tokenizer.fingerprint == whole.tokenizer.fingerprint
    assert part.keys["train"] == whole.keys["train"]
    taken = predicted(part, "valid")
    assert len(taken) == 1000
    assert taken == predicted(part, "valid")
    assert part.bytes("valid") == len(part.tokenizer.decode(taken).encode()) != 1000
    starts = [int(batch.inputs[row, 0]) for batch in part.evaluation("valid", 4) for row in range(len(batch.inputs))]
    assert len(starts) == 125
    assert f"valid: evaluations use 1,000 of the {size + 1:,} tokens" in " ".join(part.notes)
    assert len(predicted(part, "test")) == part.size("test") - 1
    assert part.bytes("test") == whole.bytes("test")
    exact = prepare("gpt", text_config(tmp_path / "book.txt", valid_tokens=size, **settings), CHAR, 8, seed=0)
    assert (predicted(exact, "valid"), exact.bytes("valid")) == (predicted(whole, "valid"), whole.bytes("valid"))


def test_large_validation_pairs_are_subsampled(tmp_path: Path, pairs_config: Config) -> None:
    """Guards large parallel corpora: fixed pairs from the whole split, with their exact bytes."""
    write_pairs(tmp_path, made_pairs(), made_pairs(200))
    whole = prepare("translate", pairs_config(tmp_path), CHAR, 60, 0)
    part = prepare("translate", pairs_config(tmp_path, valid_tokens=3000), CHAR, 60, 0)

    def targets(data: PreparedPairs) -> list[str]:
        rows = [row for batch in data.evaluation("valid") for row in batch.targets.clamp(min=0).tolist()]
        return sorted(data.target_tokenizer.decode(row) for row in rows)

    assert len(targets(whole)) == 200
    kept = targets(part)
    assert kept == targets(part)
    assert set(kept) < set(targets(whole))
    batches = list(part.evaluation("valid"))
    assert sum(batch.source_tokens + batch.target_tokens for batch in batches) == pytest.approx(3000, rel=0.1)
    assert part.bytes("valid") == sum(len(text.encode()) + 1 for text in kept)
    assert f"valid: evaluations use {len(kept)} of the 200 pairs" in " ".join(part.notes)


@pytest.mark.parametrize("both", [False, True])
def test_lengths_of_training_are_those_of_the_batches(both: bool, tmp_path: Path, pairs_config: Config) -> None:
    """Guards the operations of a step, and therefore the utilisation of a GPU, against counting full contexts."""
    write_pairs(tmp_path, made_pairs(), made_pairs(9))
    data = prepare("translate", pairs_config(tmp_path, both_directions=both), CHAR, 60, 0)
    stream = data.training(512, seed=1)
    result = []
    for _ in range(stream.epoch_batches):
        batch = stream.next_batch()
        assert batch.source is not None
        mask = torch.ones_like(batch.source) if batch.source_mask is None else batch.source_mask
        result += zip((batch.targets >= 0).sum(1).tolist(), mask.sum(1).tolist(), strict=True)
    assert sorted(result) == sorted(zip(*(side.tolist() for side in data.training_lengths()), strict=True))
    assert max(map(max, result)) > 1.3 * sum(map(sum, result)) / (2 * len(result)), "the point is short pairs"


def test_few_pairs_are_noted(tmp_path: Path, pairs_config: Config) -> None:
    """Guards a minimal command on a file of thirty pairs."""
    (tmp_path / "a.tsv").write_text(tsv(made_pairs(30)), "utf-8")
    few = prepare("translate", pairs_config(tmp_path / "a.tsv"), TokenizerConfig(kind="unigram"), 128, seed=0)
    assert "train: only 27 pairs: " in " ".join(few.notes)
    assert 40 < few.source_tokenizer.vocab_size < 60


def test_very_small_text_is_noted(tmp_path: Path, text_config: Config) -> None:
    """Guards a minimal command on a page of text: the default vocabulary fits, and a note warns of overfitting."""
    config = text_config(write(tmp_path / "page.txt", made_text(30)))
    page = prepare("gpt", config, TokenizerConfig(kind="bpe"), 128, seed=0)
    notes = " ".join(page.notes)
    assert f"tokenizer.vocab_size={page.tokenizer.vocab_size}: fitted to the training text" in notes
    assert f"train: only {page.size('train')} tokens: " in notes
    assert page.training(4).next_batch().inputs.shape == (4, 128)
    lines = text_config(write(tmp_path / "lines.txt", made_text(3)))
    with pytest.raises(
        DataError, match=r"model.context=128 is longer than the text: .* set .* to at most \d+ or provide more"
    ):
        prepare("gpt", lines, TokenizerConfig(kind="bpe"), 128, seed=0)
    assert prepare("gpt", config, TokenizerConfig(kind="bpe", vocab_size=64), 128, seed=0).tokenizer.vocab_size == 64


def test_gold_labels_only_of_the_built_in_corpus(tmp_path: Path, text_config: Config, pairs_config: Config) -> None:
    """Guards the scores of heads and pronouns: they are measured only on corpora with gold labels."""
    write_pairs(tmp_path, made_pairs(), made_pairs(20))
    assert prepare("gpt", text_config(write(tmp_path / "book.txt", made_text())), CHAR, 8, seed=0).gold("valid") is None
    assert prepare("translate", pairs_config(tmp_path), CHAR, 80, seed=0).gold("valid") is None

    embedded = DataConfig(stories=100, sentences=100, cache=str(tmp_path / "cache"))
    stories, pairs = (prepare(task, embedded, CHAR, 60, seed=0) for task in ("gpt", "translate"))
    both = {"words", "alignment", "antecedents"}
    assert {"text", "mentions", "referents", "names", "turns"} | both <= set(stories.gold("valid").column_names)
    assert {"source", "target"} | both <= set(pairs.gold("valid").column_names)
    assert pairs.gold("novel")["source"][:] == pairs.rows("novel")["source"][:]
