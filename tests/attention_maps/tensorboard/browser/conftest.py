"""A real TensorBoard on recordings of known weights, and a real browser that looks at its Attention tab."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
from selenium.webdriver import ActionChains, Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from attention_maps import store
from attention_maps.measures import head_labels, head_measures
from attention_maps.recording import Kind, Prediction, Recording, Sample, Score, Tokens, tokens
from tests.conftest import ROOT, environment

ENGLISH = ["▁Emi", "▁prefer", "s", "▁apples", ".", "</s>"]
JAPANESE = ["<s>", "エミは", "りんごの", "方が", "好", "きです", "。", "</s>"]
STORY = ["</s>", "▁Kate", "▁hid", "▁her", "▁pen", ".", "▁She", "▁smiled", "."]

KNOWN = [0.5, 0.125, 0.125, 0, 0, 0.25]
"""What エミは looks at in head 0 of layer 0 of the cross-attention, at every step: exact in float16."""

WAIT = 20.0  # seconds; a busy machine is slow
READY = "return document.querySelector('.page')?.getAttribute('aria-busy') === 'false'"


def marked(pieces: list[str]) -> Tokens:
    """Tokens of these pieces, <s> and </s> special."""
    ids = [2 if piece == "<s>" else 3 if piece == "</s>" else 10 + place for place, piece in enumerate(pieces)]
    return tokens(ids, pieces, frozenset({2, 3}))


def maps(kind: Kind, layer: int, heads: int, queries: int, keys: int, step: int) -> np.ndarray:
    """Weights [H,Q,K] that grow sharper with the step, different for every head."""
    logits = np.random.default_rng([layer, queries, keys]).normal(size=(heads, queries, keys)) * (1 + step / 100)
    if kind == "decoder":
        logits = np.where(np.tril(np.ones((queries, keys), bool)), logits, -np.inf)
    weights = np.exp(logits - logits.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    if kind == "cross" and layer == 0:
        weights[0, 0] = KNOWN
    return weights.astype(np.float16)


def sample(
    reads: list[str],
    source: list[str] | None,
    step: int,
    *,
    layers: int = 2,
    heads: int = 3,
    name: str = "probe 1",
    length: int = 0,
) -> Sample:
    """An example with maps of all kinds that it can have."""
    text = marked(reads if source is None else reads[:-1])
    kinds: list[Kind] = ["decoder"] if source is None else ["encoder", "decoder", "cross"]
    sizes = {"encoder": 2 * (len(source or ()),), "decoder": 2 * (len(text),), "cross": (len(text), len(source or ()))}
    weights = {(kind, layer): maps(kind, layer, heads, *sizes[kind], step) for kind in kinds for layer in range(layers)}
    predicts = marked(reads[1:])
    guesses = [Prediction(7, reads[place + 1] if place + 1 < len(reads) else "?", 0.75) for place in range(len(text))]
    return Sample(
        reads=text,
        predicts=predicts,
        source=marked(source) if source else None,
        losses=tuple(0.25 + place for place in range(len(predicts))),
        predictions=tuple((guess, Prediction(8, "▁or", 0.125)) for guess in guesses),
        weights=weights,
        norms={key: np.ones(array.shape[:2], np.float16) for key, array in weights.items()},
        values={key: np.linspace(1, 2, heads * array.shape[2]).astype(np.float16).reshape(heads, -1) for key, array in weights.items()},
        rollout={kind: weights[kind, 0].mean(axis=0).astype(np.float16) for kind in kinds if kind != "cross"},
        name=name,
        length=length or len(text),
        source_length=len(source or ()),
    )  # fmt: skip


def recording(step: int, *samples: Sample) -> Recording:
    """A recording with measures and labels, and a score beside a baseline."""
    measures = head_measures(samples)
    last = samples[0].layers("cross") - 1
    scores = (
        Score("alignment_error", f"layer {last} head 2", 40.0, "cross", last, 2),
        Score("alignment_error", "diagonal", 70.0),
    )
    return Recording(step, samples, measures, head_labels(measures), scores if samples[0].source else ())


def translation(step: int) -> Recording:
    """Two examples of a translation, one of them named as nobody would."""
    return recording(
        step,
        sample(JAPANESE, ENGLISH, step),
        sample([*JAPANESE[:4], "</s>"], ENGLISH, step, name="<b>bold</b>", length=300),
    )


@pytest.fixture(scope="session")
def logdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of every sort: `translation`, `gpt`, `smaller`, `older`, `damaged`, `diverged`, `long` and `growing`."""
    folder = tmp_path_factory.mktemp("logs")
    for step in range(100, 600, 100):
        store.save(translation(step), folder / "translation")
    store.save_generated(
        recording(500, sample(JAPANESE, ENGLISH, 777, name="りんごの方が好きです")), folder / "translation"
    )
    for step in (50, 320):
        store.save(recording(step, sample(JAPANESE, ENGLISH, step + 3, layers=1)), folder / "smaller")
    for step in (100, 200, 300):
        store.save(recording(step, sample(STORY, None, step, layers=3, heads=2)), folder / "gpt")
        store.save(recording(step, sample(STORY, None, step)), folder / "damaged")
    damaged = store.path(folder / "damaged", 200)
    damaged.write_bytes(damaged.read_bytes()[:900])
    old = sample(JAPANESE, ENGLISH, 100)
    old.values.clear()
    old.rollout.clear()
    store.save(Recording(100, (old,)), folder / "older")
    nan = sample(STORY, None, 100)
    nan.weights["decoder", 0][0, 3] = np.nan
    store.save(Recording(100, (nan,)), folder / "diverged")
    words = [STORY[1 + place % 7] for place in range(511)]
    store.save(Recording(100, (sample(["</s>", *words], None, 100, layers=1, heads=2, length=600),)), folder / "long")
    store.save(recording(100, sample(STORY, None, 100)), folder / "growing")
    return folder


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """TensorBoard with the tab on a log folder -> its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "attention_maps.tensorboard",
        "--logdir",
        folder,
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment(), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    address = f"http://127.0.0.1:{port}/"
    try:
        deadline = time.monotonic() + 90
        while True:
            try:
                urllib.request.urlopen(f"{address}data/plugin/attention/index", timeout=60).close()
                break
            except OSError:
                assert process.poll() is None, "TensorBoard ended"
                assert time.monotonic() < deadline, "TensorBoard did not start"
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait(timeout=30)


@pytest.fixture(scope="session")
def server(logdir: Path) -> Iterator[str]:
    """The address of a TensorBoard on `logdir`."""
    with serving(logdir) as address:
        yield address


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """A browser without a window; tests are skipped where none is installed."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
    chromedriver = shutil.which("chromedriver")
    if not browser or not chromedriver:
        pytest.skip("no Chromium with chromedriver is installed: `make browser` installs both")
    options = ChromeOptions()
    options.binary_location = browser
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--lang=en", "--window-size=1300,900",
                 "--force-device-scale-factor=1", f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):  # fmt: skip
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = Chrome(options=options, service=Service(chromedriver))
    started.set_script_timeout(WAIT)
    yield started
    started.quit()


