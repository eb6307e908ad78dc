"""What a person sees and does in the Attention tab, from the list of runs to the pixels of the maps."""

from __future__ import annotations

from itertools import product
from pathlib import Path

from selenium.webdriver import ActionChains
from selenium.webdriver.common.keys import Keys

from attention_maps import store
from tests.attention_maps.tensorboard.browser.conftest import STORY, Open, Page, maps, recording, sample, translation

CROSS = {"run": "translation", "recording": "step_00000300", "kind": "cross", "layer": 0, "head": 0}


def find_cell(page: Page, row: str, column: str) -> tuple[int, int]:
    """Where in the map the weight of a row for a column stands, found by pointing at labels and cells."""
    y = next(y for y in range(20, 500, 12) if page.hover(".pointer", 20, y)[:1] == [row])
    x = next(x for x in range(60, 700, 16) if page.hover(".pointer", x, y)[:1] == [f"{row} → {column}"])
    return x, y


def test_the_overview_has_a_picture_of_every_head_and_of_the_aggregates(page: Page) -> None:
    """Guards: heads that are counted wrongly, or an aggregate that does not exist for cross-attention."""
    page.show(**CROSS)
    found = page.driver.find_elements("css selector", ".tile")
    tiles = {(tile.get_attribute("data-layer"), tile.get_attribute("data-head")) for tile in found}
    assert tiles == set(product("01", ["0", "1", "2", "mean", "max"]))
    page.show(run="gpt", recording="step_00000300")
    assert len(page.texts(".tile")) == 3 * 4 + 1
    assert len(page.texts(".tile[data-head=rollout]")) == 1
    pictures = {
        page.picture(f".tile[data-layer='{layer}'][data-head='{head}'] canvas") for layer, head in product("012", "01")
    }
    assert len(pictures) == 6


def test_a_click_on_a_head_changes_map_and_address(page: Page) -> None:
    """Guards: an overview whose pictures lead to another head than they show."""
    page.show(**CROSS)
    before = page.picture(".cells")
    page.click(".tile[data-layer='1'][data-head='2']")
    assert page.text(".frame-name") == "cross-attention · layer 1 · head 2"
    assert page.picture(".cells") != before
    assert "p.attention.layer=1&p.attention.head=2" in page.hash
    assert page.find(".tile[aria-pressed=true]").get_attribute("aria-label") == "layer 1 head 2"


def test_the_slider_and_the_arrow_keys_move_through_the_steps(page: Page) -> None:
    """Guards: a timeline that moves without the map, or a map that moves without the timeline."""
    page.show(**CROSS)
    pictures = {page.picture(".cells")}
    page.press(Keys.ARROW_RIGHT)
    assert page.text(".step-title") == "step 400"
    assert "step 400" in page.text(".frame-detail")
    pictures.add(page.picture(".cells"))
    page.find(".steps").send_keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    page.settle()
    assert page.text(".step-title") == "step 200"
    pictures.add(page.picture(".cells"))
    page.press(Keys.HOME)
    assert page.text(".step-count") == "1 of 5"
    page.press(Keys.ARROW_LEFT)
    assert page.text(".step-count") == "1 of 5"
    page.press(Keys.END)
    assert page.text(".step-count") == "5 of 5"
    assert "recording=step_00000500" in page.hash
    assert len(pictures) == 3


def test_keys_go_through_layers_and_heads(page: Page) -> None:
    """Guards: keys that leave the model at its last layer, or skip the aggregates after the last head."""
    page.show(**CROSS)
    page.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN, "]", "]", "]")
    assert page.text(".frame-name") == "cross-attention · layer 1 · mean of 3 heads"
    page.press("]", "]", Keys.ARROW_UP, "[")
    assert page.text(".frame-name") == "cross-attention · layer 0 · mean of 3 heads"
    page.press("?")
    assert "play, pause" in page.text("dialog.keys")
    page.driver.switch_to.active_element.send_keys(Keys.ESCAPE)


def test_playing_shows_every_step_and_stops_at_the_last(page: Page) -> None:
    """Guards: playing that skips steps, or never ends."""
    page.show(**CROSS)
    page.driver.execute_script("""
        const title = document.querySelector('.frame-detail');
        window.seen = [];
        new MutationObserver(() => seen.push(/step \\d+/.exec(title.textContent)[0])).observe(title, {childList: true});
    """)
    page.press(" ")
    assert page.find("button[aria-label='pause (space)']").is_displayed()
    page.wait("return document.querySelector('button[aria-label=\"play (space)\"]')")
    page.settle()
    assert list(dict.fromkeys(page.driver.execute_script("return seen"))) == ["step 400", "step 500"]


