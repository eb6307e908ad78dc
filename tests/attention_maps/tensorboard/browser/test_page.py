"""The Attention tab in a browser, from the list of runs to the pixels of the maps."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

from selenium.webdriver import ActionChains
from selenium.webdriver.common.keys import Keys

from attention_maps.files import store
from attention_maps.record.recording import Recording
from tests.attention_maps.tensorboard.browser.conftest import Open
from tests.attention_maps.tensorboard.browser.page import Page
from tests.attention_maps.tensorboard.browser.recordings import ENGLISH, JAPANESE, STORY, maps, recording, sample

CROSS = {"run": "translation", "recording": "step_00000300", "kind": "cross", "layer": 0, "head": 0}


def find_cell(page: Page, row: str, column: str) -> tuple[int, int]:
    """Find the point of a cell in the map by hovering over labels and cells."""
    y = next(y for y in range(20, 500, 12) if page.hover(".pointer", 20, y)[:1] == [row])
    x = next(x for x in range(60, 700, 16) if page.hover(".pointer", x, y)[:1] == [f"{row} → {column}"])
    return x, y


def test_the_overview_has_a_picture_of_every_head_and_of_the_aggregates(page: Page) -> None:
    """Guards against heads that are counted wrongly, or an aggregate that does not exist for cross-attention."""
    page.show(**CROSS)
    elements = page.driver.find_elements("css selector", ".tile")
    tiles = {(tile.get_attribute("data-layer"), tile.get_attribute("data-head")) for tile in elements}
    assert tiles == set(product("01", ["0", "1", "2", "mean", "max"]))
    page.show(run="gpt", recording="step_00000300")
    assert len(page.texts(".tile")) == 3 * 4 + 1
    assert len(page.texts(".tile[data-head=rollout]")) == 1
    pictures = {
        page.picture(f".tile[data-layer='{layer}'][data-head='{head}'] canvas") for layer, head in product("012", "01")
    }
    assert len(pictures) == 6
    page.click(".tile[data-layer='1'][data-head='1']")
    assert page.text(".frame-name") == "decoder self-attention · layer 1 · head 1"
    assert "p.attention.layer=1&p.attention.head=1" in page.hash
    assert page.find(".tile[aria-pressed=true]").get_attribute("aria-label") == "layer 1 head 1"


def test_the_slider_and_the_arrow_keys_move_through_the_steps(page: Page) -> None:
    """Guards against a timeline and a map that show different steps."""
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
    """Guards against keys that go beyond the last layer, or skip mean, max and rollout after the last head."""
    page.show(**CROSS)
    page.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN, "]", "]", "]")
    assert page.text(".frame-name") == "cross-attention · layer 1 · mean of 3 heads"
    page.press("]", "]", Keys.ARROW_UP, "[")
    assert page.text(".frame-name") == "cross-attention · layer 0 · mean of 3 heads"
    page.press("?")
    assert "play, pause" in page.text("dialog.keys")
    page.driver.switch_to.active_element.send_keys(Keys.ESCAPE)


def test_playing_shows_every_step_and_stops_at_the_last(page: Page) -> None:
    """Guards against playback that skips steps or never ends."""
    page.show(**CROSS)
    page.driver.execute_script("""
        const title = document.querySelector('.frame-detail');
        window.seen = [];
        new MutationObserver(() => seen.push(/step \\d+/.exec(title.textContent)[0])).observe(title, {childList: true});
        const button = document.querySelector('button[aria-label="play (space)"]');
        window.labels = [];
        new MutationObserver(() => labels.push(button.getAttribute('aria-label'))).observe(
          button, {attributeFilter: ['aria-label']}
        );
    """)
    page.press(" ")
    page.wait("return labels.length > 1")
    page.settle()
    assert page.driver.execute_script("return labels") == ["pause (space)", "play (space)"]
    assert page.find("button[aria-label='play (space)']").is_displayed()
    assert list(dict.fromkeys(page.driver.execute_script("return seen"))) == ["step 400", "step 500"]


def test_a_recording_that_appears_is_followed(page: Page, logdir: Path) -> None:
    """Guards against a page that must be reloaded to follow a running training."""
    page.show(run="growing", recording="step_00000100")
    page.driver.find_element("xpath", "//label[contains(., 'follow latest')]").click()
    store.save(recording(200, sample(STORY, None, 200)), logdir / "growing")
    page.wait("return document.querySelector('.step-title').textContent === 'step 200'")
    page.settle()
    assert "step 200" in page.text(".frame-detail")
    page.press(Keys.ARROW_LEFT)
    assert "follow" not in page.hash


def test_the_reload_button_of_tensorboard_finds_new_recordings(page: Page, logdir: Path) -> None:
    """Guards against stale data after TensorBoard's reload button is pressed."""
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


