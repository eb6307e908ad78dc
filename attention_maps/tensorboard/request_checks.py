"""Access checks: requests must come from TensorBoard's own page, name this machine and be small."""

from __future__ import annotations

import functools
import ipaddress
import json
import os
import socket
from contextlib import suppress
from typing import Any
from urllib.parse import SplitResult, urlsplit

from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Request

from attention_maps.files.errors import Refusal

LARGEST = 32_768  # bytes
HOSTS = "ATTENTION_HOSTS"
"""Environment variable with further names under which the tab answers, separated by commas."""


def posted_json(request: Request) -> dict[str, Any]:
    """Return the JSON object that a request contains. Raises Refusal."""
    if request.mimetype != "application/json":
        raise Refusal("a question must be application/json", 415)
    length = request.content_length
    if length is None or length > LARGEST:
        raise Refusal(f"a question must have a length of at most {LARGEST:,} bytes", 413)
    try:
        question = json.loads(request.get_data(cache=False).decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError, HTTPException) as error:
        raise Refusal("the question is not JSON") from error
    if not isinstance(question, dict):
        raise Refusal("the question is not a JSON object")
    return question


def check_asker(request: Request, name: str | None = None) -> None:
    """Raise Refusal unless a request comes from TensorBoard's own page, or from a program, and names this machine.
    name: the one that `tensorboard --host` was given.

    Browsers say in Sec-Fetch-Site, or in Origin, where a request comes from; programs need not. A page of another
    origin could not read an answer, but keep this machine busy. It cannot post `application/json` without asking first,
    which is never allowed.

    A page of http://evil.example, whose owner then lets this name point here (DNS rebinding), is of the same origin as
    TensorBoard under that name. In a local network, any device can claim a name without dots, or one in .local or
    .home.arpa. So the only names are localhost, addresses, those of this machine, and those that the user lists; and
    any name under which the page came by https, for which somebody else's name has no certificate here (the proxies of
    notebooks). Sec-Fetch-Site says so, which browsers send only by https and to localhost, and Origin. Referer does
    not: a window that https://evil.example opens at http://evil.example names that page if it wants.
    """
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    # Sec-Fetch-Site decides: behind a proxy, the host may differ from that in Origin.
    if not (site in ("same-origin", "none") if site else origin is None or _split(origin).netloc == request.host):
        raise Refusal("only the page of this TensorBoard may ask", 403)
    host = (_split(f"//{request.host}").hostname or "").removesuffix(".")
    if host == "localhost" or host.endswith(".localhost"):
        return
    with suppress(ValueError):
        ipaddress.ip_address(host)
        return
    secure = site is not None or _split(origin or "").scheme == "https"
    listed = {listed.strip().lower() for listed in (name or "", *os.environ.get(HOSTS, "").split(","))} - {""}
    if not secure and host not in listed and host not in _machine_names():
        raise Refusal(
            f"the name '{host[:80]}' may belong to somebody else: open TensorBoard by an IP address or as localhost, or"
            f" start it with the environment variable {HOSTS}={host[:80]}",
            403,
        )


@functools.cache
def _machine_names() -> frozenset[str]:
    """Return the names of this machine; looking up the full one may take seconds."""
    return frozenset(name.lower() for name in (socket.gethostname(), socket.getfqdn()))


def _split(address: str) -> SplitResult:
    try:
        parts = urlsplit(address)
        parts.hostname  # noqa: B018 (raises ValueError for some invalid addresses)
        return parts
    except ValueError:
        return urlsplit("")


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)
