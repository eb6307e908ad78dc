"""Fixtures: both browsers, with the modules of the engine and files of a test."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from selenium.webdriver.remote.webdriver import WebDriver

from tests.attention_maps.tensorboard.browser import marionette
from tests.attention_maps.tensorboard.browser.conftest import driver as chromium_driver
from tests.conftest import ROOT

ENGINE = ROOT / "page" / "engine"
LONGEST = 300
"""Seconds until a call in the browser fails."""

driver = chromium_driver

RUN = """
const [body, values, done] = arguments;
const call = new (Object.getPrototypeOf(async function () {}).constructor)('values', body);
call(values).then((result) => done({result}), (error) => done({error: `${error}\\n${error.stack ?? ''}`}));
"""


class Browser:
    """A browser with an empty page of a server, which serves the engine below `/engine/` and `files` below
    `/files/`."""

    def __init__(self, driver: WebDriver, address: str, files: Path) -> None:
        self.driver, self.address, self.files = driver, address, files

    def run(self, body: str, *values: Any) -> Any:
        """Return what the body of an async function returns in the browser, as JSON; `values` are its arguments.

        For example: `browser.run("const {sum} = await import('/engine/x.js'); return sum(values[0])", [1, 2])`
        """
        if not self.driver.current_url.startswith(self.address):
            self.driver.get(f"{self.address}/files/")
            self.driver.set_script_timeout(LONGEST)
        answer = self.driver.execute_async_script(RUN, body, values)
        assert "error" not in answer, answer["error"]
        return answer["result"]


class Handler(SimpleHTTPRequestHandler):
    """Serves two folders."""

    def __init__(self, *arguments: Any, files: Path, **named: Any) -> None:
        self.files = files
        super().__init__(*arguments, **named)

    def translate_path(self, path: str) -> str:
        """Return the file of an address."""
        room, _, rest = path.partition("?")[0].lstrip("/").partition("/")
        return str({"engine": ENGINE, "files": self.files}.get(room, self.files) / rest)

    def log_message(self, *_: Any) -> None:
        """Write nothing."""


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Return the address of the server, and the folder of its files."""
    files = tmp_path_factory.mktemp("files")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, files=files))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", files
    server.shutdown()


@pytest.fixture(scope="session")
def chromium(driver: WebDriver, served: tuple[str, Path]) -> Browser:
    """Return Chromium."""
    return Browser(driver, *served)


@pytest.fixture(scope="session")
def firefox(served: tuple[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Return Firefox; skip the tests if it is not installed."""
    program = next(filter(None, map(shutil.which, ("firefox-esr", "firefox"))), None)
    if not program:
        pytest.skip("no Firefox is installed: `make browser` installs it")
    with marionette.firefox(program, tmp_path_factory.mktemp("firefox")) as driver:
        yield Browser(driver, *served)


@pytest.fixture(params=["chromium", "firefox"])
def browser(request: pytest.FixtureRequest) -> Browser:
    """Return each of the two browsers."""
    browser: Browser = request.getfixturevalue(request.param)
    return browser