def test_the_tab_says_what_a_recording_says_of_its_model(open_folder: Open, tmp_path: Path) -> None:
    """Guards against what was said of the run before, an empty box for recordings of older versions, and a run with
    scores alone, whose recordings say it too."""
    about = {"title": "Emi's stories", "data": "Text from `book.txt`.", "date": "2026-11-28", "licence": "CC BY 4.0"}
    told = recording(100, sample(STORY, None, 100))
    store.save(replace(told, about=about), tmp_path / "told")
    store.save(told, tmp_path / "older")
    store.save(Recording(100, (), {"entropy": {"decoder": [[1.0, 0.5]]}}, about={"title": "S"}), tmp_path / "scores")
    page = open_folder(tmp_path)
    page.load(run="told")
    page.click(".about summary")
    assert page.texts(".about dt") == ["Title", "Data", "Recorded", "Licence"]
    assert page.texts(".about dd") == list(about.values())
    page.show(run="scores", recording="step_00000100")
    assert page.texts(".about dd") == ["S"]
    page.show(run="older", recording="step_00000100")
    assert not page.find(".about").is_displayed()


def test_a_difference_of_equal_maps_is_nothing_and_names_both_sides(page: Page) -> None:
    """Guards against a difference that is subtracted from something else, or a legend that swaps the sides."""
    page.show(**CROSS, against="step:step_00000300", options=True)
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
    page.show(**CROSS | {"recording": "generated_00001"}, against="run:smaller")
    assert page.text(".minus") == "minus smaller step 320 ×", "that nearest to the model which wrote the text"


def test_comparison_chip_shows_and_ends_a_difference(page: Page) -> None:
    """Guards against a difference that a person takes for a map elsewhere, where nothing says that it is one."""
    page.show(**CROSS, against="step:step_00000100")
    assert page.text(".minus") == "minus step 100 ×"
    page.click(".minus")
    assert "against" not in page.hash
    assert not page.find(".minus").is_displayed()
    assert "A minus B" not in page.text(".legend-line")
    for view in ("story", "pair", "prediction", "curves"):
        page.show(**CROSS, against="step:step_00000100", options=True)
        assert page.find(f"#{page.labelled('compare with')}").is_displayed()
        page.click(f"#tab-{view}")
        assert "against" not in page.hash, view
        assert not page.find(f"#{page.labelled('compare with')}").is_displayed(), view
    page.show(**CROSS, against="run:smaller")
    page.choose("run", "gpt")  # which changes once its examples are read
    page.wait("return parent.location.hash.includes('run=gpt')")
    assert "against" not in page.hash


def test_a_run_without_the_same_tokens_is_not_offered_for_comparison(page: Page) -> None:
    """Guards against a choice that only leads to an error message."""
    page.show(**CROSS, options=True)
    page.find(f"#{page.labelled('compare with')}").click()
    entry = "document.querySelector('dialog[open] .list-entry[title={}]')"
    page.wait(f"return {entry.format('gpt')}.getAttribute('aria-disabled') === 'true'")
    page.find("dialog[open] .list-entry[title=gpt]").click()
    assert "no example with these tokens" in page.text("dialog[open] .list-entry[title=gpt]")
    page.find("dialog[open] .list-entry[title=smaller]").click()
    page.settle()
    assert "B = smaller step 320" in page.text(".legend-line")


def test_the_first_row_of_a_text_does_not_bleach_the_others(page: Page) -> None:
    """Guards against a colour scale up to 1, the weight of the only token that the first row can attend to."""
    page.show(run="gpt", recording="step_00000100", kind="decoder", layer=0, head=0)
    weights = maps("decoder", 0, 2, 9, 9, 100)[0].astype(float)
    assert weights[1:].max() < 0.99
    assert page.text(".legend-line > .number:nth-of-type(2)") == f"{weights[1:].max():.2f}".lstrip("0")
    assert "the first row, always 1, is not in the scale" in page.text(".legend-line")
    page.show(run="gpt", recording="step_00000100", kind="decoder", layer=0, head=0, scale="one")
    assert "not in the scale" not in page.text(".legend-line")