def test_a_recording_that_appears_is_followed(page: Page, logdir: Path) -> None:
    """Guards: a page that must be loaded again to see the training go on."""
    page.show(run="growing", recording="step_00000100")
    page.driver.find_element("xpath", "//label[contains(., 'follow latest')]").click()
    store.save(recording(200, sample(STORY, None, 200)), logdir / "growing")
    page.wait("return document.querySelector('.step-title').textContent === 'step 200'")
    page.settle()
    assert "step 200" in page.text(".frame-detail")
    page.press(Keys.ARROW_LEFT)
    assert "follow" not in page.hash


def test_the_reload_button_of_tensorboard_finds_new_recordings(page: Page, logdir: Path) -> None:
    """Guards: the tab alone keeping old data after TensorBoard's own button was pressed."""
    page.show(run="smaller", recording="step_00000050")
    assert page.text(".step-count") == "1 of 2"
    store.save(recording(700, sample(STORY, None, 700)), logdir / "smaller")
    page.wait(
        "return fetch('index').then((answer) => answer.json()).then(({runs}) => runs.smaller.steps.includes(700))"
    )
    page.open()
    page.find("app-header-reload button, button.reload-button").click()
    page.enter()
    page.wait("return document.querySelector('.step-count').textContent === '1 of 3'")


def test_a_difference_of_equal_maps_is_nothing_and_names_both_sides(page: Page) -> None:
    """Guards: a difference that is subtracted from something else, or a legend that swaps the sides."""
    page.show(**CROSS, against="step:step_00000300")
    assert "A minus B: A = translation step 300, B = translation step 300" in page.text(".legend-line")
    assert (
        len({colour for head in "012" for colour in page.colours(f".tile[data-layer='1'][data-head='{head}'] canvas")})
        == 1
    )
    page.choose("compare with", "step 100")
    assert "B = translation step 100" in page.text(".legend-line")
    assert len(page.colours(".tile[data-layer='1'][data-head='0'] canvas")) > 10
    page.click(".tile[data-layer='1'][data-head='0']")
    here, there = (float(maps("cross", 1, 3, 7, 6, step)[0, 0, 0]) for step in (300, 100))
    assert page.hover(".pointer", *find_cell(page, "エミは", "Emi"))[1] == f"A minus B: {here - there:.4f}"
    page.show(**CROSS, against="run:smaller")
    assert "B = smaller step 320" in page.text(".legend-line")


def test_what_cannot_be_compared_says_why_and_is_shown_alone(page: Page) -> None:
    """Guards: an empty page, or a wrong difference, for runs that share no example or for a smaller model."""
    page.show(**CROSS, against="run:gpt")
    assert "no example with the same tokens" in page.text(".message")
    assert "A minus B" not in page.text(".legend-line")
    page.show(**CROSS | {"layer": 1}, against="run:smaller")
    assert "has 1 layers" in page.text(".message")
    page.show(**CROSS)
    assert not page.find(".message").is_displayed()


def test_a_cell_tells_weight_tokens_predictions_and_loss(page: Page) -> None:
    """Guards: rows and columns that are swapped or shifted by one."""
    page.show(**CROSS)
    x, y = find_cell(page, "エミは", "Emi")
    assert page.hover(".pointer", x, y) == [
        "エミは → Emi",
        "weight 0.5000 (50.0 %)",
        "reads <s>, predicts エミは",
        "likeliest: エミは 75.0 % · or 12.5 %",
        "loss 0.250 nats",
        "row 0, column 0",
    ]
    page.show(**CROSS, token="r0")
    assert page.text(".readout") == "エミは looks at: Emi .50 · </s> .25 · prefer .13 · s .13"
    page.show(**CROSS, rows="reads", token="r0")
    assert page.text(".readout").startswith("<s> looks at: Emi .50")


def test_a_click_chooses_a_token_for_all_views(page: Page) -> None:
    """Guards: a selection that only the view knows that it was made in."""
    page.show(**CROSS)
    page.hover(".pointer", *find_cell(page, "エミは", "Emi"))
    ActionChains(page.driver).click().perform()
    page.settle()
    assert "token=r0" in page.hash
    assert page.text(".readout").startswith("エミは looks at")
    ActionChains(page.driver).key_down(Keys.SHIFT).send_keys(Keys.ARROW_DOWN).key_up(Keys.SHIFT).perform()
    page.settle()
    assert "token=r1" in page.hash
    page.click("#tab-sentence")
    assert page.text(".token[aria-pressed=true]").startswith("りんごの")
    page.press(Keys.ESCAPE)
    assert "token" not in page.hash


