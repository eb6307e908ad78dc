"""The help behind `?`, the buttons that lead to it, and what the page says where there is nothing to show."""

from __future__ import annotations

from selenium.webdriver.common.keys import Keys

from attention_maps.record.head_measures_and_labels import ALIGNMENT, BY_WEIGHT, COREFERENCE
from tests.attention_maps.tensorboard.browser.known import TEXT, TRANSLATION
from tests.attention_maps.tensorboard.browser.page import Page, wait_for

STORY = {"run": "history", "recording": "step_00000009", "view": "story"}
THRESHOLDS = {"coreference": COREFERENCE, "alignment": ALIGNMENT, "uniform": 80}
LABELS = ["coreference", "alignment", "induction", *(label for _, label in BY_WEIGHT), "uniform"]
TERMS = "rollout gamma outline coreference induction copying entropy Pharaoh AER logit contribution".split()
TERMS += ["ablation", "importance", "coref+", "hurts the whole text", "finding"]


def test_the_help_has_steps_keys_and_terms(views: Page) -> None:
    """Guards against words of the tab that nothing explains, and steps that lead nowhere."""
    views.show(**TEXT)
    views.press("?")
    terms = views.texts("dialog.keys th")
    assert set(TERMS) <= set(terms)
    assert all(views.texts("dialog.keys td"))
    assert len(views.texts("dialog.keys li")) == 3
    meanings = {name: views.text(f"dialog.keys tr[data-term='{name}'] td") for name in LABELS}
    assert {name: meanings[name] for name in LABELS if f"{THRESHOLDS.get(name, 50):.0f} %" not in meanings[name]} == {}
    views.driver.find_element("xpath", "//dialog//button[.='Pair']").click()
    views.settle()
    assert views.text("[role=tab][aria-selected=true]") == "Pair"
    assert not views.find("dialog.keys").is_displayed()


def test_every_label_and_view_leads_to_a_term(views: Page) -> None:
    """Guards against a `?` whose term the glossary lacks: it would open at the top without a mark."""
    views.show(**TRANSLATION)
    sought = []
    for view in views.driver.find_elements("css selector", "[role=tab]"):
        view.click()
        views.settle()
        views.click(".stage-title .explain")
        sought.append(views.text("dialog.keys .sought th"))
        views.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert {"attention", "since", "contribution", "mutual, grown"} <= set(sought)
    for place in (".panel-head", ".scores summary"):
        views.click(f"{place} .explain")
        assert views.text("dialog.keys .sought td")
        views.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert views.find(".scores").get_attribute("open"), "the button does not fold the scores"


def test_the_first_page_says_what_it_shows(views: Page) -> None:
    """Guards against a first view without a word about what one sees."""
    views.show(**STORY)
    wait_for(
        views, ".finding", "What the training did to each head, from step 0 to step 9; the list of heads has their"
    )
    views.click(".story-start .link")
    assert views.find("dialog.keys").is_displayed()
    views.driver.switch_to.active_element.send_keys(Keys.ESCAPE)


def test_what_is_missing_is_said_with_what_to_do(views: Page) -> None:
    """Guards against empty views of a run with a single recording, and of texts without gold labels."""
    views.show(run="gpt", recording="step_00000100", view="story")
    wait_for(views, ".story-view .view-note", "no labels of heads")
    views.show(**TRANSLATION | {"run": "older"}, view="sentence")
    assert "No gold links are known for this text" in views.text(".view-note")
    views.show(**TEXT, view="map")
    wait_for(views, ".frame-name", "decoder")
    assert "attention.probes" in (views.find(f"#{views.labelled('example')}").get_attribute("title") or "")
