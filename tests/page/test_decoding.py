"""Sampling and beam search of a page: the texts that `generation/` writes, and the distribution of its samples."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from data.batches.pairs import encode_sources
from data.config import TokenizerConfig
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from generation.beam_search import beam_search
from generation.config import SamplingConfig
from generation.sampling import generate, keep_min_p, keep_top_p, top_k
from generation.translation_result import longest_target
from interpretability.ablation import Head, replace_head_outputs
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from tests.page.conftest import Browser
from tests.page.exported_models import BOS, EOS, LOAD, SMALL, VOCABULARY, export, gpt, plain, suite, translator

SENTENCES = 6
"""Sentences and prompts per model in the suite."""

BANNED = [0, 1, 7, 8]

DTYPES = "f16", "bf16"
"""Formats of the weights, in turn."""

FILTERS: tuple[dict[str, Any], ...] = (
    {"temperature": 1.0},
    {"temperature": 0.5, "top_k": 5},
    {"temperature": 1.3, "top_p": 0.7},
    {"temperature": 0.8, "min_p": 0.2},
    {"temperature": 2.0, "top_k": 9, "top_p": 0.9, "min_p": 0.1},
    {"temperature": 1.0, "top_p": 1e-9},
)

CAMEL = {
    "top_k": "topK",
    "top_p": "topP",
    "min_p": "minP",
    "max_tokens": "maxTokens",
    "repetition_penalty": "repetitionPenalty",
}

GENERATE = (
    LOAD
    + """
const {generate} = await import('/engine/decoding/sampling.js');
const [name, prompts, options] = values;
const model = await load(name);
const outputs = outputsOf(options.replace ?? []);
return prompts.map((ids) => {
  const shown = [];
  const written = generate(model, ids, {...options, replace: outputs}, (token) => shown.push(token));
  if (`${shown}` !== `${written}`) throw new Error('onToken and the result differ');
  return written;
});
"""
)

TRANSLATE = (
    LOAD
    + """
const {translate, beamSearch} = await import('/engine/decoding/beam_search.js');
const [name, sources, options] = values;
const model = await load(name);
const outputs = outputsOf(options.replace ?? []);
return sources.map((source) => {
  const steps = [];
  const best = translate(model, source, {...options, replace: outputs, onStep: (ids) => steps.push(ids)});
  if (!steps.every((ids, step) => ids.length === step + 1)) throw new Error(`steps: ${JSON.stringify(steps)}`);
  const last = steps.at(-1) ?? [];
  if (options.beamSize === 1 && `${last}` !== `${best.ids}`) throw new Error(`the last step: ${last}, not ${best.ids}`);
  return best;
});
"""
)


def prompts(count: int, longest: int) -> list[list[int]]:
    """Return texts of different lengths; an eos begins each, as in training."""
    return [[EOS, *torch.randint(4, VOCABULARY, (number * longest // count,)).tolist()] for number in range(count)]


def continued(model: GPT, ids: list[int], config: SamplingConfig, seed: int = 0) -> list[int]:
    steps = generate(model, [ids], config, seed=seed, stop_ids=[EOS], banned_ids=BANNED)
    return [token for (token,) in steps if token is not None]


def test_the_most_likely_continuation_is_that_of_python(browser: Browser) -> None:
    """Guards against a cache that drifts from the whole pass, also where a text outgrows the context, and against lost
    stop and banned tokens."""
    lengths = []
    for number, config in enumerate(suite()[::3]):
        model = export(browser, "model", gpt(config), DTYPES[number % 2])
        assert isinstance(model, GPT)
        starts, penalty = prompts(SENTENCES, 2 * config.context), 1.3 if config.bias else 1.0
        wanted = SamplingConfig(temperature=0.0, max_tokens=40, repetition_penalty=penalty)
        options = {"temperature": 0, "maxTokens": 40, "stopIds": [EOS], "bannedIds": BANNED}
        options["repetitionPenalty"] = penalty
        texts = [continued(model, ids, wanted) for ids in starts]
        assert browser.run(GENERATE, "model", starts, options) == texts, config
        lengths += [len(text) for text in texts]
    assert min(lengths) < max(lengths) == 40  # some texts end, others outgrow the context


def test_a_seed_samples_the_text_of_python(browser: Browser) -> None:
    """Guards against random numbers or choices that differ from those of generate.py with the same seed."""
    body = GENERATE.replace(
        "written = generate(model, ids, {", "written = generate(model, ids, {random: uniformNumbers(options.seed), "
    )
    body = "const {uniformNumbers} = await import('/engine/decoding/random.js');" + body
    model, start = export(browser, "model", gpt(SMALL)), prompts(1, 8)
    assert isinstance(model, GPT)
    with torch.no_grad():
        model.embedding.tokens.weight.mul_(8)  # tied: logits that are far from uniform
    export(browser, "model", model)
    texts = []
    for seed, filters in enumerate((*FILTERS, {"repetition_penalty": 1.4}), start=2**32 - 2):
        config = SamplingConfig(max_tokens=80, **filters)
        texts.append(continued(model, start[0], config, seed))
        options = {CAMEL.get(key, key): value for key, value in vars(config).items()} | {"seed": seed}
        options |= {"stopIds": [EOS], "bannedIds": BANNED}
        assert browser.run(body, "model", start, options) == [texts[-1]], filters
    assert len({tuple(text[:5]) for text in texts}) > 4


def test_a_cache_changes_nothing(browser: Browser) -> None:
    """Guards against positions, token shift or keys that are wrong only in later chunks of a text."""
    body = (
        LOAD
        + """
