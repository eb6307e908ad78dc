"""Damaged checkpoints: bytes, headers that lie, wrong shapes, dtypes and names, and training states of other kinds."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from tests.robustness.fuzz import trained
from tests.robustness.fuzz.damage import Change, Cut, changed, changes, cut, cuts

make_ready = trained.make

FILES = ("weights.safetensors", "state.pt", "state.json")
DTYPES = ("float64", "float16", "bfloat16", "int8", "int64", "bool", "complex64", "uint8")


@dataclass(frozen=True)
class DamagedCheckpoint:
    """One change of one file of the last checkpoint, which is then used."""

    task: str
    file: str
    change: str
    place: float
    tree: tuple[Change, ...]
    bytes: Cut
    resume: bool
    may_change = ("runs/gpt", "runs/translate")

    def prepare(self, folder: Path) -> None:
        """Damage the file."""
        trained.copy_run(folder, self.task, self.resume)
        place = (folder / "runs" / self.task / "checkpoints" / "last").resolve()
        if self.place < 0.8:  # without checksums, as in older versions, damage is only found by reading the contents
            summary = json.loads((place / "state.json").read_text("utf-8"))
            plain = {key: value for key, value in summary.items() if key not in ("files", "crc32")}
            (place / "state.json").write_text(json.dumps(plain), "utf-8")
        path = place / self.file
        content = path.read_bytes()
        if self.change == "remove":
            path.unlink()
        elif self.change == "folder":
            path.unlink()
            path.mkdir()
        elif self.change == "link":
            path.unlink()
            path.symlink_to(self.file)
        elif self.change == "other task":
            other = "gpt" if self.task == "translate" else "translate"
            path.write_bytes((trained.home() / "runs" / other / "checkpoints" / "last" / self.file).read_bytes())
        elif self.change == "tree" and self.file == "state.json":
            path.write_text(json.dumps(changed(json.loads(content), self.tree)), "utf-8")
        elif self.change == "tree" and self.file == "state.pt":
            state = torch.load(path, weights_only=True)
            torch.save(changed(state, tuple((what, at, self._tensor(value)) for what, at, value in self.tree)), path)
        elif self.change == "tree":
            length = struct.unpack("<Q", content[:8])[0]
            header = json.dumps(changed(json.loads(content[8 : 8 + length]), self.tree)).encode()
            path.write_bytes(struct.pack("<Q", len(header)) + header + content[8 + length :])
        elif self.change == "tensors" and self.file == "weights.safetensors":
            self._change_tensors(path)
        else:
            path.write_bytes(cut(content, self.bytes))

    def _tensor(self, value: Any) -> Any:
        if self.place < 0.5:
            return value
        return torch.full((1 + int(10 * self.place),), 1.0)

    def _change_tensors(self, path: Path) -> None:
        weights = load_file(path)
        name = sorted(weights)[int(self.place * len(weights))]
        tensor = weights[name]
        what, _, value = self.tree[0]
        match what:
            case "replace":
                weights[name] = tensor.flatten()[: max(0, tensor.numel() - 1)].clone()
            case "remove":
                del weights[name]
            case "rename":
                weights[str(value).replace("\0", "")] = weights.pop(name)
            case "wrap":
                weights[name] = tensor.unsqueeze(0).clone()
            case "double":
                weights[name] = torch.full_like(tensor, float("nan"))
            case "negate":
                weights[name] = torch.full_like(tensor, float("inf"))
        if self.place > 0.7 and name in weights:
            dtype = getattr(torch, DTYPES[int(1000 * self.place) % len(DTYPES)])
            weights[name] = weights[name].nan_to_num().to(dtype) if dtype != torch.complex64 else weights[name]
        step = "4" if self.place < 0.9 else str(value)
        save_file(weights, path, metadata={"step": step.replace("\0", "")})

    def act(self) -> None:
        """Generate from the checkpoint, or resume."""
        if self.resume:
            trained.train_with(f"resume=runs/{self.task}", "trainer.steps=5")
        else:
            trained.generate_from(
                f"runs/{self.task}",
                "checkpoint=last",
                "prompt=The cat",
                *(["max_tokens=5"] if self.task == "gpt" else []),
            )


def cases() -> st.SearchStrategy[DamagedCheckpoint]:
    """Return one change each."""
    kinds = ("bytes", "bytes", "tree", "tree", "tensors", "tensors", "remove", "folder", "link", "other task")
    return st.builds(
        DamagedCheckpoint,
        st.sampled_from(("gpt", "translate")),
        st.sampled_from(FILES),
        st.sampled_from(kinds),
        st.floats(0, 1, exclude_max=True),
        changes,
        cuts,
        st.booleans(),
    )
