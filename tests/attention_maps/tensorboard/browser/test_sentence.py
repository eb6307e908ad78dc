"""The sentence view in a browser."""

from __future__ import annotations

from selenium.webdriver.common.keys import Keys

from tests.attention_maps.tensorboard.browser.known import TEXT, TRANSLATION
from tests.attention_maps.tensorboard.browser.page import Page, numbers, token, wait_for


def test_clicked_word_shades_its_keys_and_shows_the_gold_verdict(views: Page) -> None:
    """Guards against shading of another row than the clicked one, and gold links shifted by one."""
    views.show(**TRANSLATION, view="sentence")
    assert "Nothing selected" in views.text(".view-note")
    views.click(token("r2"))
    assert numbers(views) == {"c3": ".50", "c4": ".25", "c6": ".25"}
    assert views.text(".sentence-panel h3") == "りんごが"
    assert "reads “赤い”, predicts “りんごが”" in views.text(".sentence-panel")
    assert views.text(".gold-known") == "gold translation: apple s"
    assert views.text(".verdict.right") == "✓ right: it gets the largest weight (75.0 %)"
    assert views.attributes(".gold", "data-token") == ["c3", "c4"]
    strong, weak = (views.find(token(name)).value_of_css_property("background-color") for name in ("c3", "c4"))
    assert strong != weak
    views.click(token("r3"))
    assert (
        views.text(".verdict.wrong") == "✗ wrong: “Emi” gets the largest weight (50.0 %), the gold translation 25.0 %"
    )


def test_a_source_word_tells_who_looks_at_it(views: Page) -> None:
    """Guards against showing a row instead of a column."""
    views.show(**TRANSLATION, view="sentence")
    views.click(token("c0"))
    assert numbers(views) == {"r0": ".75", "r3": ".50"}
    assert views.text(".gold-known") == "gold translation: エミは"


def test_the_panel_tells_what_was_expected_and_how_much_was_lost(views: Page) -> None:
    """Guards against predictions of an adjacent row."""
    views.show(**TRANSLATION, view="sentence", token="r1")
    panel = views.text(".sentence-panel")
    assert "赤い" in panel
    assert "62.5 %" in panel
    assert "expected after “エミは”, as the next token" in panel
    assert "“赤い” itself, predicted here\nloss 2.000 nats (probability 13.5 %)" in panel
    views.show(**TRANSLATION, view="sentence", token="r2", rows="reads")
    panel = views.text(".sentence-panel")
    assert "reads “赤い”, predicts “りんごが”" in panel
    assert "expected after “赤い”, as the next token" in panel
    assert "“赤い” itself, predicted from the row before\nloss 2.000 nats (probability 13.5 %)" in panel


def test_without_a_selection_the_text_is_readable(views: Page) -> None:
    """Guards against words on dark blue before the first click, if a special token gets most attention."""
    for state in (TEXT, TRANSLATION):
        views.show(**state, view="sentence")
        script = """
            const light = (colour) => colour.match(/\\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0);
            return [...document.querySelectorAll('.sentence-view .token')]
              .map((token) => getComputedStyle(token).backgroundColor)
              .filter((colour) => !colour.endsWith(', 0)')).map(light);
        """
        lights = views.driver.execute_script(script)
        assert len(lights) > 3
        assert min(lights) > 500  # of 765; the strongest colour has 72


def underlines(page: Page, *rows: int) -> list[float]:
    """Return the widths in pixels of the lines under tokens."""
    widths = (page.find(token(f"r{row}")).value_of_css_property("border-bottom-width") for row in rows)
    return [float(width.removesuffix("px")) for width in widths]


def test_tokens_can_be_underlined_by_their_loss_or_strength(views: Page) -> None:
    """Guards against underlines that do not grow with what they stand for, and against adding the norms of heads
    instead of computing the norm of their concatenation: 3 and 4 give 5."""
    views.show(**TRANSLATION | {"head": 1}, view="sentence")
    views.click(".segments button[value=loss]")
    assert "underline=loss" in views.hash
    most, middle, least = underlines(views, 1, 0, 2)
    assert most > middle > least
    views.click(".segments button[value=strength]")
    wait_for(views, ".view-note", "the L2 norm of the output of the head at each token")
    widths = underlines(views, *range(7))
    assert widths == sorted(widths)
    assert widths[0] < widths[-1]
    views.click(token("r0"))
    listed = [line.split("\n") for line in views.texts(".strengths li")]
    assert listed == [["all 2 together", "5.00"], ["mean of them", "3.50"], ["head 0", "3.00"], ["head 1", "4.00"]]
    views.driver.find_element("xpath", "//button[.='head 0']").click()
    views.settle()
    assert views.text(".frame-name") == "cross-attention · layer 0 · head 0"
    views.show(**TRANSLATION | {"run": "older"}, view="sentence", underline="strength")
    wait_for(views, ".view-note", "contains no activation strength")
    assert views.texts(".strengths li") == []


