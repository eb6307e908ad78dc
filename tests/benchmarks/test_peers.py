"""Exported models compute the same as ours. Each test is skipped if its peer is not installed."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from benchmarks import worker
from benchmarks.contender import Contender, Skipped
from benchmarks.decoding import beam, end_to_end, sample
from benchmarks.peers.reference_beam import reference_beam
from benchmarks.peers.weights import never_written
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from generation.beam_search import beam_search
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from tests.conftest import TINY, Run

EXPORTABLE = ModelConfig(
    layers=2, heads=4, width=32, context=24, norm="layer", position="learned", activation="gelu", qk_norm=False
)
VOCABULARY = 40
LENGTHS = [9, 3, 5, 9, 1, 2]
BOS, EOS = SentencePieceTokenizer.bos_id, SentencePieceTokenizer.eos_id


def sharpened(model: nn.Module) -> nn.Module:
    """Randomise all parameters, including gains and biases, so that an export with default gains or biases fails."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.15)
    return model.eval()


@pytest.fixture(params=[False, True], ids=["without biases", "with biases"])
def gpt(request: pytest.FixtureRequest) -> GPT:
    torch.manual_seed(0)
    return sharpened(GPT(replace(EXPORTABLE, bias=request.param, vocab_multiple=16), VOCABULARY))


@pytest.fixture(params=["learned", "sinusoidal"])
def translator(request: pytest.FixtureRequest) -> EncoderDecoder:
    torch.manual_seed(0)
    config = replace(EXPORTABLE, encoder_layers=1, position=request.param, vocab_multiple=16)
    return sharpened(EncoderDecoder(config, VOCABULARY, VOCABULARY, shared=True))


@pytest.fixture
def tokens() -> Tensor:
    torch.manual_seed(1)
    return torch.randint(VOCABULARY, (3, 24))


@pytest.fixture
def sources() -> tuple[Tensor, Tensor]:
    """Return padded sources [B, S] and the mask of non-padding tokens, [B, S] bool."""
    torch.manual_seed(1)
    real = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS).unsqueeze(1)
    return torch.randint(4, VOCABULARY, real.shape).masked_fill(~real, SentencePieceTokenizer.pad_id), real


def best_hypotheses(model: EncoderDecoder, source: Tensor, real: Tensor) -> list[list[int]]:
    """Return the hypotheses of our beam search."""
    found = beam_search(
        model, source, real, bos_id=BOS, eos_id=EOS, beam_size=5, max_length=12, banned_ids=never_written()
    )
    return [best.tokens for (best,) in found]


@torch.no_grad()
def test_gpt2_of_hugging_face_gives_our_logits(gpt: GPT, tokens: Tensor) -> None:
    """Guards against a matrix that is not transposed, queries and keys exchanged, and missing biases or gains."""
    hugging_face = pytest.importorskip("benchmarks.peers.hugging_face", reason="transformers is not installed")
    torch.testing.assert_close(hugging_face.gpt2(gpt)(tokens).logits, gpt(tokens))


@torch.no_grad()
def test_nanogpt_gives_our_logits(gpt: GPT, tokens: Tensor) -> None:
    """Guards against the same errors in nanoGPT's layers. The environment variable NANOGPT is the path of a
    checkout."""
    from benchmarks.peers.nanogpt import nanogpt

    if "NANOGPT" not in os.environ:
        pytest.skip("nanoGPT is not installed: the environment variable NANOGPT names no checkout")
    peer = nanogpt(gpt, Path(os.environ["NANOGPT"]))
    torch.testing.assert_close(peer(tokens, tokens)[0], gpt(tokens))


@torch.no_grad()
def test_pegasus_gives_our_logits_and_finds_our_hypotheses(
    translator: EncoderDecoder, sources: tuple[Tensor, Tensor]
) -> None:
    """Guards against a wrong split of fused keys and values, Pegasus's own positions, and another hypothesis score."""
    hugging_face = pytest.importorskip("benchmarks.peers.hugging_face", reason="transformers is not installed")
    peer, (source, real) = hugging_face.pegasus(translator), sources
    target = torch.randint(4, VOCABULARY, (len(source), 12))
    logits = peer(input_ids=source, attention_mask=real.long(), decoder_input_ids=target).logits
    allowed = [token for token in range(VOCABULARY) if token not in never_written()]
    torch.testing.assert_close(logits[..., allowed], translator(source, target, real)[..., allowed])

    written = peer.generate(
        input_ids=source, attention_mask=real.long(), num_beams=5, max_new_tokens=12, early_stopping=True
    )
    found = [[token for token in row if token not in (BOS, EOS)] for row in written.tolist()]
    assert found == best_hypotheses(translator, source, real)