def test_what_cannot_be_compared_says_why_and_is_shown_alone(page: Page) -> None:
    """Guards against an empty page, or a wrong difference, for runs that share no example or for a smaller model."""
    page.show(**CROSS, against="run:gpt")
    assert "no example with the same tokens" in page.text(".message")
    assert "A minus B" not in page.text(".legend-line")
    page.show(**CROSS | {"layer": 1}, against="run:smaller")
    assert "has 1 layers" in page.text(".message")
    page.show(**CROSS)
    assert not page.find(".message").is_displayed()


def test_a_cell_tells_weight_tokens_predictions_and_loss(page: Page) -> None:
    """Guards against rows and columns that are swapped or shifted by one."""
    page.show(**CROSS)
    x, y = find_cell(page, "エミは", "Emi")
    assert page.hover(".pointer", x, y) == [
        "エミは → Emi",
        "weight 0.5000 (50.0 %)",
        "reads <s>, predicts エミは",
        "most likely: エミは 75.0 % · or 12.5 %",
        "loss 0.250 nats",
        "row 0, column 0",
    ]
    page.show(**CROSS, token="r0")
    assert page.text(".readout") == "“エミは” attends to “Emi” .50, “</s>” .25, “prefer” .13 and “s” .13."
    page.show(**CROSS, rows="reads", token="r0")
    assert page.text(".readout").startswith("“<s>” attends to “Emi” .50")


def test_a_click_chooses_a_token_for_all_views(page: Page) -> None:
    """Guards against a selection that other views ignore."""
    page.show(**CROSS)
    page.hover(".pointer", *find_cell(page, "エミは", "Emi"))
    ActionChains(page.driver).click().perform()
    page.settle()
    assert "token=r0" in page.hash
    assert page.text(".readout").startswith("“エミは” attends to")
    ActionChains(page.driver).key_down(Keys.SHIFT).send_keys(Keys.ARROW_DOWN).key_up(Keys.SHIFT).perform()
    page.settle()
    assert "token=r1" in page.hash
    page.click("#tab-sentence")
    assert page.text(".token[aria-pressed=true]").startswith("りんごの")
    page.press(Keys.ESCAPE)
    assert "token=&" in f"{page.hash}&", "nothing is selected, rather than the word of the finding"


def test_hidden_special_tokens_leave_their_share_behind(page: Page) -> None:
    """Guards against hidden special tokens whose attention is not reported."""
    page.show(**CROSS, hide=True, token="r0")
    assert page.text(".readout") == "“エミは” attends to “Emi” .67, “prefer” .17 and “s” .17."
    assert "hidden: attention on special tokens" in page.text(".legend-line")
    _, y = find_cell(page, "エミは", "Emi")
    titles = {title for x in range(300, 520, 10) for title in page.hover(".pointer", x, y)[:1]}
    assert "エミは: 25.0 % hidden" in titles
    assert "エミは → </s>" not in titles


def test_merged_pieces_are_words(page: Page) -> None:
    """Guards against averaging weights of pieces that must be summed."""
    page.show(**CROSS, token="r0")
    assert page.find(".cells").get_attribute("aria-label").endswith("7 rows, 6 columns")
    page.show(**CROSS, merge=True, token="r0")
    assert page.text(".readout").startswith("“エミは” attends to “Emi” .50, “prefers” .25")
    assert page.find(".cells").get_attribute("aria-label").endswith("5 columns")


def test_the_example_list_says_what_was_cut_and_takes_names_as_text(page: Page) -> None:
    """Guards against truncated examples that are not marked as such, and names interpreted as HTML."""
    page.show(**CROSS, sample=1)
    examples = page.texts(f"#{page.labelled('example')} option")
    assert examples[0] == "probe 1 · Emi prefers apples. (sample 0)"
    assert examples[1] == "<b>bold</b> · Emi prefers apples. (sample 1) · first 4 of 300 tokens"
    assert "first 4 of 300 tokens" in page.text(".frame-detail")


def test_japanese_is_marked_as_such(page: Page) -> None:
    """Guards against Chinese forms of Japanese characters."""
    page.show(**CROSS)
    assert page.find(".cells").get_attribute("lang") == "ja"
    page.show(run="gpt", recording="step_00000300")
    assert page.find(".cells").get_attribute("lang") == "en"


