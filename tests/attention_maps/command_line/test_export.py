"""Exported maps: images, tables, word alignments."""

import csv
import io
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.image import imread

from attention_maps.__main__ import guarded
from attention_maps.command_line.questions import MapSettings, questions
from attention_maps.draw.heat_map import colours
from attention_maps.draw.pictures import heads, picture
from attention_maps.files import store
from attention_maps.record.alignment_readout import alignment, pharaoh
from attention_maps.record.chosen_map import choose
from attention_maps.record.recording import Recording, tokens

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def run(lesson: Recording, tmp_path: Path) -> str:
    """Return the folder of a run with two recordings."""
    for step in (500, 1000):
        store.save(Recording(step, lesson.samples * 2), tmp_path / "x")
    return str(tmp_path / "x")


def test_a_png_is_the_labelled_picture(run: str, lesson: Recording, tmp_path: Path) -> None:
    """Guards against changed pixels in the file, and the wrong map."""
    title = "x · step 1,000"
    for name, settings, expected in (
        ("one.png", ["layer=0", "head=1"], picture(choose(lesson, kind="decoder", layer=0, head=1, title=title))),
        ("all.PNG", ["layer=0", "head=all"], heads(choose(lesson, kind="decoder", layer=0, title=title))),
    ):
        assert guarded(["export", run, f"to={tmp_path / name}", "kind=decoder", *settings]) == 0
        np.testing.assert_array_equal((imread(tmp_path / name, "png")[:, :, :3] * 255).round(), expected.pixels())


def test_csv_is_lossless(run: str, lesson: Recording, tmp_path: Path) -> None:
    """Guards against swapped rows and columns, and too few digits for float16."""
    to = tmp_path / "map.csv"
    assert guarded(["export", run, f"to={to}", "layer=0", "head=0"]) == 0
    text = to.read_bytes().decode()
    assert text.count("\r\n") == text.count("\n") == 5
    header, *rows = csv.reader(io.StringIO(text, newline=""))
    assert header == ["predicts", "いいえ", "勝つ", "さ"]
    assert [row[0] for row in rows] == ["I", "d", "win", "</s>"]
    values = np.array([row[1:] for row in rows]).astype(np.float16)
    np.testing.assert_array_equal(values, lesson.samples[0].weights["cross", 0][0])


def test_csv_quotes_special_characters(lesson: Recording, tmp_path: Path) -> None:
    """Guards against unquoted commas, quotes and line breaks in tokens."""
    sample = lesson.samples[0]
    wild = type(sample)(**{**vars(sample), "source": tokens([1, 2, 3], [",", '"', "\n"], frozenset())})
    store.save(Recording(1, (wild,)), tmp_path)
    assert guarded(["export", str(tmp_path), f"to={tmp_path / 'm.csv'}"]) == 0
    with (tmp_path / "m.csv").open(encoding="utf-8", newline="") as file:
        assert next(csv.reader(file)) == ["predicts", ",", '"', "\n"]


@pytest.mark.parametrize("readout", ["argmax", "mutual", "grown", "threshold"])
def test_a_pharaoh_file_has_one_line_for_each_sample(run: str, lesson: Recording, tmp_path: Path, readout: str) -> None:
    """Guards against the wrong extraction method, and a missing final newline."""
    to = tmp_path / "a.pharaoh"
    settings = ["sample=all", "layer=0", "head=0", f"readout={readout}"]
    assert guarded(["export", run, f"to={to}", *settings]) == 0
    line = pharaoh(alignment(choose(lesson, layer=0, head=0), readout))
    assert to.read_text() == f"{line}\n{line}\n"


def test_an_svg_stands_alone_and_names_its_languages_and_both_names_of_a_row(run: str, tmp_path: Path) -> None:
    """Guards against SVG that Inkscape cannot open, Chinese forms of Japanese characters, and decoder rows that are off
    by one."""
    to = tmp_path / "map.svg"
    assert guarded(["export", run, f"to={to}", "layer=0"]) == 0
    root = ElementTree.fromstring(to.read_bytes())
    texts = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    words = sorted(text for text in texts if text in {"nah", "I", "d", "win", "</s>", "さ"})
    assert words == sorted(["さ", "I", "d", "win", "</s>", "nah", "I", "d", "win"])
    assert {"predicts", "reads", "attends to"} <= set(texts)
    assert root.get("lang") == "ja"
    assert not re.search(r'href="(?!data:|#)|@import', to.read_text())
    again = tmp_path / "again.svg"
    assert guarded(["export", run, f"to={again}", "layer=0"]) == 0
    assert again.read_bytes() == to.read_bytes()
    assert guarded(["export", run, f"to={to}", "kind=decoder", "overwrite=true"]) == 0
    assert ElementTree.fromstring(to.read_bytes()).get("lang") is None


