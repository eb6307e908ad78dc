"""CTranslate2 writes and translates what torch does, beyond the context too, and samples from the same distribution."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import torch
from torch import nn

from configs.errors import UserError
from data.config import TokenizerConfig
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from data.tokens.tokenizer import Tokenizer
from generation.config import GenerateConfig
from generation.engines.torch_engine import TorchEngine
from generation.sampling import keep_top_p, top_k
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT

pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")
from generation.engines.ctranslate_engine import CTranslate2Engine, divided
from interop.ctranslate.export import write_model

CONTEXT = 16
GREEDY = GenerateConfig(temperature=0, max_tokens=60)


def sharpened(model: nn.Module, scale: float = 0.4) -> nn.Module:
    """Randomise all parameters: a newly initialised model repeats one token."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=scale)
    return model.eval()


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return SentencePieceTokenizer.train(["the quick brown fox jumps over a lazy dog"] * 3, TokenizerConfig(kind="char"))


@pytest.fixture(scope="module")
def gpt(tokenizer: Tokenizer) -> GPT:
    torch.manual_seed(0)
    model = sharpened(GPT(ModelConfig(layers=2, heads=2, width=16, context=CONTEXT), tokenizer.vocab_size))
    assert isinstance(model, GPT)
    return model


@pytest.fixture(scope="module")
def exported(gpt: GPT, tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpt")
    write_model(gpt, [tokenizer], folder)
    return folder


@pytest.fixture(autouse=True)
def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide the texts between two threads, also on a machine with one core."""
    monkeypatch.setattr("generation.engines.ctranslate_engine.cores", lambda: 2)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


def texts(steps: object, count: int) -> list[list[int]]:
    """Return the tokens of each text; None must not be followed by a token."""
    written: list[list[int]] = [[] for _ in range(count)]
    ended: set[int] = set()
    for tokens in steps:  # type: ignore[attr-defined]
        for row, token in enumerate(tokens):
            if token is None:
                ended.add(row)
            else:
                assert row not in ended
                written[row].append(token)
    return written


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("length", [1, 7, CONTEXT, 3 * CONTEXT])
def test_texts_beyond_the_context_are_those_of_torch(
    gpt: GPT, tokenizer: Tokenizer, exported: Path, count: int, length: int
) -> None:
    """Guards against a window that is cut at another place, a token lost or repeated at its border, more tokens than
    the context, and texts of another group."""
    torch.manual_seed(length)
    prompt = torch.randint(4, tokenizer.vocab_size, (length,)).tolist()
    expected = texts(TorchEngine(gpt, [tokenizer], GREEDY, "float32").sample(prompt, count, 1), count)
    for stream in (False, True):
        engine = CTranslate2Engine(exported, [tokenizer], CONTEXT, GREEDY, stream)
        assert texts(engine.sample(prompt, count, 1), count) == expected
    assert max(map(len, expected)) > CONTEXT, "the test needs a text that outgrows the context"


def test_a_text_ends_with_eos_and_with_the_last_token(gpt: GPT, tokenizer: Tokenizer, tmp_path: Path) -> None:
    """Guards against eos as a token of the text, an endless text, and a step after `max_tokens`."""
    ending = GPT(gpt.config, tokenizer.vocab_size).eval()
    ending.load_state_dict(gpt.state_dict())
    prompt = [tokenizer.eos_id, 5, 6]
    greedy = texts(TorchEngine(ending, [tokenizer], GREEDY, "float32").sample(prompt, 1, 1), 1)[0]
    with torch.no_grad():  # the fifth token becomes the end of the text
        swapped = ending.head.weight[[greedy[4], tokenizer.eos_id]].clone()
        ending.head.weight[[tokenizer.eos_id, greedy[4]]] = swapped
    write_model(ending, [tokenizer], tmp_path)
    for settings in (GREEDY, replace(GREEDY, max_tokens=2)):
        for count in (1, 3):
            expected = list(TorchEngine(ending, [tokenizer], settings, "float32").sample(prompt, count, 1))
            for stream in (False, True):
                engine = CTranslate2Engine(tmp_path, [tokenizer], CONTEXT, settings, stream)
                assert list(engine.sample(prompt, count, 1)) == expected


def test_an_endless_text_is_written_as_it_is_read(gpt: GPT, tokenizer: Tokenizer, exported: Path) -> None:
    """Guards against memory for all of `max_tokens`, and a stop string that ends the text only afterwards."""
    greedy = TorchEngine(gpt, [tokenizer], GREEDY, "float32")
    endless = next([first] for first in range(4, 31) if len(texts(greedy.sample([first], 1, 1), 1)[0]) == 60)
    for count, stream in ((1, False), (1, True), (3, False)):
        engine = CTranslate2Engine(exported, [tokenizer], CONTEXT, replace(GREEDY, max_tokens=10**13), stream)
        steps = engine.sample(endless, count, 1)
        assert len(list(islice(steps, 100))) == 100
        steps.close()  # type: ignore[attr-defined]


def test_seeds_choose_texts(tokenizer: Tokenizer, exported: Path) -> None:
    """Guards against texts that cannot be repeated, a seed that is ignored, and threads with the same random numbers,
    which CTranslate2 has by default: every sample would occur twice."""
    engine = CTranslate2Engine(exported, [tokenizer], CONTEXT, GenerateConfig(max_tokens=30, temperature=1))
    for count in (1, 8):
        one, again, other = (texts(engine.sample([5], count, seed), count) for seed in (1, 1, 2))
        assert one == again != other
        assert len(set(map(tuple, one))) == count
    texts(engine.sample([5], 1, 2**63 - 1), 1)


@pytest.mark.parametrize("options", [{"top_p": 1e-300}, {"temperature": 1e-300}])
def test_numbers_that_float32_cannot_hold_leave_the_most_probable_token(
    tokenizer: Tokenizer, exported: Path, options: dict[str, float]
) -> None:
    """Guards against a traceback: CTranslate2 reads 1e-300 as 0, which it refuses."""
    best, result = (
        texts(CTranslate2Engine(exported, [tokenizer], CONTEXT, config).sample([5], 1, 1), 1)
        for config in (GenerateConfig(max_tokens=8, temperature=0), GenerateConfig(max_tokens=8, **options))  # type: ignore[arg-type]
    )
    assert result == best


@pytest.mark.parametrize("options", [{}, {"top_k": 4}, {"top_p": 0.7}, {"top_k": 6, "top_p": 0.6}, {"top_k": 10**9}])
def test_the_distribution_is_that_of_torch(
    gpt: GPT, tokenizer: Tokenizer, exported: Path, options: dict[str, float]
) -> None:
    """Guards against a filter that is ignored, or that applies before the temperature."""
    settings = GenerateConfig(max_tokens=1, temperature=0.6, **options)  # type: ignore[arg-type]
    count = 3000
    with torch.no_grad():
        logits = gpt(torch.tensor([[5]]))[0, -1]
    logits[tokenizer.never_written] = float("-inf")
    if settings.top_k is not None and settings.top_k < len(logits):
        kept, ids = top_k(logits, settings.top_k)
        logits = torch.full_like(logits, float("-inf")).scatter(-1, ids, kept)
    logits = logits / settings.temperature
    if settings.top_p is not None:
        logits = keep_top_p(logits, settings.top_p)
    expected = logits.softmax(-1)
    expected[tokenizer.eos_id] = 0  # a text of no token
    engine = CTranslate2Engine(exported, [tokenizer], CONTEXT, settings)
    seen = Counter(token for text in texts(engine.sample([5], count, 1), count) for token in text)
    result = torch.tensor([seen[token] / count for token in range(tokenizer.vocab_size)])
    assert float((result - expected).abs().max()) < 0.04  # 4 standard deviations at most
    assert all(expected[token] > 0 for token in seen)


@pytest.fixture(scope="module")
def translator(tokenizer: Tokenizer) -> EncoderDecoder:
    torch.manual_seed(3)
    config = ModelConfig(layers=1, heads=2, width=16, context=40)
    model = sharpened(EncoderDecoder(config, tokenizer.vocab_size, tokenizer.vocab_size, shared=True), 0.5)
    assert isinstance(model, EncoderDecoder)
    return model


SENTENCES = [
    "the dog",
    "",
    "a lazy fox jumps over the quick brown dog",
    "fox",
    "  ",
    "the quick dog jumps",
    "o",
    "over a fox",
]


@pytest.mark.parametrize("options", [{"beam_size": 1}, {"beam_size": 5}, {"beam_size": 3, "reverse": True}])
def test_translations_are_those_of_torch(
    translator: EncoderDecoder, tokenizer: Tokenizer, tmp_path: Path, options: dict[str, int]
) -> None:
    """Guards against exchanged or lost lines, portions counted from 0, another limit of length for each sentence, and
    other scores."""
    settings = GenerateConfig(batch_tokens=64, **options)  # type: ignore[arg-type]
    portions = [SENTENCES[:5], [], SENTENCES[5:] * 3]
    expected = dict(TorchEngine(translator, [tokenizer], settings, "float32").translate(portions))
    write_model(translator, [tokenizer], tmp_path)
    engine = CTranslate2Engine(tmp_path, [tokenizer], translator.config.context, settings)
    result = dict(engine.translate(portions))
    assert result.keys() == expected.keys()
    for index, (theirs,) in result.items():
        (ours,) = expected[index]
        assert (theirs.text, theirs.tokens, theirs.cut) == (ours.text, ours.tokens, ours.cut)
        assert theirs.score == pytest.approx(ours.score, abs=1e-5)
    assert {result[index][0].cut for index in result} == {True, False}, "the test needs translations of both kinds"


def test_int8_rounds_the_weights(gpt: GPT, tokenizer: Tokenizer, exported: Path) -> None:
    """Guards against a weight format that is ignored, and against one that changes everything."""
    exact = CTranslate2Engine(exported, [tokenizer], CONTEXT, GREEDY)
    rounded = CTranslate2Engine(exported, [tokenizer], CONTEXT, replace(GREEDY, quantize="int8"))
    assert exact.seeded(1, 1)[0].compute_type == "float32"
    assert rounded.seeded(1, 1)[0].compute_type == "int8_float32"
    first = [next(engine.sample([5, 6, 7], 1, 1)) for engine in (exact, rounded)]
    if "vnni" in Path("/proc/cpuinfo").read_text("utf-8"):  # others write something else
        assert first[0] == first[1]


def test_an_export_that_is_damaged_or_gone_is_named(tokenizer: Tokenizer, exported: Path, tmp_path: Path) -> None:
    """Guards against an error without a way out, and against advice to delete what another process has deleted."""
    folder = Path(shutil.copytree(exported, tmp_path / "engine"))
    engine = CTranslate2Engine(folder, [tokenizer], CONTEXT, GREEDY)
    for damage, message in (
        (lambda: (folder / "model.bin").write_bytes(b"damage"), r"cannot load it \(.+\); delete this folder"),
        (lambda: (folder / "model.bin").unlink(), r"cannot load it \(model.bin: No such file.*\); delete this folder"),
        (lambda: shutil.rmtree(folder), "is gone, as after training has replaced these weights; start again"),
    ):
        damage()
        with pytest.raises(UserError, match=message):
            next(engine.sample([5, 6], 1, 1))


def test_work_is_divided_evenly() -> None:
    """Guards against a text that no group has."""
    assert divided(5, 2) == [range(2), range(2, 5)]
    assert divided(1, 1) == [range(1)]