def test_hidden_special_tokens_leave_their_share_behind(page: Page) -> None:
    """Guards: attention that vanishes without a word when special tokens are hidden."""
    page.show(**CROSS, hide=True, token="r0")
    assert page.text(".readout") == "エミは looks at: Emi .67 · prefer .17 · s .17"
    assert "hidden: the share of special tokens" in page.text(".legend-line")
    _, y = find_cell(page, "エミは", "Emi")
    titles = {title for x in range(300, 520, 10) for title in page.hover(".pointer", x, y)[:1]}
    assert "エミは: 25.0 % hidden" in titles
    assert "エミは → </s>" not in titles


def test_merged_pieces_are_words(page: Page) -> None:
    """Guards: weights of pieces that are averaged where they must be added up."""
    page.show(**CROSS, token="r0")
    assert page.find(".cells").get_attribute("aria-label").endswith("7 rows, 6 columns")
    page.show(**CROSS, merge=True, token="r0")
    assert page.text(".readout").startswith("エミは looks at: Emi .50 · prefers .25")
    assert page.find(".cells").get_attribute("aria-label").endswith("5 columns")


def test_a_link_shows_the_same_again(page: Page) -> None:
    """Guards: a state that is not, or only half, in the address."""
    page.show(**CROSS)
    page.choose("example", page.texts(f"#{page.labelled('example')} option")[1])
    page.click(".tile[data-layer='1'][data-head=max]")
    page.click(".controls button[value=reads]")
    page.click(".controls input[type=checkbox]")
    page.click(".panel-head button[value=score]")
    page.find(f"#{page.labelled('gamma')}").send_keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    page.press("]", Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, "[", "[")
    ActionChains(page.driver).key_down(Keys.SHIFT).send_keys(Keys.ARROW_RIGHT).key_up(Keys.SHIFT).perform()
    page.settle()
    seen = [".frame-name", ".frame-detail", ".readout", ".tiles", ".step-title", f"#{page.labelled('gamma')} + output"]
    before = [page.text(selector) for selector in seen]
    picture = page.picture(".cells")
    assert "gamma" in page.hash
    page.load(page.hash)
    assert [page.text(selector) for selector in seen] == before
    assert page.picture(".cells") == picture
    assert page.find(".controls input[type=checkbox]").is_selected()


def test_the_example_list_says_what_was_cut_and_takes_names_as_text(page: Page) -> None:
    """Guards: examples that look whole but are not, and names that become part of the page."""
    page.show(**CROSS, sample=1)
    examples = page.texts(f"#{page.labelled('example')} option")
    assert examples[0] == "probe 1 · Emi prefers apples."
    assert examples[1] == "<b>bold</b> · Emi prefers apples. · cut at 4 of 300 tokens"
    assert "cut at 4 of 300 tokens" in page.text(".frame-detail")


def test_japanese_is_marked_as_such(page: Page) -> None:
    """Guards: Japanese that is drawn with Chinese forms of its characters."""
    page.show(**CROSS)
    assert page.find(".cells").get_attribute("lang") == "ja"
    page.show(run="gpt", recording="step_00000300")
    assert page.find(".cells").get_attribute("lang") == "en"


def test_dark_mode_follows_tensorboard(page: Page) -> None:
    """Guards: a white page in a dark frame."""
    page.show(**CROSS)
    ground, picture = page.find("body").value_of_css_property("background-color"), page.picture(".cells")
    page.driver.execute_script("parent.document.body.classList.add('dark-mode')")
    page.wait("return document.documentElement.dataset.theme === 'dark'")
    page.settle()
    assert page.find("body").value_of_css_property("background-color") != ground
    assert page.picture(".cells") != picture
    page.driver.execute_script("parent.document.body.classList.remove('dark-mode')")
    page.wait("return document.documentElement.dataset.theme === 'light'")
    page.settle()
    assert page.picture(".cells") == picture


def test_another_run_is_shown_at_its_nearest_step(page: Page) -> None:
    """Guards: a page without a map after a change of runs that were recorded at different steps."""
    page.show(**CROSS | {"layer": 1, "head": 2})
    page.choose("run", "smaller")
    page.wait("return document.querySelector('.step-title').textContent === 'step 320'")
    page.settle()
    assert page.text(".frame-name") == "cross-attention · layer 0 · head 2"
    page.choose("run", "gpt")
    page.wait("return document.querySelector('.step-title').textContent === 'step 300'")
    page.settle()
    assert page.text(".frame-name") == "decoder self-attention · layer 1 · head 1"


