"""Batches of sentence pairs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from data.batches.batch import IGNORED, Batch
from data.batches.epoch_order import rows_per_batch, sorted_batches, training_batches
from data.batches.pairs import encode_sources
from data.batches.source_sentences import reversed_tag
from data.config import TokenizerConfig
from data.errors import DataError
from data.token_cache import PreparedPairs, prepare
from tests.data.conftest import made_pairs, tsv

CONTEXT = 24


def prepared(
    tmp_path: Path,
    pairs_config,
    context: int = CONTEXT,
    sampling: float = 0.0,
    shared: bool = True,
    kind: str = "unigram",
    **more,
) -> PreparedPairs:
    for name, chosen in (("train", made_pairs()), ("valid", made_pairs(40))):
        (tmp_path / f"{name}.tsv").write_text(tsv(chosen), "utf-8")
    config = pairs_config(tmp_path, batch_tokens=256, **more)
    tokenizer = TokenizerConfig(kind=kind, vocab_size=100 if shared else 45, sampling=sampling, shared=shared)
    return prepare("translate", config, tokenizer, context, seed=3)


def pairs_in(batch: Batch, data: PreparedPairs) -> list[tuple[str, str]]:
    """Return the sentence pairs of a batch, decoded from its tensors."""
    result = []
    for source, target in zip(batch.source.tolist(), batch.targets.tolist(), strict=True):
        result.append(
            (data.source_tokenizer.decode(source), data.target_tokenizer.decode([t for t in target if t != IGNORED]))
        )
    return result


@pytest.mark.parametrize("sampling", [0.0, 0.3])
def test_with_both_directions_every_pair_also_comes_reversed_with_a_tag(
    tmp_path: Path, pairs_config, sampling: float
) -> None:
    """Guards against a reversed source without its tag, a tag in the forward direction or on a target, pairs that the
    tag makes too long for the context, validation in the other direction, and the wrong row numbers in reports."""
    whole = prepared(tmp_path, pairs_config, context=100)
    lengths = [max(len(whole.source_tokenizer.encode(text)) for text in pair) for pair in made_pairs()]
    context = max(lengths) + 1  # the longest pair fits, but not with a tag
    data = prepared(tmp_path, pairs_config, context=context, sampling=sampling, both_directions=True)
    stream, tag = data.training(), reversed_tag(data.source_tokenizer)
    seen: Counter[tuple[bool, str, str]] = Counter()
    while stream.epoch < 1:
        batch = stream.next_batch()
        tagged = (batch.source[:, 0] == tag).tolist()
        assert int((batch.source == tag).sum()) == sum(tagged)
        assert not (batch.targets == tag).any()
        seen.update((is_tagged, *pair) for is_tagged, pair in zip(tagged, pairs_in(batch, data), strict=True))
        assert [{*made_pairs()[row]} for row in batch.rows] == [{*pair} for pair in pairs_in(batch, data)]
    kept = [pair for pair, length in zip(made_pairs(), lengths, strict=True) if length + 2 <= context]
    assert len(kept) < len(made_pairs())
    assert seen == Counter([(False, en, ja) for en, ja in kept] + [(True, ja, en) for en, ja in kept])
    assert not any((batch.source == tag).any() for batch in data.evaluation("valid"))
    with pytest.raises(DataError, match="one vocabulary of both languages"):
        prepared(tmp_path, pairs_config, context=100, shared=False, both_directions=True).training()


@pytest.mark.parametrize("sampling", [0.0, 0.3])
def test_every_pair_comes_exactly_once_per_epoch(tmp_path: Path, pairs_config, sampling: float) -> None:
    """Guards against pairs that bucketing loses, duplicates or mismatches when leftover rows move to the next
    bucket."""
    data = prepared(tmp_path, pairs_config, context=100, sampling=sampling)
    stream = data.training()
    for epoch in (1.0, 2.0):
        seen: Counter[tuple[str, str]] = Counter()
        while stream.epoch < epoch:
            seen.update(pairs_in(stream.next_batch(), data))
        assert seen == Counter(made_pairs())
        assert stream.epoch == epoch


def test_inputs_start_with_bos_and_targets_end_with_eos(tmp_path: Path, pairs_config) -> None:
    """Guards teacher forcing: inputs shifted by one position, padding ignored in the loss, an eos after each source."""
    data = prepared(tmp_path, pairs_config, context=100)
    stream = data.training()
    for _ in range(stream.epoch_batches):
        batch = stream.next_batch()
        assert batch.inputs.dtype == batch.targets.dtype == batch.source.dtype == torch.int64
        real = batch.targets != IGNORED
        assert (batch.inputs[:, 0] == 2).all()
        assert torch.equal(batch.inputs[:, 1:][real[:, 1:]], batch.targets[:, :-1][real[:, 1:]])
        assert (batch.inputs[~real] == 0).all()
        last = real.sum(1) - 1
        assert (batch.targets.gather(1, last[:, None]) == 3).all()
        mask = batch.source_mask if batch.source_mask is not None else torch.ones_like(batch.source, dtype=torch.bool)
        assert (batch.source[~mask] == 0).all()
        assert (batch.source.gather(1, mask.sum(1)[:, None] - 1) == 3).all()
        assert batch.source_mask is None or not batch.source_mask.all()
        assert batch.target_tokens == int(real.sum())
        assert (batch.target_tokens, batch.source_tokens) == (int(real.sum()), int(mask.sum()))
        assert batch.source.shape[1] % 4 == 0
        assert batch.inputs.shape[1] % 4 == 0


@pytest.mark.parametrize(("sampling", "kind"), [(0.0, "unigram"), (0.3, "unigram"), (0.1, "bpe")])
def test_resumed_stream_is_exact(tmp_path: Path, pairs_config, sampling: float, kind: str) -> None:
    """Guards against other batches after a resume, also across an epoch boundary and with subword sampling."""
    data = prepared(tmp_path, pairs_config, sampling=sampling, kind=kind)
    stream = data.training()
    for done in (stream.epoch_batches - 3, 3, 5):
        for _ in range(done):
            stream.next_batch()
        resumed = data.training(seed=1234)
        resumed.load_state_dict(stream.state_dict())
        state = stream.state_dict()
        for _ in range(6):
            expected, result = stream.next_batch(), resumed.next_batch()
            assert torch.equal(expected.inputs, result.inputs)
            assert torch.equal(expected.source, result.source)
        stream.load_state_dict(state)


def test_processes_share_an_epoch_without_overlap(tmp_path: Path, pairs_config) -> None:
    """Guards data-parallel training: the processes receive, in turn, the batches that one process would receive, also
    across the end of an epoch, and can be resumed with any other number of processes."""
    data = prepared(tmp_path, pairs_config)
    alone, streams = data.training(), [data.training() for _ in range(3)]
    while alone.epoch < 2:
        expected = [batch.source for batch in alone.share(5)]
        shares = [stream.share(5, rank, 3) for rank, stream in enumerate(streams)]
        result = [shares[number % 3][number // 3].source for number in range(5)]
        assert all(torch.equal(a, b) for a, b in zip(expected, result, strict=True))
        assert all(stream.state_dict() == alone.state_dict() for stream in streams)


def test_long_pairs_leave_training_and_are_cut_in_evaluation_and_both_are_counted(tmp_path: Path, pairs_config) -> None:
    """Guards against silently dropped data: long pairs are skipped in training, truncated in evaluation, and counted in
    the notes."""
    data = prepared(tmp_path, pairs_config)
    lengths = [
        max(len(data.source_tokenizer.encode(en)), len(data.target_tokenizer.encode(ja))) + 1 for en, ja in made_pairs()
    ]
    over = sum(length > CONTEXT for length in lengths)
    assert 0 < over < 300
    assert any(f"train: {over} of 300 pairs" in note and "skipped" in note for note in data.notes)
    assert any("valid:" in note and "truncated" in note for note in data.notes)
    stream = data.training()
    assert sum(len(stream.next_batch().inputs) for _ in range(stream.epoch_batches)) == 300 - over
    batches = list(data.evaluation("valid"))
    assert sum(len(batch.inputs) for batch in batches) == 40
    assert all(batch.inputs.shape[1] <= CONTEXT and batch.source.shape[1] <= CONTEXT for batch in batches)


def test_a_context_shorter_than_every_pair_is_refused(tmp_path: Path, pairs_config) -> None:
    """Guards against an endless search for a first batch."""
    with pytest.raises(DataError, match=r"model.context=3 is shorter than every training pair"):
        prepared(tmp_path, pairs_config, context=3)


def test_evaluation_scores_every_target_token_once(tmp_path: Path, pairs_config) -> None:
    """Guards the reported loss: each target token and each eos is scored exactly once, at any batch size."""
    data = prepared(tmp_path, pairs_config, context=100)
    expected = sum(len(data.target_tokenizer.encode(ja)) + 1 for _, ja in made_pairs(40))
    for budget in (64, 256, 100_000):
        batches = list(data.evaluation("valid", budget))
        assert sum(batch.target_tokens for batch in batches) == expected
        assert sorted(pair for batch in batches for pair in pairs_in(batch, data)) == sorted(made_pairs(40))


def test_languages_may_have_vocabularies_of_their_own(tmp_path: Path, pairs_config) -> None:
    """Guards tokenizer.shared=false: source ids come from the source tokenizer."""
    data = prepared(tmp_path, pairs_config, context=100, shared=False)
    assert len(data.tokenizers) == 2
    assert data.source_tokenizer.fingerprint != data.target_tokenizer.fingerprint
    assert data.target_tokenizer.unk_id in data.target_tokenizer.encode("Tea")
    assert sorted(pair for batch in data.evaluation("valid") for pair in pairs_in(batch, data)) == sorted(
        made_pairs(40)
    )


def test_two_vocabularies_can_be_evaluated_on_the_data_of_a_run_with_both_directions(
    tmp_path: Path, pairs_config
) -> None:
    """Guards against a comparison of two runs that is refused for a setting of the training of the other one."""
    data = prepared(tmp_path, pairs_config, context=100, shared=False, both_directions=True)
    assert len(data.tokenizers) == 2
    assert sorted(pair for batch in data.evaluation("valid") for pair in pairs_in(batch, data)) == sorted(
        made_pairs(40)
    )


def test_bytes_are_those_of_what_is_predicted(tmp_path: Path, pairs_config) -> None:
    """Guards bits per byte: an eos counts as one byte; the truncated part of a target and its eos do not count."""
    for context, cut in ((100, False), (CONTEXT, True)):
        data = prepared(tmp_path, pairs_config, context=context, source_column="2", target_column="1")
        for split in data.splits:
            asked = [
                [token for token in row if token != IGNORED]
                for batch in data.evaluation(split)
                for row in batch.targets.tolist()
            ]
            ends = sum(row[-1] == data.target_tokenizer.eos_id for row in asked)
            assert (ends < len(asked)) == cut
            texts = [data.target_tokenizer.decode(row) for row in asked]
            assert data.bytes(split) == sum(len(text.encode()) for text in texts) + ends
    whole = prepared(tmp_path, pairs_config, context=100)
    assert whole.bytes("valid") == sum(len(ja.encode()) + 1 for _, ja in made_pairs(40))


def test_an_epoch_has_few_shapes_and_little_padding() -> None:
    """Guards speed: one batch size per shape (except the last batch), few shapes, and most of the token budget used."""
    random = np.random.default_rng(0)
    source = np.clip(random.poisson(9, 20_000), 2, 60)
    target = np.clip(source + random.integers(-2, 8, 20_000), 2, 60)
    batches = training_batches(source, target, 2048, 4, np.random.default_rng(1))
    assert sorted(np.concatenate([batch.rows for batch in batches]).tolist()) == list(range(20_000))
    assert all(source[rows].max() <= width and target[rows].max() <= height for rows, width, height in batches)
    shapes = Counter((len(rows), width, height) for rows, width, height in batches)
    odd = [shape for shape in shapes if shape[0] != rows_per_batch(shape[1], shape[2], 2048)]
    assert len(odd) <= 1
    assert len(shapes) < 80
    real = int((source + target).sum())
    assert real / sum(size * (width + height) * count for (size, width, height), count in shapes.items()) > 0.8


def test_sorted_batches_keep_the_budget() -> None:
    """Guards the memory of an evaluation: only a batch of a single row may exceed the budget."""
    random = np.random.default_rng(0)
    source, target = random.integers(1, 50, 500), random.integers(1, 50, 500)
    batches = list(sorted_batches(source, target, 300))
    assert sorted(np.concatenate(batches).tolist()) == list(range(500))
    assert all(len(rows) == 1 or len(rows) * (source[rows].max() + target[rows].max()) <= 300 for rows in batches)


def test_sources_to_translate_come_back_in_order(tmp_path: Path, pairs_config) -> None:
    """Guards batch translation: sentences are sorted by length internally and restored by index, including empty and
    overlong ones."""
    data = prepared(tmp_path, pairs_config)
    texts = ["", *(en for en, _ in made_pairs(50)), "", "sat " * 100]
    restored: list[str | None] = [None] * len(texts)
    for batch in encode_sources(data.source_tokenizer, texts, 128, CONTEXT):
        assert (batch.source_mask is None) == bool((batch.source != 0).all())
        for index, row in zip(batch.indices, batch.source.tolist(), strict=True):
            assert [token for token in row if token][-1] == 3
            restored[index] = data.source_tokenizer.decode(row)
    assert [text for text in restored if text is not None] == [
        data.source_tokenizer.decode(data.source_tokenizer.encode(text)[: CONTEXT - 1]) for text in texts
    ]
