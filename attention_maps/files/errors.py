"""Errors of requests: the message is one sentence, `code` the HTTP status."""

from __future__ import annotations


class Refusal(Exception):
    """An invalid request."""

    code = 400


class NotThere(Refusal):
    """The requested thing does not exist, or no longer."""

    code = 404


class Damaged(Refusal):
    """A file is not a whole recording; the message says what is wrong with it."""

    code = 422