def test_what_was_generated_stands_beside_the_steps(page: Page) -> None:
    """Guards: maps of generated text that nobody finds, or that are taken for a training step."""
    page.show(**CROSS)
    page.click(".timeline button[value=generated]")
    assert page.text(".step-title") == "generated 1"
    assert "by the model of step 500" in page.text(".frame-detail")
    assert "りんごの方が好きです" in page.texts(f"#{page.labelled('example')} option")[0]
    page.click(".timeline button[value=steps]")
    assert page.text(".step-title") == "step 500"


def test_curves_have_units_and_lead_to_their_steps(page: Page) -> None:
    """Guards: curves over something else than the steps that can be clicked."""
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


def test_the_steps_of_a_head_stand_side_by_side(page: Page) -> None:
    """Guards: small pictures that show another step than they lead to."""
    page.show(**CROSS, view="steps")
    page.wait("return document.querySelectorAll('.step-tile[title]').length === 5")
    assert page.texts(".step-tile") == [f"step {step}" for step in range(100, 600, 100)]
    assert len({page.picture(f".step-tile:nth-child({place}) canvas") for place in range(1, 6)}) == 5
    page.click(".step-tile:nth-child(2)")
    assert page.text(".step-title") == "step 200"
    assert page.text(".step-tile[aria-pressed=true]") == "step 200"


def test_heads_are_sorted_by_a_measure_and_scores_stand_beside_baselines(page: Page) -> None:
    """Guards: an order that puts the blurred heads first, and scores without anything to compare them with."""
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
    page.click(".scores button")
    assert page.text(".frame-name") == "cross-attention · layer 1 · head 2"


def test_an_older_recording_works_and_says_what_it_lacks(page: Page) -> None:
    """Guards: a page that needs what older versions did not record."""
    page.show(run="older", recording="step_00000100", values=True, head=1)
    assert "no value norms" in page.text(".message")
    assert page.text(".frame-name") == "cross-attention · layer 0 · head 1"
    page.show(run="older", recording="step_00000100", kind="encoder", head="rollout")
    assert page.find(".message").is_displayed()
    assert page.text(".frame-name") == "encoder self-attention · layer 0 · mean of 3 heads"
    page.show(run="older", recording="step_00000100", view="curves")
    page.wait("return document.querySelector('.chart-stage').textContent.includes('older version')")
    assert "holds no measures" in page.text(".grid-key")


def test_a_truncated_file_says_why_and_the_page_lives(page: Page) -> None:
    """Guards: a blank page, or the map of another step, where a file cannot be read."""
    page.show(run="damaged", recording="step_00000100")
    page.press(Keys.ARROW_RIGHT)
    assert page.text(".nothing").startswith("Step 200 cannot be shown: ")
    assert not any(page.find(shown).is_displayed() for shown in (".cells", ".tile", ".scores"))
    page.press(Keys.ARROW_RIGHT)
    assert page.find(".cells").is_displayed()
    assert "step 300" in page.text(".frame-detail")


def test_numbers_that_are_none_are_red(page: Page) -> None:
    """Guards: a diverged model whose maps look like empty ones."""
    page.show(run="diverged", recording="step_00000100", layer=0, head=0)
    assert "the model diverged" in page.text(".legend-line")
    assert "219,38,38" in page.colours(".cells")
    page.show(run="gpt", recording="step_00000100")
    assert "219,38,38" not in page.colours(".cells")


def test_512_tokens_are_drawn_and_zoomed(page: Page) -> None:
    """Guards: a map that is too large to be looked at."""
    page.show(run="long", recording="step_00000100", head=0)
    assert page.find(".cells").get_attribute("aria-label").endswith("512 rows, 512 columns")
    assert "cut at 512 of 600 tokens" in page.text(".frame-detail")
    assert len(page.colours(".cells")) > 50
    whole = page.picture(".cells")
    page.press("+", "+", "+")
    assert page.picture(".cells") != whole
    page.press("0")
    assert page.picture(".cells") == whole


def test_an_empty_log_folder_explains_how_maps_are_recorded(open_folder: Open, tmp_path: Path) -> None:
    """Guards: a blank tab before the first evaluation of the first run, and one that stays when the run is there."""
    page = open_folder(tmp_path)
    page.driver.get(f"{page.address}#attention")
    page.enter()
    page.wait("return document.querySelector('.help')?.hidden === false")
    text = page.text(".help")
    assert "python train.py" in text
    assert "attention.probes=" in text
    assert "attention=true" in text
    assert str(tmp_path) in text
    store.save(translation(100), tmp_path / "first")
    page.wait(
        "return document.querySelector('.page').hidden === false && document.querySelector('.frame-name').textContent"
    )
    assert page.text(".step-title") == "step 100"
    assert not page.find(".help").is_displayed()
