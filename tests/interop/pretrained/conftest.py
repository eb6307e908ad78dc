"""Folders of transformers as they come from the hub: a model with random weights, and a tokenizer of its kind."""

from __future__ import annotations

import io
import json
import random
import shutil
from pathlib import Path

import pytest
import sentencepiece
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from tests.interop.pretrained.foreign import saved, sharpen

WORDS = "the cat sat on a mat and we saw her red hat in an old tin box at one of ten".split()
JAPANESE = "猫 が マット に いる 私 は 赤い 帽子 を 見た".split()
EOT = "<|endoftext|>"


def lines(count: int, seed: int = 0, words: list[str] = WORDS) -> list[str]:
    """Return sentences of random words, which have no spaces between them in Japanese."""
    draw, space = random.Random(seed), "" if words is JAPANESE else " "
    return [space.join(draw.choices(words, k=draw.randrange(3, 9))) + "." for _ in range(count)]


def byte_level_bpe(size: int) -> Tokenizer:
    """Train a tokenizer of the kind of GPT-2."""
    result = Tokenizer(models.BPE())
    result.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    result.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=[EOT], initial_alphabet=alphabet, show_progress=False)
    result.train_from_iterator(lines(300), trainer)
    return result


def add_bpe(folder: Path, size: int = 290) -> None:
    """Add the tokenizer of a language model to a folder."""
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=byte_level_bpe(size), bos_token=EOT, eos_token=EOT
    ).save_pretrained(folder)


def piece_model(texts: list[str], size: int) -> bytes:
    """Train a SentencePiece model with the options of the OPUS-MT models."""
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=file,
        vocab_size=size,
        hard_vocab_limit=False,
        character_coverage=1.0,
        minloglevel=2,
    )
    return file.getvalue()


def add_marian(folder: Path) -> int:
    """Add the tokenizer of OPUS-MT models to a folder: one vocabulary of both sides -> its size."""
    names = {"</s>": 0, "<unk>": 1}
    for side, words in (("source", WORDS), ("target", JAPANESE)):
        model = piece_model(lines(200, words=words), 60)
        (folder / f"{side}.spm").write_bytes(model)
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        for token in range(3, processor.get_piece_size()):
            names.setdefault(processor.id_to_piece(token), len(names))
    names.setdefault(">>jpn<<", len(names))
    names["<pad>"] = len(names)
    (folder / "vocab.json").write_text(json.dumps(names))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "MarianTokenizer"}')
    return len(names)


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder like that of GPT-2."""
    folder = tmp_path_factory.mktemp("foreign") / "gpt2"
    config = transformers.GPT2Config(
        vocab_size=300, n_embd=32, n_layer=2, n_head=2, n_positions=32, bos_token_id=0, eos_token_id=0
    )
    saved(transformers.GPT2LMHeadModel(config), folder)
    add_bpe(folder)
    return folder


@pytest.fixture(scope="session")
def marian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder like that of an OPUS-MT model."""
    folder = tmp_path_factory.mktemp("foreign") / "opus-mt"
    folder.mkdir()
    size = add_marian(folder)
    config = transformers.MarianConfig(
        vocab_size=size,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_position_embeddings=32,
        activation_function="swish",
        scale_embedding=True,
        eos_token_id=0,
        pad_token_id=size - 1,
        decoder_start_token_id=size - 1,
    )
    torch.manual_seed(1)
    model = transformers.MarianMTModel(config)
    sharpen(model)
    model.final_logits_bias.normal_()
    model.final_logits_bias[0, 0] += 3.0  # translations end
    saved(model, folder)
    return folder


@pytest.fixture
def copied(gpt2: Path, tmp_path: Path) -> Path:
    """Return a copy of a folder like that of GPT-2, to be changed."""
    return Path(shutil.copytree(gpt2, tmp_path / "copied"))