def test_in_one_text_a_switch_turns_the_question_round(views: Page) -> None:
    """Guards against self-attention without the opposite direction."""
    views.show(**TEXT, view="sentence")
    views.click(token("r6"))
    assert numbers(views) == {"r0": ".25", "r1": ".25", "r4": ".13", "r6": ".31"}
    views.click(".segments button[value=back]")
    assert "token=c6" in views.hash
    assert numbers(views) == {"c6": ".31", "c7": ".13", "c8": ".11"}
    views.click(token("c1"))
    assert numbers(views)["c1"] == ".50"
    views.click(".segments button[value=forward]")
    assert "token=r1" in views.hash


def test_a_pronoun_is_judged_by_its_antecedent(views: Page) -> None:
    """Guards against another rule than that of the score: all mentions of a referent count, verbs and the pronoun
    itself do not."""
    views.show(**TEXT, view="sentence", token="r6")
    assert views.text(".gold-known") == "gold antecedent: Kate"
    assert views.text(".verdict.right") == "✓ right: it gets the largest weight (31.3 %)"
    assert "named before (Kate, pen), each with all its mentions" in views.text(".sentence-panel .rule")
    assert "This row reads the word; the row that predicts it is under" in views.text(".sentence-panel .rule")
    views.find(token("r6")).send_keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    views.settle()
    assert views.text(".verdict.right") == "✓ right: it gets the largest weight (25.0 %)", "“hid” is no candidate"
    views.show(**TEXT, view="sentence", token="r6", sample=1)
    assert views.text(".verdict.wrong") == "✗ wrong: “pen” gets the largest weight (25.0 %), the gold antecedent 18.8 %"
    views.show(**TEXT | {"head": 1}, view="sentence", token="r6")
    assert views.text(".verdict.wrong") == "✗ tied: “Kate”, “pen” get the same weight (0.0 %)"
    views.show(**TEXT, view="sentence", token="r3", sample=2)
    assert views.text(".verdict.wrong").startswith("✗ wrong: “hid” gets the largest weight (50.0 %)")
    assert "This text has no list" in views.text(".sentence-panel .rule")
    views.show(**TEXT, view="sentence", rows="predicts", token="r5", options=True)
    assert views.text(".sentence-panel h3") == "She"
    assert views.text(".gold-known") == "gold antecedent: Kate"
    views.click(".fold-body button[value=reads]")
    assert views.text(".sentence-panel h3") == "She", "the same word stays selected"
    assert "token=r6" in views.hash


def test_what_comes_later_is_greyed(views: Page) -> None:
    """Guards against masked words that look like words of weight 0."""
    views.show(**TEXT, view="sentence", token="r3")
    later = views.attributes(".token.future", "data-token")
    assert later == ["r4", "r5", "r6", "r7", "r8"]


def test_a_difference_of_sentences_has_signs(views: Page) -> None:
    """Guards against a difference that is shaded like a weight."""
    views.show(**TRANSLATION, view="sentence", against="step:step_00000100", token="r0")
    weights = numbers(views)
    assert weights["c0"] == ".63"
    assert weights["c1"] == "−.13"
    assert not views.driver.find_elements("css selector", ".verdict")


def test_merged_and_hidden_tokens_keep_their_gold(views: Page) -> None:
    """Guards against confusing word positions with token positions."""
    views.show(**TRANSLATION, view="sentence", merge=True, hide=True, token="r2")
    assert views.text(".sentence-panel h3") == "りんごが"
    assert views.text(".gold-known") == "gold translation: apples"
    assert numbers(views) == {"c3": "1"}
    assert "25.0 % of the attention is on hidden special tokens" in views.text(".sentence-panel")
