"""Measure redraw times of the Attention tab in headless Chromium.

Serve a run of 12 steps with 6 layers x 8 heads and three maps of 128 tokens, open the tab, wait until the neighbouring
steps are in memory, and move the slider step by step (overview of 48 heads and heat map). Then open a text of 512
tokens. Print times in milliseconds as measured by the page, from the request to the finished drawing, excluding
compositing.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.keys import Keys

from attention_maps.files import store
from attention_maps.record.recording import Recording, Sample, tokens
from benchmarks.attention.server import serving
from benchmarks.attention.tab import recording
from benchmarks.inputs import NoSettings
from configs.errors import UserError

STEPS = 12


def tab_drawing(_: NoSettings) -> None:
    """Measure redraw times of the Attention tab in headless Chromium: slider moves, a text of 512 tokens."""
    with tempfile.TemporaryDirectory() as folder:
        made = recording()
        for step in range(STEPS):
            store.save(replace(made, step=100 * step), Path(folder) / "six_by_eight")
        store.save(long_text(512), Path(folder) / "long")
        with serving(Path(folder)) as tensorboard, browser() as driver:
            address = f"http://localhost:{tensorboard.port}/data/plugin_entry.html?name=attention"
            moved = redraws(driver, f"{address}#attention&p.attention.run=six_by_eight", STEPS - 1)
            median, most = statistics.median(moved), max(moved)
            print(f"{len(moved)} slider moves, 48 heads of 128 tokens: median {median:.0f} ms, maximum {most:.0f} ms")
            changed = redraws(driver, f"{address}#attention&p.attention.run=long", 0)
            print(f"opening 8 heads of 512 tokens: {changed[0]:.0f} ms")


def redraws(driver: webdriver.Chrome, address: str, moves: int) -> list[float]:
    """Return the redraw time in ms of each move to the previous step, or if `moves` is 0, of the first drawing."""
    driver.get("about:blank")
    driver.get(address)
    settled(driver)
    time.sleep(4)  # the page prefetches the neighbouring steps while idle
    found = [] if moves else [redraw(driver)]
    for _ in range(moves):
        driver.find_element("tag name", "body").send_keys(Keys.ARROW_LEFT)
        time.sleep(0.3)
        settled(driver)
        found.append(redraw(driver))
        time.sleep(0.5)
    return found


def settled(driver: webdriver.Chrome) -> None:
    """Wait until the page has finished drawing. Raises UserError after 30 seconds."""
    for _ in range(300):
        script = "return document.documentElement.dataset.redraw && !document.querySelector('[aria-busy=true]')"
        if driver.execute_script(script):
            return
        time.sleep(0.1)
    raise UserError("the page was not drawn within 30 seconds")


def redraw(driver: webdriver.Chrome) -> float:
    """Return the duration of the last drawing in milliseconds, as measured by the page."""
    return float(driver.execute_script("return document.documentElement.dataset.redraw"))


def browser() -> webdriver.Chrome:
    """Start headless Chromium with the same options as the tests."""
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,950"):
        options.add_argument(argument)
    options.binary_location = "/usr/bin/chromium"
    return webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))


def long_text(length: int) -> Recording:
    """Create a recording of one GPT sample with one layer of eight heads."""
    weights = np.tril(np.random.default_rng(0).random((8, length, length)))
    weights = (weights / weights.sum(axis=2, keepdims=True)).astype(np.float16)
    names = [f"▁w{number}" for number in range(length)]
    reads, predicts = tokens(range(length), names, frozenset()), tokens(range(1, length), names[1:], frozenset())
    sample = Sample(
        reads=reads,
        predicts=predicts,
        source=None,
        losses=(1.0,) * (length - 1),
        predictions=((),) * length,
        weights={("decoder", 0): weights},
        norms={("decoder", 0): np.ones((8, length), np.float16)},
        name="long",
        length=length,
    )
    return Recording(0, (sample,))
