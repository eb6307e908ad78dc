"""CTranslate2 computes the same as our models, in every flavour that it has; other flavours are refused by name."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from configs.errors import UserError
from data.config import TokenizerConfig
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from data.tokens.tokenizer import Tokenizer
from generation.beam_search import beam_search
from generation.config import SamplingConfig
from generation.sampling import generate
from interop.ctranslate.export import write_model
from interop.imported_options import ACTIVATIONS
from model.config import NORMS, POSITIONS, ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT

ctranslate2 = pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")

BASE = ModelConfig(layers=2, heads=4, width=32, context=24, vocab_multiple=16)
OTHERS: tuple[dict[str, Any], ...] = (
    {"bias": True, "kv_heads": 2, "qk_norm": True},
    {"tie_embeddings": False, "kv_heads": 1, "qk_norm": False},
    {"bias": True, "qk_norm": False, "encoder_layers": 1},
    {"qk_norm": True, "kv_heads": 1, "share_embeddings": False},
)
"""Values of the other options; each occurs with each norm, each position and each activation."""

FLAVOURS = [
    replace(BASE, norm=norm, position=position, activation=activation, **OTHERS[number % len(OTHERS)])
    for number, (norm, position, activation) in enumerate(product(NORMS, POSITIONS, ACTIVATIONS))
]

PLAIN = replace(BASE, norm="layer", qk_norm=False, bias=True)
FLAVOURS += [  # of models that come from elsewhere: Marian, with scaled embeddings and without, and GPT-2
    replace(PLAIN, block="post_norm", position="sinusoidal", activation="silu", output_bias=True),
    replace(PLAIN, block="post_norm", position="sinusoidal", activation="relu", output_bias=True, embedding_scale=1.0),
    replace(PLAIN, position="learned", activation="gelu_tanh", norm_eps=0.1),
    replace(BASE, norm_eps=0.1),
]


def named(config: ModelConfig) -> str:
    """Return the options that differ from the default."""
    default = ModelConfig(layers=2, width=32, context=24, vocab_multiple=16)
    return " ".join(f"{key}={value}" for key, value in vars(config).items() if value != getattr(default, key))


def sharpened(model: nn.Module) -> nn.Module:
    """Randomise all parameters, including gains and biases, so that an export with default gains or biases fails."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return model.eval()


@pytest.fixture(scope="module")
def tokenizers() -> list[Tokenizer]:
    """Return two tokenizers of different sizes: characters of English, and of Japanese with bytes and newlines."""
    english = SentencePieceTokenizer.train(
        ["the quick brown fox jumps over a lazy dog"] * 3, TokenizerConfig(kind="char")
    )
    japanese = SentencePieceTokenizer.train(
        ["犬が走る。\n猫は寝る。\t"] * 3, TokenizerConfig(kind="char", byte_fallback=True)
    )
    return [english, japanese]


@torch.no_grad()
@pytest.mark.parametrize("config", FLAVOURS, ids=named)
def test_a_gpt_of_every_flavour_has_our_logits_and_writes_our_text(
    config: ModelConfig, tokenizers: list[Tokenizer], tmp_path: Path
) -> None:
    """Guards against gains, biases and halves of matrices that are exchanged or missing, heads in another order,
    another rotation, tokens that are never written, and positions off by one in CTranslate2's own loop."""
    torch.manual_seed(0)
    tokenizer = tokenizers[0]
    model = sharpened(GPT(config, tokenizer.vocab_size))
    write_model(model, [tokenizer], tmp_path)
    peer = ctranslate2.Generator(str(tmp_path), intra_threads=1)
    tokens = torch.randint(tokenizer.vocab_size, (3, 24))
    written = [token for token in range(tokenizer.vocab_size) if token not in tokenizer.never_written]
    outcome, expected = torch.from_numpy(np.array(peer.forward_batch(tokens.tolist()))), model(tokens)
    torch.testing.assert_close(outcome[..., written], expected[..., written], rtol=1e-4, atol=1e-4)
    assert bool((outcome[..., tokenizer.never_written] < -1e8).all())

    prompts = tokens[:, :3].tolist()
    greedy = SamplingConfig(temperature=0, max_tokens=20)
    steps = generate(model, prompts, greedy, stop_ids={tokenizer.eos_id}, banned_ids=tokenizer.never_written)
    texts = [[token for token in text if token is not None] for text in zip(*steps, strict=True)]
    results = peer.generate_batch(
        [[tokenizer.spellings[token] for token in prompt] for prompt in prompts],
        include_prompt_in_result=False,
        max_length=20,
    )
    assert [result.sequences_ids[0] for result in results] == texts


LENGTHS = [9, 3, 5, 9, 1, 2]


