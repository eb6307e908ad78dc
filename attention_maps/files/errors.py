"""Why a request is not answered: the message is one sentence for people, `code` the HTTP status that goes with it."""

from __future__ import annotations


class Refusal(Exception):
    """A request that makes no sense."""

    code = 400


class NotThere(Refusal):
    """What is asked for does not exist, or does not exist any more."""

    code = 404


class Damaged(Refusal):
    """A file is not a whole recording; the message says what is wrong with it."""

    code = 422
