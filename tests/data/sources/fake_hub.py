"""A hub of datasets on this machine: the part of the API of huggingface.co that the libraries call for a dataset of
files, over HTTP."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Files = dict[str, bytes]
"""Contents of a revision, by path."""


class Hub:
    """Datasets by name, and each one's revisions: branches and tags by name."""

    def __init__(self, datasets: dict[str, dict[str, Files]]) -> None:
        self.datasets = datasets
        self.requests: list[str] = []
        self.address = ""

    def found(self, name: str, revision: str) -> tuple[str, Files] | None:
        """Return the commit and the files of a branch, a tag or a commit."""
        revisions = self.datasets.get(name, {})
        commits = {commit(files): files for files in revisions.values()}
        key = commit(revisions[revision]) if revision in revisions else revision
        return (key, commits[key]) if key in commits else None


def commit(files: Files) -> str:
    """Return the hash of a revision, as long as one of git."""
    parts = sorted((path, hashlib.sha1(content).hexdigest()) for path, content in files.items())
    return hashlib.sha1(json.dumps(parts).encode()).hexdigest()


@contextmanager
def running(hub: Hub) -> Iterator[str]:
    """Serve a hub and yield its address, for HF_ENDPOINT."""
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (_Handler,), {"hub": hub}))
    thread = Thread(target=lambda: httpd.serve_forever(poll_interval=0.01), daemon=True)
    thread.start()
    hub.address = f"http://127.0.0.1:{httpd.server_port}"
    yield hub.address
    httpd.shutdown()
    thread.join()
    httpd.server_close()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urlsplit(self.path)
        path = unquote(url.path)
        self.hub.requests.append(f"{self.command} {path}")
        if path == "/":
            return self._send(200, b"")
        if match := re.fullmatch(r"/datasets/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            return self._file(*match.groups())
        match = re.fullmatch(r"/api/datasets/([^/]+/[^/]+)(?:/(revision|tree|paths-info)/([^/]+)(/.*)?)?", path)
        if match is None:
            return self._missing("EntryNotFound")
        name, what, revision, folder = match.groups()
        if name not in self.hub.datasets:
            return self._missing("RepoNotFound")
        if (result := self.hub.found(name, revision or "main")) is None:
            return self._missing("RevisionNotFound")
        key, files = result
        if what == "tree":
            deep = parse_qs(url.query).get("recursive") == ["True"]
            return self._json(_entries(files, (folder or "").strip("/"), deep))
        if what == "paths-info":
            asked = parse_qs(body.decode())["paths"] if body[:1] != b"{" else json.loads(body)["paths"]
            return self._json([_entry(each, files[each]) for each in asked if each in files])
        listed = [{"rfilename": each} for each in files]
        self._json({"_id": "1", "id": name, "sha": key, "private": False, "tags": [], "siblings": listed})

    def _file(self, name: str, revision: str, path: str) -> None:
        result = self.hub.found(name, revision)
        if result is None or path not in result[1]:
            return self._missing("EntryNotFound" if result else "RevisionNotFound")
        key, files = result
        content, status, headers = files[path], 200, {"X-Repo-Commit": key, "ETag": f'"{_digest(files[path])}"'}
        if (span := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")) is not None:
            first, last = int(span[1]), min(int(span[2] or len(content)), len(content) - 1)
            headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
            content, status = content[first : last + 1], 206
        self._send(status, content, headers)

    def _json(self, value: Any) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _missing(self, code: str) -> None:
        self._send(404, b"{}", {"X-Error-Code": code})

    def _send(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _digest(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()


def _entry(path: str, content: bytes) -> dict[str, Any]:
    return {"type": "file", "path": path, "size": len(content), "oid": _digest(content)}


def _entries(files: Files, folder: str, deep: bool) -> list[dict[str, Any]]:
    prefix = f"{folder}/" if folder else ""
    inside = {path: content for path, content in files.items() if path.startswith(prefix)}
    folders = {f"{prefix}{path[len(prefix) :].partition('/')[0]}" for path in inside if "/" in path[len(prefix) :]}
    listed = [_entry(path, content) for path, content in inside.items() if deep or "/" not in path[len(prefix) :]]
    return [{"type": "directory", "path": path, "size": 0, "oid": "0"} for path in sorted(folders)] + listed
