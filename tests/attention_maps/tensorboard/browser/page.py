"""Operate the tab in a browser."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from selenium.webdriver import ActionChains, Chrome, Remote
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

WAIT = 60.0
"""Seconds, as many as a new process may take to answer its first question (FIRST_LIMIT)."""
POLL = 0.05
"""Seconds between two looks; Selenium would look every half second, and most of what tests wait for takes less."""
READY = "return Boolean(document.querySelector('.page:not([hidden])[aria-busy=false]'))"
"""The page is hidden until the list of runs is read; before, a drawing of nothing ends at once."""

RELOAD = """
    history.replaceState(history.state, '', arguments[0]);
    const frame = document.querySelector('iframe').contentWindow;
    frame.old = true;
    frame.location.reload();
"""
"""Script that loads the tab anew, in the TensorBoard around it."""


class Page:
    """The Attention tab in a browser, operated as by a user."""

    def __init__(self, driver: Chrome | Remote, address: str) -> None:
        """Store driver and URL without opening the page."""
        self.driver = driver
        self.address = address

    def load(self, hash: str = "", /, **state: Any) -> None:
        """Load TensorBoard with the given URL hash, or the tab with a state: only its frame if TensorBoard is open."""
        self.open()
        if not hash and self.driver.current_url.startswith(self.address):
            self.driver.execute_script(RELOAD, link(state))
            self.wait("return !document.querySelector('iframe').contentWindow.old")
        else:
            self.driver.get("about:blank")
            self.driver.get(f"{self.address}{hash or link(state)}")
        self.enter()
        self.wait(READY)

    def open(self) -> None:
        """Switch to TensorBoard's own page."""
        self.driver.switch_to.default_content()

    def enter(self) -> None:
        """Switch to the frame of the tab."""
        self.open()
        waiting = WebDriverWait(self.driver, WAIT, POLL)
        frame = waiting.until(lambda driver: driver.find_elements("css selector", "iframe"))[0]
        self.driver.switch_to.frame(frame)

    def show(self, **state: Any) -> None:
        """Follow a link while the page is open, and wait until everything is drawn. The link is followed again if the
        page overwrites it with that of its current view before it has noticed the change."""
        self.driver.execute_async_script(
            """
            const [hash, done] = arguments;
            const look = () => document.querySelector('.page').getAttribute('aria-busy') === 'true' ? setTimeout(look, 10) : done();
            if (parent.location.hash === hash) return look();
            const lost = () => {
              const present = new URLSearchParams(parent.location.hash.slice(1));
              return [...new URLSearchParams(hash.slice(1))].some(([name, value]) => present.get(name) !== value);
            };
            const follow = (again) => {
              parent.addEventListener('hashchange', () => lost() && again ? follow(false) : setTimeout(look), {once: true});
              parent.location.hash = hash;
            };
            follow(true);
            """,  # noqa: E501
            link(state),
        )

    def hold(self, route: str) -> None:
        """Let the answers of a route of the plugin wait for `release`."""
        self.driver.execute_script(
            """
            const [route] = arguments;
            const real = window.fetch;
            const held = new Promise((done) => {
              window.release = () => {
                window.fetch = real;
                done();
              };
            });
            window.fetch = async (address, ...options) => {
              const answer = await real(address, ...options);
              if (address === route || address.startsWith(`${route}?`)) await held;
              return answer;
            };
            """,
            route,
        )

    def release(self) -> None:
        """Deliver the answers that were held, and wait until the page has read them."""
        self.driver.execute_async_script("window.release(); setTimeout(arguments[0], 300)")
        self.settle()

    def wait(self, script: str, seconds: float = WAIT) -> Any:
        """Wait until a script returns a true value, and return it."""
        return WebDriverWait(self.driver, seconds, POLL).until(lambda driver: driver.execute_script(script), script)

    def settle(self) -> None:
        """Wait until everything is drawn."""
        self.wait(READY)

    def find(self, selector: str) -> WebElement:
        """Return the first element that matches a selector."""
        return self.driver.find_element("css selector", selector)

    def text(self, selector: str) -> str:
        """Return the text of an element."""
        return self.find(selector).text

    def texts(self, selector: str) -> list[str]:
        """Return the text of each element that matches a selector."""
        return [element.text for element in self.driver.find_elements("css selector", selector)]

    def attributes(self, selector: str, name: str) -> list[str | None]:
        """Return an attribute of each element that matches a selector."""
        return [element.get_attribute(name) for element in self.driver.find_elements("css selector", selector)]

    def click(self, selector: str) -> None:
        """Click an element and wait until the page is drawn again."""
        self.find(selector).click()
        self.settle()

    def press(self, *keys: str) -> None:
        """Press keys one after another, with no element focused."""
        self.find("footer").click()
        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()
            self.settle()

    def choose(self, label: str, text: str) -> None:
        """Select an entry of the list with a label: a drop-down list, or a button that opens a list with a filter."""
        field = self.find(f"#{self.labelled(label)}")
        if field.tag_name == "select":
            field.find_element("xpath", f".//option[.='{text}']").click()
        else:
            field.click()
            self.find(f"dialog[open] .list-entry[title={json.dumps(text)}]").click()
        self.settle()

    def labelled(self, label: str) -> str:
        """Return the id of the control with this label."""
        identifier: str = self.driver.find_element("xpath", f"//label[.='{label}']").get_attribute("for") or ""
        return identifier

    def picture(self, selector: str) -> str:
        """Return the pixels of a canvas as a data URL."""
        drawn: str = self.driver.execute_script("return document.querySelector(arguments[0]).toDataURL()", selector)
        return drawn

    def colours(self, selector: str) -> set[str]:
        """Return the colours of a canvas as r,g,b."""
        script = """
            const {width, height} = document.querySelector(arguments[0]);
            const {data} = document.querySelector(arguments[0]).getContext('2d').getImageData(0, 0, width, height);
            const found = new Set();
            for (let i = 0; i < data.length; i += 4) if (data[i + 3] === 255) found.add(data.slice(i, i + 3).join());
            return [...found];
        """
        return set(self.driver.execute_script(script, selector))

    def hover(self, selector: str, x: float, y: float) -> list[str]:
        """Hover over a point of an element, in pixels from its upper left corner, and return the lines of the
        tooltip."""
        element = self.find(selector)
        width, height = element.rect["width"], element.rect["height"]
        ActionChains(self.driver, duration=0).move_to_element_with_offset(
            element, round(x - width / 2), round(y - height / 2)
        ).perform()
        return self.texts(".tooltip:not([hidden]) > div")

    @property
    def hash(self) -> str:
        """Return the decoded URL hash of TensorBoard."""
        fragment: str = self.driver.execute_script("return decodeURIComponent(parent.location.hash)")
        return fragment


