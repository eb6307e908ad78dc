"""The search for similar training pairs, compared with a search by the definition."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from data.config import DataConfig
from data.primer import rows
from generation.config import NeighbourConfig
from generation.neighbours.translation_memory import TranslationMemory, load_memory, words


def test_the_translation_memory_answers_with_the_nearest_sentence() -> None:
    """Guards against an overlap that ignores length and so prefers the longest sentence."""
    memory = TranslationMemory(
        ["I like cats.", "I like cats and dogs and birds and fish.", "She runs."], ["a", "b", "c"]
    )
    assert memory.translate("I like cats!") == "a"
    assert memory.translate("She runs fast.") == "c"
    assert memory.translate("Dogs and birds.") == "b"
    assert memory.translate("Unheard indeed.") in "abc"


def test_the_nearest_pairs_are_those_of_the_definition_in_order() -> None:
    """Guards against a partial sort that loses a pair of a tie, and pairs that have nothing in common."""
    sources = [row["source"] for row in rows("sentences", 300, seed=1)]
    memory = TranslationMemory(sources, sources)

    def similarity(first: str, second: str) -> float:
        return len(words(first) & words(second)) / len(words(first) | words(second))

    for query in ("The old dog sees a cat.", "Ken runs.", sources[7]):
        ranked = sorted(range(len(sources)), key=lambda row: -similarity(query, sources[row]))
        for count in (1, 5, 40):
            expected = [row for row in ranked[:count] if similarity(query, sources[row])]
            assert memory.nearest(query, count).tolist() == expected
    assert memory.nearest("Unheard indeed.", 5).dtype == np.int64
    assert memory.nearest("Unheard indeed.", 5).tolist() == []


def test_pairs_at_another_path_are_split_as_in_the_training(tmp_path: Path) -> None:
    """Guards against a memory without the last tenth of the training pairs, if validation had a file of its own; and
    against one that contains validation pairs, if they were split off."""
    moved = tmp_path / "moved.tsv"
    moved.write_text("".join(f"dog {n}\t犬 {n}\n" for n in range(20)), encoding="utf-8")
    settings = NeighbourConfig(sentences=8, path=str(moved))
    data = DataConfig(source="pairs", path="gone.tsv", cache=str(tmp_path / "cache"))
    for trained, count in ((replace(data, valid_path="gone_too.tsv"), 20), (data, 18)):
        memory = load_memory(trained, settings)
        assert memory is not None
        assert memory.sources == [f"dog {n}" for n in range(count)]


def test_nothing_is_split_off_if_the_folder_of_the_training_has_files_for_validation_and_test(tmp_path: Path) -> None:
    """Guards against a memory without the last tenth of the training pairs, or more, if `path` is the training file of
    the folder: only the folder tells that nothing was split off."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    for name, count in (("train", 20), ("valid", 3), ("test", 3), ("elsewhere", 20)):
        place = tmp_path if name == "elsewhere" else folder
        (place / f"{name}.tsv").write_text("".join(f"{name} {n}\t犬 {n}\n" for n in range(count)), encoding="utf-8")
    data = DataConfig(source="pairs", path=str(folder), test_fraction=0.2, cache=str(tmp_path / "cache"))
    for path, name in ((folder / "train.tsv", "train"), (folder, "train"), (tmp_path / "elsewhere.tsv", "elsewhere")):
        memory = load_memory(data, NeighbourConfig(sentences=8, path=str(path)))
        assert memory is not None
        assert memory.sources == [f"{name} {n}" for n in range(20)]
    (folder / "test.tsv").unlink()
    memory = load_memory(data, NeighbourConfig(sentences=8, path=str(folder / "train.tsv")))
    assert memory is not None
    assert len(memory) == 16