@torch.no_grad()
@pytest.mark.parametrize("config", FLAVOURS, ids=named)
def test_a_translator_of_every_flavour_finds_our_hypotheses(
    config: ModelConfig, tokenizers: list[Tokenizer], tmp_path: Path
) -> None:
    """Guards against the same errors in encoder, decoder and cross-attention, exchanged vocabularies, padding that is
    attended to, sources without eos, another score, and tokens that are never written."""
    torch.manual_seed(0)
    source, target = tokenizers
    model = sharpened(EncoderDecoder(config, source.vocab_size, target.vocab_size))
    write_model(model, tokenizers, tmp_path)
    peer = ctranslate2.Translator(str(tmp_path), intra_threads=1)
    real = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS).unsqueeze(1)
    tokens = torch.randint(4, source.vocab_size, real.shape).masked_fill(~real, source.pad_id)  # without eos
    pieces = [[source.spellings[token] for token in row if token != source.pad_id] for row in tokens.tolist()]

    ended = nn.functional.pad(tokens, (0, 1), value=source.pad_id).scatter(1, real.sum(1, keepdim=True), source.eos_id)
    mask = ended != source.pad_id
    written = torch.randint(4, target.vocab_size, (len(LENGTHS), 7))
    scores = peer.score_batch(pieces, [[target.spellings[token] for token in row] for row in written.tolist()])
    inputs = nn.functional.pad(written, (1, 0), value=target.bos_id)
    logits = model(ended, inputs, mask)
    logits[..., target.never_written] = float("-inf")
    labels = nn.functional.pad(written, (0, 1), value=target.eos_id)
    expected = logits.log_softmax(dim=-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    outcome = torch.tensor([result.log_probs for result in scores])
    torch.testing.assert_close(outcome, expected, rtol=1e-4, atol=1e-4)

    assert hypotheses(peer, pieces, target) == ours(model, ended, mask, target)


def hypotheses(peer: Any, pieces: list[list[str]], target: Tokenizer) -> list[list[int]]:
    """Return the best hypotheses of CTranslate2 as ids, with a beam of 5."""
    results = peer.translate_batch(pieces, beam_size=5, max_decoding_length=12)
    return [[target.spellings.index(piece) for piece in result.hypotheses[0]] for result in results]


def ours(model: EncoderDecoder, source: Tensor, mask: Tensor, target: Tokenizer) -> list[list[int]]:
    """Return our best hypotheses."""
    ids = {"bos_id": target.bos_id, "eos_id": target.eos_id, "banned_ids": target.never_written}
    return [best.tokens for (best,) in beam_search(model, source, mask, **ids, beam_size=5, max_length=12)]


@torch.no_grad()
def test_one_vocabulary_serves_both_sides(tokenizers: list[Tokenizer], tmp_path: Path) -> None:
    """Guards against shared embeddings that are written twice or not at all, and QK-norm that is refused where it is
    the same: with one head."""
    tokenizer = tokenizers[1]
    torch.manual_seed(0)
    config = replace(BASE, heads=1)
    model = sharpened(EncoderDecoder(config, tokenizer.vocab_size, tokenizer.vocab_size, shared=True))
    write_model(model, [tokenizer], tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"model.bin", "config.json", "shared_vocabulary.json"}
    parameters = sum(parameter.numel() for parameter in model.parameters())
    assert (tmp_path / "model.bin").stat().st_size < 4 * parameters + 10_000
    source = torch.randint(4, tokenizer.vocab_size, (4, 6))
    ended = nn.functional.pad(source, (0, 1), value=tokenizer.eos_id)
    pieces = [[tokenizer.spellings[token] for token in row] for row in source.tolist()]
    peer = ctranslate2.Translator(str(tmp_path), intra_threads=1)
    assert hypotheses(peer, pieces, tokenizer) == ours(model, ended, torch.ones_like(ended).bool(), tokenizer)


def test_what_ctranslate2_cannot_compute_is_refused_by_name(tokenizers: list[Tokenizer], tmp_path: Path) -> None:
    """Guards against a folder that computes something else."""
    size = tokenizers[0].vocab_size
    with pytest.raises(UserError, match=r"model\.token_shift=true: .* train with model\.token_shift=false"):
        write_model(GPT(replace(BASE, token_shift=True), size), tokenizers[:1], tmp_path)
    with pytest.raises(UserError, match=r"model\.cross_qk_norm=true: .* train with model\.cross_qk_norm=false"):
        write_model(EncoderDecoder(replace(BASE, cross_qk_norm=True), size, size), tokenizers[:1], tmp_path)
    with pytest.raises(UserError) as refused:
        write_model(GPT(replace(BASE, rotary_base=500.0), size), tokenizers[:1], tmp_path)
    assert [sentence.partition(":")[0] for sentence in refused.value.args] == ["model.rotary_base=500.0"]
    assert list(tmp_path.iterdir()) == []
