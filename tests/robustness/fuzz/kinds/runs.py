"""Damaged run folders: files with changed bytes or values, missing and special files, read by every program."""

from __future__ import annotations

import io
import json
import os
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from hypothesis import strategies as st
from sentencepiece import sentencepiece_model_pb2

from tests.robustness.fuzz import trained
from tests.robustness.fuzz.damage import Change, Cut, changed, changes, cut, cuts
from tests.robustness.fuzz.kinds.tab import Tab

make_ready = trained.make

LAST = "checkpoints/step-00000004"
STRUCTURED = ("config.yaml", f"{LAST}/state.json", f"{LAST}/state.pt", f"{LAST}/weights.safetensors", "tokenizer.model")
FILES = (
    *(
        *STRUCTURED,
        *STRUCTURED,
        *STRUCTURED,
        "attention/step_00000004.safetensors",
        "attention/step_00000002.safetensors",
    ),
    *"metrics.jsonl log.txt source_alphabet.txt events .lock attention checkpoints checkpoints/last".split(),
    *("checkpoints/best", "test.json", "val"),
)

LISTS = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
)
"""A billion values if its aliases are copied."""

TEXTS = (
    *("", "\n", "\t", "\0", "\ufeff", "a", "- 1", "null", "[" * 5000, "{" * 5000, "a: &a [*a]", "---\n---\n"),
    *("%YAML 9.9\n---\n", "? [a]\n: b\n", "task: gpt\ntask: translate\n", "format: 2\ntask: translate\n", LISTS),
    *("!!python/object/apply:os.system ['touch evil']", "a: !!python/name:os.system", "seed: 2026-11-23\n"),
    *("model: {layers: !!int '0x'}", "data:\n  path: !!binary aGVsbG8=\n", "seed: 1:30:00\n", "format: 99\n"),
)
"""Other contents of a file of text."""

CHANGES = [*"values values values values bytes bytes text remove folder fifo loop dangling outside".split()]

READERS = {
    "generate": 4,
    "resume": 3,
    "init_from": 1,
    "list runs": 1,
    "heads RUN": 1,
    "show RUN sample=0": 1,
    "export RUN to=tmp-out.svg": 1,
    "export RUN to=tmp-out.csv": 1,
    "export RUN to=tmp-out.html steps=all": 1,
    "tab": 2,
}
"""How a run is used, a program or a command of `attention_maps`, with its share of the cases."""


