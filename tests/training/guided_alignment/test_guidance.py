"""The loss of guided alignment, and a run that is guided."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from data.batches.batch import Batch
from data.batches.pairs import Pairs
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from data.tokens.token_rows import token_rows_of
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.recording import record_attention
from tests.conftest import TINY, train_command
from training.guided_alignment.guidance import Guidance, GuidedHead, guided_heads
from training.guided_alignment.translation_table import learn_translations
from training.hardware.recomputation import recompute_activations
from training.sharding.lockstep import in_lockstep

IDS = SentencePieceTokenizer, SentencePieceTokenizer
"""The special ids of both sides."""
SENTENCES = [([10, 11], [21, 20]), ([10, 12], [20, 22, 22]), ([11, 12, 13], [23, 21, 22]), ([13], [23])]
PAIRS = Pairs(*(token_rows_of(side, 40) for side in zip(*SENTENCES, strict=True)), *IDS)
ROWS = np.arange(len(SENTENCES))


def guided(layers: int = 3, **more: float) -> tuple[EncoderDecoder, Guidance, Batch]:
    """Return a model, its guidance with weight 0.5, and a padded batch."""
    torch.manual_seed(3)
    config = ModelConfig(layers=layers, heads=4, kv_heads=2, width=32, context=16, **more)  # type: ignore[arg-type]
    model = EncoderDecoder(config, 40, 40).train()
    for name, parameter in model.named_parameters():
        if name.endswith("query.weight"):
            torch.nn.init.normal_(parameter)  # attention that is far from uniform
    return model, Guidance(model, learn_translations(PAIRS, ROWS, 40), 0.5), PAIRS.batch(ROWS, 16)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_the_loss_is_the_cross_entropy_of_the_maps_that_are_recorded(layers: int) -> None:
    """Guards the layer, the head with its shared keys, the row that predicts or reads, the mask, and the weight."""
    model, guidance, batch = guided(layers)
    heads = guided_heads(model.config, 0.5)
    assert [head.reads for head in heads] == [True, False]
    assert len(set(heads)) == 2
    model.features(*batch.model_inputs)  # type: ignore[arg-type]
    with torch.no_grad(), record_attention(model) as seen:  # leaves the guidance in place
        model.features(*batch.model_inputs)  # type: ignore[arg-type]
    model.features(*batch.model_inputs)  # type: ignore[arg-type]
    result = guidance.loss(batch).detach()
    assert batch.source is not None
    wanted = 0.0
    for layer, head, reads in heads:
        alignment = guidance.table.alignment(batch.source, batch.inputs if reads else batch.targets)
        for weights, rows in zip(seen.weights["cross", layer][:, head], alignment, strict=True):
            kept = rows > 0
            wanted -= float((rows[kept] * weights[kept].log()).sum())
    assert wanted > 1
    assert float(result) == pytest.approx(0.5 * wanted, rel=1e-4)


def test_gradients_reach_the_guided_layers_and_the_encoder() -> None:
    """Guards against a loss of detached queries or keys."""
    model, guidance, batch = guided()
    model.features(*batch.model_inputs)  # type: ignore[arg-type]
    guidance.loss(batch).backward()
    touched = {name for name, each in model.named_parameters() if each.grad is not None and each.grad.any()}
    for name in ("decoder.1.cross_attention.query.weight", "decoder.2.cross_attention.key_value.weight"):
        assert name in touched
    assert "encoder.0.attention.query_key_value.weight" in touched
    assert "decoder.2.feed_forward.project.weight" not in touched


def test_a_guided_model_can_be_copied_for_an_evaluation() -> None:
    """Guards against tensors of a graph in the model, whatever ran before: a step whose activations are recomputed in
    the backward pass, or a search for NaN, runs a forward pass after the loss."""
    model, guidance, batch = guided()
    for _ in range(2):
        model.train()
        recompute_activations(model)
        model.features(*batch.model_inputs)  # type: ignore[arg-type]
        guidance.loss(batch).backward()
        model.features(*batch.model_inputs)  # type: ignore[arg-type]
        model.eval()
        last = guidance.stored[0].last
        with torch.no_grad():
            copy.deepcopy(model).features(*batch.model_inputs)  # type: ignore[arg-type]
            model.features(*batch.model_inputs)  # type: ignore[arg-type]
        assert guidance.stored[0].last is last, "an evaluation replaced what the loss reads"


def test_a_copy_that_keeps_processes_in_lockstep_costs_nothing() -> None:
    """Guards against alignments that count twice: a process with fewer micro-batches repeats its last one without
    targets, but with all of its inputs."""
    model, guidance, batch = guided()
    _, copied = in_lockstep([batch], 2, "translate")
    model.features(*copied.model_inputs)  # type: ignore[arg-type]
    guidance.loss(copied).backward()
    assert not any(each.grad is not None and each.grad.any() for each in model.parameters())


def test_a_model_with_a_single_head_has_one_task() -> None:
    """Guards against two contrary losses of one head."""
    assert guided_heads(ModelConfig(layers=1, heads=1, width=32, context=16), 0.5) == [GuidedHead(0, 0, reads=False)]


def alignment_error(folder: Path, weight: int) -> float:
    """Train a translator in `folder` with this weight of the guidance -> the alignment error of its best head."""
    settings = ["task=translate", "trainer.steps=150", "trainer.evaluate_every=150", "data.batch_tokens=1024"]
    settings += ["optim=muon", "model.layers=2", "model.cross_qk_norm=true", "attention.scored=60"]
    settings += [f"name=guided_{weight}", f"trainer.guided_alignment={weight}", "trainer.compile=off"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["train.py", *TINY, *settings])
        train_command()
    scored = json.loads((folder / "runs" / f"guided_{weight}" / "test.json").read_text(encoding="utf-8"))
    return float(scored["test/alignment_error"])


@pytest.mark.slow
def test_a_guided_run_aligns_words_within_a_few_steps(tmp_path: Path) -> None:
    """Guards the whole: the head that reads aligns far better than any head of a run that is not guided."""
    assert alignment_error(tmp_path, 1) < alignment_error(tmp_path, 0) - 15
