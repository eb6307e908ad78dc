"""Fixtures: TensorBoard with recordings of known weights, and a browser that opens the Attention tab."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

from attention_maps.files import store
from attention_maps.record.recording import Recording, Score
from tests.attention_maps.tensorboard.browser import known
from tests.attention_maps.tensorboard.browser.asked import CERTAIN, mark_answer, save_scaled
from tests.attention_maps.tensorboard.browser.hostile import RUN, hostile_recording
from tests.attention_maps.tensorboard.browser.page import WAIT, Page
from tests.attention_maps.tensorboard.browser.recordings import ENGLISH, JAPANESE, STORY, recording, sample, translation
from tests.attention_maps.tensorboard.conftest import serving

ODD = "a 100% #1 'x' \"y\"/日本&z=?+"
"""A run name with special characters of URLs and HTML."""

LONG = ["</s>", *["▁Kate", "▁hid", "▁her", "▁pen", "."] * 3, "▁Who", "▁smiled", "?"]
PROBES = {"probe 1": [*LONG, "▁Kate", "."], "probe 2": [*LONG, "▁Emi", "."]}
"""Texts of the run `probes`, which begin alike."""
BORN = 13
"""Step of this run at which a head gets a label."""

PRONOUNS = (
    Score("alignment_error", "mean of all layers, grown", 30.0, "cross"),
    Score("alignment_error", "mean of layer 0, argmax", 40.0, "cross", 0),
    Score("antecedent", "best head, predicts the pronoun", 50.0, "cross", 0, 1, "predicts"),
    Score("antecedent", "last subject", 75.0),
    Score("antecedent", "chance", 25.0),
    Score("antecedent_agreeing", "best head, reads the pronoun", 60.0, "cross", 0, 0, "reads"),
)


@pytest.fixture(scope="session")
def logdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create runs of every kind, named after their special property; `translation` and `gpt` are ordinary."""
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
    store.save(recording(100, sample(STORY, None, 100)), folder / ODD)
    for step in (100, 200):
        store.save(hostile_recording(step), folder / RUN)
    store.save_generated(hostile_recording(200), folder / RUN)
    store.save_generated(recording(900, sample(JAPANESE, ENGLISH, 900)), folder / "generated")
    store.save(recording(100, sample(["▁Kate"], None, 100)), folder / "token")
    errors = {"alignment_error": {"cross": [[40.0, 50.0, 60.0], [55.0, 45.0, 35.0]]}}
    for made in map(translation, (100, 200)):
        store.save(replace(made, measures=made.measures | errors), folder / "aligned")
    many = tuple(Score("alignment_error", f"mean {place}", 20.0 + place, "cross", 0) for place in range(5))
    labels = {"cross": [["broad", "", ""], ["", "", "alignment"]]}
    store.save(replace(translation(100), scores=many, labels=labels), folder / "scored")
    for step in range(30):
        texts = (sample(text, None, step, layers=1, heads=2, name=name) for name, text in PROBES.items())
        labels = {"decoder": [["", "induction" if step >= BORN else ""]]}
        store.save(replace(recording(step, *texts), labels=labels), folder / "probes")
    store.save(Recording(100, (), {"entropy": {"cross": [[1.0, 0.5]]}}, {}, PRONOUNS), folder / "scores")
    return folder


