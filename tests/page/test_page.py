"""`export.py format=page`: one file, opened from disk, in which the models of two runs are asked."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlencode

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.support.wait import WebDriverWait

from configs.errors import UserError
from interop.settings import ExportSettings, parse_settings
from page.export import write_page
from tab_answers.answer import answer
from tab_answers.model_cache import Models
from tab_answers.question import Question, read_question
from tests.attention_maps.tensorboard.browser import marionette
from tests.attention_maps.tensorboard.browser.conftest import driver as chromium_driver
from tests.attention_maps.tensorboard.browser.page import POLL, WAIT
from tests.conftest import Run as Program

driver = chromium_driver

ATTACK = "</script><img src=x onerror=window.attack=1>"
PROMPT = "Ken was sick. Emi helped him."
NEXT = """
return [...document.querySelectorAll('.ask-view table tr')]
  .map((row) => [...row.cells].map((cell) => cell.textContent)).filter((cells) => cells.length === 2);
"""

WATCH = """
const lines = document.querySelector('.ask-writing');
const stops = arguments[0];
window.seen = [];
window.watching?.disconnect();
window.watching = new MutationObserver(() => {
  const text = lines.querySelector('q')?.textContent;
  if (text !== undefined && !lines.hidden) window.seen.push(text);
  if (stops && window.seen.length === 2) document.querySelector('.ask-stop').click();
});
window.watching.observe(lines, {childList: true, subtree: true});
"""
"""Script that keeps each text that is shown while it is written, and presses *stop* at the second one."""

HOLD = """
window.held = null;
window.workers = [];
Object.defineProperty(Worker.prototype, 'onmessage', {
  set(receive) {
    window.workers.push(this);
    this.addEventListener('message', (event) => {
      if (window.held && event.data.answer?.recordings) window.held.push(() => receive(event));
      else receive(event);
    });
  },
});
"""
"""Script that keeps back the recordings of answers as long as `held` is a list: they come when its functions are
called."""

FETCH = """
const [address, done] = arguments;
fetch(address).then(() => done('answered'), () => done('refused'));
"""


def saved(trained: Path, to: Path, *tasks: str, **settings: Any) -> Path:
    """Write the page of some runs."""
    runs = [(trained / "runs" / task, "best") for task in tasks]
    write_page(runs, to, ExportSettings(to=str(to), format="page", **settings))
    return to


@pytest.fixture(scope="module")
def page(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of both runs, with texts that are HTML."""
    folder = tmp_path_factory.mktemp("page")
    return saved(trained, folder / "x.html", "gpt", "translate", licence=ATTACK, title=ATTACK)


@pytest.fixture(scope="module", params=["chromium", "firefox"])
def browser(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebDriver]:
    """Return each of the two browsers."""
    if request.param == "chromium":
        yield request.getfixturevalue("driver")
        return
    program = next(filter(None, map(shutil.which, ("firefox-esr", "firefox"))), None)
    if not program:
        pytest.skip("no Firefox is installed: `make browser` installs it")
    with marionette.firefox(program, tmp_path_factory.mktemp("firefox")) as firefox:
        yield firefox


@pytest.fixture
def listener() -> Iterator[tuple[str, list[str]]]:
    """Return the address of a server that any page may read, and the list of the paths that are requested of it."""
    reached: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            reached.append(self.path)
            self.send_response(200)
            self.send_header("Access-Control-Allow-Origin", "*")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/", reached
    server.shutdown()


def wait(browser: WebDriver, script: str) -> None:
    """Wait until a script returns a true value."""
    WebDriverWait(browser, WAIT, POLL).until(lambda _: browser.execute_script(script))


def opened(browser: WebDriver, page: Path, **state: object) -> None:
    """Open the page in a state, and wait until it is drawn."""
    browser.get("about:blank")
    browser.get(f"{page.as_uri()}#attention&{urlencode({f'p.attention.{key}': value for key, value in state.items()})}")
    wait(browser, "return document.querySelector('.page')?.getAttribute('aria-busy') === 'false'")


def type_in(browser: WebDriver, text: str) -> None:
    """Replace the text in the form of the view Ask, as if it were typed, and remove the translation beside it."""
    browser.execute_script(
        "document.querySelectorAll('.ask-form textarea').forEach((area, place) => {"
        " area.value = place ? '' : arguments[0]; area.dispatchEvent(new Event('input')); })",
        text,
    )


