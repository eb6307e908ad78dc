"""Folders and settings that cannot be imported are refused in one sentence, before anything is written."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from configs.errors import UserError
from interop.pretrained.conversion import load_weights
from interop.pretrained.folder import read_folder
from tests.conftest import train_command
from tests.interop.pretrained.foreign import saved, small_model
from tests.training.evaluation.reports.programs import command
from training.new_or_resumed_run import compose_run


def refusal(name: str, shape: int, folder: Path, **changes: Any) -> list[str]:
    """Return the problems of a folder whose config.json has been changed."""
    path = saved(small_model(name, shape), folder) / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(UserError) as error:
        read_folder(folder)
    return [problem.removeprefix(f"{path}: ") for problem in error.value.args]


@pytest.mark.parametrize(
    ("name", "key", "value", "message"),
    [
        ("gpt2", "model_type", "bert", "model_type=bert: cannot be imported, only apertus, arcee, gpt2, llama,"),
        ("gpt2", "scale_attn_by_inverse_layer_idx", True, "attention scores are scaled alike in all layers here"),
        ("gpt2", "activation_function", "quick_gelu", "cannot be imported, only gelu_new, gelu_pytorch_tanh"),
        ("gpt2", "n_layer", "two", "must be a whole number of at least 1"),
        ("gpt2", "n_positions", 10**12, "must be a whole number of at least 1 and at most 2,147,483,647"),
        ("gpt2", "activation_function", ["gelu"], "cannot be imported, only gelu_new, gelu_pytorch_tanh"),
        ("gpt2", "layer_norm_epsilon", 10**400, "must be a finite number greater than 0"),
        ("llama", "rope_parameters", [10000.0], "rope_parameters=[10000.0]: must be an object"),
        ("llama", "head_dim", {"size": 8}, "heads are hidden_size / num_attention_heads = 8 wide here"),
        ("gpt2", "n_head", 5, "model.width=32: must be a multiple of model.heads=5"),
        ("gpt2", "quantization_config", {"bits": 4}, "quantised weights cannot be imported"),
        ("qwen3", "attention_bias", True, "biases in all linear layers or in none"),
        ("stablelm", "rope_parameters", {"partial_rotary_factor": 0.25}, "choose a model with partial_rotary_factor=1"),
        ("stablelm", "use_parallel_residual", True, "not computed here; choose a model with use_parallel"),
        ("llama", "rope_parameters", {"rope_type": "yarn"}, "rope_type=yarn: positions are not scaled here"),
        ("llama", "head_dim", 16, "heads are hidden_size / num_attention_heads = 8 wide here"),
        ("llama", "mlp_bias", True, "mlp_bias=True: a model here has biases in all linear layers or in none"),
        ("marian", "decoder_ffn_dim", 99, "differs from encoder_ffn_dim=64"),
    ],
)
def test_what_our_blocks_do_not_compute_is_named(
    name: str, key: str, value: object, message: str, tmp_path: Path
) -> None:
    """Guards against a model that computes something else without a word."""
    (problem,) = refusal(name, 0, tmp_path, **{key: value})
    assert message in problem


def test_all_problems_of_a_config_are_reported_at_once(tmp_path: Path) -> None:
    """Guards against one error per attempt."""
    assert len(refusal("gpt2", 0, tmp_path, n_layer=0, activation_function="mish", scale_attn_weights=False)) == 3


def test_a_config_of_a_larger_model_uses_no_memory(tmp_path: Path) -> None:
    """Guards against a config.json whose sizes alone fill the memory."""
    (problem,) = refusal("llama", 0, tmp_path, hidden_size=2**30, head_dim=None)
    assert problem.startswith("is that of a larger model than the weights beside it")


class Harmful:
    """Unpickling it writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.write_text, (self.path, "executed")


def damaged(folder: Path) -> str:
    """Return what is said about the weights of a folder."""
    with pytest.raises(UserError) as error:
        load_weights(read_folder(folder))
    (message,) = error.value.args
    return message.removeprefix(f"{folder}")


def test_no_code_in_a_folder_is_executed(copied: Path) -> None:
    """Guards against pickles that run a program: torch.save of anything but tensors."""
    (copied / "model.safetensors").unlink()
    for save in (
        lambda content, path: torch.save(content, path),
        lambda content, path: path.write_bytes(pickle.dumps(content)),
    ):
        save({"wte.weight": Harmful(copied / "harm")}, copied / "pytorch_model.bin")
        assert "/pytorch_model.bin: is damaged" in damaged(copied)
        assert not (copied / "harm").exists()
    torch.save([1], copied / "pytorch_model.bin")
    assert "not a dictionary of tensors" in damaged(copied)
    for tensor in (torch.eye(3).to_sparse(), torch.eye(3, device="meta")):
        torch.save({"wte.weight": tensor}, copied / "pytorch_model.bin")
        assert "its tensors are sparse, nested or empty" in damaged(copied)


