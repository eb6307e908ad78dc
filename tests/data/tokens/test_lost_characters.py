"""What a tokenizer loses, by <unk> and by normalisation: found at the right tokens, and charged."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from data.config import DataConfig, TokenizerConfig
from data.token_cache import prepare
from data.tokens.lost_characters import Losses, text_losses
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from data.training_data import PreparedText
from tests.data.conftest import tsv, write
from training.evaluation.held_out_loss import HeldOutLoss

LETTERS = SentencePieceTokenizer.train(["abc de\n"], TokenizerConfig("char"))
NFKC = SentencePieceTokenizer.train(["abc 123 (株) ガ é\n"], TokenizerConfig("char", normalization="nfkc"))
PIECES = SentencePieceTokenizer.train(
    ["abc 10 abc 10 cab (株)\n" * 9], TokenizerConfig("bpe", 24, normalization="nfkc")
)
BYTES = SentencePieceTokenizer.train(["abc de\n"], TokenizerConfig("bpe", 267, byte_fallback=True))


@pytest.mark.parametrize(
    ("tokenizer", "text", "lost"),
    [
        (LETTERS, "abc de\n", ""),
        (LETTERS, "aXbYZ犬\n", "XYZ犬"),  # a run of unknown characters is one token
        (LETTERS, "\ufffd a \ufffd\ufffd", "\ufffd\ufffd\ufffd"),  # what <unk> is decoded to
        (LETTERS, "a\t\tb\ufdd0", "\t\t\ufdd0"),  # stored by stand-ins and escapes
        (NFKC, "abc 123", ""),
        (NFKC, "１2３ ㈱ ｶﾞ e\u0301 é", "１３㈱ｶﾞe\u0301"),
        (NFKC, "１x㈱", "１x㈱"),
        (PIECES, "1０ abc １0", "０１"),  # of a piece only what is lost
        (BYTES, "犬 \t\ufdd0 é１", ""),
    ],
)
def test_lost_characters_are_found_and_the_bytes_add_up(
    tokenizer: SentencePieceTokenizer, text: str, lost: str
) -> None:
    """Guards against a charge for what is not lost, none for what is, and units of more or fewer bytes than the
    text."""
    ids = tokenizer.encode(text)
    losses = list(text_losses(tokenizer, text, ids))
    assert sum(loss.lost for loss in losses) == len(lost.encode())
    assert sum(loss.characters for loss in losses) == len(lost)
    assert sum(loss.difference for loss in losses) == len(text.encode()) - tokenizer.byte_lengths[ids].sum()
    for end in [loss.token + 1 for loss in losses]:  # also up to each place: the tokens before it are the text before
        bytes_before = tokenizer.byte_lengths[ids[:end]].sum() + sum(
            loss.difference for loss in losses if loss.token < end
        )
        assert bytes_before in {len(text[:n].encode()) for n in range(len(text) + 1)}
    assert list(text_losses(tokenizer, "", [])) == []


def test_a_text_without_tokens_is_lost_whole() -> None:
    """Guards against text that normalisation deletes, which no token marks."""
    ((token, difference, lost, characters, _),) = text_losses(LETTERS, "犬犬", [])
    assert (token, difference, lost, characters) == (-1, 6, 6, 2)


def prepared_text(folder: Path, text: str, tokenizer: TokenizerConfig, **data: object) -> PreparedText:
    """Prepare a text whose last tenth is the validation split."""
    path = write(folder / "text.txt", text)
    config = DataConfig("text", str(path), cache=str(folder / "cache"), **data)  # type: ignore[arg-type]
    result = prepare("gpt", config, tokenizer, 8, 0)
    assert isinstance(result, PreparedText)
    return result


def test_a_run_of_unknown_characters_costs_what_its_bytes_cost(tmp_path: Path) -> None:
    """Guards against the smallest vocabulary with the best score: one <unk> for 200 characters."""
    text = "abc de\n" * 400 + "abc 日本語 de\nXYZ XYZ\n" * 20
    small = prepared_text(tmp_path, text, TokenizerConfig("char", 8), valid_fraction=0.1)
    valid = "".join(small.rows("valid")["text"])
    known = set("".join(small.tokenizer.pieces(range(4, 8))).replace("▁", " ").replace("↵", "\n"))
    lost = "".join(character for character in valid if character not in known)
    assert 0 < small.lost("valid") == len(lost.encode())
    loss = HeldOutLoss(100.0, 50, small.bytes("valid"), small.lost("valid"))
    assert loss.bits_per_byte == pytest.approx((100 / math.log(2) + 8 * len(lost.encode())) / len(valid.encode()))
    assert loss.per_token == 2
    note = next(note for note in small.notes if note.startswith("valid: "))
    assert f"loses {100 * len(lost) / len(valid):.2g} % of the characters ({len(lost)} of {len(valid)})" in note
    assert any(note.startswith("train: the tokenizer loses") for note in small.notes)


def test_an_unknown_language_costs_what_its_bytes_cost(tmp_path: Path) -> None:
    """Guards against an English model that is better at Japanese than at English: a line of it is one <unk>."""
    valid = write(tmp_path / "ja.txt", "これは日本語です。\n" * 40)
    result = prepared_text(tmp_path, "abc de\n" * 400, TokenizerConfig("char"), valid_path=str(valid))
    assert result.size("valid") == 1 + 40 * 2
    nothing = HeldOutLoss(0.0, 80, result.bytes("valid"), result.lost("valid"))  # of a model that is sure of each <unk>
    assert nothing.bits_per_byte == pytest.approx(8 * 27 / 28)
    assert any("valid: the tokenizer loses 90 % of the characters (360 of 400)" in note for note in result.notes)
    write(tmp_path / "ja.txt", "日本語" * 40)
    result = prepared_text(tmp_path, "abc de\n" * 400, TokenizerConfig("char"), valid_path=str(valid))
    assert any("valid: the tokenizer loses 100 % of the characters (120 of 120)" in note for note in result.notes)


def test_a_lossless_tokenizer_keeps_its_bits_per_byte_to_the_last_digit(tmp_path: Path) -> None:
    """Guards published figures against the charge."""
    large = prepared_text(tmp_path, "abc de\n" * 400, TokenizerConfig("char"))
    assert large.lost("valid") == 0
    assert large.notes == []
    assert not list(tmp_path.rglob("*.losses.npy"))
    nats, size = 1234.567891, large.bytes("valid")
    assert HeldOutLoss(nats, 50, size, large.lost("valid")).bits_per_byte == nats / math.log(2) / size


def test_the_part_of_a_split_that_is_evaluated_is_charged_for_its_own_losses(tmp_path: Path) -> None:
    """Guards `data.valid_tokens` against charges for passages that are not evaluated."""
    text = "abc de\n" * 400 + "abc de\n" * 40 + "日本 de\n" * 40
    config = TokenizerConfig("char", 11)
    part = prepared_text(tmp_path, text, config, valid_fraction=0.17, valid_tokens=64)
    whole = prepared_text(tmp_path, text, config, valid_fraction=0.17, valid_tokens=None)
    losses = Losses.open(part.folder / "valid.losses.npy")
    lengths = whole.tokenizer.byte_lengths + (np.arange(whole.tokenizer.vocab_size) == whole.tokenizer.start_id)
    read = size = lost = 0
    for batch in part.evaluation("valid", 1):
        assert batch.rows is not None
        size += int(lengths[batch.targets].sum())
        for position in range(int(batch.rows[0]) + 1, int(batch.rows[0]) + 1 + batch.targets.shape[1]):
            read += 1
            size += int(losses.differences[losses.positions == position].sum())
            lost += int(losses.lost[losses.positions == position].sum())
    assert (part.bytes("valid"), part.lost("valid")) == (size, lost)
    assert 0 < lost < whole.lost("valid") == int(losses.lost.sum())
    assert read == 64


def test_targets_of_pairs_are_charged_up_to_the_cut(tmp_path: Path) -> None:
    """Guards translators against a vocabulary that loses the target language, and charges for what is cut off."""
    pairs = [("abc", "de")] * 300 + [("日日", "de 犬 de")] * 20 + [("abc", "de de de 犬")] * 20
    path = write(tmp_path / "pairs.tsv", tsv(pairs))
    valid = write(tmp_path / "valid.tsv", "abc\tde 犬 de\n日\tde\nabc\tde de de 犬\n")
    config = DataConfig(
        "pairs", str(path), str(valid), source_column="1", target_column="2", cache=str(tmp_path / "cache")
    )
    data = prepare("translate", config, TokenizerConfig("char", 10), 8, 0)
    assert data.lost("valid") == 3, "neither the lost character of a source nor one beyond the context"
    assert any(note.startswith("valid target: the tokenizer loses") for note in data.notes)
    whole = prepare("translate", config, TokenizerConfig("char", 10), 20, 0)
    assert whole.lost("valid") == 6
