"""Windows of running text."""

from __future__ import annotations

import itertools
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch

from data.batches.batch import IGNORED
from data.batches.windows import WindowStream, evaluation_windows, sliding_windows


def numbered(count: int) -> np.ndarray:
    """Return tokens whose ids encode their positions."""
    return np.arange(count, dtype=np.uint16)


@pytest.mark.parametrize("length", [9, 10, 17, 100, 103])
def test_every_window_comes_exactly_once_per_epoch(length: int) -> None:
    """Guards against skipped or repeated text: the windows of an epoch cover the ring without gap or overlap."""
    context = 8
    stream = WindowStream(numbered(length), 1, context, seed=3)
    places = set()
    for _ in range(20):
        windows = [stream.next_batch().inputs[0].tolist() for _ in range(stream.epoch_batches)]
        tokens = [token for window in windows for token in window]
        assert len(tokens) == len(set(tokens)) > length - context
        assert all(after == (token + 1) % length for window in windows for token, after in itertools.pairwise(window))
        places |= {window.index(0) for window in windows if 0 in window}
    assert len(places) > 3  # the first token is seen, and in more than one position


def test_targets_are_the_inputs_one_further() -> None:
    """Guards the shift by one: a model that predicts its own input would seem to learn."""
    batch = WindowStream(numbered(100), 4, 8, seed=0).next_batch()
    assert batch.inputs.shape == batch.targets.shape == (4, 8)
    assert batch.inputs.dtype == batch.targets.dtype == torch.int64
    assert torch.equal(batch.targets, (batch.inputs + 1) % 100)
    assert batch.source is None
    assert (batch.source_tokens, batch.target_tokens) == (0, 32)


@pytest.mark.parametrize("done", [0, 5, 11, 12, 13, 40])
def test_resumed_stream_is_exact(done: int) -> None:
    """Guards against other batches after a resume, also across an epoch boundary (here after 12.4 batches)."""
    tokens = np.where(np.arange(1005) % 17 == 0, 0, numbered(1005))
    stream = WindowStream(tokens, 10, 8, seed=1, eos_id=0)
    for _ in range(done):
        stream.next_batch()
    resumed = WindowStream(tokens, 10, 8, seed=99, eos_id=0)
    resumed.load_state_dict(stream.state_dict())
    assert resumed.epoch == stream.epoch
    for _ in range(30):
        assert torch.equal(resumed.next_batch().inputs, stream.next_batch().inputs)


def test_restarted_epoch_has_all_windows() -> None:
    """Guards against a part of other data that is left out of the first epoch after a resume."""
    stream = WindowStream(numbered(100), 1, 8, seed=1)
    for _ in range(stream.epoch_batches + 5):
        stream.next_batch()
    other = WindowStream(numbered(200), 1, 8, seed=1)
    other.load_state_dict(stream.state_dict())
    other.restart_epoch()
    assert other.epoch == 1
    tokens = {token for _ in range(other.epoch_batches) for token in other.next_batch().inputs[0].tolist()}
    assert other.epoch == 2
    assert len(tokens) == 200


def test_epochs_differ_and_seeds_differ() -> None:
    """Guards against the same order in every epoch, and against a seed without effect."""

    def order(seed: int, epoch: int) -> list[int]:
        stream = WindowStream(numbered(2000), 1, 8, seed)
        stream.load_state_dict({"seed": seed, "epoch": epoch, "position": 0})
        return [int(stream.next_batch().inputs[0, 0]) for _ in range(20)]

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(1, 1)
    assert order(1, 0) != order(2, 0)


def test_documents_are_permuted_in_every_epoch_and_stay_whole() -> None:
    """Guards against a document that always follows the same one, torn documents and lost tokens."""
    eos, bounds = 0, [0, 4, 12, 14, 27, 33, 43, 46, 58]
    text = np.arange(bounds[-1], dtype=np.uint16)
    text[bounds[:-1]] = eos
    documents = [text[a + 1 : b].tolist() for a, b in itertools.pairwise(bounds)]
    stream = WindowStream(text, 1, len(text) - 1, seed=4, eos_id=eos)
    followers = set()
    for _ in range(8):
        batch = stream.next_batch()  # together with the last target, this window is the whole ring
        ring = [*batch.inputs[0].tolist(), int(batch.targets[0, -1])]
        assert batch.rows is not None
        assert text[batch.rows[0]] == ring[0]
        ends = [*(place for place, token in enumerate(ring) if token == eos), len(ring) + ring.index(eos)]
        result = [(ring + ring)[a + 1 : b] for a, b in itertools.pairwise(ends)]
        assert sorted(result) == sorted(documents)
        followers |= {(result + result)[result.index(documents[0]) + 1][0]}
    assert len(followers) > 3