def link(state: dict[str, Any]) -> str:
    """Return the URL hash of a state: #attention&p.attention.layer=5, in the view `map`, with no word selected, unless
    another one is named."""
    state = {"view": "map", "token": ""} | state
    values = {
        f"p.attention.{key}": str(value).lower() if isinstance(value, bool) else value for key, value in state.items()
    }
    return f"#attention&{urlencode(values)}"


def token(name: str) -> str:
    """Return the selector of a token: r3 is the fourth row, c0 the first column."""
    return f".token[data-token={name}]"


def numbers(page: Page) -> dict[str, str]:
    """Return the numbers at each token that has numbers, concatenated for several heads."""
    elements = page.driver.find_elements("css selector", ".token-numbers:not(:empty)")
    tokens = [element.find_element("xpath", "..").get_attribute("data-token") or "" for element in elements]
    return {token: " ".join(element.text.split()) for token, element in zip(tokens, elements, strict=True)}


def slide(page: Page, label: str, *keys: str) -> None:
    """Move the slider whose accessible name begins with `label`."""
    page.find(f"input[type=range][aria-label^='{label}']").send_keys(*keys)
    page.settle()


def wait_for(page: Page, selector: str, text: str, seconds: float = WAIT) -> None:
    """Wait until an element shows a text."""
    page.wait(f"return document.querySelector({selector!r})?.textContent.includes({text!r})", seconds)
