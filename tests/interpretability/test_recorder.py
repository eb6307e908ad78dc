"""Recordings of real models with real tokenizers."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attention_maps.draw import pictures
from attention_maps.files import store
from attention_maps.record import head_measures_and_labels as measures
from attention_maps.record.example import Example
from attention_maps.record.recording import Antecedents, Recording
from data.config import TokenizerConfig
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from data.tokens.tokenizer import Tokenizer
from interpretability.recorder import record
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT

ENGLISH, JAPANESE = "nah I d win", "いいえ勝つさ"


@pytest.fixture(scope="module")
def english() -> Tokenizer:
    """Return a character tokenizer of the English side."""
    return SentencePieceTokenizer.train([ENGLISH, "I win", "nah nah"], TokenizerConfig(kind="char"))


@pytest.fixture(scope="module")
def japanese() -> Tokenizer:
    """Return a character tokenizer of the Japanese side."""
    return SentencePieceTokenizer.train([JAPANESE, "勝つさ", "いいえ"], TokenizerConfig(kind="char"))


def small(**changes: object) -> ModelConfig:
    """Return a model size in which layers, heads and widths are all different."""
    return ModelConfig(**({"layers": 3, "encoder_layers": 2, "heads": 4, "width": 32, "context": 64} | changes))


def make_gpt(tokenizer: Tokenizer, **changes: object) -> GPT:
    """Return an untrained GPT with fixed weights."""
    torch.manual_seed(1)
    return GPT(small(**changes), tokenizer.vocab_size)


def make_translator(source: Tokenizer, target: Tokenizer, **changes: object) -> EncoderDecoder:
    """Return an untrained translator with fixed weights."""
    torch.manual_seed(1)
    return EncoderDecoder(small(**changes), source.vocab_size, target.vocab_size)


def text_example(tokenizer: Tokenizer) -> Example:
    """Return the English sentence of lesson 1 as a text."""
    return Example.text(tokenizer.encode(ENGLISH), tokenizer, "probe 1")


def pair_example(english: Tokenizer, japanese: Tokenizer) -> Example:
    """Return the sentence of lesson 1 with its translation."""
    return Example.pair(english.encode(ENGLISH), japanese.encode(JAPANESE), english, japanese, "probe 1")


def check_weights(recording: Recording) -> None:
    """Check that rows sum to 1 and causal maps are zero above the diagonal."""
    for sample in recording.samples:
        for (kind, layer), weights in sample.weights.items():
            assert weights.dtype == np.float16
            assert weights.shape == (4, len(sample.queries(kind)), len(sample.keys(kind))), (kind, layer)
            np.testing.assert_allclose(weights.astype(np.float32).sum(axis=2), 1, atol=2e-3)
            if kind == "decoder":
                assert not np.triu(weights, 1).any()
            assert sample.norms[kind, layer].shape == weights.shape[:2]
            assert (sample.norms[kind, layer] > 0).all()


@pytest.mark.parametrize(
    "changes", [{}, {"kv_heads": 2}, {"position": "learned", "norm": "layer", "qk_norm": False, "vocab_multiple": 64}]
)
def test_every_map_of_a_gpt_is_recorded(english: Tokenizer, changes: dict) -> None:
    """Guards number, shape, row sums and zeros of the maps for every model architecture."""
    recording = record(make_gpt(english, **changes), [text_example(english)] * 2, english.special_ids, 7)
    assert recording.step == 7
    assert [list(sample.weights) for sample in recording.samples] == [[("decoder", layer) for layer in range(3)]] * 2
    check_weights(recording)


@pytest.mark.parametrize("changes", [{}, {"kv_heads": 1, "position": "sinusoidal"}])
def test_every_map_of_a_translator_is_recorded(english: Tokenizer, japanese: Tokenizer, changes: dict) -> None:
    """Guards the shapes and the number of layers of all three kinds."""
    model = make_translator(english, japanese, **changes)
    recording = record(model, [pair_example(english, japanese)], english.special_ids, 7)
    (sample,) = recording.samples
    assert {kind: sample.layers(kind) for kind in ("encoder", "decoder", "cross")} == {
        "encoder": 2,
        "decoder": 3,
        "cross": 3,
    }
    check_weights(recording)


def test_labels_are_those_of_each_side(english: Tokenizer, japanese: Tokenizer) -> None:
    """Guards against target labels on source ids, and rows off by one: the first row reads bos and predicts token 0."""
    model = make_translator(english, japanese)
    (sample,) = record(model, [pair_example(english, japanese)], english.special_ids, 0).samples
    assert sample.source is not None
    assert english.decode(sample.source.ids) == ENGLISH
    assert japanese.decode(sample.reads.ids) == japanese.decode(sample.predicts.ids) == JAPANESE
    assert "".join(sample.predicts.pieces[:-1]) == JAPANESE
    assert sample.reads.pieces[1:] == sample.predicts.pieces[:-1]
    assert (sample.reads.ids[0], sample.predicts.ids[-1]) == (japanese.bos_id, japanese.eos_id)
    assert sample.source.special == (*[False] * len(ENGLISH), True)
    assert sample.reads.special == (True, *[False] * len(JAPANESE))


@pytest.mark.parametrize("kv_heads", [None, 2])
def test_weights_equal_an_independent_computation(english: Tokenizer, kv_heads: int | None) -> None:
    """Guards the recorded values: softmax(QK'/sqrt(D)) computed from the layer's input."""
    model = make_gpt(english, kv_heads=kv_heads, position="learned", qk_norm=False)
    example = text_example(english)
    projected = []
    module = next(m for name, m in model.named_modules() if name.endswith("query_key_value"))
    hook = module.register_forward_hook(lambda _module, _inputs, output: projected.append(output))
    recording = record(model, [example], english.special_ids, 0)
    hook.remove()
    assert not projected[0].requires_grad
    groups = 4 // (kv_heads or 4)
    query, key, value = projected[0][0].split((32, 32 // groups, 32 // groups), dim=-1)  # [T, C]
    future = torch.ones(len(query), len(query), dtype=torch.bool).triu(1)
    for head in range(4):
        q, other = query[:, 8 * head : 8 * head + 8], slice(8 * (head // groups), 8 * (head // groups) + 8)
        weights = (q @ key[:, other].T / 8**0.5).masked_fill(future, -torch.inf).softmax(dim=-1)  # [T, T]
        np.testing.assert_allclose(recording.maps(0, "decoder", 0)[head], weights.numpy(), atol=1e-3)
        norms = (weights @ value[:, other]).norm(dim=-1)
        np.testing.assert_allclose(recording.samples[0].norms["decoder", 0][head], norms.numpy(), rtol=2e-3)


@pytest.mark.parametrize("kv_heads", [None, 2])
def test_a_translators_weights_equal_an_independent_computation(
    english: Tokenizer, japanese: Tokenizer, kv_heads: int | None
) -> None:
    """Guards all three kinds, every layer and head, from the projections that the layers make of their own inputs,
    among examples of other lengths."""
    model = make_translator(english, japanese, kv_heads=kv_heads, position="learned", qk_norm=False)
    short = Example.pair(english.encode("I"), japanese.encode("勝"), english, japanese)
    projected: dict[str, torch.Tensor] = {}
    for name, module in model.named_modules():
        if name.endswith(("query_key_value", ".query", "key_value")):
            module.register_forward_hook(lambda _m, _i, output, name=name: projected.__setitem__(name, output[-1]))
    recording = record(model, [short, pair_example(english, japanese)], english.special_ids, 0)
    groups = 4 // (kv_heads or 4)
    compared = 0
    for (kind, layer), weights in recording.samples[1].weights.items():
        if kind == "cross":
            query = projected[f"decoder.{layer}.cross_attention.query"]
            key = projected[f"decoder.{layer}.cross_attention.key_value"][:, : 32 // groups]
        else:
            query, key, _ = projected[f"{kind}.{layer}.attention.query_key_value"].split(
                (32, 32 // groups, 32 // groups), -1
            )
        for head in range(4):
            other = slice(8 * (head // groups), 8 * (head // groups) + 8)
            scores = query[:, 8 * head : 8 * head + 8] @ key[:, other].T / 8**0.5
            if kind == "decoder":
                scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
            np.testing.assert_allclose(weights[head].astype(np.float32), scores.softmax(dim=-1), atol=1e-3)
            compared += 1
    assert compared == 4 * (2 + 3 + 3)


def test_losses_and_predictions_are_those_of_the_plain_model(english: Tokenizer, japanese: Tokenizer) -> None:
    """Guards against differences from the fused kernel: same losses and same most likely tokens, in descending
    order."""
    model = make_translator(english, japanese).eval()
    example = pair_example(english, japanese)
    (sample,) = record(model, [example], english.special_ids, 0, pieces=japanese.pieces).samples
    with torch.no_grad():
        logits = model(torch.tensor([example.source_ids]), torch.tensor([example.target_ids]))[0]
    losses = F.cross_entropy(logits, torch.tensor(example.next_ids), reduction="none")
    np.testing.assert_allclose(sample.losses, losses.numpy(), atol=1e-4)
    assert len(sample.predictions) == len(sample.reads)
    for row, chances in zip(sample.predictions, logits.softmax(dim=-1), strict=True):
        assert [p.probability for p in row] == pytest.approx(
            chances.sort(descending=True).values[:5].tolist(), abs=1e-4
        )
        assert [p.piece for p in row] == japanese.pieces([p.id for p in row])


def test_questions_can_be_asked_of_a_trained_tokenizer(english: Tokenizer, japanese: Tokenizer) -> None:
    """Guards against failing to look up a word of several pieces."""
    model = make_translator(japanese, english)
    example = Example.pair(japanese.encode(JAPANESE), english.encode(ENGLISH), japanese, english)
    recording = record(model, [example], english.special_ids, 0)
    assert recording.weight("I", "win", kind="decoder", layer=0) == 0  # cannot see into the future
    assert 0 < recording.weight("win", "I", kind="decoder", layer=0, head=1) < 1
    words = ["いいえ", "勝つ", "さ", -1]
    shares = [recording.weight("win", word, kind="cross", layer=2, head=0) for word in words]
    assert sum(shares) == pytest.approx(1, abs=2e-3)


@pytest.mark.slow
def test_recording_does_not_change_training(english: Tokenizer) -> None:
    """Guards against changed random state, modes or gradients: with dropout, the next losses are equal bit for bit."""

    def losses(recorded: bool) -> list[float]:
        model = make_gpt(english, dropout=0.2, attention_dropout=0.1).train()
        optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
        text = torch.tensor([english.encode(ENGLISH)])
        torch.manual_seed(3)
        losses_seen = []
        for step in range(3):
            loss = F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[0, 1:])
            loss.backward()
            if recorded:
                record(model, [text_example(english)], english.special_ids, step)
            optimiser.step()
            optimiser.zero_grad()
            losses_seen.append(loss.item())
        return losses_seen

    assert losses(True) == losses(False)


def test_training_mode_of_each_module_is_restored(english: Tokenizer) -> None:
    """Guards against switching frozen modules to training mode, also after an error."""
    model = make_gpt(english, dropout=0.5).train()
    frozen = next(m for m in model.modules() if isinstance(m, torch.nn.ModuleList))[0]
    frozen.eval()
    modes = [module.training for module in model.modules()]
    first = record(model, [text_example(english)], english.special_ids, 0)
    torch.manual_seed(4)
    state = torch.get_rng_state()
    second = record(model, [text_example(english)], english.special_ids, 0)
    np.testing.assert_array_equal(first.maps(0, "decoder", 2), second.maps(0, "decoder", 2))  # no dropout
    bad = Example([10**6], ["?"], [], [])
    with pytest.raises(IndexError):
        record(model, [bad], english.special_ids, 0)
    assert [module.training for module in model.modules()] == modes
    assert set(modes) == {True, False}
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.is_grad_enabled()


def test_models_with_bfloat16_weights_are_recorded(english: Tokenizer, japanese: Tokenizer) -> None:
    """Guards against bfloat16 weights, which numpy does not support and whose sums deviate from 1 by a percent."""
    model = make_translator(english, japanese).bfloat16()
    recording = record(model, [pair_example(english, japanese)], english.special_ids, 0)
    check_weights(recording)
    assert next(model.parameters()).dtype == torch.bfloat16


def test_long_examples_are_cut_and_say_so(english: Tokenizer, japanese: Tokenizer) -> None:
    """Guards against sides longer than the limit or the model's context."""
    long = Example.pair(english.encode(ENGLISH * 9), japanese.encode(JAPANESE), english, japanese, "valid 1")
    model = make_translator(english, japanese)
    by_cap, by_context = record(model, [long], (), 0, max_tokens=5).samples[0], record(model, [long], (), 0).samples[0]
    assert by_cap.source is not None
    assert by_context.source is not None
    assert (len(by_cap.source), len(by_cap.reads), len(by_cap.predicts)) == (5, 5, 5)
    assert (len(by_context.source), len(by_context.reads)) == (64, 7)
    for sample in (by_cap, by_context):
        assert sample.truncated
        assert (sample.source_length, sample.length) == (9 * len(ENGLISH) + 1, 7)
        assert sample.weights["cross", 0].shape == (4, len(sample.reads), len(sample.source or ()))
    assert not record(model, [pair_example(english, japanese)], (), 0).samples[0].truncated
    gpt = record(make_gpt(english), [text_example(english)], (), 0, max_tokens=4).samples[0]
    assert (gpt.truncated, gpt.length, len(gpt.reads), len(gpt.predicts)) == (True, len(ENGLISH), 4, 4)


def test_the_last_token_of_a_text_has_nothing_to_predict(english: Tokenizer) -> None:
    """Guards against an invented next token: the last row of a text is recorded without a loss."""
    (sample,) = record(make_gpt(english), [text_example(english)], (), 0).samples
    assert len(sample.predicts) == len(sample.losses) == len(sample.reads) - 1
    assert len(sample.predictions) == len(sample.reads)
    (single,) = record(make_gpt(english), [Example.text(english.encode("I"), english)], (), 0).samples
    assert single.losses == ()


def test_examples_must_fit_the_model(english: Tokenizer, japanese: Tokenizer) -> None:
    """Guards against a traceback from deep inside the model."""
    gpt, translator = make_gpt(english), make_translator(english, japanese)
    with pytest.raises(ValueError, match=r"'probe 1' has a source, but the model is a GPT"):
        record(gpt, [pair_example(english, japanese)], (), 0)
    with pytest.raises(ValueError, match=r"'probe 1' has no source tokens, but the model is an encoder-decoder"):
        record(translator, [text_example(english)], (), 0)
    with pytest.raises(ValueError, match=r"'empty' has no tokens to read"):
        record(gpt, [Example.text([], english, "empty")], (), 0)
    with pytest.raises(ValueError, match=r"reads 1 tokens but predicts 2"):
        record(gpt, [Example([1], ["a"], [1, 2], ["a", "b"])], (), 0)


def test_a_recording_can_be_stored_measured_and_drawn(english: Tokenizer, japanese: Tokenizer, tmp_path: Path) -> None:
    """Guards an evaluation as a whole, from the model to the chart and the image."""
    model = make_translator(english, japanese)
    examples = [pair_example(english, japanese)] * 2
    recording = record(model, examples, english.special_ids, 500, pieces=japanese.pieces)
    loaded = store.load(store.save(recording, tmp_path))
    assert measures.scalars(loaded.measures) == measures.scalars(recording.measures)
    assert len(measures.scalars(loaded.measures)) == 2 * 6 + 3 * 6 + 3 * 5
    assert loaded.labels == recording.labels
    before, after = (pictures.for_images(source).pixels() for source in (recording, loaded))
    np.testing.assert_array_equal(before, after)


def test_a_diverged_model_is_recorded_stored_and_drawn(english: Tokenizer, tmp_path: Path) -> None:
    """Guards against failing after a divergence, and JSON that a browser cannot parse."""
    model = make_gpt(english)
    with torch.no_grad():
        model.head.weight.fill_(torch.nan)  # tied: the embedding as well
    recording = record(model, [text_example(english)], english.special_ids, 0)
    path = store.save(recording, tmp_path)
    assert b"NaN" not in path.read_bytes()
    (sample,) = store.load(path).samples
    assert np.isnan(sample.losses).all()
    assert np.isnan(sample.weights["decoder", 0]).any()
    assert len(np.unique(pictures.for_images(recording).pixels())) > 50


@pytest.mark.parametrize("kv_heads", [None, 2])
def test_value_norms_are_what_a_head_adds_for_a_key(english: Tokenizer, kv_heads: int | None) -> None:
    """Guards the computation by Wᵀ W and grouped heads against projecting each value by its part of the output
    matrix."""
    model = make_gpt(english, kv_heads=kv_heads, qk_norm=False)
    tokens = torch.tensor([english.encode(ENGLISH)])
    module = model.blocks[0].attention
    projected: list[torch.Tensor] = []
    hook = module.query_key_value.register_forward_hook(lambda _module, _inputs, output: projected.append(output))
    (sample,) = record(model, [text_example(english)], (), 0).samples
    hook.remove()
    values = projected[0].unflatten(-1, (-1, 8))[0, :, -(kv_heads or 4) :]  # [T,Hkv,D]
    for head in range(4):
        part = module.output.weight[:, 8 * head : 8 * head + 8]  # [C,D]
        expected = (values[:, head // (4 // (kv_heads or 4))] @ part.T).norm(dim=-1).detach()
        assert tokens.shape[1] == len(expected)
        np.testing.assert_allclose(sample.values["decoder", 0][head], expected, rtol=2e-3)


def test_deviation_detects_wrong_weights(
    english: Tokenizer, japanese: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards the self-check: it must detect a wrong kernel in every kind of attention."""
    model, example = make_translator(english, japanese), [pair_example(english, japanese)]
    assert record(model, example, (), 0).deviation < 1e-5
    monkeypatch.setattr("model.recording.attention", lambda query, *_arguments, **_settings: query)
    assert record(model, example, (), 0).deviation > 0.1


def test_rollout_is_stored_of_both_stacks(english: Tokenizer, japanese: Tokenizer, tmp_path: Path) -> None:
    """Guards the stored rollout: rows sum to 1, and causal rollouts are zero above the diagonal."""
    model = make_translator(english, japanese)
    recording = record(model, [pair_example(english, japanese)], english.special_ids, 1)
    (sample,) = store.load(store.save(recording, tmp_path)).samples
    assert set(sample.rollout) == {"encoder", "decoder"}
    for rolled in sample.rollout.values():
        np.testing.assert_allclose(rolled.astype(np.float32).sum(axis=1), 1, atol=2e-3)
    assert not np.triu(sample.rollout["decoder"], 1).any()


def test_gold_labels_are_truncated_with_the_example(english: Tokenizer, japanese: Tokenizer) -> None:
    """Guards against links and antecedents beyond the end of a truncated text."""
    links, gold = [(0, 0), (5, 1), (2, 6)], Antecedents("source", ((4, 5, 0, 2), (7, 8, 0, 2)))
    example = Example.pair(english.encode(ENGLISH), japanese.encode(JAPANESE), english, japanese, "", links, gold)
    (sample,) = record(make_translator(english, japanese), [example], (), 0, max_tokens=5).samples
    assert sample.links == ((0, 0),)
    assert sample.antecedents == Antecedents("source", ((4, 5, 0, 2),))
