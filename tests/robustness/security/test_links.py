"""The run of somebody else, with a link, a second name or a named pipe in place of each of its files and folders: no
program changes anything outside the run, and none waits."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from attention_maps.base.run_contents import IN_PLACE
from attention_maps.files import store
from configs.errors import UserError
from tests.attention_maps.tensorboard.conftest import Tab
from tests.conftest import COMMANDS, TINY

pytestmark = pytest.mark.slow

OCCASIONAL = """
    .lock .tmp-link .config.yaml.0123abcd test.json trace.json bad_batch.json translations.txt heads.importance.txt
    engine engine/ctranslate2-0123456789abcdef engine/.ctranslate2-0123456789abcdef.0123abcd
    engine/ctranslate2-0123456789abcdef/model.bin evaluation evaluation/test.json evaluation/valid.json
    evaluation/test.step-6.json val val/events.out.tfevents.1.x events.out.tfevents.1.x checkpoints/.tmp-step-00000009
    checkpoints/step-00000099 checkpoints/weights-00000000 checkpoints/.tmp-last attention/.step_1.0123abcd
    attention/generated_00001.safetensors attention/step_00000099.safetensors
""".split()
"""What a run contains at times; the walk adds what the runs of the tests contain."""
FOLDERS = ("engine", "evaluation", "val", "ctranslate2-", ".ctranslate2-", "step-", "weights-", ".tmp-step-")
"""Beginnings of the names in OCCASIONAL that are folders."""

PROGRAMS = {
    "train, resumed": ["train.py", "resume=runs/gpt", "trainer.steps=8"],
    "train, new": ["train.py", *TINY, "name=gpt", "trainer.test=false"],
    "generate by torch": ["generate.py", "run=runs/gpt", "prompt=The", "max_tokens=2", "attention=true"],
    "generate by CTranslate2": ["generate.py", "run=runs/gpt", "prompt=The", "max_tokens=2", "engine=ctranslate2"],
    "evaluate": ["evaluate.py", "run=runs/gpt", "split=valid", "resamples=100"],
    "export": ["export.py", "run=runs/gpt", "to=exported"],
    "start from": ["train.py", *TINY, "init_from=runs/gpt", "name=new", "trainer.test=false"],
    "list maps": ["attention_maps", "list", "runs"],
    "list heads": ["attention_maps", "heads", "runs/gpt"],
    "show maps": ["attention_maps", "show", "runs/gpt"],
    "draw a page": ["attention_maps", "export", "runs/gpt", "to=page.html", "overwrite=true"],
    "draw maps": ["attention_maps", "export", "runs/gpt", "to=map.svg", "overwrite=true"],
}


WRITES = {
    "train, resumed": "",
    "train, new": "",
    "generate by torch": "attention",
    "generate by CTranslate2": "engine",
    "evaluate": "evaluation",
}
"""Beginnings of what a program writes in a run: links in its place are tried one by one; those in place of the rest,
which may be read, at once, since the program does its whole work."""


def together(name: str, kind: str, run: Path) -> list[list[str]]:
    """Return the entries that are replaced at the same time, for each start of a program."""
    if kind == "nothing":
        return [[]]
    result = entries(run)
    if kind == "second name":
        return [[each] for each in result if any(Path(each).match(pattern) for pattern in IN_PLACE)]
    if kind == "pipe":
        return [[each] for each in result]
    alone = [each for each in result if each.startswith(WRITES.get(name, "nothing"))]
    rest = [each for each in result if each not in alone and "/" not in each]
    return [*([each] for each in alone), *([rest] if rest else [])]


def entries(run: Path) -> list[str]:
    """Return what is replaced: every file and folder that a run has or may have."""
    return sorted({*(path.relative_to(run).as_posix() for path in run.rglob("*")), *OCCASIONAL})


def is_folder(path: Path) -> bool:
    """Whether an entry is a folder; if it is not there, by its name."""
    return path.is_dir() if path.exists() else path.name.startswith(FOLDERS)


def plant(path: Path, kind: str, victim: Path) -> None:
    """Replace a file or folder of a run by a link to a copy of it in `victim`, with files that programs delete, or by a
    named pipe."""
    path.parent.mkdir(parents=True, exist_ok=True)
    target = victim / path.name
    if is_folder(path):
        if path.exists():
            shutil.copytree(path, target, symlinks=True)
        for name in ("ctranslate2-old/model.bin", "step_99999999.safetensors", ".tmp-a/b", "a.0123abcd", "x.json"):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_text("precious")
    elif path.exists():
        shutil.copy(path, target)
    else:
        target.write_text("precious")
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "second name":
        os.link(target, path)
    else:
        path.symlink_to(target)


def everything(folder: Path) -> dict[str, object]:
    """Return names, contents and times of what is in a folder."""
    result: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else None
        result[str(path)] = (status.st_mode, status.st_ino, status.st_mtime_ns, content)
    return result


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Fail if the block takes longer, as when a named pipe is opened."""

    def late(number: int, frame: object) -> None:
        raise AssertionError(f"waits for more than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def commands() -> dict[str, Callable[[], None]]:
    """Return the programs by the first word of their command line."""
    from attention_maps.__main__ import guarded

    maps: Callable[[], None] = lambda: sys.exit(guarded(sys.argv[1:]))  # noqa: E731
    return COMMANDS | {"attention_maps": maps}


@pytest.mark.parametrize("kind", ["link", "pipe", "second name", "nothing"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_program_leaves_the_run_of_somebody_else(
    trained: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    kind: str,
) -> None:
    """Guards against a run folder from elsewhere in which a file or folder is a link to those of the user, or a pipe
    that nobody writes to. With nothing planted, the programs do their work: they would have touched it."""
    monkeypatch.chdir(tmp_path)
    arguments, runs, victim = PROGRAMS[name], tmp_path / "runs", tmp_path / "victim"
    whole = trained / "runs" / "gpt"
    for replaced in together(name, kind, whole):
        shutil.copytree(whole, runs / "gpt", symlinks=True)
        if name == "train, new":
            shutil.rmtree(runs / "gpt" / "checkpoints")
            for path in (runs / "gpt").glob("[mt]e[ts]*"):  # metrics.jsonl, test.json: only runs with checkpoints
                path.unlink()
        victim.mkdir()
        for each in replaced:
            plant(runs / "gpt" / each, kind, victim)
        before = everything(victim)
        monkeypatch.setattr(sys, "argv", arguments)
        code: object = 0
        with within(120):
            try:
                commands()[arguments[0]]()
            except SystemExit as left:
                code = left.code or 0
        said = capsys.readouterr().err
        errors = [line for line in said.splitlines() if line.startswith("error: ")]
        assert (code, len(errors)) == ((2, 1) if errors else (0, 0)), f"{replaced}: {said}"
        assert everything(victim) == before, replaced
        assert replaced or code == 0, said
        for path in (victim, runs, tmp_path / "exported"):
            shutil.rmtree(path, ignore_errors=True)


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_the_tab_does_not_leave_the_run_of_somebody_else(trained: Path, tmp_path: Path, kind: str) -> None:
    """Guards the tab in the same way: its lists, its recordings and its answers."""
    victim, replaced = tmp_path / "victim", entries(trained / "runs" / "gpt")
    names = {f"{number:03d}": each for number, each in enumerate(replaced)}
    for name, each in names.items():
        shutil.copytree(trained / "runs" / "gpt", tmp_path / "runs" / name, symlinks=True)
        (victim / name).mkdir(parents=True)
        plant(tmp_path / "runs" / name / each, kind, victim / name)
    before, shown = everything(victim), Tab(tmp_path / "runs")
    try:
        with within(500):
            for name in names:
                recordings = shown.json("index")["runs"].get(name, {}).get("steps", [])
                for route in ("checkpoints", "curves"):
                    assert shown.get(route, run=name).status_code in (200, 404)
                for step in recordings:
                    assert shown.get("meta", run=name, recording=f"step_{step:08d}").status_code in (200, 404, 422)
                question = {"run": name, "text": "The", "checkpoint": "last"}
                assert shown.client.post("/data/plugin/attention/ask", json=question).status_code in (200, 400, 404)
    finally:
        shown.plugin.questions.close()
    assert everything(victim) == before


def test_the_published_package_deletes_no_recordings_elsewhere(tmp_path: Path) -> None:
    """Guards the functions of the wheel that write or delete recordings, for whoever calls them."""
    outside = tmp_path / "victim"
    outside.mkdir()
    for step in range(4):
        (outside / f"step_{step:08d}.safetensors").write_bytes(b"precious")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "attention").symlink_to(outside)
    for delete in (lambda: store.thin(tmp_path / "run", 2), lambda: store.remove_after(tmp_path / "run", 0)):
        with pytest.raises(OSError, match="leads out of the run folder"):
            delete()
    assert len(list(outside.iterdir())) == 4


def test_links_inside_a_run_and_those_of_a_snapshot_are_used(trained: Path, tmp_path: Path) -> None:
    """Guards against refusing `last`, `best`, and the snapshots of the hub, whose files are links to a cache."""
    from attention_maps.base.run_contents import check_contents

    run = tmp_path / "run"
    shutil.copytree(trained / "runs" / "gpt", run, symlinks=True)
    check_contents(run, written="*")
    (run / "config.yaml").rename(tmp_path / "blob")
    (run / "config.yaml").symlink_to(tmp_path / "blob")
    check_contents(run)
    with pytest.raises(UserError, match=f"config.yaml: leads out of the run folder, to {tmp_path / 'blob'}; replace"):
        check_contents(run, written="*")
    (run / "config.yaml").unlink()
    (run / "log.txt").unlink()
    (run / "log.txt").symlink_to(tmp_path / "new")  # writing would create it
    with pytest.raises(UserError, match=r"log\.txt: leads out of the run folder"):
        check_contents(run, written="*")
    (run / "log.txt").unlink()
    (run / "log.txt").symlink_to("log.txt")
    check_contents(run, written="*")
    assert not (tmp_path / "new").exists()
