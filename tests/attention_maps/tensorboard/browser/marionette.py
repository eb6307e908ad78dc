"""Drive Firefox without geckodriver: Selenium's commands, sent in Firefox's own protocol, Marionette.

Distributions package geckodriver rarely, and its releases are downloads. It only translates: Marionette's commands have
the names and parameters of WebDriver, as JSON messages over TCP.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from selenium.webdriver import FirefoxOptions, Remote

START = 60.0  # seconds
PREFERENCES = {
    "app.update.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "dom.disable_open_during_load": False,
    "intl.accept_languages": "en",
    "marionette.port": 0,  # a free one, chosen by Firefox
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "remote.prefs.recommended": True,
}
COMMANDS = {
    "newSession": "WebDriver:NewSession",
    "quit": "Marionette:Quit",
    "get": "WebDriver:Navigate",
    "getCurrentUrl": "WebDriver:GetCurrentURL",
    "setTimeouts": "WebDriver:SetTimeouts",
    "setWindowRect": "WebDriver:SetWindowRect",
    "switchToFrame": "WebDriver:SwitchToFrame",
    "findElement": "WebDriver:FindElement",
    "findElements": "WebDriver:FindElements",
    "findChildElement": "WebDriver:FindElement",
    "findChildElements": "WebDriver:FindElements",
    "w3cGetActiveElement": "WebDriver:GetActiveElement",
    "w3cExecuteScript": "WebDriver:ExecuteScript",
    "w3cExecuteScriptAsync": "WebDriver:ExecuteAsyncScript",
    "clickElement": "WebDriver:ElementClick",
    "sendKeysToElement": "WebDriver:ElementSendKeys",
    "getElementText": "WebDriver:GetElementText",
    "getElementTagName": "WebDriver:GetElementTagName",
    "getElementRect": "WebDriver:GetElementRect",
    "getElementProperty": "WebDriver:GetElementProperty",
    "getElementValueOfCssProperty": "WebDriver:GetElementCSSValue",
    "actions": "WebDriver:PerformActions",
    "clearActionState": "WebDriver:ReleaseActions",
    "screenshot": "WebDriver:TakeScreenshot",
}
"""Selenium's name of each command that the tests use -> Marionette's."""


class Marionette:
    """The connection of a Selenium driver to a Firefox that listens on a port."""

    def __init__(self, port: int) -> None:
        """Connect and read the greeting."""
        self.stream = socket.create_connection(("127.0.0.1", port), timeout=START).makefile("rwb")
        self.sent = 0
        self._receive()

    def execute(self, command: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a command and return the answer in the form that Selenium expects of a server."""
        self.sent += 1
        message = json.dumps([0, self.sent, COMMANDS[command], _parameters(command, dict(params))]).encode()
        self.stream.write(b"%d:%s" % (len(message), message))
        self.stream.flush()
        _, _, error, result = self._receive()
        if error:
            return {"status": 500, "value": json.dumps({"value": error})}
        is_value = isinstance(result, dict) and result.keys() == {"value"}
        return {"value": result["value"] if is_value else result}

    def _receive(self) -> Any:
        length = b""
        while (byte := self.stream.read(1)) != b":":
            assert byte, "Firefox closed the connection"
            length += byte
        return json.loads(self.stream.read(int(length)))


def _parameters(command: str, parameters: dict[str, Any]) -> dict[str, Any]:
    parameters.pop("sessionId", None)
    if command == "newSession":
        return {"acceptInsecureCerts": True}
    if command == "quit":
        return {"flags": ["eForceQuit"]}
    if command.startswith("findChild"):
        parameters["element"] = parameters.pop("id")
    if command == "switchToFrame" and isinstance(parameters["id"], dict):
        (parameters["element"],) = parameters.pop("id").values()
    return parameters


@contextlib.contextmanager
def firefox(program: str, profile: Path) -> Iterator[Remote]:
    """Start a headless Firefox and yield its driver."""
    lines = [f"user_pref({json.dumps(key)}, {json.dumps(value)});" for key, value in PREFERENCES.items()]
    (profile / "user.js").write_text("\n".join(lines))
    process = subprocess.Popen(
        [program, "--headless", "--marionette", "--no-remote", "--profile", str(profile)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield Remote(_connected(profile, process), options=FirefoxOptions())
    finally:
        process.terminate()
        process.wait(timeout=30)


def _connected(profile: Path, process: subprocess.Popen[bytes]) -> Marionette:
    active = profile / "MarionetteActivePort"  # written once Firefox, 95 or later, listens
    deadline = time.monotonic() + START
    while not (active.exists() and (port := active.read_text())):
        assert process.poll() is None, "Firefox ended"
        assert time.monotonic() < deadline, "Firefox did not start"
        time.sleep(0.1)
    return Marionette(int(port))
