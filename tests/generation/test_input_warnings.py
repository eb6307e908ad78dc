"""Notes about lines that a translator cannot read."""

import shutil
from pathlib import Path

import pytest
import torch

from data.config import TokenizerConfig
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from generation.config import GenerateConfig
from generation.engines.torch_engine import TorchEngine
from generation.input_warnings import SourceNotes
from generation.line_translation import translate_lines
from generation.text_streaming import print_notes
from run import Run
from training.run_folder.tokenizers import load_source_alphabet


def notes(trained: Path, lines: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    run = Run(trained / "runs/translate")
    result = SourceNotes(run.tokenizers[0], run.config.model.context, load_source_alphabet(run.folder))
    for first in range(0, len(lines), 4):  # as they come, portion by portion
        result.check(lines[first : first + 4])
    result.close()
    return capsys.readouterr().err.splitlines()


def test_a_source_in_the_language_of_the_translations_is_told(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against Japanese "translated" into nonsense without a note: a shared vocabulary contains every
    character."""
    (note,) = notes(trained, ["Emi likes apples.", "", "エミはりんごが好きです。", "Ken and Emi met エミ."], capsys)
    assert note.startswith(
        "note: line 3 is mostly in characters that the model was not trained to translate from (エ, ミ,"
    )


def test_a_line_of_signs_is_told_by_what_the_vocabulary_lacks(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against "2047" called another language, and unknown characters without a note."""
    number, cyrillic = notes(trained, ["2047", "Привет, Emi"], capsys)
    assert number.startswith("note: line 1: the model has never seen ")
    assert cyrillic.startswith(
        "note: line 2 is mostly in characters that the model was not trained to translate from (П,"
    )


def test_many_lines_of_a_kind_are_counted(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against a thousand notes for a file in the wrong language, and line numbers that restart with each
    portion."""
    result = notes(trained, ["りんご"] * 7 + ["the dog " * 30] * 2 + ["I like ☃."], capsys)
    assert [note.split()[2] for note in result[:5]] == ["1", "2", "3", "4", "5"]
    assert result[5].startswith("note: line 8 has ")
    assert result[6].startswith("note: line 9 has ")
    assert "line 10: the model has never seen ☃ (SNOWMAN)" in result[7]
    assert result[8:] == ["note: 2 more lines in other characters"]


def test_translations_that_do_not_end_are_reported(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against a translation that is cut silently; no note is printed where the model ends a translation."""
    run = Run(trained / "runs/translate")
    lines = ["Emi likes apples."] * 3 + [""]

    def translated() -> list[str]:
        result = SourceNotes(run.tokenizers[0], run.config.model.context, None)
        config = GenerateConfig(beam_size=1)
        list(translate_lines(TorchEngine(run.model, run.tokenizers, config, "float32"), config, lines, None, result))
        return capsys.readouterr().err.splitlines()

    with torch.no_grad():
        head = run.model.head
        head.bias = torch.nn.Parameter(torch.zeros(head.out_features))
        head.bias[run.tokenizers[-1].eos_id] = 99
        assert translated() == []
        head.bias[run.tokenizers[-1].eos_id] = -99
        limit = 3 * (len(run.tokenizers[0].encode(lines[0])) + 1) + 10
        limit = min(limit, run.config.model.context - 1)
    assert translated() == [f"note: the translation of line {n} is cut: no end in {limit} tokens" for n in (1, 2, 3)]


def test_a_run_without_an_alphabet_still_translates(
    trained: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Guards runs without this file, and runs in which it is damaged."""
    shutil.copytree(trained / "runs/translate", tmp_path / "runs/translate")
    alphabet = tmp_path / "runs/translate/source_alphabet.txt"
    for damaged in (b"\xff", b""):
        alphabet.write_bytes(damaged)
        assert notes(tmp_path, ["Emi ran."], capsys) == []
    alphabet.unlink()
    assert notes(tmp_path, ["りんご"], capsys) == []


@pytest.mark.parametrize(
    ("length", "said"), [(7, ""), (8, "does not see the token that begins a text"), (9, "continues from the last 8")]
)
def test_a_prompt_that_leaves_no_room_for_its_start_is_told(
    length: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against a prompt of exactly as many tokens as the context, whose start token is lost without a note."""
    tokenizer = SentencePieceTokenizer.train(["ab"], TokenizerConfig("char"))
    prompt = ("ab" * 9)[:length]
    print_notes(tokenizer, prompt, tokenizer.encode(prompt), 8)
    err = capsys.readouterr().err
    assert err.count("\n") == (said != "")
    assert said in err
