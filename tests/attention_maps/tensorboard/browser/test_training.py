"""The views of a whole training run, and the numbers next to the maps."""

from __future__ import annotations

from tests.attention_maps.tensorboard.browser.conftest import BORN
from tests.attention_maps.tensorboard.browser.page import Page

CROSS = {"run": "translation", "recording": "step_00000300", "kind": "cross", "layer": 0, "head": 0}


def test_curves_have_units_and_lead_to_their_steps(page: Page) -> None:
    """Guards against curves whose steps differ from those selected by a click."""
    page.show(**CROSS, view="curves", measure="first")
    page.wait(
        "return document.querySelector('.chart-stage canvas').getAttribute('aria-label')?.startsWith('to the first')"
    )
    assert page.text(f"#{page.labelled('measure')} option:checked") == "to the first token"
    picture = page.picture(".chart-stage canvas")
    page.choose("measure", "entropy")
    assert page.picture(".chart-stage canvas") != picture
    page.choose("measure", "to the first token")
    canvas = page.find(".chart-stage canvas")
    lines = page.hover(".chart-stage canvas", canvas.rect["width"] - 100, 200)
    assert lines[0] == "step 500"
    assert all(line.endswith(" %") for line in lines[1:])
    canvas.click()
    page.settle()
    assert page.text(".step-title") == "step 300"
    page.show(**CROSS, view="curves", scope="layer")
    assert page.find(".chart-stage canvas").get_attribute("aria-label") == "entropy of 3 heads over 5 steps"


def test_curves_have_a_legend_and_a_baseline(page: Page) -> None:
    """Guards against colours without a meaning, and a gold score without what it must be compared with."""
    page.show(run="aligned", kind="cross", layer=0, head=0, view="curves", measure="alignment_error")
    page.wait("return document.querySelector('.curves-legend')?.textContent.includes('head 2')")
    assert " ".join(page.text(".curves-legend").split()) == "layer 0: head 0 head 1 head 2 grey: other layers"
    with_baseline = page.picture(".chart-stage canvas")
    page.choose("measure", "entropy")
    page.choose("measure", "alignment error (AER)")
    assert page.picture(".chart-stage canvas") == with_baseline
    page.click(".curves-legend button:nth-of-type(3)")
    assert page.text(".frame-name") == "cross-attention · layer 0 · head 2"


def test_the_name_of_the_chosen_line_is_inside_the_chart(page: Page) -> None:
    """Guards against names clipped at the edge of the page."""
    page.show(**CROSS | {"layer": 1, "head": 2}, view="curves", measure="first")
    page.wait(
        "return document.querySelector('.chart-stage canvas').getAttribute('aria-label')?.startsWith('to the first')"
    )
    script = """
        const canvas = document.querySelector('.chart-stage canvas');
        const {data, width} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        let right = 0;
        for (let i = 3; i < data.length; i += 4) if (data[i]) right = Math.max(right, ((i - 3) / 4) % width);
        return width - 1 - right;
    """
    assert 2 < page.driver.execute_script(script) < 40


def test_the_steps_of_a_head_stand_side_by_side(page: Page) -> None:
    """Guards against pictures that select a different step than they show."""
    page.show(**CROSS, view="story")
    page.wait("return document.querySelectorAll('.step-tile[title]').length === 5")
    assert page.texts(".step-tile") == [f"step {step}" for step in range(100, 600, 100)]
    assert page.text(".story-strip h3") == "cross-attention · layer 0 · head 0, all recorded steps"
    assert page.text(".story-strip .view-note").startswith(
        "Rows ↓ queries (each row predicts): “エミは” to “</s>”. Columns → keys (source): “Emi” to “</s>”."
    )
    assert len({page.picture(f".step-tile:nth-child({place}) canvas") for place in range(1, 6)}) == 5
    page.click(".step-tile:nth-child(2)")
    assert page.text(".step-title") == "step 200"
    assert page.text(".step-tile[aria-pressed=true]") == "step 200"


def test_heads_are_sorted_by_a_measure_and_scores_stand_beside_baselines(page: Page) -> None:
    """Guards against sorting high-entropy heads first, and scores without a baseline."""
    page.show(**CROSS, order="score", measure="entropy")
    measured = []
    for place in range(1, 7):
        tile = page.find(f".tile:nth-child({place})")
        assert tile.get_attribute("data-head") in "012"
        lines = page.hover(f".tile:nth-child({place})", 10, 10)
        measured.append(float(next(line for line in lines if line.startswith("entropy")).split()[1]))
    assert measured == sorted(measured)
    assert len(set(measured)) > 1
    assert page.texts(".scores tr") == ["cross: layer 1 head 2 40.0 %", "baseline: diagonal 70.0 %"]
    page.click(".scores-body button")
    assert page.text(".frame-name") == "cross-attention · layer 1 · head 2"
    assert "rows=reads" in page.hash, "the row that is scored"
    assert "measure=alignment_error" in page.hash, "the curves show the score that was clicked"


def test_scores_name_the_place_of_a_head(page: Page) -> None:
    """Guards against a best head without layer and head number, and a mean of all layers shown as a baseline."""
    page.show(run="scores")
    assert page.texts(".scores tr") == [
        "cross: mean of all layers, grown 30.0 %",
        "cross: mean of layer 0, argmax 40.0 %",
        "baseline: last subject 75.0 %",
        "cross: best head, predicts the pronoun (layer 0, head 1) 50.0 %",
        "baseline: chance 25.0 %",
        "cross: best head, reads the pronoun (layer 0, head 0) 60.0 %",
    ]
    assert "preceding nouns; baselines use no model." in page.text(".scores")
    assert page.texts(".scores caption") == [
        "alignment error (AER), lower is better",
        "pronouns resolved, higher is better",
        "pronouns resolved, agreeing nouns, higher is better",
    ]


def test_a_long_list_of_scores_is_folded(page: Page) -> None:
    """Guards against a wall of scores, and scores of the cross-attention beside heads of the encoder."""
    page.show(run="scored", kind="cross", layer=0, head=0)
    assert len([text for text in page.texts(".scores tr") if text]) == 3
    page.click(".scores .more summary")
    assert len([text for text in page.texts(".scores tr") if text]) == 5
    page.click(".bar button[value=encoder]")
    assert [text for text in page.texts(".scores tr") if text] == []
    assert page.text(".scores .more summary") == "of the cross-attention: alignment error (AER)"


def test_heads_with_uniform_attention_are_labelled_uniform(page: Page) -> None:
    """Guards against showing the stored word "broad" to users."""
    page.show(run="scored", kind="cross", layer=0, head=0)
    assert "uniform" in page.text(".frame-detail")
    lines = page.hover(".tile[data-layer='0'][data-head='0']", 10, 10)
    assert any(line.startswith("label: uniform – unif: attends to all tokens alike") for line in lines)
    assert [text for text in page.texts(".tile .tag") if text] == ["unif", "align"]


def test_long_runs_and_long_probes_keep_what_matters(page: Page) -> None:
    """Guards against a step that the story names but its pictures leave out, and two probes that look the same
    because they begin alike."""
    page.show(run="probes", view="story", kind="decoder", layer=0, head=1, recording="step_00000000")
    page.wait("return document.querySelectorAll('.story-row').length === 3")
    tiles = page.texts(".step-tile")
    assert f"step {BORN}" in tiles
    assert len(tiles) == 12
    assert page.texts(f"#{page.labelled('example')} option") == [
        "probe 1 · Kate hid … her pen. Who smiled? Kate. (sample 0)",
        "probe 2 · Kate hid … her pen. Who smiled? Emi. (sample 1)",
    ]
