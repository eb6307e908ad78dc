"""Maps of transformers models: the same as `output_attentions` of the eager implementation."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    EncoderDecoderModel,
    Gemma2Config,
    Gemma2ForCausalLM,
    GptOssConfig,
    GptOssForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    OPTConfig,
    OPTForCausalLM,
    T5EncoderModel,
    ViTConfig,
    ViTModel,
)
from transformers.modeling_layers import GradientCheckpointingLayer

from attention_maps.base.errors import UserError
from attention_maps.files.store import load
from attention_maps.hugging_face import AttentionCallback, record_attention
from tests.attention_maps.hugging_face.models import MODELS, TEXTS, enlarged, inputs_of, made, tokenizer_of

Maps = dict[tuple[str, int], Tensor]

DECODER = {"vocab_size": 300, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
GROUPED = DECODER | {"intermediate_size": 64, "num_key_value_heads": 2, "head_dim": 8}


def eager_maps(name: str, inputs: dict[str, Tensor]) -> Maps:
    """Return the maps that transformers itself gives."""
    with torch.no_grad():
        output = made(name, "eager")(**inputs, output_attentions=True)
    outputs = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}
    if not MODELS[name][1].is_encoder_decoder:
        outputs = {"encoder" if name == "bert" else "decoder": "attentions"}
    return {(kind, layer): weights for kind, key in outputs.items() for layer, weights in enumerate(output[key])}


@pytest.mark.parametrize("name", MODELS)
def test_maps_equal_eager_attention(name: str) -> None:
    """Guards against a lost mask, shared heads in the wrong order, a missing bias, and maps of the wrong layer; and
    against a recording that changes what the model computes."""
    model, inputs = made(name), inputs_of(name)
    with torch.no_grad(), record_attention(model, tokenizer_of(name)) as recorded:
        logits = model(**inputs).logits
    with torch.no_grad():
        assert torch.equal(logits, model(**inputs).logits)
    expected, maps = eager_maps(name, inputs), recorded.weights
    assert maps.keys() == expected.keys()
    for key, weights in maps.items():
        assert (weights - expected[key]).abs().max() < 1e-3
        assert (weights.sum(dim=-1) - 1).abs().max() < 1e-5
        assert weights.std() > 0.02, "these maps are too uniform to show a mistake"
        if key[0] == "decoder":
            assert not weights.triu(1).any()
    assert recorded.deviation < 1e-5


@pytest.mark.parametrize("name", ["gpt2", "bert", "marian"])
def test_saved_maps_have_no_padding_and_the_right_labels(name: str, tmp_path: Any) -> None:
    """Guards against padding in the file, and rows or columns with the tokens of another text."""
    model, inputs = made(name), inputs_of(name)
    with torch.no_grad(), record_attention(model, tokenizer_of(name)) as recorded:
        output = model(**inputs)
    recording = load(recorded.save(tmp_path, step=7, names=["short", "long"]))
    assert recording.step == 7
    assert "<iframe" in recorded.show(layer=1)._repr_html_()
    assert [sample.name for sample in recording.samples] == ["short", "long"]
    for row, sample in enumerate(recording.samples):
        ids = [token for token in inputs["input_ids"][row].tolist() if token != 0]
        source = sample.source
        if name == "gpt2":
            assert list(sample.reads.ids) == ids
            assert source is None
        else:
            assert source is not None
            assert list(source.ids) == ids
            assert source.special == tuple(token in tokenizer_of(name).all_special_ids for token in ids)
        for (kind, layer), weights in sample.weights.items():
            full = recorded.weights[kind, layer][row]  # type: ignore[index]
            rows, columns = (len(ids), len(ids)) if name != "marian" or kind == "encoder" else full.shape[1:]
            columns = len(ids) if kind == "cross" else columns
            assert np.abs(weights - full[:, :rows, :columns].numpy()).max() < 1e-3
    if name == "bert":
        assert len(recording.samples[0].reads) == 0
        assert recording.labels.keys() == {"encoder"}
        return
    first = recording.samples[0]
    best = output.logits[0, 0].softmax(-1).max()
    assert first.predictions[0][0].probability == pytest.approx(float(best), abs=1e-4)
    expected = -output.logits[0, 0].log_softmax(-1)[first.reads.ids[1]]
    assert first.losses[0] == pytest.approx(float(expected), abs=1e-3)
    assert len(first.losses) == len(first.predicts) == len(first.reads) - 1


@pytest.mark.parametrize(
    ("name", "how"),
    [("gpt2", {}), ("llama", {}), ("llama", {"cache_implementation": "static"}), ("marian", {}), ("t5", {})],
)
def test_cached_generation_equals_one_pass(name: str, how: dict[str, Any]) -> None:
    """Guards against rows of a cached step in the wrong place: they equal those of one pass over the whole text."""
    model, labels = made(name), tokenizer_of(name)
    inputs = {key: value for key, value in inputs_of(name, "left").items() if key != "decoder_input_ids"}
    with torch.no_grad(), record_attention(model, labels) as steps:
        written = model.generate(**inputs, max_new_tokens=6, do_sample=False, **how)[:, :-1]
    if model.config.is_encoder_decoder:
        whole = inputs | {"decoder_input_ids": written}
    else:
        mask = nn.functional.pad(inputs["attention_mask"], (0, 5), value=1)
        whole = {"input_ids": written, "attention_mask": mask, "position_ids": (mask.cumsum(1) - 1).clamp(min=0)}
    with torch.no_grad(), record_attention(model, labels) as once:
        model(**whole)
    for stepwise, together in zip(steps.recording().samples, once.recording().samples, strict=True):
        assert stepwise.reads == together.reads
        assert len(stepwise.reads) > 5
        for key, weights in together.weights.items():
            assert np.abs(stepwise.weights[key].astype(np.float32) - weights).max() < 2e-3


def test_beam_search_is_refused() -> None:
    """Guards against maps that mix the beams of beam search without a word."""
    model = made("marian")
    inputs = {key: value for key, value in inputs_of("marian").items() if key != "decoder_input_ids"}
    with pytest.raises(UserError, match="beam search"), torch.no_grad(), record_attention(model):
        model.generate(**inputs, num_beams=4, max_new_tokens=12)
    assert model.config._attn_implementation == "sdpa"


def test_labels_are_what_the_rows_predict() -> None:
    """Guards against a last row without its label, the end of the text, and against padding among the target tokens."""
    model, labels = made("marian"), tokenizer_of("marian")
    inputs = {key: value for key, value in inputs_of("marian").items() if key != "decoder_input_ids"}
    gold = torch.tensor([[7, 8, 9, 2], [5, 2, -100, -100]])
    with torch.no_grad(), record_attention(model, labels) as recorded:
        output = model(**inputs, labels=gold)
    long, short = recorded.recording().samples
    assert long.predicts.ids == (7, 8, 9, 2)
    assert short.predicts.ids == (5, 2)
    assert short.reads.ids == (0, 5)
    assert short.predicts.pieces[-1] == "</s>"
    assert short.weights["cross", 0].shape[1] == 2
    mean = (sum(long.losses) + sum(short.losses)) / 6
    assert mean == pytest.approx(float(output.loss), abs=1e-3)
    with torch.no_grad(), record_attention(model, labels) as recorded:  # labels of some rows alone
        model(**inputs, labels=torch.tensor([[-100, 8, 9, 2], [5, -100, 7, 2]]))
    assert [len(sample.predicts) for sample in recorded.recording().samples] == [3, 3]


def test_cache_filled_outside_the_block_is_refused() -> None:
    """Guards against labels that are shifted because the first tokens are not known."""
    model, inputs = made("gpt2"), inputs_of("gpt2")
    with torch.no_grad():
        cache = model(**inputs, use_cache=True).past_key_values
        with pytest.raises(UserError, match="holds 16 tokens, of which 0"), record_attention(model):
            model(input_ids=torch.tensor([[5], [6]]), past_key_values=cache)


def test_chosen_layers_alone_are_recorded(tmp_path: Any) -> None:
    """Guards against misnumbered layers."""
    model, inputs = made("marian"), inputs_of("marian")
    with torch.no_grad(), record_attention(model, layers={"cross": [0, 2]}) as recorded:
        model(**inputs)
    with torch.no_grad(), record_attention(model) as everything:
        model(**inputs)
    assert recorded.weights.keys() == {("cross", 0), ("cross", 2)}
    assert torch.equal(recorded.weights["cross", 2], everything.weights["cross", 2])
    recording = load(recorded.save(tmp_path))
    assert recording.layer_numbers == {"cross": (0, 2)}
    full = everything.recording()
    assert full.layer_numbers == {}
    assert np.array_equal(recording.samples[1].weights["cross", 1], full.samples[1].weights["cross", 2])
    assert recording.samples[0].rollout == {}
    assert full.samples[0].rollout.keys() == {"encoder", "decoder"}


@pytest.mark.parametrize("layers", [[0], [0, 1], {"decoder": [0]}, {"encoder": [0, 1], "decoder": [0, 1]}])
def test_rollout_is_stored_only_over_all_layers(layers: Any) -> None:
    """Guards against the first layers of a model that pass for all of them, because they are numbered from 0."""
    model, inputs = made("marian"), inputs_of("marian")  # 2 layers in the encoder, 3 in the decoder
    with torch.no_grad(), record_attention(model, layers=layers) as recorded:
        model(**inputs)
    whole = {kind for kind, layer in recorded.weights if layer == {"encoder": 1, "decoder": 2}.get(kind)}
    assert all(sample.rollout.keys() == whole for sample in recorded.recording().samples)


@pytest.mark.parametrize("layers", [3, [], {}, {"cross": []}, "01", {"cross": 5}, [1.5]])
def test_invalid_layer_choices_are_refused(layers: Any) -> None:
    """Guards against a recording without maps, and a TypeError for one number."""
    with pytest.raises(UserError, match="give numbers"), record_attention(made("gpt2"), layers=layers):
        pass
    with pytest.raises(UserError, match="give numbers"):
        AttentionCallback(TEXTS, tokenizer_of("gpt2"), layers=layers)


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([3], "2 encoder, 3 decoder, 3 cross"),
        ({"encoder": [2]}, "2 encoder, 3 decoder, 3 cross"),
        ({"decoder": [0], "cross": [7]}, "2 encoder, 3 decoder, 3 cross"),
        ({"cros": [0]}, r"layers=\['cros'\]: the kinds of layers are encoder, decoder, cross"),
    ],
)
def test_unknown_layers_are_named(layers: Any, message: str) -> None:
    """Guards against an empty recording after a slip."""
    model = made("marian")
    with pytest.raises(UserError, match=message), record_attention(model, layers=layers):
        model(**inputs_of("marian"))
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("name", ["gpt2", "bert", "marian", "llama"])
def test_autocast_does_not_round_the_maps(name: str) -> None:
    """Guards training in mixed precision, in which a callback records."""
    model = made(name)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16), record_attention(model) as recorded:
        model(**inputs_of(name))
    for weights in recorded.weights.values():
        total = weights.sum(dim=-1)
        assert ((total - 1).abs() < 1e-5).logical_or(total == 0).all()


@pytest.mark.parametrize("name", ["gpt2", "marian"])
def test_recomputed_layers_are_not_recorded(name: str) -> None:
    """Guards against maps of layers that the model does not have, with gradient checkpointing."""
    model, inputs = made(name), inputs_of(name)
    with record_attention(model) as plain:
        model(**inputs)
    if hasattr(model, "activation_checkpointing_enable"):
        model.activation_checkpointing_enable()
    else:  # its name before transformers 5.23
        model.gradient_checkpointing_enable()
    for module in model.modules():  # the others without dropout
        module.training = isinstance(module, GradientCheckpointingLayer)
    with record_attention(model) as recorded:
        model(**inputs, use_cache=False).logits.sum().backward()
    assert recorded.weights.keys() == plain.weights.keys()


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_the_attention_is_restored_after_an_error(attention: str) -> None:
    """Guards against a model that goes on with explicit weights, or keeps a hook."""
    model = made("llama", attention)
    with pytest.raises(ZeroDivisionError), record_attention(model):
        raise ZeroDivisionError
    assert model.config._attn_implementation == attention
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    with record_attention(model), pytest.raises(UserError, match="only one recording"), record_attention(model):
        pass
    assert model.config._attn_implementation == attention


def test_nested_models_are_restored() -> None:
    """Guards against two configs of one model, of which one keeps our attention."""
    config = deepcopy(MODELS["bert"][1])
    model = EncoderDecoderModel(encoder=type(made("bert").bert)(config), decoder=made_decoder())
    model.config.decoder_start_token_id = 1

    def implementations() -> list[Any]:
        return [module.config._attn_implementation for module in model.modules() if hasattr(module, "config")]

    before = implementations()
    with torch.no_grad(), record_attention(model.eval()) as recorded:
        model(input_ids=torch.tensor([[5, 6, 7]]), decoder_input_ids=torch.tensor([[1, 8]]))
    assert implementations() == before
    assert {kind for kind, _ in recorded.weights} == {"encoder", "decoder", "cross"}
    assert recorded.weights["cross", 1].shape == (1, 4, 2, 3)


def made_decoder() -> Any:
    from transformers import BertLMHeadModel

    config = deepcopy(MODELS["bert"][1])
    config.is_decoder = config.add_cross_attention = True
    return BertLMHeadModel(config)


def test_variants_of_attention() -> None:
    """Guards against maps without soft-capping, a sliding window, a logit of its own for each head, or bfloat16."""
    texts = {"input_ids": torch.arange(3, 23).reshape(2, 10)}
    for model in (
        # Before transformers 5.21 the default was SDPA, which ignores soft-capping.
        Gemma2ForCausalLM(
            Gemma2Config(**GROUPED, sliding_window=4, attn_logit_softcapping=2.0, attn_implementation="eager")
        ),
        MistralForCausalLM(MistralConfig(**GROUPED, sliding_window=4)),
        GptOssForCausalLM(GptOssConfig(**GROUPED, sliding_window=4, num_local_experts=2, num_experts_per_tok=1)),
        OPTForCausalLM(OPTConfig(**DECODER, ffn_dim=64, word_embed_proj_dim=32, max_position_embeddings=64)),
        LlamaForCausalLM(LlamaConfig(**GROUPED)).to(torch.bfloat16),
    ):
        model = model.eval() if model.dtype == torch.bfloat16 else enlarged(model)
        with torch.no_grad(), record_attention(model) as recorded:
            model(**texts)
        eager = deepcopy(model)
        eager.set_attn_implementation("eager")
        with torch.no_grad():
            expected = eager(**texts, output_attentions=True).attentions
        for layer, weights in enumerate(expected):
            tolerance = 1e-3 if model.dtype == torch.float32 else 1e-2
            assert (recorded.weights["decoder", layer] - weights.float()).abs().max() < tolerance, type(model)


def test_encoder_of_an_encoder_decoder_alone() -> None:
    """Guards against an encoder taken for the whole model."""
    encoder = T5EncoderModel(MODELS["t5"][1]).eval()
    with torch.no_grad(), record_attention(encoder) as recorded:
        encoder(input_ids=torch.tensor([[5, 6, 7]]))
    assert recorded.weights.keys() == {("encoder", 0), ("encoder", 1)}


def test_images() -> None:
    """Guards against inputs without tokens, which have no labels."""
    config = ViTConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4, image_size=32)
    images = ViTModel(config).eval()
    with torch.no_grad(), record_attention(images) as recorded:
        images(torch.randn(1, 3, 32, 32))
    (sample,) = recorded.recording().samples
    assert sample.source is not None
    assert sample.source.pieces == ("0", "1", "2", "3", "4")


def test_models_that_compute_their_attention_themselves_are_refused() -> None:
    """Guards against an empty recording."""
    bloom = BloomForCausalLM(BloomConfig(vocab_size=300, hidden_size=32, n_layer=1, n_head=4)).eval()
    with pytest.raises(UserError, match="BloomForCausalLM computes its attention itself"), record_attention(bloom):
        bloom(torch.tensor([[5, 6]]))
    with pytest.raises(UserError, match="Linear is not a model of transformers"), record_attention(nn.Linear(2, 2)):
        pass


def test_attention_beyond_a_softmax_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against maps that look right, of a layer that does something else with them."""
    from transformers.models.llama import modeling_llama

    model = made("llama", "eager")
    eager = modeling_llama.eager_attention_forward

    def gated(*args: Any, **kwargs: Any) -> Any:
        output, weights = eager(*args, **kwargs)
        return output * 0.9, weights

    monkeypatch.setattr(modeling_llama, "eager_attention_forward", gated)
    with pytest.raises(UserError, match="more than a softmax"), torch.no_grad(), record_attention(model):
        model(**inputs_of("llama"))


def test_training_mode_is_refused() -> None:
    """Guards against maps under dropout."""
    model = made("gpt2").train()
    with pytest.raises(UserError, match=r"call model.eval\(\)"), record_attention(model):
        model(**inputs_of("gpt2"))
    with pytest.raises(UserError, match="nothing is recorded"), record_attention(model) as recorded:
        recorded.recording()
