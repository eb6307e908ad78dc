"""A GPT in transformers: exactly ours in every flavour, or refused by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from configs.errors import UserError
from generation.config import SamplingConfig
from generation.sampling import generate
from interop.huggingface.generation import GPT_SPECIAL_IDS, writing
from interop.huggingface.gpt import architecture, causal_lm
from model.config import ModelConfig
from model.gpt import GPT
from tests.interop.conftest import flavours, sharpened

VOCABULARY, EOS = 101, 3

HOLDERS = {
    "apertus": ModelConfig(activation="gelu", kv_heads=2),
    "arcee": ModelConfig(qk_norm=False, bias=True),
    "qwen3": ModelConfig(activation="swiglu", kv_heads=1, tie_embeddings=False),
    "llama": ModelConfig(activation="swiglu", qk_norm=False, bias=True, feed_forward=48),
    "starcoder2": ModelConfig(norm="layer", qk_norm=False, kv_heads=2),
    "stablelm": ModelConfig(norm="layer", activation="swiglu", qk_norm=False),
    "gpt2": ModelConfig(norm="layer", position="sinusoidal", activation="gelu", qk_norm=False, bias=True, kv_heads=2),
}
"""One flavour for each architecture."""


def built(config: ModelConfig) -> GPT:
    model = sharpened(GPT(config, VOCABULARY, EOS))
    assert isinstance(model, GPT)
    with torch.no_grad():
        model.head.weight[EOS] *= 3  # texts end now and then
    return model


def outcome(config: ModelConfig) -> str:
    try:
        return architecture(config)
    except UserError as refused:
        return str(refused.args)


@torch.no_grad()
def test_every_flavour_is_exact_or_refused_by_name() -> None:
    """Guards against a flavour that exports but computes something else: eps, rotary base, a gain, a missing bias."""
    kinds = set()
    tokens = torch.randint(4, VOCABULARY, (2, 24))
    for number, config in enumerate(flavours()):
        kind = outcome(config)
        if kind in HOLDERS:
            kinds.add(kind)
            if number % 3 == 0:
                continue  # two of three are enough
            model = built(config)
            logits = causal_lm(model, GPT_SPECIAL_IDS)(tokens).logits
            assert logits.shape[-1] == VOCABULARY  # no padding rows
            torch.testing.assert_close(logits, model(tokens), rtol=1e-4, atol=1e-4, msg=f"{kind}: {config}")
        else:
            assert "model." in kind
            assert "; train with " in kind
    assert kinds == HOLDERS.keys()


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (ModelConfig(token_shift=True), "model.token_shift=true: .*train with model.token_shift=false"),
        (
            ModelConfig(position="learned"),
            "model.position=learned: .*model.norm=layer, .*or with model.position=rotary",
        ),
        (ModelConfig(norm="layer"), "model.qk_norm=true with model.norm=layer: .*or with model.qk_norm=false"),
        (ModelConfig(bias=True), "model.bias=true with model.qk_norm=true: .*or with model.qk_norm=false"),
    ],
)
def test_a_refusal_names_the_option_and_what_to_train_instead(config: ModelConfig, sentence: str) -> None:
    """Guards against a refusal that leaves the user at a loss."""
    with pytest.raises(UserError, match=sentence):
        architecture(config)


@torch.no_grad()
@pytest.mark.parametrize("kind", HOLDERS)
def test_a_folder_loads_without_our_code_and_writes_our_text(kind: str, tmp_path: Path) -> None:
    """Guards what is stored: settings that the class forgets, buffers, ties, and ids that are never written."""
    model = built(replace(HOLDERS[kind], layers=2, heads=4, width=32, context=48, vocab_multiple=64))
    theirs = causal_lm(model, GPT_SPECIAL_IDS)
    theirs.generation_config = writing(model.config, [0, 1, 2])
    theirs.save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert loaded.config.model_type == kind

    tokens = torch.randint(4, VOCABULARY, (100, 48))
    torch.testing.assert_close(loaded(tokens).logits, model(tokens), rtol=1e-4, atol=1e-4)

    prompts = torch.cat((torch.full((100, 1), EOS), tokens[:, :3]), dim=1)
    written = loaded.generate(prompts, do_sample=False, max_new_tokens=40)[:, 4:].tolist()
    settings = SamplingConfig(temperature=0, max_tokens=40)
    steps = generate(model, prompts.tolist(), settings, stop_ids={EOS}, banned_ids={0, 1, 2})
    ours = [[token for token in text if token is not None] for text in zip(*steps, strict=True)]
    assert [text[: text.index(EOS)] if EOS in text else text for text in written] == ours
    assert any(EOS in text for text in written)


@torch.no_grad()
def test_documents_that_are_masked_in_training_are_equal_one_by_one() -> None:
    """Guards model.mask_documents: a text is one document, which the mask leaves as it is."""
    model = built(ModelConfig(layers=2, heads=4, width=32, context=24, mask_documents=True))
    tokens = torch.randint(4, VOCABULARY, (4, 24))
    tokens[:, 0] = EOS
    torch.testing.assert_close(causal_lm(model, GPT_SPECIAL_IDS)(tokens).logits, model(tokens), rtol=1e-4, atol=1e-4)
