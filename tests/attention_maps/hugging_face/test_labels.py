"""Readable pieces of other tokenizers."""

from __future__ import annotations

import pytest
from transformers import PreTrainedTokenizerFast

from attention_maps.hugging_face.labels import byte_of, pieces, spelling_of
from tests.attention_maps.hugging_face.models import TEXTS, tokenizer


@pytest.mark.parametrize("spelling", ["bytes", "wordpiece", "▁"])
def test_words_begin_with_a_space_marker(spelling: str) -> None:
    """Guards against Ġ and ## in the tab, and against words that cannot be merged."""
    labels = tokenizer(spelling)
    assert spelling_of(labels) == spelling
    written = "".join(pieces(labels(TEXTS[0], add_special_tokens=False)["input_ids"], labels))
    end = "▁." if spelling == "wordpiece" else "."
    assert written.strip("▁") == "Emi▁likes▁apples▁more▁than▁oranges" + end


def test_bytes_of_a_character_are_named() -> None:
    """Guards against mojibake: Japanese is split within characters by vocabularies of bytes."""
    labels = tokenizer("bytes")
    spelled = pieces(labels("ぬ\n\x03", add_special_tokens=False)["input_ids"], labels)
    assert "".join(spelled) == "<0xE3><0x81><0xAC>↵<0x03>"
    assert sorted(byte_of().values()) == list(range(256))


def test_special_tokens_and_unknown_ids() -> None:
    """Guards against a special token with a space marker, and an id beyond the vocabulary."""
    assert pieces([3, 4, 299], tokenizer("wordpiece")) == ["[CLS]", "[SEP]", "#299"]
    assert pieces([7], None) == ["#7"]


def test_marked_ends_of_words() -> None:
    """Guards against CLIP's </w>: the next piece begins a word."""
    from tokenizers import Tokenizer, models

    made = Tokenizer(models.BPE({"em": 0, "i</w>": 1, "like</w>": 2, "</s>": 3}, []))
    labels = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="</s>")
    assert pieces([0, 1, 2, 3], labels) == ["▁em", "i", "▁like", "</s>"]
