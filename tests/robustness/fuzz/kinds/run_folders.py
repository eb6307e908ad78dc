"""Damaged run folders: another config.yaml, missing, foreign and special files, and a log that does not parse."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import yaml
from hypothesis import strategies as st

from tests.robustness.fuzz import trained
from tests.robustness.fuzz.damage import Change, Cut, changed, changes, cut, cuts

make_ready = trained.make

FILES = """
config.yaml metrics.jsonl log.txt tokenizer.model source_alphabet.txt events .lock attention checkpoints
checkpoints/last checkpoints/best test.json val attention/step_00000002.safetensors
""".split()

LISTS = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
)
"""A billion values if its aliases are copied."""

YAMLS = (
    *("", "\n", "\t", "\0", "\ufeff", "a", "- 1", "null", "[" * 5000, "{" * 5000, "a: &a [*a]", "---\n---\n"),
    *("%YAML 9.9\n---\n", "? [a]\n: b\n", "task: gpt\ntask: translate\n", "format: 2\ntask: translate\n"),
    *(f"format: {number}\n" for number in ("1", "2", "99", "x", "true")),
    *("!!python/object/apply:os.system ['touch evil']", "a: !!python/name:os.system"),
    *("model: {layers: !!int '0x'}", "data:\n  path: !!binary aGVsbG8=\n", "seed: 2026-11-23\n", "seed: 1:30:00\n"),
    *("a: &x " + "[" + "1," * 9 + "]\n", LISTS),
)
"""Other contents of config.yaml."""

CHANGES = [*"tree tree tree bytes bytes remove folder fifo loop dangling outside".split(), "outside folder"]


@dataclass(frozen=True)
class DamagedRun:
    """One change of a run folder, which is then used."""

    task: str
    file: str
    change: str
    tree: tuple[Change, ...]
    bytes: Cut
    text: str
    command: str
    may_change = ("runs/gpt", "runs/translate", "runs/new")

    def prepare(self, folder: Path) -> None:
        """Damage the folder."""
        trained.copy_run(folder, self.task, self.command in ("resume", "init_from"))
        run = folder / "runs" / self.task
        path = next(run.glob("events*")) if self.file == "events" else run / self.file
        if self.file == "config.yaml" and self.change in ("tree", "bytes"):
            if self.change == "tree":
                path.write_text(yaml.safe_dump(changed(yaml.safe_load(path.read_text("utf-8")), self.tree)), "utf-8")
            else:
                path.write_text(self.text, "utf-8")
            return
        content = path.read_bytes() if path.is_file() else b""
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        match self.change:
            case "folder":
                path.mkdir()
            case "fifo":
                os.mkfifo(path)
            case "loop":
                path.symlink_to(path.name)
            case "dangling":
                path.symlink_to("nothing")
            case "outside":
                path.symlink_to("/etc/passwd")
            case "outside folder":
                path.symlink_to("/etc")
            case "tree" | "bytes":
                path.write_bytes(cut(content, self.bytes))

    def act(self) -> None:
        """Use the run."""
        match self.command:
            case "generate":
                trained.generate_from(
                    f"runs/{self.task}", "prompt=The cat", *(["max_tokens=5"] if self.task == "gpt" else [])
                )
            case "resume":
                trained.train_with(f"resume=runs/{self.task}", "trainer.steps=5")
            case "init_from":
                trained.train_with(*trained.TINY, f"task={self.task}", f"init_from=runs/{self.task}", "name=new")
            case "maps":
                from attention_maps.__main__ import COMMANDS, HELP
                from configs.commands import run_command

                run_command("attention_maps", HELP, COMMANDS, ["show", f"runs/{self.task}"], subject="runs/NAME")


def cases() -> st.SearchStrategy[DamagedRun]:
    """Return one change each."""
    return st.builds(
        DamagedRun,
        st.sampled_from(("gpt", "translate")),
        st.sampled_from(["config.yaml"] * 10 + FILES),
        st.sampled_from(CHANGES),
        changes,
        cuts,
        st.sampled_from(YAMLS) | st.text(max_size=50),
        st.sampled_from(("generate", "generate", "resume", "resume", "init_from", "maps")),
    )
