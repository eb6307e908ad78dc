"""Define request errors: the message is one sentence, `code` the HTTP status."""

from __future__ import annotations


class Refusal(Exception):
    """An invalid request."""

    code = 400

    def __init__(self, sentence: str, code: int | None = None) -> None:
        """code: default: that of the class."""
        super().__init__(sentence)
        self.code = code or self.code


class NotThere(Refusal):
    """The requested resource does not exist or was removed."""

    code = 404


class Damaged(Refusal):
    """A file is not a complete, valid recording; the message states the defect."""

    code = 422