def test_processes_share_an_epoch_without_overlap() -> None:
    """Guards data-parallel training: together, the processes receive the batches that one process would receive, also
    across the end of an epoch and in uneven shares, and can be resumed with any other number of processes."""
    alone = WindowStream(numbered(1001), 4, 8, seed=5)
    streams = [WindowStream(numbered(1001), 4, 8, seed=5) for _ in range(3)]
    for _ in range(20):
        expected = [batch.inputs for batch in alone.share(4)]
        shares = [stream.share(4, rank, 3) for rank, stream in enumerate(streams)]
        assert [len(share) for share in shares] == [2, 1, 1]
        result = [shares[0][0], shares[1][0], shares[2][0], shares[0][1]]
        assert all(torch.equal(a, b.inputs) for a, b in zip(expected, result, strict=True))
        assert all(stream.state_dict() == alone.state_dict() for stream in streams)


@pytest.mark.slow
def test_memory_holds_the_order_and_not_the_text(tmp_path: Path) -> None:
    """Guards texts larger than memory: of these 4 GB only the order of the 16.8 million windows is in memory."""
    path = tmp_path / "tokens.bin"
    with path.open("wb") as file:
        file.truncate(1 << 32)  # a hole: takes no room on the disk
    stream = WindowStream(np.memmap(path, dtype=np.uint16, mode="r"), 8, 128, seed=0)
    tracemalloc.start()
    try:
        for _ in range(20):
            stream.next_batch()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    windows = (1 << 31) // 128
    assert 8 * windows <= peak < 1.1 * 8 * windows


@pytest.mark.parametrize(("length", "batch_size"), [*itertools.product([2, 8, 9, 10, 65, 66, 100], [1, 3])])
def test_evaluation_predicts_every_token_once(length: int, batch_size: int) -> None:
    """Guards the reported loss: each token is predicted exactly once, including those in the last, shorter window."""
    targets = [
        token
        for batch in evaluation_windows(numbered(length), batch_size, 8)
        for token in batch.targets.flatten().tolist()
    ]
    assert targets == list(range(1, length))


@pytest.mark.parametrize(("length", "context", "stride"), [(101, 8, 3), (102, 8, 8), (97, 16, 1), (6, 8, 4), (9, 8, 5)])
def test_overlapping_windows_predict_every_token_once_from_enough_context(
    length: int, context: int, stride: int
) -> None:
    """Guards against tokens that count twice or never, and against the context of windows that do not overlap."""
    tokens = numbered(length)
    result: dict[int, int] = {}
    for batch in sliding_windows(tokens, 4, context, stride):
        assert batch.rows is not None
        for start, inputs, targets in zip(batch.rows, batch.inputs, batch.targets, strict=True):
            for place in (targets != IGNORED).nonzero().flatten().tolist():
                assert inputs[: place + 1].tolist() == list(range(start, start + place + 1))
                assert int(targets[place]) not in result
                result[int(targets[place])] = place + 1
    assert sorted(result) == list(range(1, length))
    least = min(context, length - 1) - stride
    assert all(seen > least or seen == token for token, seen in result.items())


def test_a_part_of_a_text_is_spread_over_all_of_it() -> None:
    """Guards subsampled evaluations: whole windows, none repeated, evenly spaced over the text."""
    starts = [int(row[0]) for batch in evaluation_windows(numbered(1001), 4, 8, most=90) for row in batch.inputs]
    assert len(starts) == 11
    assert all(start % 8 == 0 for start in starts)
    gaps = np.diff([*starts, 1000])
    assert gaps.min() >= 80
    assert gaps.max() <= 96
