"""The engine of a page computes what torch computes, with weights of two bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from configs.errors import UserError
from interop.page.weights import COMPUTED, describe_weights
from interpretability.ablation import Head, replace_head_outputs
from interpretability.residual_stream import norm_path, record_residual_stream
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from model.recording import record_attention
from tests.interop.conftest import flavours
from tests.interop.page.conftest import Browser
from tests.interop.page.exported_models import BOS, EOS, LOAD, SMALL, VOCABULARY, export, gpt, suite, translator

TEXTS = 4
"""Texts per model in the suite."""

LOGITS, MAPS = 2e-3, 1e-3
"""Largest differences allowed."""

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
  const outputs = new Map(replace.map(([head, output]) => [head, typeof output === 'number' ? output : Float32Array.from(output)]));
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
    for (let i = 0; i < length; i++) {
      const difference = Math.abs(actual[key][i] - expected[offset + i]);
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
        replaced = [["|".join(map(str, head)), _plain(output)] for head, output in outputs.items()]
        self.cases.append({"source": source, "target": target, "replace": replaced, "arrays": places})

    def differences(self, browser: Browser, name: str) -> dict[str, float]:
        """Return the largest difference between these and the numbers of the model `name` in the browser, by kind."""
        (browser.files / f"{name}.expected").write_bytes(np.concatenate(self.numbers).astype("<f4").tobytes())
        result: dict[str, float] = browser.run(COMPARE, name, self.cases)
        return result


def _plain(output: Any) -> Any:
    return output.flatten().tolist() if isinstance(output, Tensor) else output


@torch.no_grad()
def recorded(
    model: GPT | EncoderDecoder, source: list[int] | None, target: list[int], outputs: Mapping[Head, Any] | None = None
) -> dict[str, Tensor]:
    """Return all that the page's Recording holds, computed by torch."""
    inputs = [torch.tensor([ids]) for ids in (source, target) if ids is not None]
    with replace_head_outputs(model, outputs or {}), record_attention(model) as seen:
        with record_residual_stream(model) as stream:
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
        assert difference <= (LOGITS if kind in ("logits", "stream") else MAPS), (kind, worst, config)


@pytest.mark.parametrize("build", [gpt, translator])
def test_forward_and_recording_equal_torch(browser: Browser, build: Any) -> None:
    """Guards against a page that displays maps, logits or contributions of another function than the trained model."""
    for number, config in enumerate(suite()):
        check(compared(browser, build(config), TEXTS, ("bf16", "f16")[number % 2]), config)
