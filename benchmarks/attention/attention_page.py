"""How fast the page of the Attention tab redraws, in headless Chromium on this machine.

    python benchmarks/attention/attention_page.py

Serves a run of 12 steps of 6 layers x 8 heads with three maps of 128 tokens, opens the tab, waits until the
neighbouring steps are in memory and moves the slider step by step: overview of 48 heads and heat map. Then a text of
512 tokens. Prints medians and maxima in milliseconds, as the page itself measures them, from the wish to the finished
drawing (the compositor's own work is not in it).
"""

from __future__ import annotations

import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.keys import Keys

sys.path.insert(0, str(Path(__file__).resolve().parent))

import attention_tab

from attention_maps.files import store
from attention_maps.record.recording import Recording, Sample, tokens

STEPS = 12


def main() -> None:
    """Serve, drive, print."""
    with tempfile.TemporaryDirectory() as folder:
        made = attention_tab.recording()
        for step in range(STEPS):
            store.save(replace(made, step=100 * step), Path(folder) / "six_by_eight")
        store.save(long_text(512), Path(folder) / "long")
        with socket.create_server(("localhost", 0)) as free:
            port = free.getsockname()[1]
        command = [sys.executable, "-m", "attention_maps.tensorboard", "--logdir", folder, "--port", str(port)]
        server = subprocess.Popen(command, cwd=attention_tab.ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        driver = browser()
        try:
            address = f"http://localhost:{port}/data/plugin_entry.html?name=attention"
            time.sleep(8)
            moved = redraws(driver, f"{address}#attention&p.attention.run=six_by_eight", STEPS - 1)
            median, most = statistics.median(moved), max(moved)
            print(f"{len(moved)} slider moves, 48 heads of 128 tokens: median {median:.0f} ms, largest {most:.0f} ms")
            changed = redraws(driver, f"{address}#attention&p.attention.run=long", 0)
            print(f"8 heads of 512 tokens, opened: {changed[0]:.0f} ms")
        finally:
            driver.quit()
            server.terminate()


def redraws(driver: webdriver.Chrome, address: str, moves: int) -> list[float]:
    """Milliseconds of each move to the step before, after all are in memory; of the first drawing where there are no
    moves."""
    driver.get("about:blank")
    driver.get(address)
    settled(driver)
    time.sleep(4)  # the page reads the neighbours while it has nothing else to do
    found = [] if moves else [redraw(driver)]
    for _ in range(moves):
        driver.find_element("tag name", "body").send_keys(Keys.ARROW_LEFT)
        time.sleep(0.3)
        settled(driver)
        found.append(redraw(driver))
        time.sleep(0.5)
    return found


def settled(driver: webdriver.Chrome) -> None:
    """Wait until the page has drawn what was asked for."""
    for _ in range(300):
        script = "return document.documentElement.dataset.redraw && !document.querySelector('[aria-busy=true]')"
        if driver.execute_script(script):
            return
        time.sleep(0.1)
    raise SystemExit("the page does not get ready")


def redraw(driver: webdriver.Chrome) -> float:
    """What the page says that its last drawing took."""
    return float(driver.execute_script("return document.documentElement.dataset.redraw"))


def browser() -> webdriver.Chrome:
    """Headless Chromium, as the tests start it."""
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,950"):
        options.add_argument(argument)
    options.binary_location = "/usr/bin/chromium"
    return webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))


def long_text(length: int) -> Recording:
    """One GPT example, one layer of eight heads."""
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


if __name__ == "__main__":
    main()
