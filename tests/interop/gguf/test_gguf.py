"""A GGUF file contains our tensors and metadata, and llama.cpp, where it is installed, computes and writes the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from configs.errors import UserError
from data.config import TokenizerConfig
from data.tokens.sentencepiece_tokenizer import SentencePieceTokenizer
from data.tokens.tokenizer import Tokenizer
from generation.config import SamplingConfig
from generation.sampling import generate
from model.config import ModelConfig
from model.embedding import RotaryPositions, rotate
from model.gpt import GPT

pytest.importorskip("gguf", reason="gguf is not installed")
import gguf

from interop.gguf.architecture import architecture
from interop.gguf.export import ALPHA_N, ALPHA_P, BETA, EPS, write_file
from interop.gguf.tensors import _interleaved
from interop.gguf.vocabulary import vocabulary

BASE = ModelConfig(layers=2, heads=4, width=32, context=24, vocab_multiple=16)
PLAIN = replace(BASE, norm="layer", qk_norm=False, activation="gelu")
FLAVOURS = {
    "apertus": BASE,
    "apertus, grouped heads, untied": replace(BASE, kv_heads=2, tie_embeddings=False),
    "qwen3": replace(BASE, activation="swiglu", kv_heads=1),
    "arcee": replace(BASE, qk_norm=False, kv_heads=2),
    "llama": replace(BASE, activation="swiglu", qk_norm=False),
    "llama, biases": replace(BASE, activation="swiglu", qk_norm=False, bias=True, kv_heads=2, tie_embeddings=False),
    "gpt2": replace(PLAIN, position="learned"),
    "gpt2, biases, sinusoids": replace(PLAIN, position="sinusoidal", bias=True),
}

TEXT = [
    "The quick brown fox jumps over a lazy dog.\n",
    "日本語の文章も、二つ\tあります。\n",
    "low lower lowest newer newest\n",
] * 4


def sharpened(model: nn.Module) -> Any:
    """Randomise all parameters, including gains and biases, so that an export with default gains or biases fails."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return model.eval()


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return SentencePieceTokenizer.train(TEXT, TokenizerConfig(kind="bpe", vocab_size=90))


@pytest.fixture
def exported(request: pytest.FixtureRequest, tokenizer: Tokenizer, tmp_path: Path) -> tuple[GPT, Path]:
    """Return a random GPT of the flavour that the test names, and its file."""
    torch.manual_seed(0)
    model = sharpened(GPT(FLAVOURS[request.param], tokenizer.vocab_size))
    assert write_file(model, tokenizer, tmp_path / "model.gguf", "a name") == request.param.partition(",")[0]
    return model, tmp_path / "model.gguf"


@pytest.mark.parametrize("exported", FLAVOURS, indirect=True)
def test_tensors_and_metadata_read_back_equal(exported: tuple[GPT, Path], tokenizer: Tokenizer) -> None:
    """Guards against a tensor that is missing, doubled or transposed, and numbers of another layer or of a default."""
    model, path = exported
    config, reader = model.config, gguf.GGUFReader(path)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    kind = fields["general.architecture"]
    expected = {
        "general.name": "a name",
        f"{kind}.context_length": 24,
        f"{kind}.embedding_length": 32,
        f"{kind}.block_count": 2,
        f"{kind}.feed_forward_length": config.hidden_width,
        f"{kind}.attention.head_count": 4,
        f"{kind}.attention.head_count_kv": config.key_value_heads,
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.bos_token_id": tokenizer.start_id,
        "tokenizer.ggml.eos_token_id": tokenizer.eos_id,
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.add_space_prefix": False,
    }
    assert {name: fields[name] for name in expected} == expected
    assert len(fields["tokenizer.ggml.tokens"]) == tokenizer.vocab_size + 256

    tensors = {tensor.name: np.array(tensor.data) for tensor in reader.tensors}
    weights = model.state_dict()
    count = tokenizer.vocab_size
    np.testing.assert_array_equal(
        tensors["token_embd.weight"][:count], weights["embedding.tokens.weight"][:count] * model.embedding.scale
    )
    for name in ("attention.output", "feed_forward.project"):
        theirs = {"attention.output": "attn_output", "feed_forward.project": "ffn_down"}[name]
        for layer in range(2):
            np.testing.assert_array_equal(
                tensors[f"blk.{layer}.{theirs}.weight"], weights[f"blocks.{layer}.{name}.weight"]
            )
    stored = sum(array.size for name, array in tensors.items() if name.endswith(".weight"))
    matrices = sum(value.numel() for name, value in weights.items() if name.endswith("weight"))
    assert stored >= matrices - 2 * 16 * 32  # without the padding of the vocabulary


def test_the_activation_of_apertus_is_squared_relu() -> None:
    """Guards against parameters with which it bends otherwise, also in float32."""
    z = torch.linspace(-30, 30, 10_001)
    positive, negative = (nn.functional.softplus(torch.tensor(alpha)) for alpha in (ALPHA_P, ALPHA_N))
    below = (torch.expm1(z.clamp(max=EPS)) - z) * (BETA + negative) + BETA * z
    xielu = torch.where(z > 0, positive * z * z + BETA * z, below)
    torch.testing.assert_close(xielu, z.relu().square(), rtol=2e-7, atol=0)


