"""Read JSON that a page posts: only pages of the same origin may, and only a little."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Request

from attention_maps.files.errors import Refusal

LARGEST = 32_768  # bytes


class Foreign(Refusal):
    """A request of a page of another origin."""

    code = 403


class WrongType(Refusal):
    """A request whose content is not JSON."""

    code = 415


class TooLarge(Refusal):
    """A request with too much content, or of unknown length."""

    code = 413


def posted_json(request: Request) -> dict[str, Any]:
    """Return the JSON object that a request contains. Raises Refusal.

    A page of another origin cannot send `application/json` without asking first, which is never allowed. Browsers say
    in Sec-Fetch-Site, or in Origin, where a request comes from; programs need not.
    """
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    # Sec-Fetch-Site decides: behind a proxy, the host may differ from that in Origin.
    same = site in ("same-origin", "none") if site else origin is None or _host(origin) == request.host
    if not same:
        raise Foreign("only the page of this TensorBoard may ask")
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


def _host(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)
