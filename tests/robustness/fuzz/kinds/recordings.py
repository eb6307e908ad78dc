"""Damaged recordings, read by the commands of `attention_maps` and by the tab."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

from tests.robustness.fuzz import trained
from tests.robustness.fuzz.damage import Change, Cut, changed, changes, cut, cuts
from tests.robustness.fuzz.kinds.tab import Tab

make_ready = trained.make

COMMANDS = (
    ("list", "runs"),
    ("heads", "runs/translate"),
    ("show", "runs/translate", "sample=0"),
    ("show", "runs/translate", "kind=encoder", "query=0", "key=0"),
    ("export", "runs/translate", "to=tmp-out.svg", "kind=cross"),
    ("export", "runs/translate", "to=tmp-out.csv"),
    ("export", "runs/translate", "to=tmp-out.pharaoh", "kind=cross", "layer=0", "head=0"),
    ("export", "runs/translate", "to=tmp-out.html", "steps=all"),
)


PARTS = ("bytes", "header", "samples", "measures", "labels", "scores", "parts")
"""What is damaged: the bytes of the file, its header, or a part of its metadata."""


@dataclass(frozen=True)
class DamagedRecording:
    """Damage to the last recording of a run, and how it is read."""

    part: str
    todo: tuple[Change, ...]
    damage: Cut
    reader: int

    @property
    def may_change(self) -> tuple[str, ...]:
        """The files that `export` writes."""
        return ("tmp-out.svg", "tmp-out.csv", "tmp-out.pharaoh", "tmp-out.html")

    def prepare(self, folder: Path) -> None:
        """Damage the recording."""
        trained.copy_run(folder, "translate")
        path = folder / "runs" / "translate" / "attention" / "step_00000004.safetensors"
        content = path.read_bytes()
        path.write_bytes(cut(content, self.damage) if self.part == "bytes" else self._rewritten(content))

    def _rewritten(self, content: bytes) -> bytes:
        """Return the recording with another header."""
        (length,) = struct.unpack("<Q", content[:8])
        header = json.loads(content[8 : 8 + length])
        if self.part == "header":
            header = changed(header, self.todo)
        else:
            metadata = header["__metadata__"]
            metadata[self.part] = json.dumps(changed(json.loads(metadata[self.part]), self.todo))
        encoded = json.dumps(header).encode("utf-8", "surrogatepass")
        return struct.pack("<Q", len(encoded)) + encoded + content[8 + length :]

    def act(self) -> None:
        """Read the recording in one of several ways."""
        if self.reader < len(COMMANDS):
            from attention_maps.__main__ import COMMANDS as TABLE
            from attention_maps.__main__ import HELP
            from configs.commands import run_command

            run_command("attention_maps", HELP, TABLE, COMMANDS[self.reader], subject="runs/NAME")
        else:
            tab = Tab("runs")
            for route in ("index", "meta", "curves", "tensor"):
                tab.ask(
                    route,
                    {"run": "translate", "recording": "step_00000004", "sample": "0", "kind": "cross", "layer": "0"},
                )


def cases() -> st.SearchStrategy[DamagedRecording]:
    """Return one damage each."""
    readers = st.integers(0, len(COMMANDS) + 4)
    return st.builds(DamagedRecording, st.sampled_from(PARTS), changes, cuts, readers)
