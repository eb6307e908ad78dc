"""Ask questions in this process; how TensorBoard talks to the worker is tested with its plugin."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tab_answers.worker import replier


class Asking:
    """What answers a line of JSON, and a folder for its recordings."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.reply = folder, replier()

    def line(self, line: str) -> dict[str, Any]:
        """Return the answer to a line, after a way through JSON."""
        answer: dict[str, Any] = json.loads(json.dumps(self.reply(line), allow_nan=False))
        return answer

    def ask(self, run: Path, **question: Any) -> dict[str, Any]:
        """Return the answer to a question, which must be answered."""
        paths = {"to": str(self.folder / "to.safetensors"), "whole_to": str(self.folder / "whole.safetensors")}
        answer = self.line(json.dumps({"run": str(run)} | paths | question))
        assert "ok" in answer, answer
        result: dict[str, Any] = answer["ok"]
        return result

    def refused(self, run: Path | str, **question: Any) -> str:
        """Return the sentence of a question that must be refused."""
        answer = self.line(json.dumps({"run": str(run), "to": str(self.folder / "to.safetensors")} | question))
        assert set(answer) == {"error"}, answer
        sentence: str = answer["error"]
        assert "\n" not in sentence
        return sentence


@pytest.fixture(scope="session")
def asking(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Asking:
    """Return one for all tests: it keeps the models in memory."""
    return Asking(tmp_path_factory.mktemp("answers"))
