"""What is traced: each function writes below the current folder with our own code and marks what is complete.

`python -m tests.robustness.crash_states.scenarios FOLDER` runs each of them in a folder of its name in FOLDER. Marks in
the trace: `begin NAME`; `done N` after an operation returned; `fsync WHERE` before each fsync, with the line of our
code that asks for it.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

from tests.conftest import ROOT
from tests.robustness.crash_states.trace import MARK

if TYPE_CHECKING:
    from attention_maps.record.recording import Recording

BOOK = "".join(f"The {a} {b}.\n" for a in ("fox", "cat", "hen", "cow") for b in ("sees", "wants", "likes", "has"))
VERSIONS = ("the first content of the file\n" * 40, "another content, which is longer\n" * 50)
"""Contents of a file that is downloaded."""


def mark(text: str) -> None:
    """Leave a text in the trace."""
    with suppress(OSError):
        Path(f"{MARK}{text}").rmdir()


REAL_FSYNC = os.fsync


def label_fsyncs() -> None:
    """Mark each fsync with the place in our code that asks for it and, within a checkpoint, the file."""

    def labelled(descriptor: int) -> None:
        frame = sys._getframe(2)  # the caller of `flush`
        place = f"{Path(frame.f_code.co_filename).relative_to(ROOT)} {frame.f_code.co_name}:{frame.f_lineno}"
        name = Path(f"/proc/self/fd/{descriptor}").readlink().name
        mark(f"fsync {place}".replace("/", ":") + (f" {name}" if frame.f_code.co_name == "write_summary" else ""))
        REAL_FSYNC(descriptor)

    os.fsync = labelled


def checkpoints() -> None:
    """A new run, three checkpoints with their evaluations, early weights, and metrics.jsonl."""
    import torch

    from training.checkpoints.early_weights import save_early_weights
    from training.checkpoints.folder import record_evaluation, save_checkpoint
    from training.checkpoints.moved_folder import Place
    from training.checkpoints.snapshot import Snapshot
    from training.config import TrainConfig
    from training.counters import Progress
    from training.run_folder.append_file import GrowingFile
    from training.run_folder.name_and_lock import create

    progress = Progress()
    with create(TrainConfig(name="run")) as run:
        metrics = GrowingFile(run / "metrics.jsonl", Place(run), durable=True)
        for step, loss in ((10, 2.0), (20, 1.0), (30, 1.5)):
            progress.step = step
            weights = {"w": torch.full((40,), float(step))}
            state = {"moments": torch.full((80,), float(step))}
            save_checkpoint(run / "checkpoints", step, Snapshot(weights, state), progress.state_dict(), keep=0)
            mark(f"done {step}")
            best = progress.count_evaluation(loss, loss, 1.0)
            metrics.write(f'{{"step": {step}, "val/loss": {loss}}}\n'.encode())
            mark(f"done {step} logged")
            record_evaluation(run / "checkpoints", progress.state_dict(), best=best, keep=0)
            mark(f"done {step} evaluated")
            if step == 10:
                save_early_weights(run / "checkpoints", 16, Snapshot({"w": torch.full((40,), 16.0)}, {}))
                mark("done 16 early")


def recordings() -> None:
    """Two recordings of attention maps."""
    from attention_maps.files.store import save

    for step in (10, 20):
        save(recording(step), "run")
        mark(f"done {step}")


def late_recordings() -> None:
    """Two recordings between evaluations, which are brought to the disk together."""
    from attention_maps.files.store import make_durable, save

    Path("run").mkdir()
    here = os.open(".", os.O_RDONLY)
    REAL_FSYNC(here)  # a run folder is on the disk before training begins
    os.close(here)
    make_durable([save(recording(step), "run", durable=False) for step in (10, 20)])
    mark("done both")


def recording(step: int) -> Recording:
    """Return a recording whose weights tell its step."""
    import numpy as np

    from attention_maps.record.recording import Recording, Sample, tokens

    read = tokens([2, 5], ["a", "b"], frozenset({2}))
    weights = {("decoder", 0): np.full((1, 2, 2), step / 100, np.float16)}
    norms = {("decoder", 0): np.ones((1, 2), np.float16)}
    return Recording(step, (Sample(read, read, None, (0.5, 0.5), ((), ()), weights, norms),))


def cache() -> None:
    """The tokenizer and the tokens of a text."""
    from data.config import DataConfig, TokenizerConfig
    from data.token_cache import prepare

    data = DataConfig(source="text", path=os.environ["BOOK"], cache="cache", valid_fraction=0.2)
    prepare("gpt", data, TokenizerConfig(kind="char"), 8, 1)
    mark("done prepared")


def engine() -> None:
    """A model that another library decodes, of several files."""
    from training.run_folder.engine_folder import store

    def write(folder: Path) -> None:
        (folder / "model.bin").write_bytes(bytes(range(200)))
        (folder / "config.json").write_text('{"bos_token": "<s>"}', encoding="utf-8")

    store(Path("engine/ctranslate2-0"), write)
    mark("done exported")


def download() -> None:
    """A file that changes on the server between two downloads."""
    from data.sources.download import download

    served = [VERSIONS[0]]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("ETag", f'"{VERSIONS.index(served[0])}"')
            self.send_header("Content-Length", str(len(served[0])))
            self.end_headers()
            self.wfile.write(served[0].encode())

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for number, content in enumerate(VERSIONS):
        served[0] = content
        download(f"http://127.0.0.1:{server.server_port}/book.txt", Path("downloads"))
        mark(f"done {number}")


SCENARIOS = {each.__name__: each for each in (checkpoints, recordings, late_recordings, cache, engine, download)}

if __name__ == "__main__":
    label_fsyncs()
    for name, scenario in SCENARIOS.items():
        folder = Path(sys.argv[1]) / name
        folder.mkdir()
        os.chdir(folder)
        mark(f"begin {name}")
        scenario()