def test_long_words_above_a_map_are_turned_and_japanese_stands_upright(lesson: Recording) -> None:
    """Guards against overlapping labels."""
    sample = lesson.samples[0]
    source = tokens([1, 2, 3], ["▁unbelievable", "コーヒー", "x"], frozenset())
    wide = Recording(1, (type(sample)(**{**vars(sample), "source": source}),))
    (question,) = questions("", wide, MapSettings())
    written = list(ElementTree.fromstring(picture(question).svg().encode()).iter(f"{SVG}text"))
    (turned,) = (text for text in written if text.text == "unbelievable")
    assert "rotate(-90)" in turned.get("transform", "")
    stacked = [text for text in written if text.text and text.text in "コ︱ヒ"]
    assert [text.text for text in stacked] == ["コ", "︱", "ヒ", "︱"]


def test_tokens_that_look_like_markup_are_text(lesson: Recording) -> None:
    """Guards against invalid XML if tokens contain `<s>`, `&` or control characters."""
    sample = lesson.samples[0]
    source = tokens([1, 2, 3], ["<b>", "&", "\x01\ud800"], frozenset())
    wild = Recording(1, (type(sample)(**{**vars(sample), "source": source, "name": "</svg>\x02"}),))
    (question,) = questions("", wild, MapSettings())
    root = ElementTree.fromstring(picture(question).svg().encode())
    written = {"".join(element.itertext()) for element in root.iter(f"{SVG}text")}
    assert {"<b>", "&", "[1][D800]"} <= written


def test_nan_maps_are_exported_in_red(lesson: Recording, tmp_path: Path) -> None:
    """Guards against failing on the maps of a diverged run."""
    for weights in lesson.samples[0].weights.values():
        weights[:] = np.nan
    store.save(lesson, tmp_path)
    for to in ("m.svg", "m.csv", "m.png", "m.pharaoh"):
        assert guarded(["export", str(tmp_path), f"to={tmp_path / to}"]) == 0
    image = (imread(tmp_path / "m.png", "png")[:, :, :3] * 255).round()
    assert (image == (colours(np.nan) * 255).round()).all(axis=2).sum() > 1000
    assert guarded(["show", str(tmp_path)]) == 0


def test_existing_files_are_not_overwritten(run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guards against overwriting an edited file, and a partial file if the disk is full."""
    to = tmp_path / "map.csv"
    to.write_text("mine")
    assert guarded(["export", run, f"to={to}"]) == 2
    assert capsys.readouterr().err == f"error: to={to}: exists; overwrite=true replaces it\n"
    assert to.read_text() == "mine"
    assert guarded(["export", run, f"to={to}", "overwrite=true"]) == 0
    assert to.read_text().startswith("predicts,")
    assert capsys.readouterr().out.startswith(f"{to}: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["map.csv", "x"]


@pytest.mark.parametrize("name", ["m.svg", "m.csv", "m.pharaoh", "m.png"])
def test_a_sample_of_one_token_predicts_nothing(
    lesson: Recording, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Guards against empty label lists and tables if the only token of a text is the last one."""
    token, none = tokens([2], ["<s>"], frozenset({2})), tokens([], [], frozenset())
    maps = {("decoder", 0): np.ones((2, 1, 1), np.float16)}
    sample = replace(
        lesson.samples[0], reads=token, predicts=none, source=None, losses=(), predictions=((),), weights=maps
    )
    store.save(Recording(1, (replace(sample, norms={}),)), tmp_path)
    settings = ["export", str(tmp_path), f"to={tmp_path / name}"]
    assert guarded([*settings, "rows=predicts"]) == 2
    assert capsys.readouterr().err == "error: sample=0: this sample has no predicted tokens; use rows=reads\n"
    assert guarded(settings) == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ([], "to=FILE is required"),
        (["to=map.gif"], "to=map.gif: the extension must be one of .png, .svg, .csv, .pharaoh, .html"),
        (["to=nowhere/map.svg"], "to=nowhere/map.svg: there is no folder nowhere"),
        (["to=~nosuchuser/map.svg"], "to=~nosuchuser/map.svg: there is no folder ~nosuchuser"),
        (["to=m.svg", "readout=mutual"], "readout=mutual: only for .pharaoh"),
        (["to=m.svg", "sample=all"], "sample=all: only .pharaoh and .html support all samples"),
        (["to=m.csv", "head=all"], "head=all: only .png supports all heads"),
        (["to=m.pharaoh", "threshold=2"], "threshold=2.0: must be above 0"),
        (["to=m.html", "steps=0"], "steps=0: must be at least 1, or all"),
        (["to=m.svg", "kind=self"], "kind=self: must be encoder or decoder or cross"),
    ],
)
def test_invalid_settings_are_refused(
    run: str, settings: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards against settings that are silently ignored."""
    monkeypatch.chdir(Path(run).parent)
    assert guarded(["export", run, *settings]) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in Path(run).parent.iterdir()] == ["x"]