const [name, source, target, width] = values;
const model = await load(name);
const whole = model.forward({source, target}).logits;
const cache = model.newCache();
if (source) model.cacheSource(source, cache);
let worst = 0;
for (let start = 0, size = 1; start < target.length; start += size, size = size % 3 + 1) {
  const ids = target.slice(start, start + size);
  const logits = model.nextLogits(ids, cache);
  const last = logits.subarray(logits.length - width);
  const expected = whole.subarray((start + ids.length - 1) * width, (start + ids.length) * width);
  last.forEach((logit, token) => (worst = Math.max(worst, Math.abs(logit - expected[token]))));
}
let full = '';
try { model.nextLogits([5], cache); } catch (error) { full = `${error}`; }
return [worst, full];
"""
    )
    for build in (gpt, translator):
        for config in suite()[1::4]:
            model = export(browser, "model", build(replace(config, mask_documents=False)))
            source = [*range(5, 12), EOS] if isinstance(model, EncoderDecoder) else None
            target = torch.randint(4, VOCABULARY, (config.context,)).tolist()
            worst, full = browser.run(body, "model", source, target, VOCABULARY)
            assert worst < 1e-5
            assert full == "RangeError: the cache holds 24 tokens, but 25 are needed"


def best(model: EncoderDecoder, ids: list[int], **options: Any) -> tuple[list[int], float, bool]:
    limit = longest_target(len(ids), model.config.context)
    settings: dict[str, Any] = {"bos_id": BOS, "eos_id": EOS, "max_length": limit, "banned_ids": BANNED} | options
    [[hypothesis]] = beam_search(model, torch.tensor([ids]), **settings)
    return hypothesis.tokens, hypothesis.score, len(hypothesis.tokens) == limit


def sources(count: int, model: EncoderDecoder) -> list[list[int]]:
    lengths = torch.randint(0, model.config.context, (count,)).tolist()
    return [[*torch.randint(4, model.source_vocab, (length,)).tolist(), EOS] for length in lengths]


def check_translations(
    browser: Browser, model: EncoderDecoder, sentences: list[list[int]], beam: int, penalty: float, **replaced: Any
) -> list[bool]:
    """Compare translations with those of Python; return which of them are cut."""
    options = {"beamSize": beam, "lengthPenalty": penalty, "bosId": BOS, "eosId": EOS, "bannedIds": BANNED}
    answers = browser.run(TRANSLATE, "model", sentences, options | replaced)
    expected = [best(model, ids, beam_size=beam, length_penalty=penalty) for ids in sentences]
    assert [answer["ids"] for answer in answers] == [tokens for tokens, _, _ in expected]
    assert [answer["score"] for answer in answers] == pytest.approx(
        [score for _, score, _ in expected], rel=1e-5, abs=1e-6
    )
    assert [answer["cut"] for answer in answers] == [cut for _, _, cut in expected]
    return [cut for _, _, cut in expected]


def test_translations_are_those_of_python(browser: Browser) -> None:
    """Guards against another order of hypotheses, another length penalty, or a search that ends too early."""
    cut = []
    for number, config in enumerate(suite()[::3]):
        model = export(browser, "model", translator(config), DTYPES[number % 2])
        assert isinstance(model, EncoderDecoder)
        for beam, penalty in ((1, 1.0), (4, (1.0, 1.5)[number % 2]), (3, 0.0)):
            cut += check_translations(browser, model, sources(SENTENCES, model), beam, penalty)
    assert 0 < sum(cut) < len(cut)


def test_heads_are_replaced_while_writing(browser: Browser) -> None:
    """Guards against a continuation or translation by the whole model where heads are removed."""
    model = export(browser, "model", gpt(SMALL))
    assert isinstance(model, GPT)
    starts = prompts(SENTENCES, SMALL.context)
    outputs: dict[Head, Any] = {("decoder", 0, 1): 0.0, ("decoder", 1, 2): torch.randn(SMALL.head_width)}
    wanted = SamplingConfig(temperature=0.0, max_tokens=20)
    options = {"temperature": 0, "maxTokens": 20, "stopIds": [EOS], "bannedIds": BANNED}
    with replace_head_outputs(model, outputs):
        texts = [continued(model, ids, wanted) for ids in starts]
    assert texts != [continued(model, ids, wanted) for ids in starts]
    assert browser.run(GENERATE, "model", starts, options | {"replace": plain(outputs)}) == texts

    translating = export(browser, "model", translator(SMALL))
    assert isinstance(translating, EncoderDecoder)
    outputs |= {("encoder", 1, 0): 0.0, ("cross", 1, 3): torch.randn(SMALL.head_width)}
    sentences = sources(SENTENCES, translating)
    whole = [best(translating, ids) for ids in sentences]
    with replace_head_outputs(translating, outputs):
        check_translations(browser, translating, sentences, 4, 1.0, replace=plain(outputs))
        assert whole != [best(translating, ids) for ids in sentences]


DRAWS, TEXTS = 20_000, 3000


def distribution(logits: Tensor, config: SamplingConfig) -> Tensor:
    """Return the probabilities [R, V] from which `next_token` samples, of logits [R, V]."""
    ids = torch.arange(logits.shape[-1]).expand_as(logits)
    probabilities = torch.zeros_like(logits)
    if config.top_k is not None:
        logits, ids = top_k(logits, config.top_k)
    logits = logits / config.temperature
    if config.top_p is not None:
        logits = keep_top_p(logits, config.top_p)
    if config.min_p is not None:
        logits = keep_min_p(logits, config.min_p)
    return probabilities.scatter(-1, ids, logits.softmax(dim=-1))


def surprise(counts: Tensor, probabilities: Tensor) -> float:
    """Return how many standard deviations the chi-square statistic of counts [V] is above its mean; infinite if a
    token of probability 0 was drawn. Rare tokens share one bin."""
    if counts[probabilities == 0].any():
        return float("inf")
    expected = probabilities.double() * counts.sum()
    rare = expected < 10
    pairs = [(counts[~rare], expected[~rare]), (counts[rare].sum()[None], expected[rare].sum()[None])]
    observed, wanted = (torch.cat(parts) for parts in zip(*pairs, strict=True))
    observed, wanted = observed[wanted > 1], wanted[wanted > 1]
    freedom = len(observed) - 1
    return float(((observed - wanted) ** 2 / wanted).sum() - freedom) / (2 * max(freedom, 1)) ** 0.5


def test_samples_have_the_distribution_of_python(browser: Browser) -> None:
    """Guards against a temperature or filter that is applied wrongly or in another order than in Python."""
    body = """