def ask(browser: WebDriver, text: str) -> list[list[str]]:
    """Ask in the view Ask -> the next tokens and their probabilities, as the table shows them."""
    type_in(browser, text)
    before = browser.execute_script("return location.hash")
    browser.find_element(By.CSS_SELECTOR, ".ask-send").click()
    wait(browser, f"return location.hash !== {json.dumps(before)}")
    wait(browser, "return document.querySelector('.page').getAttribute('aria-busy') === 'false'")
    wait(browser, NEXT.replace("return", "return 0 <", 1).rstrip().rstrip(";") + ".length;")
    rows: list[list[str]] = browser.execute_script(NEXT)
    return rows[1:]


def test_the_model_in_the_page_answers_as_the_tab_does(
    browser: WebDriver, page: Path, trained: Path, tmp_path: Path
) -> None:
    """Guards against a page whose model is another one: tokens, weights or rounding."""
    opened(browser, page, run="gpt", view="ask")
    shown = ask(browser, PROMPT)
    asked = {"run": str(trained / "runs" / "gpt"), "text": PROMPT, "to": str(tmp_path / "x.safetensors")}
    question = read_question(json.dumps(asked))
    assert isinstance(question, Question)
    rows = answer(question, Models())["next"][-1]
    expected = [probability for _, _, probability, _ in rows]
    given = [float(cells[1].removesuffix(" %")) / 100 for cells in shown]
    assert given == pytest.approx(expected[: len(given)], abs=6e-3)  # shown in percent, of weights in float16


def test_a_translator_translates_and_shows_its_heads(browser: WebDriver, page: Path) -> None:
    """Guards against a page that only knows GPTs, and against a worker that does not know the second run."""
    opened(browser, page, run="translate", view="ask")
    type_in(browser, "Ken ran.")
    browser.find_element(By.CSS_SELECTOR, ".ask-send").click()
    wait(browser, "return location.hash.includes('asked_')")
    wait(browser, "return document.querySelector('.ask-view').textContent.includes('translates')")
    opened_views = browser.execute_script(
        "return [...document.querySelectorAll('[role=tab]')].map((tab) => tab.textContent)"
    )
    assert {"Map", "Prediction", "Ask"} <= set(opened_views)


def test_a_text_is_shown_while_it_is_written_and_can_be_stopped(browser: WebDriver, page: Path) -> None:
    """Guards against a page that seems to hang while it writes, and one that answers nothing after it was stopped."""
    opened(browser, page, run="gpt", view="ask", temperature=1, seed=3)
    wait(browser, "return document.querySelector('.ask-status').textContent.startsWith('Asked automatically')")
    browser.execute_script("document.querySelector(\"input[aria-label='tokens to write']\").value = 12")
    browser.execute_script(WATCH, True)
    type_in(browser, "Ken")
    browser.find_element(By.CSS_SELECTOR, ".ask-send").click()
    wait(browser, "return document.querySelector('.ask-status').textContent.startsWith('Stopped')")
    assert len(browser.execute_script("return window.seen")) == 2
    assert browser.execute_script("return document.querySelector('.ask-writing').hidden")
    assert "asked_" not in browser.execute_script("return location.hash")
    browser.execute_script(WATCH, False)
    ask(browser, "Ken")
    wait(browser, "return document.querySelector('.ask-written q')")
    seen = browser.execute_script("return window.seen")
    (written,) = browser.execute_script(
        "return [...document.querySelectorAll('.ask-answer .ask-written q')].map((quote) => quote.textContent)"
    )
    assert len(seen) > 2
    assert seen[-1] == written
    assert browser.execute_script("return document.querySelector('.ask-writing').hidden")
    assert "(temperature 1, seed 3)" in browser.find_element(By.CSS_SELECTOR, ".ask-answer .ask-written").text


