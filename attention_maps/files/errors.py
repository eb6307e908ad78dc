"""Define request errors: the message is one sentence, `code` the HTTP status."""

from __future__ import annotations


class Refusal(Exception):
    """An invalid request."""

    code = 400


class NotThere(Refusal):
    """The requested resource does not exist or was removed."""

    code = 404


class Damaged(Refusal):
    """A file is not a complete, valid recording; the message states the defect."""

    code = 422
