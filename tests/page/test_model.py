"""The engine of a page computes what torch computes, with weights of two bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from configs.compose import compose_config
from configs.errors import UserError
from interpretability.ablation import Head, replace_head_outputs
from interpretability.residual_stream import norm_path, record_residual_stream
from model.config import ACTIVATIONS, ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from model.layers import NONLINEARITIES
from model.recording import record_attention
from page.weights import COMPUTED, describe_weights, refused_options
from tests.conftest import ROOT
from tests.page.conftest import Browser
from tests.page.exported_models import BOS, EOS, LOAD, SMALL, VOCABULARY, export, gpt, plain, suite, translator
from training.config import TrainConfig
from training.new_or_resumed_run import to_dataclass

TEXTS = 4
"""Texts per model in the suite."""

TOLERANCE = 1e-4
"""Largest difference allowed, of numbers above 1 as a fraction of the largest. Rounding explains 1e-5; what a page
displays has three decimals."""

COMPARE = (
    LOAD
    + """
const {Recording} = await import('/engine/model/recording.js');
const [name, cases] = values;
const model = await load(name);
const expected = new Float32Array(await read(`${name}.expected`));
const worst = {};
for (const {source, target, replace, arrays} of cases) {
  const record = new Recording();
  const outputs = outputsOf(replace);
  const {logits, vocabSize} = model.forward({source, target}, {record, replace: outputs.size ? outputs : null});
  const {stream} = record;
  const actual = {logits, embedding: stream.embedding, 'stream logits': stream.logits};
  for (const kind of ['weights', 'outputs', 'values', 'valueNorms']) {
    for (const [place, numbers] of record[kind]) actual[`${kind} ${place}`] = numbers;
  }
  for (const [place, numbers] of stream.heads) actual[`heads ${place}`] = numbers;
  stream.mlps.forEach((numbers, layer) => (actual[`mlps ${layer}`] = numbers));
  stream.layers.forEach((numbers, layer) => (actual[`layers ${layer}`] = numbers));
  [...stream.beforeNorms.values()].forEach((numbers, place) => (actual[`beforeNorms ${place}`] = numbers));
  const surplus = Object.keys(actual).filter((key) => !(key in arrays));
  if (surplus.length) throw new Error(`not expected: ${surplus}`);
  for (const [key, [offset, length]] of Object.entries(arrays)) {
    if (actual[key]?.length !== length) throw new Error(`${key} has ${actual[key]?.length} numbers, not ${length}`);
    const kind = key.split(' ')[0];
    const numbers = expected.subarray(offset, offset + length);
    const largest = numbers.reduce((most, number) => Math.max(most, Math.abs(number)), 1);
    for (let i = 0; i < length; i++) {
      const difference = Math.abs(actual[key][i] - numbers[i]) / largest;
      if (!(difference <= (worst[kind] ?? 0))) worst[kind] = Number.isFinite(difference) ? difference : 'not finite';
    }
  }
}
return worst;
"""
)
"""Returns the largest difference of each kind of numbers."""


@dataclass
class Expected:
    """What torch computes, in one file, and where it is there."""

    numbers: list[np.ndarray] = field(default_factory=list)
    cases: list[dict[str, Any]] = field(default_factory=list)
    size: int = 0

    def add(self, source: list[int] | None, target: list[int], outputs: Mapping[Head, Any], arrays: dict[str, Tensor]):
        """Add the numbers for one input."""
        places = {}
        for name, tensor in arrays.items():
            flat = tensor.detach().float().contiguous().numpy().ravel()
            places[name] = [self.size, flat.size]
            self.numbers.append(flat)
            self.size += flat.size
        self.cases.append({"source": source, "target": target, "replace": plain(outputs), "arrays": places})

    def differences(self, browser: Browser, name: str) -> dict[str, float]:
        """Return the largest difference between these and the numbers of the model `name` in the browser, by kind."""
        (browser.files / f"{name}.expected").write_bytes(np.concatenate(self.numbers).astype("<f4").tobytes())
        result: dict[str, float] = browser.run(COMPARE, name, self.cases)
        return result


@torch.no_grad()
def recorded(
    model: GPT | EncoderDecoder, source: list[int] | None, target: list[int], outputs: Mapping[Head, Any] | None = None
) -> dict[str, Tensor]:
    """Return all that the page's Recording holds, computed by torch."""
    inputs = [torch.tensor([ids]) for ids in (source, target) if ids is not None]
    removed = replace_head_outputs(model, outputs or {})
    with removed, record_attention(model) as seen, record_residual_stream(model) as stream:
        logits = model(*inputs)
    arrays = {"logits": logits, "stream logits": stream.logits, "embedding": stream.embedding}
    kinds = {"weights": seen.weights, "outputs": seen.outputs, "values": seen.values, "valueNorms": seen.value_norms}
    for kind, tensors in (kinds | {"heads": stream.heads}).items():
        arrays |= {f"{kind} {place[0]}|{place[1]}": tensor for place, tensor in tensors.items()}
    arrays |= {f"mlps {layer}": tensor for layer, tensor in stream.mlps.items()}
    arrays |= {f"layers {layer}": tensor for layer, tensor in stream.layers.items()}
    norms = [stream.before_norms[step.norm] for step in norm_path(model)]
    return arrays | {f"beforeNorms {place}": tensor for place, tensor in enumerate(norms)}


