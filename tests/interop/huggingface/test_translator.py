"""A translator in transformers: exactly ours, in Pegasus or in the code that the folder brings with it."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForSeq2SeqLM

from generation.beam_search import beam_search
from generation.translation_result import longest_target
from interop.huggingface.generation import translating
from interop.huggingface.translator import seq2seq_lm
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from tests.interop.conftest import flavours, sharpened

SOURCE_VOCABULARY, VOCABULARY, BOS, EOS = 90, 101, 2, 3

CLASSIC = ModelConfig(norm="layer", position="learned", activation="gelu", qk_norm=False, bias=True)
KINDS = {
    "default": (ModelConfig(), "chumoku"),
    "grouped": (ModelConfig(activation="swiglu", kv_heads=2, encoder_layers=1, tie_embeddings=False), "chumoku"),
    "learned": (ModelConfig(norm="layer", position="learned", bias=True), "chumoku"),
    "classic": (CLASSIC, "pegasus"),
    "sinusoidal": (replace(CLASSIC, position="sinusoidal", activation="relu2", bias=False, kv_heads=2), "pegasus"),
}


def built(config: ModelConfig, shared: bool = True) -> EncoderDecoder:
    sizes = (VOCABULARY, VOCABULARY) if shared else (SOURCE_VOCABULARY, VOCABULARY)
    model = sharpened(EncoderDecoder(config, *sizes, shared=shared))
    assert isinstance(model, EncoderDecoder)
    with torch.no_grad():
        model.head.weight[EOS] *= 4  # translations end now and then
    return model


def sentences(count: int, length: int) -> tuple[Tensor, Tensor]:
    """Return random sources [B, S] that end with eos, with padding, and their mask."""
    lengths = torch.randint(2, length + 1, (count, 1))
    places = torch.arange(length)
    source = torch.randint(4, SOURCE_VOCABULARY, (count, length)).masked_fill(places == lengths - 1, EOS)
    return source.masked_fill(places >= lengths, 0), places < lengths


@torch.no_grad()
def test_every_flavour_is_exact() -> None:
    """Guards against a part that is missing or misplaced, in a sample of the flavours, shared vocabulary or not."""
    source, real = sentences(3, 20)
    target = torch.randint(4, VOCABULARY, (3, 24))
    chosen = random.Random(1).sample(
        [*flavours(), *flavours(share_embeddings=False, encoder_layers=1, cross_qk_norm=True)], 40
    )
    kinds = set()
    for number, config in enumerate(chosen):
        model = built(config, shared=number % 3 > 0)
        theirs = seq2seq_lm(model)
        kinds.add(theirs.config.model_type)
        logits = theirs(input_ids=source, attention_mask=real.long(), decoder_input_ids=target).logits
        torch.testing.assert_close(logits, model(source, target, real), rtol=1e-4, atol=1e-4, msg=str(config))
    assert kinds == {"chumoku", "pegasus"}


@torch.no_grad()
@pytest.mark.parametrize("name", KINDS)
def test_a_folder_translates_as_we_do(name: str, tmp_path: Path) -> None:
    """Guards what is stored, the cache, the order of hypotheses and their scores: greedy and beam search."""
    config, kind = KINDS[name]
    model = built(replace(config, layers=2, heads=4, width=32, context=24, vocab_multiple=64))
    theirs = seq2seq_lm(model)
    trainer: dict[str, Any] = {"beam_size": 4, "length_penalty": 0.8}
    theirs.generation_config = translating(model.config, [0, 1, 2], trainer)
    theirs.save_pretrained(tmp_path)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, trust_remote_code=kind == "chumoku")
    assert loaded.config.model_type == kind

    source, real = sentences(60, 20)
    inputs = {"input_ids": source, "attention_mask": real.long()}
    target = torch.randint(4, VOCABULARY, (60, 24))
    logits = loaded(**inputs, decoder_input_ids=target).logits
    torch.testing.assert_close(logits, model(source, target, real), rtol=1e-4, atol=1e-4)

    ids = {"bos_id": BOS, "eos_id": EOS, "banned_ids": [0, 1, 2], "max_length": model.config.context - 1}
    for beams in (1, 4):
        written = loaded.generate(**inputs, num_beams=beams).tolist()
        result = beam_search(model, source, real, beam_size=beams, length_penalty=0.8, **ids)  # type: ignore[arg-type]
        # At the limit the conventions differ: transformers prefers a better hypothesis that has no end.
        both = zip(map(plain, written), (best[0].tokens for best in result), strict=True)
        ended = [(theirs, ours) for theirs, ours in both if len(ours) + 1 < model.config.context - 1]
        assert [theirs for theirs, _ in ended] == [ours for _, ours in ended]
        assert len(ended) > 15


@torch.no_grad()
@pytest.mark.parametrize("name", ["default", "classic"])
def test_a_translation_that_does_not_end_is_cut_where_ours_is(name: str, tmp_path: Path) -> None:
    """Guards the limit of each sentence: our class has it in a batch, with others a caller sets it as the card says."""
    config, kind = KINDS[name]
    model = built(replace(config, layers=2, heads=4, width=32, context=40))
    theirs = seq2seq_lm(model)
    theirs.generation_config = translating(model.config, [0, 1, 2], {"beam_size": 4, "length_penalty": 0.8})
    theirs.save_pretrained(tmp_path)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, trust_remote_code=kind == "chumoku")
    source, real = sentences(40, 16)
    limits = [longest_target(length, 40) for length in real.sum(1).tolist()]
    assert len({*limits}) > 5
    for beams in (1, 4):
        result = beam_search(
            model,
            source,
            real,
            beam_size=beams,
            length_penalty=0.8,
            bos_id=BOS,
            eos_id=EOS,
            banned_ids=[0, 1, 2],
            max_length=torch.tensor(limits),
        )
        ours = [best[0].tokens for best in result]
        if kind == "chumoku":
            written = loaded.generate(source, attention_mask=real.long(), num_beams=beams).tolist()
        else:
            each = [row[kept].unsqueeze(0) for row, kept in zip(source, real, strict=True)]
            written = [
                loaded.generate(one, num_beams=beams, max_length=min(3 * one.shape[1] + 11, 40))[0].tolist()
                for one in each
            ]
        cut = [len(tokens) == limit for tokens, limit in zip(ours, limits, strict=True)]
        assert 2 < sum(cut) < 40
        assert [plain(row)[:limit] for row, limit in zip(written, limits, strict=True)] == ours
    longer = loaded.generate(source[:1], attention_mask=real[:1].long(), num_beams=1, max_length=40, eos_token_id=0)
    assert longer.shape[1] == 40, "a limit of the caller counts"


def plain(row: list[int]) -> list[int]:
    """Return the tokens after bos and before eos."""
    row = row[1:]
    return row[: row.index(EOS)] if EOS in row else row


def test_the_folder_can_be_trained_further(tmp_path: Path) -> None:
    """Guards the loss and its gradients in the code that the folder brings with it, and saving once more."""
    model = built(ModelConfig(layers=1, heads=2, width=32, context=24))
    seq2seq_lm(model).save_pretrained(tmp_path / "first")
    theirs = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "first", trust_remote_code=True).train()
    source, real = sentences(8, 20)
    labels = torch.randint(4, VOCABULARY, (8, 10))
    labels[:, 8:] = -100
    optimizer = torch.optim.AdamW(theirs.parameters(), lr=0.01)
    losses = []
    for _ in range(5):
        loss = theirs(input_ids=source, attention_mask=real.long(), labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.5
    theirs.save_pretrained(tmp_path / "second")
    again = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "second", trust_remote_code=True)
    assert again.head.weight is again.encoder.embedding.tokens.weight is again.decoder.embedding.tokens.weight
    assert torch.equal(again.head.weight, theirs.head.weight)