const {nextToken} = await import('/engine/decoding/sampling.js');
const {uniformNumbers} = await import('/engine/decoding/random.js');
const [logits, filters, draws] = values;
return filters.map((options, seed) => {
  const counts = Array(logits.length).fill(0);
  const random = uniformNumbers(seed);
  for (let draw = 0; draw < draws; draw++) counts[nextToken(Float32Array.from(logits), {...options, random})]++;
  return counts;
});
"""
    logits = 2 * torch.randn(60)
    named = [{CAMEL.get(key, key): value for key, value in filters.items()} for filters in FILTERS]
    counts = browser.run(body, logits.tolist(), named, DRAWS)
    for drawn, filters in zip(counts, FILTERS, strict=True):
        probabilities = distribution(logits, SamplingConfig(**filters))
        assert surprise(torch.tensor(drawn), probabilities) < 4, filters
        others = [distribution(logits, SamplingConfig(**other)) for other in FILTERS if other != filters]
        assert min(surprise(torch.tensor(drawn), other) for other in others) > 20  # the test can fail


def test_texts_of_neighbouring_seeds_are_independent(browser: Browser) -> None:
    """Guards against a generator whose first numbers depend on the seed in a simple way, and against a second token
    that depends on the number drawn for the first: the frequencies of both tokens of many texts."""
    body = (
        LOAD
        + """