def texts(model: GPT | EncoderDecoder, count: int, seed: int = 0) -> list[tuple[list[int] | None, list[int]]]:
    """Return random sources and targets of lengths from one token to the context; a GPT's texts hold several
    documents."""
    random, context = np.random.default_rng(seed), model.config.context
    pairs: list[tuple[list[int] | None, list[int]]] = []
    for _ in range(count):
        lengths = random.integers(1, context + 1, 2)
        if isinstance(model, GPT):
            ids = random.integers(0, model.vocab_size, lengths[0])
            ids[random.random(len(ids)) < 0.1] = EOS
            pairs.append((None, ids.tolist()))
        else:
            source = [*random.integers(4, model.source_vocab, lengths[0] - 1).tolist(), EOS]
            pairs.append((source, [BOS, *random.integers(4, model.vocab_size, lengths[1] - 1).tolist()]))
    return pairs


def compared(browser: Browser, model: GPT | EncoderDecoder, count: int, dtype: str) -> dict[str, float]:
    """Return the largest differences in `count` texts."""
    rounded, expected = export(browser, "model", model, dtype), Expected()
    for source, target in texts(model, count):
        expected.add(source, target, {}, recorded(rounded, source, target))
    return expected.differences(browser, "model")


def check(worst: dict[str, float], config: ModelConfig) -> None:
    assert len(worst) >= 9
    for kind, difference in worst.items():
        assert difference <= TOLERANCE, (kind, worst, config)


@pytest.mark.parametrize("build", [gpt, translator])
def test_forward_and_recording_equal_torch(browser: Browser, build: Any) -> None:
    """Guards against a page that displays maps, logits or contributions of another function than the trained model."""
    for number, config in enumerate(suite()):
        check(compared(browser, build(config), TEXTS, ("bf16", "f16")[number % 2]), config)


@pytest.mark.parametrize("build", [gpt, translator])
def test_replaced_heads_equal_torch(browser: Browser, build: Any) -> None:
    """Guards against ablation and patching that change other columns or positions than those of the head."""
    config = replace(SMALL, bias=True, kv_heads=2, token_shift=build is gpt)
    rounded, expected = export(browser, "model", build(config), "f16"), Expected()
    for source, target in texts(rounded, TEXTS):
        lengths = {"decoder": len(target), "cross": len(target), "encoder": len(source or ())}
        places = [("decoder", 0), ("decoder", 1)] + ([("encoder", 1), ("cross", 0)] if source else [])
        for kind, layer in places:
            vectors = torch.randn(lengths[kind], config.head_width)
            several = {(kind, layer, 1): 0.0, (kind, layer, 3): vectors[0], ("decoder", 1, 2): 0.5}
            for outputs in ({(kind, layer, 0): 0.0}, {(kind, layer, 2): vectors}, several):
                expected.add(source, target, outputs, recorded(rounded, source, target, outputs))
    check(expected.differences(browser, "model"), config)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_are_exact(browser: Browser, activation: str) -> None:
    """Guards against coefficients of erf or tanh whose errors random models hide: an MLP with identity weights."""
    body = """
const {FeedForward, Linear} = await import('/engine/model/layers.js');
const [activation, numbers] = values;
const ones = Float32Array.of(1, 1);
const expand = activation === 'swiglu' ? new Linear(ones, null, 2, 1) : new Linear(ones, null, 1, 1);
const mlp = new FeedForward(activation, expand, new Linear(ones, null, 1, 1));
return [...mlp.apply(Float32Array.from(numbers), numbers.length)];
"""
    numbers = torch.linspace(-6, 6, 481)
    wanted = F.silu(numbers) * numbers if activation == "swiglu" else NONLINEARITIES[activation](numbers)
    result = torch.tensor(browser.run(body, activation, numbers.tolist()))
    torch.testing.assert_close(result, wanted, atol=1e-6, rtol=1e-6)