def test_an_answer_is_shown_before_its_maps(browser: WebDriver, page: Path) -> None:
    """Guards against a page that shows nothing, or says that all views show the maps, while it computes them, and one
    that cannot be used any more if they fail."""
    opened(browser, page, run="gpt", view="map")
    browser.execute_script(HOLD)
    browser.execute_script("location.hash = location.hash.replace('view=map', 'view=ask')")
    status = "return document.querySelector('.ask-status').textContent"
    wait(browser, f"{status}.startsWith('Asked automatically')")

    def asked(text: str) -> None:
        browser.execute_script("window.held = []")
        type_in(browser, text)
        browser.find_element(By.CSS_SELECTOR, ".ask-send").click()
        wait(browser, f"{status}.startsWith('Answered; its maps are still computed')")
        wait(browser, "return held.length")

    def shown() -> tuple[str, bool]:
        title = browser.find_element(By.CSS_SELECTOR, ".ask-answer h3").text
        return title.partition(":")[0], "asked_" in browser.execute_script("return location.hash")

    asked("Ken ran.")
    assert shown() == ("question 2", False)
    assert browser.execute_script("return document.querySelector('.page').getAttribute('aria-busy')") == "false"
    browser.execute_script("held.forEach((receive) => receive())")
    wait(browser, f"{status} === 'question 2 is answered: all views show its maps.'")
    wait(browser, "return document.querySelector('.page').getAttribute('aria-busy') === 'false'")
    assert shown() == ("question 2", True)
    asked("Emi ran.")
    assert shown() == ("question 3", True)
    browser.execute_script("workers.at(-1).onerror(new ErrorEvent('error', {message: 'no memory', cancelable: true}))")
    wait(browser, f"{status} === 'the maps of question 3 could not be computed: ask again'")
    wait(browser, "return document.querySelector('.ask-answer h3').textContent.startsWith('question 2:')")
    browser.execute_script("window.held = null")
    ask(browser, PROMPT)
    wait(browser, f"{status} === 'question 4 is answered: all views show its maps.'")


def test_nothing_leaves_the_page_and_no_text_runs_in_it(
    browser: WebDriver, page: Path, listener: tuple[str, list[str]]
) -> None:
    """Guards against a request, which the policy forbids and would report, and against HTML in names and questions."""
    address, reached = listener
    opened(browser, page, run="gpt", view="ask")
    browser.execute_script("addEventListener('securitypolicyviolation', () => { window.violated = true; });")
    ask(browser, ATTACK)
    for view in ("map", "sentence", "prediction", "story", "curves"):
        browser.execute_script(f"location.hash = location.hash.replace(/view=\\w+/, 'view={view}')")
        wait(browser, "return document.querySelector('.page').getAttribute('aria-busy') === 'false'")
    browser.execute_script("document.querySelector('.about').open = true")
    assert ATTACK in browser.find_element(By.CSS_SELECTOR, ".about").text
    said = [line.text for line in browser.find_elements(By.CSS_SELECTOR, ".about dt")]
    assert said == ["Title", "Model", "Data", "Trained by", "Exported", "Licence"]
    assert browser.execute_script("return window.attack ?? null") is None
    assert browser.execute_script("return window.violated ?? null") is None
    assert browser.execute_async_script(FETCH, address) == "refused"
    assert reached == []
    loaded = browser.execute_script("return performance.getEntriesByType('resource').map(({name}) => name.slice(0, 5))")
    assert set(loaded) <= {"data:", "blob:"}


def test_a_page_has_the_chosen_checkpoints_and_steps(trained: Path, tmp_path: Path, program: Program) -> None:
    """Guards against a command that says one thing and writes another."""
    run, to = trained / "runs" / "gpt", tmp_path / "page.html"
    command = (f"run={run}", f"to={to}", "format=page", "checkpoints=2", "steps=1", "weights=bf16")
    done = program("export.py", *command)
    assert done.returncode == 0, done.stderr
    assert f"{to}: {to.stat().st_size / 1e6:.1f} MB" in done.stdout
    assert "in bf16; recordings of step 6" in done.stdout
    again = program("export.py", *command)
    assert again.returncode == 2
    assert "exists already" in again.stderr


def test_wrong_settings_of_a_page_are_named(trained: Path, tmp_path: Path) -> None:
    """Guards against a page with the name of a folder, and settings of a page that other formats ignore."""
    for arguments, message in (
        (["to=x", "format=page"], "a page is one file"),
        (["to=x.html", "format=page", "steps=0"], "steps=0: must be at least 1"),
        (["to=x", "licence=MIT"], "licence=MIT: only for format=page"),
    ):
        with pytest.raises(UserError, match=message):
            parse_settings(["run=runs/x", *arguments])
    shutil.copytree(trained / "runs" / "gpt", tmp_path / "gpt", symlinks=True)
    settings = ExportSettings(to="x.html", format="page")
    with pytest.raises(UserError, match="two runs are called gpt"):
        write_page([(trained / "runs" / "gpt", "best"), (tmp_path / "gpt", "best")], tmp_path / "x.html", settings)
    shutil.rmtree(tmp_path / "gpt" / "attention")
    with pytest.raises(UserError, match="no attention recordings"):
        write_page([(tmp_path / "gpt", "best")], tmp_path / "x.html", settings)
    assert not (tmp_path / "x.html").exists()
