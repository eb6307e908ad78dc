"""Rows drawn by several processes."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from data.errors import DataError
from data.primer import rows
from data.primer.corpus import KINDS, sentence_row
from data.primer.grammar.choice import Chooser
from data.primer.stream import SHARE, Stream, drawn, share

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "count"), [("sentences", 8000), ("stories", 3400)])
def test_the_rows_are_the_same_however_many_processes_draw_them(kind: str, count: int) -> None:
    """Guards against a corpus that depends on the machine; the counts exceed two chunks."""
    alone = rows(kind, count, 4, processes=0)
    assert rows(kind, count, 4, processes=3) == alone


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_rows_drawn_from_anywhere_fall_into_step(kind: str) -> None:
    """Guards speed: without synchronisation, the calling process would draw every row again."""
    draw = KINDS[kind]
    starts, _, _ = share(draw, Stream(3), 1)
    stream = Stream(3)
    stream.skip(SHARE // 2)
    chooser = Chooser(stream)
    while stream.position < SHARE + SHARE // 4:
        draw(chooser)
    assert stream.position in starts


def test_a_skipped_number_is_a_drawn_one() -> None:
    """Guards against chunks of another stream."""
    drawing, skipping = Stream(8), Stream(8)
    numbers = [drawing.random() for _ in range(1000)]
    skipping.skip(990)
    assert [skipping.random() for _ in range(10)] == numbers[990:]
    assert skipping.position == 1000
    skipping.skip(5)
    assert skipping.position == 1000


def test_a_process_imports_the_corpus_and_no_more() -> None:
    """Guards start-up time: importing torch or datasets would take longer than drawing a chunk."""
    script = "import data.primer.worker_process, sys; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not {"torch", "datasets", "pyarrow", "numpy", "sentencepiece", "hydra"} & set(done.stdout.split())


def test_a_process_that_fails_is_an_error_that_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    """Guards against waiting forever for a failed process."""
    with closing(drawn("poems", sentence_row, 0, 2)) as result, pytest.raises(DataError, match="corpus ended"):
        next(result)
    assert "poems" in capfd.readouterr().err


def test_a_process_ends_when_nobody_reads() -> None:
    """Guards against processes that outlive a killed training run."""
    command = [sys.executable, "-m", "data.primer.worker_process", "sentences", "0", "0", "1"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.read(8)
        process.stdout.close()
        assert process.wait(timeout=60) == 0
        assert process.stderr.read() == b""
