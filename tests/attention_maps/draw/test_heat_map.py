"""Labelled, legible images of maps, including Japanese."""

import base64
import io
import logging
import subprocess
import sys
import warnings
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from attention_maps.draw import fonts, labels, pictures
from attention_maps.draw import heat_map as draw
from attention_maps.draw.heat_map import INK, PAPER, HeatMap, colours
from attention_maps.record.chosen_map import choose
from attention_maps.record.recording import Recording, Sample, Tokens, tokens

SENTENCE = "▁エミはオレンジよりりんごの方が好きです。「酸っぱくないから」と、彼女はスーパーで三本の〜(笑)…！？９"
NASTY = [
    "$x_1$",
    "\\frac",
    "^",
    "𠮷",
    "🍎",
    "\n",
    "\t",
    " ",
    "\x00",
    "\u200d",
    "\ufeff",
    "\ud800",
    "e\u0301",
    "",
    "長" * 99,
]


def named(pieces: list[str]) -> Tokens:
    """Return tokens with these pieces."""
    return tokens(range(len(pieces)), pieces, frozenset())


def changed(before: np.ndarray, after: np.ndarray) -> tuple[int, int, int, int]:
    """Return left, top, right and bottom of the difference between two images; a longer title makes a wider page."""
    size = np.maximum(before.shape, after.shape)
    before, after = (np.pad(i, [(0, n) for n in size - i.shape], constant_values=255) for i in (before, after))
    rows, columns = np.nonzero((before != after).any(axis=2))
    return int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1


def test_every_glyph_of_a_japanese_sentence_is_in_the_fonts() -> None:
    """Guards against missing glyphs: the Japanese font lacks `▁`, the first font lacks Japanese."""
    assert set(SENTENCE) <= fonts.characters()
    assert [labels.printable(character, fonts.characters()) for character in SENTENCE] == list(SENTENCE)


def test_any_token_can_be_drawn(caplog: pytest.LogCaptureFixture) -> None:
    """Guards against `$` parsed as a formula, invisible labels, crashes, and a warning for each missing glyph."""
    weights = np.ones((len(NASTY), len(NASTY)))
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
        warnings.simplefilter("error")
        image = draw.heat_map(weights, NASTY, NASTY, "".join(NASTY), subtitle="".join(NASTY), row_name="reads")
    assert image.dtype == np.uint8
    assert not caplog.records


def test_dollar_signs_are_not_parsed_as_formulas() -> None:
    """Guards against `$x$` typeset as a formula, which removes the dollar signs."""
    blank, plain, dollars = (draw.heat_map(np.ones((2, 1)), ["mmmmmmmm", label], ["a"]) for label in ("", "xx", "$xx$"))
    assert changed(blank, dollars)[0] < changed(blank, plain)[0] - 10


def test_unknown_glyphs_show_their_code() -> None:
    """Guards against invisible pieces, and different pieces with the same label."""
    assert labels.readable("𠮷野", fonts.characters()) == "[20BB7]野"
    assert labels.readable("a b\n\u3000", fonts.characters()) == "a␣b↵␣"
    assert labels.readable("\u200d", fonts.characters()) == "[200D]"
    assert labels.readable("長" * 99, fonts.characters()) == "長" * 14 + "…"
    assert labels.printable("valid 3 · 🍎", fonts.characters()) == "valid 3 · [1F34E]"
    assert [labels.readable(piece) for piece in ("▁win", "▁", "a▁b", "▁▁x", "")] == ["win", "␣", "a␣b", "x", ""]


def test_japanese_columns_stand_upright_and_words_are_turned() -> None:
    """Guards against wrong vertical writing: a long vowel mark is vertical there."""
    assert labels.vertical("▁オレンジ") == ["オ", "レ", "ン", "ジ"]
    assert labels.vertical("スーパー") == ["ス", "︱", "パ", "︱"]
    assert labels.vertical("▁prefers") == labels.vertical("▁") == []


def test_a_weight_colours_its_own_cell_and_nothing_else() -> None:
    """Guards against swapped rows and columns: queries are rows, keys are columns, the first is at the top left."""
    rows, columns = ["エ", "ミ", "は"], ["▁Emi", "▁is", "▁a", "."]
    flat = np.full((3, 4), 0.2)
    peak = flat.copy()
    peak[2, 1] = 0.9
    first = flat.copy()
    first[0, 0] = 0.9
    before = draw.heat_map(flat, rows, columns, "title", maximum=1)
    left, top, right, bottom = changed(before, draw.heat_map(peak, rows, columns, "title", maximum=1))
    origin_x, origin_y, *_ = changed(before, draw.heat_map(first, rows, columns, "title", maximum=1))
    cell = right - left + 1  # a hair between cells stays paper
    assert bottom - top + 1 == cell > 30
    assert (left - origin_x, top - origin_y) == (cell, 2 * cell)
    corner = draw.heat_map(peak, rows, columns, "title", maximum=1)[top + 2, left + 2]
    np.testing.assert_allclose(corner / 255, colours(0.9), atol=0.005)


