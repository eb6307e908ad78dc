"""Damaged recordings, read by the commands of `attention_maps` and by the tab."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

from tests.attention_maps.tensorboard.damage import DAMAGES
from tests.robustness.fuzz import trained
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


@dataclass(frozen=True)
class DamagedRecording:
    """Damage to the last recording of a run, and how it is read."""

    damage: int
    seed: int
    reader: int

    @property
    def may_change(self) -> tuple[str, ...]:
        """The files that `export` writes."""
        return ("tmp-out.svg", "tmp-out.csv", "tmp-out.pharaoh", "tmp-out.html")

    def prepare(self, folder: Path) -> None:
        """Damage the recording."""
        trained.copy_run(folder, "translate")
        path = folder / "runs" / "translate" / "attention" / "step_00000004.safetensors"
        path.write_bytes(DAMAGES[self.damage][0](path.read_bytes(), random.Random(self.seed)))

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
    return st.builds(DamagedRecording, st.integers(0, len(DAMAGES) - 1), st.integers(0, 2**32), readers)