def test_wrong_inputs_are_errors(browser: Browser) -> None:
    """Guards against numbers that are computed from undefined weights or silently not replaced."""
    export(browser, "learned", gpt(replace(SMALL, position="learned")))
    calls = {
        "{target: [101]}": "no token 101",
        "{target: [-1]}": "no token -1",
        "{target: [1.5]}": "no token 1.5",
        "{target: Array(25).fill(1)}": "24 positions",
        "{target: [1, 2]}, {replace: new Map([['decoder|2|0', 0]])}": "no head 0 in decoder layer 2",
        "{target: [1, 2]}, {replace: new Map([['encoder|0|0', 0]])}": "no head 0 in encoder layer 0",
        "{target: [1, 2]}, {replace: new Map([['decoder|0|4', 0]])}": "no head 4 in decoder layer 0",
        "{target: [1, 2]}, {replace: new Map([['decoder|0|1', new Float32Array(9)]])}": "9 numbers",
    }
    body = (
        LOAD
        + "const model = await load('learned'); try { return model.forward(%s); } catch (error) { return `${error}`; }"
    )
    for call, message in calls.items():
        answer = browser.run(body.replace("%s", call))
        assert answer.startswith("RangeError"), (call, answer)
        assert message in answer


def test_tied_tensors_and_padding_are_not_written_twice() -> None:
    """Guards against a page of twice the size."""
    tied, untied = (gpt(replace(SMALL, tie_embeddings=tie)) for tie in (True, False))
    matrix = 2 * VOCABULARY * SMALL.width  # without the 27 rows of padding
    description, weights = describe_weights(tied, "bf16")
    assert len(describe_weights(untied, "bf16")[1]) - len(weights) == matrix
    assert description["tensors"]["head.weight"] == description["tensors"]["embedding.tokens.weight"]
    assert description["tensors"]["head.weight"]["shape"] == [VOCABULARY, SMALL.width]
    shared, apart = (translator(replace(SMALL, share_embeddings=share)) for share in (True, False))
    assert len(describe_weights(apart, "f16")[1]) - len(describe_weights(shared, "f16")[1]) == 2 * 90 * SMALL.width


def test_options_that_the_engine_lacks_are_refused_by_name() -> None:
    """Guards against a page that computes something else than the model, without a word."""
    model = gpt(SMALL)
    for key in ("block", "norm", "position", "activation"):
        model.config = replace(SMALL, **{key: "new"})
        with pytest.raises(UserError, match=f"model.{key}=new"):
            describe_weights(model, "bf16")


@pytest.mark.parametrize("recipe", sorted(path.stem for path in (ROOT / "configs" / "experiment").glob("*.yaml")))
def test_no_recipe_is_refused(recipe: str) -> None:
    """Guards against a recipe of ours whose runs have no page."""
    composed, problems = compose_config("train", TrainConfig, [f"+experiment={recipe}"])
    assert composed is not None, problems
    assert refused_options(to_dataclass(composed, []).model) == []


def test_the_engine_knows_every_option_of_the_configuration() -> None:
    """Guards against an option that is added later and that the engine ignores: compute it, or refuse it by name."""
    assert set(vars(SMALL)) == COMPUTED


def test_weights_beyond_float16_are_refused() -> None:
    """Guards against infinite weights."""
    model = gpt(SMALL)
    with torch.no_grad():
        model.norm.weight[3] = 1e5
    with pytest.raises(UserError, match=r"norm\.weight .* 100000, which f16 cannot hold; bf16 can"):
        describe_weights(model, "f16")
    describe_weights(model, "bf16")
    with torch.no_grad():
        model.norm.weight[3] = float("nan")
    with pytest.raises(UserError, match=r"bf16 cannot hold$"):
        describe_weights(model, "bf16")
