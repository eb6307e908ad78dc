"""Imported models compute what transformers computes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from configs.errors import UserError
from interop.pretrained.conversion import load_weights
from interop.pretrained.folder import read_folder, read_tensors
from interop.pretrained.tokenizers import imported_tokenizers
from interop.pretrained.writing import architecture_for, write_folder
from model.recording import record_attention
from tests.interop.pretrained.foreign import SHAPES, built, inputs_of, saved, small_model

CASES = [(name, shape) for name, shapes in SHAPES.items() for shape in range(len(shapes))]
IDS = [f"{name}-{shape}" for name, shape in CASES]


def maps_of_theirs(name: str, found: object) -> dict[tuple[str, int], Tensor]:
    """Return the attention weights that transformers returns, under our names."""
    fields = {"decoder": "attentions"}
    if name == "marian":
        fields = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}
    return {(kind, layer): maps for kind, field in fields.items() for layer, maps in enumerate(getattr(found, field))}


@pytest.mark.parametrize(("name", "shape"), CASES, ids=IDS)
@torch.no_grad()
def test_logits_and_maps_are_those_of_transformers(name: str, shape: int, tmp_path: Path) -> None:
    """Guards against a matrix that is transposed, heads or channels in another order, another rotation, epsilon, scale,
    residual arrangement or bias, padding that is attended to, and recorded maps that are not the model's."""
    theirs, inputs = small_model(name, shape), inputs_of(name)
    model = built(read_folder(saved(theirs, tmp_path / "theirs")))
    expected = theirs(**inputs.theirs, output_attentions=True)
    logits = model(*inputs.ours)
    assert expected.logits.std() > 0.5, "uniform predictions would hide errors"
    assert (logits - expected.logits).abs().max() < 1e-4
    with record_attention(model) as seen:
        model(*inputs.ours)
    for place, maps in maps_of_theirs(name, expected).items():
        wanted, result = maps, seen.weights[place]
        if place[0] == "encoder":  # rows of padding are of no use
            assert inputs.mask is not None
            wanted, result = (each.transpose(1, 2)[inputs.mask] for each in (wanted, result))
        assert (result - wanted).abs().max() < 1e-3, place
    assert seen.weights.keys() == maps_of_theirs(name, expected).keys()


@pytest.mark.parametrize(("name", "shape"), CASES, ids=IDS)
@torch.no_grad()
def test_import_and_export_are_inverse(name: str, shape: int, tmp_path: Path) -> None:
    """Guards against tensors that come back changed, transposed or under other names, and a config.json of which
    transformers makes another model."""
    theirs, inputs = small_model(name, shape), inputs_of(name)
    source = read_folder(saved(theirs, tmp_path / "theirs"))
    architecture, weights = source.architecture, load_weights(source)
    assert architecture_for(architecture.task, source.shapes) is architecture
    ids = {key: value for key, value in source.values.items() if key.endswith("_id")}
    (tmp_path / "again").mkdir()
    write_folder(architecture, source.shapes, weights, ids, tmp_path / "again")
    written, original = read_tensors(tmp_path / "again"), read_tensors(tmp_path / "theirs")
    tied = original.keys() - written.keys()
    for key in written.keys() & original.keys():
        assert torch.equal(written[key], original[key]), key
    assert len(tied) == len(written.keys() - original.keys()) <= 1  # which of the tied names is stored is of no account
    again = read_folder(tmp_path / "again")
    assert again.config == source.config
    result = load_weights(again)
    assert result.keys() == weights.keys()
    assert all(torch.equal(result[key], weights[key]) for key in weights)
    copy = type(theirs).from_pretrained(tmp_path / "again", attn_implementation="eager")
    assert torch.equal(copy(**inputs.theirs).logits, theirs(**inputs.theirs).logits)


@torch.no_grad()
def test_old_config_files_and_sharded_weights_are_read(tmp_path: Path) -> None:
    """Guards the names that transformers used before version 5, models in several files, and tensors without prefix."""
    theirs, inputs = small_model("llama", 2), inputs_of("llama")
    theirs.save_pretrained(tmp_path / "theirs", max_shard_size="20kB")
    assert len(list((tmp_path / "theirs").glob("*.safetensors"))) > 1
    source = read_folder(tmp_path / "theirs")
    values = {key: value for key, value in source.values.items() if key != "rope_parameters"}
    old = values | {"rope_theta": 300.0}
    (tmp_path / "theirs" / "config.json").write_text(json.dumps(old))
    model = built(read_folder(tmp_path / "theirs"))
    assert (model(*inputs.ours) - theirs(**inputs.theirs).logits).abs().max() < 1e-4


@torch.no_grad()
def test_a_model_without_a_head_is_read(tmp_path: Path) -> None:
    """Guards GPT-2 as it is on the hub: names without `transformer.`, masks stored as tensors, and no lm_head."""
    theirs, inputs = small_model("gpt2", 0), inputs_of("gpt2")
    folder = saved(theirs, tmp_path / "theirs")
    tensors = {name.removeprefix("transformer."): tensor for name, tensor in read_tensors(folder).items()}
    tensors["h.0.attn.bias"] = torch.ones(1, 1, 24, 24)
    save_file(tensors, folder / "model.safetensors")
    model = built(read_folder(folder))
    assert (model(*inputs.ours) - theirs(**inputs.theirs).logits).abs().max() < 1e-4


@pytest.mark.parametrize("zipped", [True, False])
def test_files_of_torch_are_read(zipped: bool, tmp_path: Path) -> None:
    """Guards models that the hub has only as pytorch_model.bin, of torch before and since 1.6."""
    theirs = small_model("marian", 0)
    source = read_folder(saved(theirs, tmp_path / "theirs"))
    expected = load_weights(source)
    path = tmp_path / "theirs" / "model.safetensors"
    content = {**theirs.state_dict(), "model.encoder.embed_positions.weight": torch.zeros(24, 32)}
    torch.save(content, path.with_name("pytorch_model.bin"), _use_new_zipfile_serialization=zipped)
    path.unlink()
    result = load_weights(read_folder(tmp_path / "theirs"))
    assert result.keys() == expected.keys()
    assert all(torch.equal(result[key], expected[key]) for key in expected)


def test_no_other_program_is_needed(gpt2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards imports on machines without transformers, and against a library that looks for files on the hub."""
    for name in ("transformers", "huggingface_hub"):
        monkeypatch.setitem(sys.modules, name, None)
    source = read_folder(gpt2)
    assert load_weights(source).keys() == dict(built(source).named_parameters()).keys()
    assert imported_tokenizers(source)[0].encode("the cat") != []


def test_a_missing_library_is_named(gpt2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the message for an installation without the extra."""
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(UserError, match=r"needs the package tokenizers: .*pip install -e '.\[pretrained\]'"):
        imported_tokenizers(read_folder(gpt2))
