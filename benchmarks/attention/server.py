"""TensorBoard with the Attention tab as a process, requested like a browser."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT
from configs.errors import UserError

PLUGIN = "/data/plugin/attention/"


@dataclass(frozen=True)
class Server:
    """A running TensorBoard."""

    port: int
    process: subprocess.Popen

    def get(self, route: str) -> bytes:
        """Request a route of the Attention tab, or an absolute path -> the content, which may be compressed. Raises
        UserError unless the status is 200, OSError if nothing responds."""
        return self._sent("GET", route)

    def post(self, route: str, question: Mapping[str, object]) -> Any:
        """Post JSON to a route of the Attention tab and parse the response. Raises like `get`."""
        return parsed(self._sent("POST", route, json.dumps(question)))

    def _sent(self, method: str, route: str, body: str | None = None) -> bytes:
        connection = http.client.HTTPConnection("localhost", self.port, timeout=300)
        headers = {"Accept-Encoding": "gzip"} | ({} if body is None else {"Content-Type": "application/json"})
        try:
            path = route if route.startswith("/") else PLUGIN + route
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if answer.status != 200:
            raise UserError(f"{route}: {answer.status} {content!r}")
        return content

    def json(self, route: str) -> Any:
        """Request a route and parse the response."""
        return parsed(self.get(route))

    def megabytes(self) -> dict[str, float]:
        """Return the resident memory of TensorBoard, and of its data server if it has one, in MB."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        found = {"TensorBoard": resident(self.process.pid)}
        return found | ({"its data server": sum(map(resident, map(int, children)))} if children else {})


def parsed(content: bytes) -> Any:
    """Parse JSON, which may be compressed."""
    return json.loads(gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content)


@contextmanager
def serving(folder: Path, *flags: str, wait_for: str = "index") -> Iterator[Server]:
    """Run TensorBoard on a folder, from the first response to the route `wait_for`."""
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "attention_maps.tensorboard", "--logdir", str(folder), "--port", str(port), *flags]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        server = Server(port, process)
        wait_until_ready(server, wait_for)
        yield server
    finally:
        process.terminate()
        process.wait()


def wait_until_ready(server: Server, route: str) -> None:
    """Wait until TensorBoard responds. Raises UserError if it exits or does not respond within 60 seconds."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if server.process.poll() is not None:
            raise UserError(f"TensorBoard ended with exit code {server.process.returncode}")
        try:
            server.get(route)
            return
        except OSError:
            time.sleep(0.02)
    raise UserError("TensorBoard did not respond within 60 seconds")


def resident(process: int) -> float:
    """Return the resident memory of a process in MB."""
    (line,) = (one for one in Path(f"/proc/{process}/status").read_text().splitlines() if one.startswith("VmRSS:"))
    return int(line.split()[1]) / 1000