@pytest.mark.parametrize("zipped", [True, False])
def test_every_damaged_byte_of_a_file_of_torch_is_damage(zipped: bool, copied: Path) -> None:
    """Guards against the tracebacks of torch's unpickler, which differ from byte to byte."""
    tensors = load_file(copied / "model.safetensors")
    (copied / "model.safetensors").unlink()
    path, draw = copied / "pytorch_model.bin", random.Random(1)
    torch.save(tensors, path, _use_new_zipfile_serialization=zipped)
    whole = path.read_bytes()
    refused = 0
    for _ in range(50):
        content = bytearray(whole)
        for _ in range(3):
            content[draw.randrange(3000)] = draw.randrange(256)
        path.write_bytes(content)
        try:
            load_weights(read_folder(copied))
        except UserError:
            refused += 1
    assert refused > 20


def test_weights_that_do_not_fit_are_named(copied: Path) -> None:
    """Guards against models of which a part would stay random."""
    path = copied / "model.safetensors"
    whole = load_file(path)
    cases = [
        (
            {"transformer.wpe.weight": torch.zeros(8, 32)},
            "transformer.wpe.weight has shape (8, 32), but by config.json",
        ),
        ({"transformer.h.2.ln_1.bias": torch.zeros(32)}, "transformer.h.2.ln_1.bias: GPT2LMHeadModel with this config"),
        ({"transformer.ln_f.bias": torch.zeros(32, dtype=torch.int8)}, "torch.int8 numbers; quantised models cannot"),
    ]
    for change, message in cases:
        save_file(whole | change, path)
        assert message in damaged(copied)
    save_file({name: tensor for name, tensor in whole.items() if name != "transformer.ln_f.bias"}, path)
    assert "transformer.ln_f.bias is missing, a tensor of gpt2" in damaged(copied)
    path.write_bytes(path.read_bytes()[:1000])
    assert "/model.safetensors: is damaged" in damaged(copied)
    path.unlink()
    assert "contains neither model.safetensors nor pytorch_model.bin" in damaged(copied)
    index = copied / "model.safetensors.index.json"
    for name, message in (("../secret", "names ../secret, which is not in this folder"), ("part", "cannot be read")):
        index.write_text(json.dumps({"weight_map": {"wte.weight": name}}))
        assert message in damaged(copied)


def test_settings_that_contradict_the_folder_are_named(
    gpt2: Path, marian: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against settings that are ignored without a word."""
    text = ["data=text", "data.path=book.txt", f"init_from={gpt2}"]
    wrong = ("model.width=64", "tokenizer.kind=char", "model.context=64", "model.norm=rms")
    result = compose_run([*text, *wrong]).problems
    for setting, problem in zip(wrong, result, strict=True):
        key, name = setting.partition("=")[0], f"init_from={gpt2}"
        assert problem.startswith(f"{setting}: {name} was trained with {key}=")
    assert compose_run([*text, "tokenizer=bpe", "model.width=32", "model.dropout=0.1"]).problems == []

    shorter = compose_run([*text, "model.context=16"])
    assert (shorter.problems, shorter.config.model.context) == ([], 16)
    assert compose_run(text).config.model.context == 32
    monkeypatch.chdir(tmp_path)
    (problem,) = compose_run(["data=text", "data.path=book.txt", "init_from=openai-community/gpt2"]).problems
    assert problem.endswith("is downloaded first: hf download openai-community/gpt2 --local-dir gpt2")
    assert "add task=translate" in compose_run(["data=pairs", "data.path=x", f"init_from={marian}"]).problems[0]


def test_a_refusal_is_one_line_and_writes_nothing(
    copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards exit code 2 without a traceback, and against a run folder without a run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "book.txt").write_text("the cat sat on a mat. " * 200)
    recipe = ["init_from=copied", "data=text", "data.path=book.txt", "trainer.steps=1"]
    (copied / "model.safetensors").write_bytes(b"damage")
    assert command(monkeypatch, train_command, *recipe) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: copied/model.safetensors: is damaged")
    (copied / "tokenizer.json").unlink()
    assert command(monkeypatch, train_command, *recipe) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: copied/tokenizer.json: is missing; in transformers,")
    assert not (tmp_path / "runs").exists()