def test_our_beam_search_finds_what_the_reference_finds(
    translator: EncoderDecoder, sources: tuple[Tensor, Tensor]
) -> None:
    """Guards against a reference with another search objective, which would make every fast search look wrong."""
    source, real = sources
    expected = best_hypotheses(translator, source, real)
    translator.double()
    for row, length in enumerate(LENGTHS):
        found = reference_beam(
            translator,
            source[row : row + 1, :length],
            bos_id=BOS,
            eos_id=EOS,
            max_length=12,
            beam_size=5,
            banned_ids=never_written(),
        )
        assert found == expected[row]


@pytest.mark.parametrize(("key", "value"), [("norm", "rms"), ("activation", "relu2"), ("qk_norm", True)])
def test_a_model_that_no_peer_has_is_refused_by_name(key: str, value: object, tmp_path: Path) -> None:
    """Guards against a peer that is measured with a different architecture."""
    from benchmarks.peers.nanogpt import nanogpt

    with pytest.raises(ValueError, match=f"model.{key}={value}: must be"):
        nanogpt(GPT(replace(EXPORTABLE, **{key: value}), VOCABULARY), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "contender",
    [one for one in sample.benchmark("0.8M", 2, "").contenders if "threads" not in one.name],
    ids=attrgetter("name"),
)
def test_every_sampler_writes_all_tokens(contender: Contender) -> None:
    """Guards against settings that a peer's release no longer accepts, and texts that end early and thus look fast."""
    assert stepped(contender) == 2 * 63


def test_every_beam_search_of_a_run_finds_the_same(in_process: Run, tmp_path: Path) -> None:
    """Guards against a contender that truncates, pads or reorders sources differently, and special tokens in a
    result."""
    settings = "model.norm=layer model.position=sinusoidal model.activation=gelu model.qk_norm=false trainer.test=false"
    done = in_process("train.py", "task=translate", *TINY, *settings.split(), "name=tiny")
    assert done.returncode == 0, done.stderr
    sentences = tmp_path / "sentences.txt"
    # Long enough that our length limit, which depends on each sentence, is the end of the context, as for the peers.
    lines = (
        "Ken gave Mary a red book .",
        "the old dog slept in the garden .",
        "who gave the child of the teacher a flower ?",
    )
    sentences.write_text("\n".join(lines * 2) + "\n", encoding="utf-8")
    work = {"run": str(tmp_path / "runs" / "tiny"), "sentences": str(sentences), "beam_size": 3}
    expected = beam.reference(**work)
    for contender in beam.benchmark(work, tmp_path).contenders:
        if "float32" in contender.name and "threads" not in contender.name:
            with suppress(pytest.skip.Exception):
                assert stepped(contender) == 6
                assert json.loads((tmp_path / f"{contender.name}.json").read_text()) == expected, contender.name


@pytest.mark.parametrize("task", ["gpt", "translate"])
def test_both_programs_print_the_same(task: str, trained: Path, tmp_path: Path) -> None:
    """Guards against a comparison of processes that do different work, and a peer that fails at once."""
    pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")
    run = trained / "runs" / task
    (tmp_path / "input.txt").write_text("Once" if task == "gpt" else "Ken gave Mary a red book.\n" * 2)
    end_to_end.export(run, tmp_path / "export")
    settings = end_to_end.EndToEndSettings(beam_size=2, new_tokens=6)
    options = ["temperature=0", "max_tokens=6"] if task == "gpt" else ["beam_size=2"]
    contenders = {one.name: one for one in end_to_end.benchmark(run, task, tmp_path, settings, options).contenders}
    found = [
        end_to_end.printed(contenders[name].arguments["command"], str(tmp_path / "input.txt"))
        for name in ("ours, engine=ctranslate2", "CTranslate2 float32, 1 worker")
    ]
    assert found[0] == found[1]
    assert len(found[0]) == (1 if task == "gpt" else 2)


def stepped(contender: Contender) -> int:
    """Build a contender and run one step; skip the test if its package is not installed."""
    try:
        return worker.imported(contender.build)(**contender.arguments)()
    except (ImportError, Skipped) as reason:
        pytest.skip(f"{contender.name}: {reason}")