class Page:
    """The Attention tab as a person has it in front of them."""

    def __init__(self, driver: Chrome, address: str) -> None:
        """Nothing is opened yet."""
        self.driver = driver
        self.address = address

    def load(self, hash: str = "", /, **state: Any) -> None:
        """Open TensorBoard anew, with a link to a state of the tab or with what followed the address before."""
        self.open()
        self.driver.get("about:blank")
        self.driver.get(f"{self.address}{hash or link(state)}")
        self.enter()
        self.wait(READY)

    def open(self) -> None:
        """Look at TensorBoard's own page."""
        self.driver.switch_to.default_content()

    def enter(self) -> None:
        """Look into the frame of the tab."""
        self.open()
        frame = WebDriverWait(self.driver, WAIT).until(lambda driver: driver.find_elements("css selector", "iframe"))[0]
        self.driver.switch_to.frame(frame)

    def show(self, **state: Any) -> None:
        """Follow a link while the page is open; back when everything is drawn."""
        self.driver.execute_async_script(
            """
            const [hash, done] = arguments;
            const look = () => document.querySelector('.page').getAttribute('aria-busy') === 'true' ? setTimeout(look, 10) : done();
            if (parent.location.hash === hash) return look();
            parent.addEventListener('hashchange', () => setTimeout(look), {once: true});
            parent.location.hash = hash;
            """,
            link(state),
        )

    def wait(self, script: str, seconds: float = WAIT) -> Any:
        """Wait until a script returns something that counts as true, and return it."""
        return WebDriverWait(self.driver, seconds).until(lambda driver: driver.execute_script(script), script)

    def settle(self) -> None:
        """Wait until everything is drawn."""
        self.wait(READY)

    def find(self, selector: str) -> WebElement:
        """The first element of a selector."""
        return self.driver.find_element("css selector", selector)

    def text(self, selector: str) -> str:
        """What is written in an element."""
        return self.find(selector).text

    def texts(self, selector: str) -> list[str]:
        """What is written in each element of a selector."""
        return [element.text for element in self.driver.find_elements("css selector", selector)]

    def click(self, selector: str) -> None:
        """Click an element and wait until the page is drawn again."""
        self.find(selector).click()
        self.settle()

    def press(self, *keys: str) -> None:
        """Keys, one after the other, with nothing in focus."""
        self.find("footer").click()
        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()
            self.settle()

    def choose(self, label: str, text: str) -> None:
        """An entry of the list with a label."""
        self.find(f"select#{self.labelled(label)}").find_element("xpath", f".//option[.='{text}']").click()
        self.settle()

    def labelled(self, label: str) -> str:
        """The id of the control with a label."""
        found: str = self.driver.find_element("xpath", f"//label[.='{label}']").get_attribute("for") or ""
        return found

    def picture(self, selector: str) -> str:
        """The pixels of a canvas, to be compared."""
        drawn: str = self.driver.execute_script("return document.querySelector(arguments[0]).toDataURL()", selector)
        return drawn

    def colours(self, selector: str) -> set[str]:
        """The colours that occur in a canvas, as r,g,b."""
        script = """
            const {width, height} = document.querySelector(arguments[0]);
            const {data} = document.querySelector(arguments[0]).getContext('2d').getImageData(0, 0, width, height);
            const found = new Set();
            for (let i = 0; i < data.length; i += 4) if (data[i + 3] === 255) found.add(data.slice(i, i + 3).join());
            return [...found];
        """
        return set(self.driver.execute_script(script, selector))

    def hover(self, selector: str, x: float, y: float) -> list[str]:
        """Point at a place of an element, in pixels from its upper left corner -> the lines of the tooltip, if any."""
        element = self.find(selector)
        width, height = element.rect["width"], element.rect["height"]
        ActionChains(self.driver, duration=0).move_to_element_with_offset(
            element, round(x - width / 2), round(y - height / 2)
        ).perform()
        return self.texts(".tooltip:not([hidden]) > div")

    @property
    def hash(self) -> str:
        """The part of TensorBoard's address that belongs to the tab."""
        found: str = self.driver.execute_script("return decodeURIComponent(parent.location.hash)")
        return found