@dataclass(frozen=True)
class DamagedRun:
    """One change of a run folder, which is then used."""

    task: str
    file: str
    change: str
    values: tuple[Change, ...]
    bytes: Cut
    text: str
    checksums: bool
    reader: str
    may_change = ("runs/gpt", "runs/translate", "runs/new", "tmp-out.svg", "tmp-out.csv", "tmp-out.html")

    def prepare(self, folder: Path) -> None:
        """Damage the folder."""
        trained.copy_run(folder, self.task, self.reader in ("resume", "init_from"))
        run = folder / "runs" / self.task
        if not self.checksums:  # damage is then found only by reading the contents
            summary = json.loads((run / LAST / "state.json").read_text("utf-8"))
            plain = {key: value for key, value in summary.items() if key not in ("files", "crc32")}
            (run / LAST / "state.json").write_text(json.dumps(plain), "utf-8")
        path = next(run.glob("events*")) if self.file == "events" else run / self.file
        content = path.read_bytes() if path.is_file() else b""
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        match self.change:
            case "values" | "bytes":
                path.write_bytes(self.damaged(content))
            case "text":
                path.write_text(self.text, "utf-8")
            case "folder":
                path.mkdir()
            case "fifo":
                os.mkfifo(path)
            case "loop":
                path.symlink_to(path.name)
            case "dangling":
                path.symlink_to("nothing")
            case "outside":
                path.symlink_to("/etc" if "." not in path.name else "/etc/passwd")

    def damaged(self, content: bytes) -> bytes:
        """Return other content for the file: with changed values if its structure is known, else with changed bytes."""
        suffix = Path(self.file).suffix
        if self.change == "bytes" or not content:
            return cut(content, self.bytes)
        if suffix == ".yaml":
            return yaml.safe_dump(changed(yaml.safe_load(content), self.values)).encode()
        if suffix == ".json":
            return json.dumps(changed(json.loads(content), self.values)).encode()
        if suffix == ".pt":
            return damaged_state(content, self.values)
        if suffix == ".safetensors":
            length = struct.unpack("<Q", content[:8])[0]
            header = json.dumps(changed(json.loads(content[8 : 8 + length]), self.values)).encode()
            return struct.pack("<Q", len(header)) + header + content[8 + length :]
        if self.file == "tokenizer.model":
            return damaged_tokenizer(content, self.values)
        return cut(content, self.bytes)

    def act(self) -> None:
        """Use the run."""
        run = f"runs/{self.task}"
        match self.reader:
            case "generate":
                short = ["max_tokens=5"] if self.task == "gpt" else ["attention=true"]
                trained.generate_from(run, "checkpoint=last", "prompt=The 猫\n\tsat.", *short)
            case "resume":
                trained.train_with(f"resume={run}", "trainer.steps=5")
            case "init_from":
                trained.train_with(*trained.TINY, f"task={self.task}", f"init_from={run}", "name=new")
            case "tab":
                tab = Tab("runs")
                for route in ("index", "meta", "curves", "tensor"):
                    where = {"run": self.task, "recording": "step_00000004", "sample": "0", "kind": "decoder"}
                    tab.ask(route, where | {"layer": "0"})
            case command:
                from attention_maps.__main__ import COMMANDS, HELP
                from configs.commands import run_command

                arguments = command.replace("RUN", run).split()
                run_command("attention_maps", HELP, COMMANDS, arguments, subject="runs/NAME")


def damaged_state(content: bytes, values: tuple[Change, ...]) -> bytes:
    """Return a training state in which values, also tensors, are replaced."""
    odd = tuple((what, share, torch.ones(3) if share < 0.5 else value) for what, share, value in values)
    state = torch.load(io.BytesIO(content), weights_only=True)
    sink = io.BytesIO()
    torch.save(changed(state, odd), sink)
    return sink.getvalue()


def damaged_tokenizer(content: bytes, values: tuple[Change, ...]) -> bytes:
    """Return a SentencePiece model with other pieces, scores, types, ids or rules."""
    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(content)
    for what, share, value in values:
        place = int(share * len(model.pieces))
        fields = [
            (part, field.name)
            for part in (model.trainer_spec, model.normalizer_spec)
            for field in part.DESCRIPTOR.fields
        ]
        try:
            match what:
                case "remove":
                    del model.pieces[place:]
                case "double":
                    model.pieces[place].piece = model.pieces[-1].piece
                case "rename":
                    model.pieces[place].piece = str(value)
                case "negate":
                    model.pieces[place].score = float("nan")
                case "wrap":
                    for piece in model.pieces:
                        piece.type = int(8 * share)
                case _:
                    setattr(*fields[int(share * len(fields))], value)
        except (TypeError, ValueError, IndexError, AttributeError, UnicodeError):
            model.trainer_spec.vocab_size = 2**31 - 1
    return model.SerializePartialToString()


def cases() -> st.SearchStrategy[DamagedRun]:
    """Return one change each."""
    readers: list[Any] = [reader for reader, share in READERS.items() for _ in range(share)]
    return st.builds(
        DamagedRun,
        st.sampled_from(("gpt", "translate")),
        st.sampled_from(FILES),
        st.sampled_from(CHANGES),
        changes,
        cuts,
        st.sampled_from(TEXTS) | st.text(max_size=50),
        st.booleans(),
        st.sampled_from(readers),
    )