def test_neighbours_rotate_like_entries_half_a_head_apart() -> None:
    """Guards against keys and queries of llama that are reordered differently than its rotation."""
    torch.manual_seed(0)
    head, heads = 8, 3
    rotation = RotaryPositions(16, head)(4, 5)  # [T, 2, 1, D/2]
    x = torch.randn(1, 5, heads, head)
    reordered = _interleaved(x.permute(2, 3, 0, 1).flatten(0, 1), head).unflatten(0, (heads, head)).permute(2, 3, 0, 1)
    cos, sin = rotation.unbind(-3)
    first, second = reordered[..., ::2], reordered[..., 1::2]
    turned = torch.stack((first * cos - second * sin, second * cos + first * sin), dim=-1).flatten(-2)
    torch.testing.assert_close(turned @ turned.transpose(-1, -2), rotate(x, rotation) @ rotate(x, rotation).mT)


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"token_shift": True}, "model.token_shift=true"),
        ({"norm": "layer"}, "model.norm=layer"),
        ({"activation": "gelu"}, "model.activation=gelu"),
        ({"bias": True}, "model.bias=true"),
        ({"position": "learned"}, "model.position=learned"),
        ({"block": "post_norm"}, "model.block=post_norm"),
    ],
)
def test_what_llama_cpp_cannot_compute_is_refused_by_name(options: dict[str, Any], key: str) -> None:
    """Guards against a file that computes something else."""
    with pytest.raises(UserError) as refused:
        architecture(replace(BASE, **options))
    assert all("train with" in sentence for sentence in refused.value.args)
    assert any(sentence.startswith(key) for sentence in refused.value.args)


def test_vocabularies_that_llama_cpp_lacks_are_refused_by_name() -> None:
    """Guards against other ids for the same text."""
    trained = SentencePieceTokenizer.train
    with pytest.raises(UserError, match=r"tokenizer\.byte_fallback=true with tokenizer\.kind=unigram"):
        vocabulary(trained(TEXT, TokenizerConfig(kind="unigram", byte_fallback=True)))
    with pytest.raises(UserError, match=r"tokenizer\.normalization=nfkc"):
        vocabulary(trained(TEXT, TokenizerConfig(kind="char", normalization="nfkc")))


@contextmanager
def llama(path: Path, context: int) -> Iterator[Any]:
    """Load a file with llama.cpp in float32; skip the test if it is not installed."""
    library = pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    options = {"n_ctx": context, "n_threads": 1, "logits_all": True, "verbose": False, "type_k": 0, "type_v": 0}
    loaded = library.Llama(str(path), **options)
    try:
        yield loaded
    finally:
        loaded.close()


@torch.no_grad()
@pytest.mark.parametrize("exported", FLAVOURS, indirect=True)
def test_llama_cpp_has_our_logits_and_writes_our_text(exported: tuple[GPT, Path], tokenizer: Tokenizer) -> None:
    """Guards against another rotation, norm, order of heads or activation in llama.cpp."""
    model, path = exported
    tokens = torch.randint(4, tokenizer.vocab_size, (20,)).tolist()
    tolerance = 0.02 if model.config.activation == "gelu" else 1e-3  # GELU is a table in float16 there
    with llama(path, 24) as peer:
        peer.eval(tokens)
        result = torch.from_numpy(peer.scores[:20, : tokenizer.vocab_size].copy())
        expected = model(torch.tensor([tokens]))[0]
        torch.testing.assert_close(result, expected, rtol=tolerance, atol=tolerance * float(expected.abs().max()))
        peer.reset()
        greedy = list(islice(peer.generate(tokens[:5], temp=0.0, repeat_penalty=1.0), 15))
    steps = generate(model, [tokens[:5]], SamplingConfig(temperature=0, max_tokens=15))
    assert greedy == [token for (token,) in steps]


KINDS = {
    "bpe": TokenizerConfig(kind="bpe", vocab_size=90),
    "bpe with bytes": TokenizerConfig(kind="bpe", vocab_size=350, byte_fallback=True),
    "unigram": TokenizerConfig(kind="unigram", vocab_size=57),
    "char": TokenizerConfig(kind="char"),
    "char with bytes": TokenizerConfig(kind="char", byte_fallback=True),
}


@pytest.mark.parametrize("kind", KINDS)
def test_llama_cpp_splits_text_as_we_do(kind: str, tmp_path: Path) -> None:
    """Guards against spaces that are added, tabs that are lost, other merges, and characters at which it aborts."""
    tokenizer = SentencePieceTokenizer.train(TEXT, KINDS[kind])
    write_file(GPT(BASE, tokenizer.vocab_size), tokenizer, tmp_path / "model.gguf", kind)
    texts = [*TEXT[:3], "", " ", "  two  spaces ", "lowest\n\nnewest", "日本 fox\tdog", "slow foxes overlooked"]
    unknown = ["Ω", "fox Ω dog ΩΩ", "🎉"]
    with llama(tmp_path / "model.gguf", 24) as peer:
        for text in texts:
            result = peer.tokenize(text.encode(), add_bos=False, special=False)
            assert result == tokenizer.encode(text), text
            assert peer.detokenize(result).decode() == text
        for text in unknown:
            result = peer.tokenize(text.encode(), add_bos=False, special=False)
            if kind != "bpe":
                assert result == tokenizer.encode(text)
            assert len(result) >= len(tokenizer.encode(text))