def test_the_first_causal_row_is_not_in_the_colour_scale() -> None:
    """Guards against maps that are pale below their first row, whose only weight is always 1."""
    weights = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.25, 0.5, 0.25]])
    words = tokens((1, 2, 3), ("a", "b", "c"), frozenset())
    assert HeatMap({"": weights}, words, words, causal=True).top() == 0.5
    assert HeatMap({"": weights}, words, words).top() == 1
    assert HeatMap({"": weights[:1, :1]}, words.first(1), words.first(1), causal=True).top() == 1


def test_labels_are_written_beside_and_above_the_map() -> None:
    """Guards against missing or misplaced labels: rows on the left, predicted tokens on the right, columns above."""
    weights = np.full((2, 2), 0.5)

    def image(rows: list[str], columns: list[str], right: list[str]) -> np.ndarray:
        return draw.heat_map(weights, rows, columns, right=named(right), maximum=1)

    before = image(["猫", "犬"], ["猫", "犬"], ["猫", "犬"])
    empty = draw.heat_map(weights * 0, ["猫", "犬"], ["猫", "犬"], right=named(["猫", "犬"]), maximum=1)
    map_left, map_top, map_right, map_bottom = changed(before, empty)
    left, top, right, bottom = changed(before, image(["猫", "鳥"], ["猫", "犬"], ["猫", "犬"]))
    assert 0 < left < right <= map_left
    assert (map_top + map_bottom) / 2 <= top < bottom <= map_bottom
    left, top, right, bottom = changed(before, image(["猫", "犬"], ["鳥", "犬"], ["猫", "犬"]))
    assert map_left <= left < right <= (map_left + map_right) / 2
    assert 0 < top < bottom <= map_top
    left, top, right, bottom = changed(before, image(["猫", "犬"], ["猫", "犬"], ["猫", "鳥"]))
    assert left >= map_right
    assert (map_top + map_bottom) / 2 <= top < bottom <= map_bottom


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 20, 512])
def test_labels_stay_inside_an_image_of_bounded_size(length: int) -> None:
    """Guards against labels clipped at the border, and images of unbounded size."""
    pieces = [["▁understanding", "▁オレンジ", "."][i % 3] for i in range(length)]
    names = {"row_name": "reads", "column_name": "attends to"}
    image = draw.heat_map(np.eye(length), pieces, pieces, "t" * 30, **names, right=named(pieces), causal=True)
    assert max(image.shape[:2]) < 1800
    edges = np.concatenate([image[:4].reshape(-1, 3), image[-4:].reshape(-1, 3), image[:, :4].reshape(-1, 3)])
    assert (edges == 255).all()
    assert (image[:, -4:] == 255).all()
    assert (image < 200).any()


def test_masked_cells_are_grey() -> None:
    """Guards against masked cells that look like cells of weight 0."""
    image = draw.heat_map(np.eye(20), ["a"] * 20, ["a"] * 20, causal=True).reshape(-1, 3)
    hidden = (image == np.round(np.array(to_rgb(labels.FUTURE)) * 255)).all(axis=1).sum()
    unseen = (image == np.round(np.array(colours(0.0)) * 255)).all(axis=1).sum()
    assert hidden > unseen > 0


def test_small_maps_show_numbers_in_cells() -> None:
    """Guards against missing values in the cells, and values that do not fit."""
    shares = {0.0: "0", 0.004: "0", 0.42: ".42", 0.994: ".99", 0.999: "1", 1.0: "1"}
    assert {weight: labels.hundredths(weight) for weight in shares} == shares

    def texts(length: int) -> set[str]:
        names = named(["a"] * length)
        return {*written(HeatMap({"": np.full((length, length), 0.42)}, names, names, maximum=1).svg())}

    assert ".42" in texts(4)
    assert ".42" not in texts(60)


def test_nan_weights_are_drawn_in_red() -> None:
    """Guards against a crash, or a normal colour, if weights are NaN."""
    weights = np.full((2, 2), np.nan)
    image = draw.heat_map(weights, ["a", "b"], ["a", "b"])
    assert (image == np.round(colours(np.nan) * 255)).all(axis=2).sum() > 1000


def test_label_counts_must_match_the_map() -> None:
    """Guards against labels of another sentence."""
    with pytest.raises(ValueError, match="2 row and 3 column labels"):
        draw.heat_map(np.ones((2, 2)), ["a", "b"], ["a", "b", "c"])
    with pytest.raises(ValueError, match="without tokens"):
        draw.heat_map(np.ones((0, 0)), [], [])
    with pytest.raises(ValueError, match="no maps"):
        draw.small_multiples({}, ["a"], ["a"])


