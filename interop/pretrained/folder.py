"""A folder of Hugging Face transformers: its config.json and its weights, checked; nothing in it is executed."""

from __future__ import annotations

import json
import textwrap
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from configs.errors import UserError
from configs.run_contents import check_contents
from interop.pretrained import llama
from interop.pretrained.architecture import Architecture, Shapes
from interop.pretrained.config_values import Values
from interop.pretrained.gpt2 import GPT2
from interop.pretrained.marian import MARIAN
from model.config import ModelConfig, problems

if TYPE_CHECKING:
    from torch import Tensor

CONFIG, WEIGHTS = "config.json", "model.safetensors"
FILES = (WEIGHTS, f"{WEIGHTS}.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
"""Files with the weights, or with the names of the files that contain them; the first one of several is read."""

ARCHITECTURES: dict[str, Architecture] = {
    architecture.model_type: architecture for architecture in (GPT2, MARIAN, *llama.ARCHITECTURES)
}
"""All architectures that can be imported, by their `model_type`."""

EXPORTED = ("chumoku", "pegasus")
"""What translators are exported as."""

LARGE = 1 << 28
"""Numbers of a matrix, of a gigabyte, that only a large file contains."""


def is_pretrained(path: Path) -> bool:
    """Whether a folder is one of transformers, and not a run."""
    return (path / CONFIG).is_file() and not (path / "config.yaml").exists()


@dataclass(frozen=True)
class Pretrained:
    """A folder whose config.json has been read; its weights and tokenizers are read on demand."""

    folder: Path
    architecture: Architecture
    values: dict[str, Any]
    """Of its config.json."""
    shapes: Shapes

    @property
    def config(self) -> ModelConfig:
        """Return the model as one of ours; dropout is not taken over."""
        return self.shapes.config


def read_folder(folder: Path) -> Pretrained:
    """Read and check the config.json of a folder, without torch. Raises UserError with all of its problems."""
    path = folder / CONFIG
    check_contents(folder)
    content = read_json(path)
    name = content.get("model_type")
    if not isinstance(name, str) or name not in ARCHITECTURES:
        exported = "; of a run that was exported, give the run: init_from=runs/NAME" if name in EXPORTED else ""
        known = ", ".join(sorted(ARCHITECTURES))
        raise UserError(f"{path}: model_type={name}: cannot be imported, only {known}{exported}")
    architecture, values = ARCHITECTURES[name], Values(str(path), content)
    values.only("quantization_config", (None,), "quantised weights cannot be imported")
    config = settled(architecture.read(values))
    rows = values.whole("vocab_size")
    separate = architecture.task == "translate" and not config.share_embeddings
    shapes = Shapes(config, rows, values.whole("decoder_vocab_size", rows) if separate else rows)
    values.check()
    if wrong := problems(config):
        raise UserError(*(f"{path}: {problem}" for problem in wrong))
    weights_file(folder)
    check_size(shapes, folder)
    return Pretrained(folder, architecture, content, shapes)


def settled(config: ModelConfig) -> ModelConfig:
    """Return the same model with every setting that equals a default spelled in the same way."""
    return replace(
        config,
        norm_eps=None if config.norm_eps == (1e-6 if config.norm == "rms" else 1e-5) else config.norm_eps,
        kv_heads=None if config.kv_heads == config.heads else config.kv_heads,
        encoder_layers=None if config.encoder_layers == config.layers else config.encoder_layers,
        feed_forward=None
        if config.hidden_width == replace(config, feed_forward=None).hidden_width
        else config.feed_forward,
    )


def weights_file(folder: Path) -> Path:
    """Return the file of the weights, or the index of several. Raises UserError if there is none."""
    for name in FILES:
        if (folder / name).exists():
            return folder / name
    raise UserError(f"{folder}: contains neither {WEIGHTS} nor pytorch_model.bin; download the whole model")


def check_size(shapes: Shapes, folder: Path) -> None:
    """Raise UserError, before memory is used, if the largest matrix is large and has more numbers than the weights have
    bytes."""
    config = shapes.config
    largest = config.width * max(shapes.source_vocab, shapes.target_vocab, config.width, config.hidden_width)
    files = [*folder.glob("*.safetensors"), *folder.glob("*.bin")]
    if largest > max(LARGE, sum(path.stat().st_size for path in files if path.is_file())):
        raise UserError(f"{folder / CONFIG}: is that of a larger model than the weights beside it; download both again")


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """Return all tensors of a folder, memory-mapped, from one file or from several. Raises UserError."""
    first = weights_file(folder)
    names = [first.name]
    if first.suffix == ".json":
        index = read_json(first).get("weight_map")
        names = sorted({str(name) for name in index.values()}) if isinstance(index, dict) else []
    tensors: dict[str, Tensor] = {}
    for name in names:
        if name != Path(name).name:
            raise UserError(f"{first}: names {name}, which is not in this folder")
        tensors |= tensors_of(folder / name)
    return tensors


def tensors_of(path: Path) -> dict[str, Tensor]:
    """Return the tensors in a file of safetensors or of torch. Raises UserError."""
    import pickle

    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if path.suffix == ".safetensors":
        with _reading(path, SafetensorError):
            return load_file(path)
    # What torch.load raises for a damaged file depends on the byte that is damaged.
    with _reading(
        path,
        pickle.UnpicklingError,
        RuntimeError,
        EOFError,
        LookupError,
        TypeError,
        AttributeError,
        AssertionError,
        ArithmeticError,
    ):
        # weights_only: a restricted unpickler, which builds tensors and calls nothing that the file names.
        mapped = zipfile.is_zipfile(path)
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
        if not isinstance(content, dict) or not all(isinstance(value, torch.Tensor) for value in content.values()):
            raise ValueError("not a dictionary of tensors")
        if any(value.layout is not torch.strided or value.is_meta or value.is_nested for value in content.values()):
            raise ValueError("its tensors are sparse, nested or empty")
    return {str(name): tensor for name, tensor in content.items()}


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file. Raises UserError if it cannot be read."""
    with _reading(path, RecursionError):
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError("not an object")
    return content


@contextmanager
def _reading(path: Path, *others: type[Exception]) -> Iterator[None]:
    """Convert the errors of a missing or damaged file to UserError. others: raised for a damaged one."""
    damage: tuple[type[Exception], ...] = (ValueError, *others)
    try:
        yield
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error}); download the whole model") from error
    except damage as error:
        raise UserError(f"{path}: is damaged ({shortened(error)}); download it again") from error


def shortened(error: Exception) -> str:
    """Return the beginning of what an error says, on one line."""
    return textwrap.shorten(str(error) or type(error).__name__, 100)