const {generate} = await import('/engine/decoding/sampling.js');
const {uniformNumbers} = await import('/engine/decoding/random.js');
const [name, start, bannedIds, texts] = values;
const model = await load(name);
const options = {temperature: 1, maxTokens: 2, bannedIds};
return Array.from({length: texts}, (_, seed) => generate(model, start, {...options, random: uniformNumbers(seed)}));
"""
    )
    model, start = gpt(ModelConfig(layers=1, heads=2, width=16, context=24, tie_embeddings=False)), [EOS, 40, 41]
    with torch.no_grad():
        model.head.weight.mul_(10)
    model = export(browser, "model", model)
    assert isinstance(model, GPT)
    drawn = torch.tensor(browser.run(body, "model", start, BANNED, TEXTS))  # [texts, 2]
    with torch.no_grad():
        rows = [[*start, token] for token in range(VOCABULARY)]
        logits = model(torch.tensor(rows))[:, -2:]  # [V, 2, V]: of the first token, and of the second after each first
    logits[..., BANNED] = float("-inf")
    first = logits[0, 0].softmax(dim=-1)
    second = first @ logits[:, 1].softmax(dim=-1)
    frequent = int(first.argmax())
    after = drawn[drawn[:, 0] == frequent, 1]
    for tokens, probabilities in (
        (drawn[:, 0], first),
        (drawn[:, 1], second),
        (after, logits[frequent, 1].softmax(-1)),
    ):
        assert surprise(tokens.bincount(minlength=VOCABULARY), probabilities) < 4
    assert surprise(drawn[:, 1].bincount(minlength=VOCABULARY), first) > 20  # the test can fail


def test_options_out_of_range_are_errors(browser: Browser) -> None:
    """Guards against an empty set of tokens to choose from, or a text without end."""
    export(browser, "model", gpt(SMALL))
    body = (
        GENERATE.replace("return prompts.map", "try { return prompts.map").rstrip()
        + " } catch (error) { return `${error}`; }"
    )
    wrong = {"topK": 0, "topP": 0, "minP": 1.5, "temperature": -1, "repetitionPenalty": 0, "maxTokens": 0}
    for key, value in wrong.items():
        assert browser.run(body, "model", [[5]], {key: value}).startswith(f"RangeError: {key}={value}: must be")
    assert browser.run(body, "model", [[]], {}) == "RangeError: the text has no tokens"


def test_sources_are_those_of_python(browser: Browser) -> None:
    """Guards against a source without eos or tag, or one that is cut elsewhere than in training."""
    lines = ["a b c", "b", "", "abc " * 20]
    config = TokenizerConfig(kind="char", vocab_size=20)
    tokenizer = SentencePieceTokenizer.train(lines, config)
    body = """
const {sourceTokens} = await import('/engine/decoding/source_tokens.js');
const [rows, options] = values;
return rows.map((ids) => sourceTokens(ids, options));
"""
    for reverse in (False, True):
        expected = [[0]] * len(lines)
        for batch in encode_sources(tokenizer, lines, 1024, 16, reverse):
            for place, row, length in zip(batch.indices, batch.source.tolist(), batch.lengths.tolist(), strict=True):
                expected[place] = row[:length]
        options = {"bosId": tokenizer.bos_id, "eosId": tokenizer.eos_id, "context": 16, "reverse": reverse}
        assert browser.run(body, tokenizer.encode_batch(lines), options) == expected