def test_dark_mode_follows_tensorboard(page: Page) -> None:
    """Guards against a light page in TensorBoard's dark theme."""
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
    """Guards against a missing map after switching to a run with different steps."""
    page.show(**CROSS | {"layer": 1, "head": 2})
    page.choose("run", "smaller")
    page.wait("return document.querySelector('.step-title').textContent === 'step 320'")
    page.settle()
    assert page.text(".frame-name") == "cross-attention · layer 0 · head 2"
    page.choose("run", "gpt")
    page.wait("return document.querySelector('.step-title').textContent === 'step 300'")
    page.settle()
    assert page.text(".frame-name") == "decoder self-attention · layer 1 · head 1"
    page.choose("run", "translation")
    page.settle()
    assert page.text(".step-title") == "step 500", "from the end of one training to that of another"


def test_what_was_generated_stands_beside_the_steps(page: Page) -> None:
    """Guards against maps of generated text that are hidden or shown as a training step."""
    page.show(**CROSS)
    page.choose("recordings", "generated (1)")
    assert page.text(".step-title") == "generated 1"
    assert "by the model of step 500" in page.text(".frame-detail")
    assert "りんごの方が好きです" in page.texts(f"#{page.labelled('example')} option")[0]
    page.choose("recordings", "steps")
    assert page.text(".step-title") == "step 500"


def test_an_empty_log_folder_explains_how_maps_are_recorded(open_folder: Open, tmp_path: Path) -> None:
    """Guards against a blank tab before the first evaluation of the first run, one that stays when the run is there,
    and a default layer that is uninformative."""
    page = open_folder(tmp_path)
    page.driver.get(f"{page.address}#attention")
    page.enter()
    page.wait("return document.querySelector('.help')?.hidden === false")
    text = page.text(".help")
    assert "python train.py" in text
    assert "attention.probes=" in text
    assert "attention=true" in text
    assert str(tmp_path) in text
    store.save(recording(100, sample(JAPANESE, ENGLISH, 100, layers=4)), tmp_path / "first")
    page.wait(
        "return document.querySelector('.page').hidden === false && document.querySelector('.frame-name').textContent"
    )
    page.settle()
    assert page.text(".step-title") == "step 100"
    assert not page.find(".help").is_displayed()
    assert page.text(".frame-name") == "training of first"
    page.show(run="first", view="map", head="mean")
    assert page.text(".frame-name") == "cross-attention · layer 2 · mean of 3 heads"
    assert "layer" not in page.hash
    page.click(".bar button[value=encoder]")
    assert page.text(".frame-name") == "encoder self-attention · layer 2 · mean of 3 heads"
    page.click(".bar button[value=cross]")
    page.press(Keys.ARROW_DOWN)
    assert page.text(".frame-name") == "cross-attention · layer 3 · mean of 3 heads"


def test_tooltip_disappears_with_its_step_or_view(page: Page) -> None:
    """Guards against leftover numbers of another step or view."""
    page.show(**CROSS)
    assert page.hover(".pointer", *find_cell(page, "エミは", "Emi"))
    ActionChains(page.driver).send_keys(Keys.ARROW_RIGHT).perform()
    page.settle()
    assert page.texts(".tooltip:not([hidden])") == []
    assert page.hover(".pointer", *find_cell(page, "エミは", "Emi"))
    page.show(**CROSS, view="curves")
    assert page.texts(".tooltip:not([hidden])") == []


def test_keys_work_before_the_first_click(page: Page) -> None:
    """Guards against keys that go to the frame around the page, and a page that takes the focus from a field being
    edited there."""
    page.load(**CROSS)
    ActionChains(page.driver).send_keys(Keys.ARROW_RIGHT).perform()
    page.wait("return document.querySelector('.step-title').textContent === 'step 400'")
    page.open()
    taken = """
        const done = arguments[0];
        const box = document.body.appendChild(document.createElement('input'));
        box.focus();
        const frame = document.querySelector('iframe').contentWindow;
        frame.eval("import('./static/core/host.js')").then(({takeKeyboard}) => {
          takeKeyboard();
          const typing = document.activeElement.tagName;
          box.remove();
          takeKeyboard();
          done([typing, document.activeElement.tagName]);
        });
    """
    assert page.driver.execute_async_script(taken) == ["INPUT", "IFRAME"]
