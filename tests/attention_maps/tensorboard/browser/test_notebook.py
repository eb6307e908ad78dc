"""The Attention tab in the output of a notebook's cell: a frame without an origin, in a page that is not the tab's."""

from __future__ import annotations

from pathlib import Path

from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from attention_maps.files import store
from attention_maps.notebook import Inline, show_recording, show_run
from tests.attention_maps.tensorboard.browser.page import POLL, WAIT
from tests.attention_maps.tensorboard.browser.recordings import translation


def text_in_frame(driver: Chrome, inline: Inline, file: Path, wanted: str) -> str:
    """Open a page with the output of a cell, wait until the frame in it contains a text -> the text of the frame."""
    file.write_text(f"<!doctype html><h1>a notebook</h1>{inline._repr_html_()}", encoding="utf-8")
    driver.get_log("browser")
    driver.get(file.as_uri())
    driver.switch_to.frame(driver.find_element(By.TAG_NAME, "iframe"))
    WebDriverWait(driver, WAIT, POLL).until(lambda _: wanted in driver.find_element(By.TAG_NAME, "body").text)
    text = driver.find_element(By.TAG_NAME, "body").text
    driver.switch_to.default_content()
    return text


def test_a_recording_opens_at_the_chosen_map(driver: Chrome, tmp_path: Path) -> None:
    """Guards against scripts that fail without access to the page around them, and a state that is lost."""
    inline = show_recording(translation(100), kind="decoder", layer=1, head=2)
    text = text_in_frame(driver, inline, tmp_path / "page.html", "decoder self-attention · layer 1 · head 2")
    assert "step 100" in text
    assert [line for line in driver.get_log("browser") if line["level"] == "SEVERE"] == []


def test_a_run_opens_with_its_story(driver: Chrome, tmp_path: Path) -> None:
    """Guards against a run without its steps and measures."""
    for step in (0, 100, 200, 300):
        store.save(translation(step), tmp_path / "run")
    text = text_in_frame(driver, show_run(tmp_path / "run", steps=3), tmp_path / "page.html", "label at the end")
    assert "step 300" in text
    assert "3 of 3" in text