def test_panels_share_one_scale() -> None:
    """Guards against a separate colour scale per head, which makes a flat head look sharp."""
    flat = np.full((3, 3), 0.1)
    image = draw.small_multiples({"flat": flat, "sharp": np.eye(3)}, "abc", "abc")
    pale = np.round(np.array(colours(0.1)) * 255)
    assert (np.abs(image - pale) <= 1).all(axis=2).sum() > 9 * 300


def test_picture_titles_name_layer_head_and_step(lesson: Recording) -> None:
    """Guards against titles without layer, head or step, and labels of the wrong side or length, for each kind."""
    for kind in ("encoder", "decoder", "cross"):
        texts = written(pictures.picture(choose(lesson, kind=kind, layer=1, head=0)).svg())
        assert any("layer 1 (of 0–1) · head 0 (of 0–1)" in text for text in texts)
        assert ({"さ"} if kind == "encoder" else {"I", "d", "win"}) <= set(texts)
    texts = written(pictures.heads(choose(lesson, kind="decoder", layer=0, title="x · step 2,000")).svg())
    assert {"mean of 2 heads", "head 0", "head 1", "decoder self-attention · layer 0 (of 0–1)"} <= set(texts)
    assert any("step 2,000" in text for text in texts)


def test_drawing_has_no_side_effects_on_matplotlib() -> None:
    """Guards against side effects on the user's plots: pyplot, changed settings, packages that change them on
    import."""
    program = """
import sys, matplotlib
def settings():  # all but the backend, which is looked up, and pyplot imported, when asked for
    return {name: matplotlib.rcParams[name] for name in matplotlib.rcParams if name != "backend"}
before = settings()
from attention_maps.draw.heat_map import heat_map
import numpy as np
heat_map(np.ones((1, 1)), ["いいえ"], ["▁no"])
print([name for name in ("matplotlib.pyplot", "matplotlib_fontja", "torch") if name in sys.modules])
assert settings() == before
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]", done.stdout


@pytest.mark.parametrize("length", [1, 16, 128])
def test_the_picture_for_images_is_shown_as_it_is(length: int) -> None:
    """Guards against illegible labels in TensorBoard's Images tab, which scales images to a width of 350 pixels."""
    pieces = [["▁understanding", "▁オレンジ", "▁a"][i % 3] for i in range(length)]
    weights = {("decoder", 0): np.tril(np.ones((1, length, length), np.float16))}
    sample = Sample(named(pieces), named(pieces), None, (1.0,) * length, ((),) * length, weights, {}, "valid 1", length)
    heat_map = pictures.for_images(Recording(1000, (sample,)))
    image = heat_map.pixels()
    assert image.shape[1] == 350
    assert image.shape[0] < 600
    assert (np.concatenate([image[:, :2], image[:, -2:]], axis=1) == 255).all()  # nothing is cut off
    texts = written(heat_map.svg())
    assert texts["a" if length > 2 else "understanding"]["size"] == "9px"  # of 1/72 inch
    assert any("of 128 × 128 tokens" in text for text in texts) == (length == 128)


def test_png_and_svg_show_the_same_picture() -> None:
    """Guards against differences between PNG and SVG: a cell of the same colour for every weight, masked ones grey."""
    picture = HeatMap({"": np.array([[1, 0], [0.25, 0.75]])}, named(["a", "b"]), named(["c", "d"]), causal=True)
    root = ElementTree.fromstring(picture.svg().encode())
    cells, _ = (embedded(image) for image in root.iter("{http://www.w3.org/2000/svg}image"))
    drawn = picture.pixels().reshape(-1, 3)
    for colour in (colours(1), to_rgb(labels.FUTURE), colours(1 / 3)):
        wanted = (np.array(colour) * 255).round()
        assert (np.abs(cells.reshape(-1, 3) - wanted) <= 1).all(axis=1).any()
        assert (np.abs(drawn - wanted) <= 1).all(axis=1).sum() > 1000
    texts = written(picture.svg())
    assert (texts["1"]["fill"], texts[".25"]["fill"], texts["a"]["fill"]) == (PAPER, INK, INK)


def embedded(image: ElementTree.Element) -> np.ndarray:
    """Return the pixels [h,w,3] of a raster image in an SVG."""
    content = (image.get("{http://www.w3.org/1999/xlink}href") or "").partition("base64,")[2]
    return np.array(Image.open(io.BytesIO(base64.b64decode(content))).convert("RGB")).astype(int)


def written(svg: str) -> dict[str, dict[str, str]]:
    """Return the texts of an SVG with their colour and size."""
    texts = ElementTree.fromstring(svg.encode()).iter("{http://www.w3.org/2000/svg}text")
    styles = {}
    for text in texts:
        style = dict(part.strip().split(": ", 1) for part in text.get("style", "").split(";") if part)
        size = style.get("font-size") or style.get("font", "").split()[0]
        styles["".join(text.itertext())] = {"fill": style.get("fill", "#000000"), "size": size}
    return styles