def link(state: dict[str, Any]) -> str:
    """What follows the address: #attention&p.attention.layer=5."""
    told = {
        f"p.attention.{key}": str(value).lower() if isinstance(value, bool) else value for key, value in state.items()
    }
    return f"#attention&{urlencode(told)}"


@pytest.fixture(scope="session")
def opened(driver: Chrome, server: str) -> Page:
    """The tab, opened once for all tests."""
    page = Page(driver, server)
    page.load(run="translation")
    return page


@pytest.fixture
def page(opened: Page) -> Iterator[Page]:
    """The opened tab; a test goes to its own state with `show`. No script may have failed on the way."""
    opened.open()
    if not opened.driver.current_url.startswith(opened.address):
        opened.load(run="translation")
    opened.enter()
    opened.driver.get_log("browser")
    yield opened
    failed = [entry["message"] for entry in opened.driver.get_log("browser") if "Uncaught" in entry["message"]]
    assert not failed


Open = Callable[[Path], Page]


@pytest.fixture
def open_folder(driver: Chrome) -> Iterator[Open]:
    """`open_folder(path)`: the tab of another TensorBoard in the same browser, on a log folder of one's own."""
    with contextlib.ExitStack() as stack:
        yield lambda folder: Page(driver, stack.enter_context(serving(folder)))
