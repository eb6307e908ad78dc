"""Read JSON that a page posts: only TensorBoard's own page may, and only a little."""

from __future__ import annotations

import functools
import ipaddress
import json
import socket
from typing import Any
from urllib.parse import SplitResult, urlsplit

from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Request

from attention_maps.files.errors import Refusal

LARGEST = 32_768  # bytes
RESERVED = (".localhost", ".local", ".internal", ".home.arpa")
"""Domains in which nobody can register a name."""


class Foreign(Refusal):
    """A request of a page of another origin."""

    code = 403


class WrongType(Refusal):
    """A request whose content is not JSON."""

    code = 415


class TooLarge(Refusal):
    """A request with too much content, or of unknown length."""

    code = 413


def posted_json(request: Request, name: str | None = None) -> dict[str, Any]:
    """Return the JSON object that a request contains; name: the one that `tensorboard --host` was given. Raises
    Refusal."""
    _check_origin(request, name)
    if request.mimetype != "application/json":
        raise WrongType("a question must be application/json")
    length = request.content_length
    if length is None or length > LARGEST:
        raise TooLarge(f"a question must have a length of at most {LARGEST:,} bytes")
    try:
        given = json.loads(request.get_data(cache=False).decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError, HTTPException) as error:
        raise Refusal("the question is not JSON") from error
    if not isinstance(given, dict):
        raise Refusal("the question is not a JSON object")
    return given


def _check_origin(request: Request, name: str | None) -> None:
    """Refuse the questions of other pages.

    A page of another origin cannot send `application/json` without asking first, which is never allowed. Browsers say
    in Sec-Fetch-Site, or in Origin, where a request comes from; programs need not.

    That does not stop DNS rebinding: a page of evil.example, whose name its owner then lets point to this machine, is
    of the same origin as TensorBoard under that name. So the name must be one that nobody else owns, unless the page
    came by https, for which somebody else's name has no certificate here.
    """
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    page = _split(f"//{request.host}" if origin is None else origin)
    # Sec-Fetch-Site decides: behind a proxy, the host may differ from that in Origin.
    if not (site in ("same-origin", "none") if site else origin is None or page.netloc == request.host):
        raise Foreign("only the page of this TensorBoard may ask")
    if page.scheme != "https" and not _is_ours(page.hostname or "", name):
        raise Foreign(
            f"questions are not answered under the name '{(page.hostname or '')[:80]}', which may belong to somebody"
            " else: open TensorBoard by an IP address, as localhost, or by https"
        )


def _is_ours(host: str, name: str | None) -> bool:
    """Whether a host name cannot be that of another site: an address, a name without a domain, a name of this machine
    or network, or the one that TensorBoard was started with."""
    try:
        ipaddress.ip_address(host)
        return True
    except ValueError:
        own = host == name or host.endswith(RESERVED) or "." not in host.removesuffix(".")
        return own or host in _machine_names()


@functools.cache
def _machine_names() -> frozenset[str]:
    """Return the names of this machine; looking up the full one may take seconds."""
    return frozenset(found.lower() for found in (socket.gethostname(), socket.getfqdn()))


def _split(address: str) -> SplitResult:
    try:
        found = urlsplit(address)
        found.hostname  # noqa: B018 (raises ValueError for some invalid addresses)
        return found
    except ValueError:
        return urlsplit("")


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)
