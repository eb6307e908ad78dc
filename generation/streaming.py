"""Show texts as tokens arrive: never half a character, never the beginning of a stop string."""

from __future__ import annotations

from data.tokens.tokenizer import StreamingDecoder, Tokenizer


class StreamedText:
    """Tokens of one text so far, and the part of the text that can be shown."""

    def __init__(self, tokenizer: Tokenizer, stops: list[str]) -> None:
        self.tokens: list[int] = []
        self.ended = False
        """Whether the model or a stop string has ended the text; tokens fed afterwards are ignored."""
        self._waiting = ""
        self._decoder, self._stop = StreamingDecoder(tokenizer), StopText(stops)

    def feed(self, token: int | None) -> None:
        """Add a token; None ends the text."""
        if self.ended:
            return
        if token is None:
            self._waiting += self._stop.feed(self._decoder.flush()) + self._stop.flush()
        else:
            self.tokens.append(token)
            self._waiting += self._stop.feed(self._decoder.feed([token]))
        self.ended = token is None or self._stop.reached

    def take(self) -> str:
        """Return the text that arrived since the last call."""
        taken, self._waiting = self._waiting, ""
        return taken


class StopText:
    """Holds back the end of a stream while it may be the beginning of a stop string."""

    def __init__(self, stops: list[str]) -> None:
        self.stops = stops
        self.held = ""
        self.reached = False

    def feed(self, text: str) -> str:
        """Add text and return the part that can be shown; set `reached` at a stop string, which is not shown."""
        if self.reached:
            return ""
        self.held += text
        found = [index for stop in self.stops if (index := self.held.find(stop)) >= 0]
        if found:
            self.reached = True
            shown, self.held = self.held[: min(found)], ""
            return shown
        keep = max((self.overlap(stop) for stop in self.stops), default=0)
        shown, self.held = self.held[: len(self.held) - keep], self.held[len(self.held) - keep :]
        return shown

    def overlap(self, stop: str) -> int:
        """Return the length of the longest suffix of the held text that is a prefix of `stop`."""
        return next((n for n in range(min(len(stop) - 1, len(self.held)), 0, -1) if self.held.endswith(stop[:n])), 0)

    def flush(self) -> str:
        """Return the held-back text when the stream ends."""
        rest, self.held = self.held, ""
        return rest