@pytest.fixture(scope="session")
def server(logdir: Path) -> Iterator[str]:
    """Return the URL of a TensorBoard for `logdir`."""
    with serving("--logdir", logdir) as address:
        yield address


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """Return a headless browser; skip the tests if none is installed."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
    chromedriver = shutil.which("chromedriver")
    if not browser or not chromedriver:
        pytest.skip("no Chromium with chromedriver is installed: `make browser` installs both")
    options = ChromeOptions()
    options.binary_location = browser
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--lang=en",
        "--window-size=1300,900",
        "--force-device-scale-factor=1",
        "--disable-ipc-flooding-protection",  # tests follow more than 200 links in ten seconds
        f"--user-data-dir={tmp_path_factory.mktemp('browser')}",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = Chrome(options=options, service=Service(chromedriver))
    started.set_script_timeout(WAIT)
    yield started
    started.quit()


@pytest.fixture(scope="session")
def opened(driver: Chrome, server: str) -> Page:
    """Open the tab once for all tests."""
    page = Page(driver, server)
    page.load(run="translation")
    return page


@pytest.fixture
def page(opened: Page) -> Iterator[Page]:
    """Return the open tab, whose state a test selects with `show`; fail if a script error occurred."""
    yield from without_script_errors(opened, run="translation")


def without_script_errors(page: Page, **state: object) -> Iterator[Page]:
    """Yield the open tab, loaded with a state if the browser has left it; fail if a script error occurred."""
    page.open()
    if not page.driver.current_url.startswith(page.address):
        page.load(**state)
    page.enter()
    page.driver.get_log("browser")
    yield page
    failed = [entry["message"] for entry in page.driver.get_log("browser") if "Uncaught" in entry["message"]]
    assert not failed


Open = Callable[[Path], Page]


@pytest.fixture
def open_folder(driver: Chrome) -> Iterator[Open]:
    """Return `open_folder(path)`, which opens the tab of another TensorBoard for a log directory in the same
    browser."""
    with contextlib.ExitStack() as stack:
        yield lambda folder: Page(driver, stack.enter_context(serving("--logdir", folder)))


@pytest.fixture(scope="session")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the download folder of the browser."""
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="session")
def views_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the URL of a TensorBoard for runs with gold links and antecedents, and one without."""
    folder = tmp_path_factory.mktemp("views")
    flat = known.heads_of([[1 / 8] * 7] * 7)
    store.save(Recording(100, (known.translation(flat),)), folder / "translation")
    store.save(Recording(200, (known.translation(known.heads_of(known.CROSS)),)), folder / "translation")
    stories = (known.story(), known.story(known.SHE_WRONG), known.story(mentions=()))
    store.save(Recording(100, stories, parts=known.PARTS), folder / "gpt")
    rounded = replace(known.story(), logits=known.story().logits - np.float16(0.04))
    store.save(Recording(100, (rounded,), parts=known.PARTS), folder / "rounded")
    store.save(Recording(100, (known.answer(),), parts=known.PARTS), folder / "answer")
    store.save(Recording(100, (known.changed(),), parts=known.PARTS), folder / "changed")
    for step in known.HISTORY:
        store.save(known.remembered(step), folder / "history")
    for step in known.EVALUATED:
        store.save(known.evaluated(step), folder / "evaluated")
    store.save(known.probe(), folder / "probe")
    plain = known.translation(known.heads_of(known.CROSS), gold=False)
    plain.norms.clear()
    store.save(Recording(200, (plain,)), folder / "older")
    with serving("--logdir", folder) as address:
        yield address


@pytest.fixture(scope="session")
def opened_views(driver: Chrome, views_server: str, downloads: Path) -> Iterator[Page]:
    """Open the tab for these runs."""
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)})
    permissions = {"origin": views_server, "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    driver.execute_cdp_cmd("Browser.grantPermissions", permissions)
    page = Page(driver, views_server)
    page.load(**known.TRANSLATION)
    yield page
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "default"})


@pytest.fixture
def views(opened_views: Page) -> Iterator[Page]:
    """Return the open tab; fail if a script error occurred."""
    yield from without_script_errors(opened_views, **known.TRANSLATION)


@pytest.fixture(scope="session")
def asked_runs(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log directory with the two runs; the GPT also has a model of step 4 that is certain of everything."""
    folder = tmp_path_factory.mktemp("asked") / "runs"
    shutil.copytree(trained / "runs", folder, symlinks=True)
    save_scaled(folder / "gpt" / "checkpoints", 4, CERTAIN)
    mark_answer(folder / "gpt")
    return folder


@pytest.fixture(scope="session")
def opened_runs(driver: Chrome, asked_runs: Path) -> Iterator[Page]:
    """Open the tab for these runs."""
    with serving("--logdir", asked_runs) as address:
        page = Page(driver, address)
        page.load(run="gpt")
        yield page


@pytest.fixture
def runs(opened_runs: Page) -> Iterator[Page]:
    """Return the open tab; fail if a script error occurred."""
    for page in without_script_errors(opened_runs):
        page.load(run="gpt", view="ask")
        yield page
