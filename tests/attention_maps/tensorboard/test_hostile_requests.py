"""Hundreds of hostile questions: each is answered or refused with a reason, and nothing outside the log
folder is met."""

import random
from pathlib import Path
from urllib.parse import urlencode

import pytest

from attention_maps.files import store
from tests.attention_maps.tensorboard.conftest import Tab, refusal

TEXTS = [
    "",
    ".",
    "..",
    "/",
    "//",
    "../..",
    "../translator",
    "translator/../translator",
    "translator/",
    "/translator",
    "translator\0",
    "\0",
    "~",
    "~root",
    "*",
    "%",
    "%2e%2e",
    "..%2f",
    "C:\\",
    "\\\\host\\share",
    "file:///etc/passwd",
    "/etc/passwd",
    "/proc/self/mem",
    "/dev/zero",
    "../../../../../../etc/passwd",
    "attention",
    "translator/attention",
    "sweep",
    "trans\nlator",
    "\r\nX-Evil: 1",
    "<script>",
    "'; DROP TABLE runs; --",
    "注目",
    "\u202e",
    "\ud800",
    "😀" * 50,
    "x" * 10_000,
    "None",
    "null",
    "true",
    "NaN",
    "[]",
    "{}",
    "__proto__",
    "step_00000000",
    "step_00001000",
    "step_00001000.safetensors",
    "step_1000",
    "step_000001000",
    "step_-0000001",
    "step_99999999",
    "step_" + "9" * 15,
    "step_" + "9" * 300,
    "step_００００１０００",
    "step_00001000\n",
    "generated_00001",
    "generated_1",
    "generated_99999",
    "translator",
    "sweep/0",
    "weights",
    "norms",
    "values",
    "rollout",
    "encoder",
    "decoder",
    "cross",
    "self",
    "0",
    "1",
    "2",
    "00",
    "-0",
    "-1",
    "+1",
    " 1",
    "1 ",
    "1.0",
    "1e3",
    "0x1",
    "1_0",
    "٣",
    "²",
    "99999",
    "100000",
    "9" * 30,
    "9" * 5000,
    "0/cross/0",
    "0/../0",
]

ROUTES = ("meta", "tensor", "curves", "index", "static/index.js")
ARGUMENTS = ("run", "recording", "sample", "kind", "layer", "what")
RIGHT = {
    "run": "translator",
    "recording": "step_00001000",
    "sample": "0",
    "kind": "cross",
    "layer": "0",
    "what": "weights",
}


def question(chance: random.Random) -> list[tuple[str, str]]:
    """Return valid arguments, of which one or more are made invalid, missing, duplicated or renamed."""
    arguments = list(RIGHT.items())
    for _ in range(chance.choice([1, 1, 2, 6])):
        name, place = chance.choice(ARGUMENTS), chance.randrange(len(arguments) + 1)
        match chance.randrange(6):
            case 0:
                arguments = [(key, value) for key, value in arguments if key != name] or [("", "")]
            case 1:
                arguments.insert(place, (name, chance.choice(TEXTS)))
            case 2:
                arguments.insert(place, (chance.choice(TEXTS), chance.choice(TEXTS)))
            case _:
                arguments = [(key, chance.choice(TEXTS) if key == name else value) for key, value in arguments]
    return arguments


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_hostile_question_is_answered_or_refused(tab: type[Tab], logdir: Path, seed: int) -> None:
    """Guards against access to other files, and stack traces in TensorBoard's log."""
    chance = random.Random(seed)
    (logdir / "secret.txt").write_text("root:x:0:0", encoding="utf-8")
    shown = tab(logdir)
    refused = 0
    for _ in range(400):
        route, arguments = chance.choice(ROUTES), question(chance)
        if chance.random() < 0.2:  # not a sign of it quoted
            query = "&".join(f"{name}={value}" for name, value in arguments)
        else:
            query = urlencode(arguments, errors="replace")
        latin = query.encode("utf-8", "surrogatepass").decode("latin-1")  # as a server hands bytes on
        answer = shown.client.get(f"/data/plugin/attention/{route}", environ_overrides={"QUERY_STRING": latin})
        if answer.status_code != 200:
            refused += 1
            assert answer.status_code in (400, 404), (route, arguments)
            refusal(answer, answer.status_code)
        assert b"root:x:0:0" not in answer.data
        assert "X-Evil" not in answer.headers
    assert 400 > refused > 100
    assert shown.get("tensor", **RIGHT).status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_hostile_path_below_static_is_refused(tab: type[Tab], logdir: Path, seed: int) -> None:
    """Guards against access to other files by any kind of path."""
    chance = random.Random(seed)
    shown = tab(logdir)
    parts = [
        *(text for text in TEXTS if len(text) < 1000),
        "index.js",
        "views",
        "plugin.py",
        "__init__.py",
        "__pycache__",
    ]
    for _ in range(200):
        path = chance.choice("/\\").join(chance.choice(parts) for _ in range(chance.randrange(1, 5)))
        encoded = path.encode("utf-8", "replace").decode("latin-1")
        answer = shown.client.get("/", environ_overrides={"PATH_INFO": f"/data/plugin/attention/static/{encoded}"})
        if answer.status_code != 200:
            refusal(answer, 404)
        assert answer.mimetype in ("text/plain", "text/javascript", "text/css")
        assert b"class AttentionPlugin" not in answer.data
        assert b"root:" not in answer.data


def test_of_a_repeated_argument_the_first_counts(tab: type[Tab], logdir: Path) -> None:
    """Guards against different runs for the same URL."""
    client = tab(logdir).client
    answer = client.get(
        "/data/plugin/attention/meta?run=sweep/0&recording=step_00000007&run=translator&recording=step_00000000"
    )
    assert answer.get_json()["step"] == 7


def test_a_link_out_of_the_log_folder_is_no_way_to_other_files(tab: type[Tab], logdir: Path, tmp_path: Path) -> None:
    """Guards against leaking the contents of a foreign file by the name of a recording."""
    secret = tmp_path / "secret"
    secret.write_text("root:x:0:0" * 100, encoding="utf-8")
    path = store.path(logdir / "translator", 1000)
    path.unlink()
    path.symlink_to(secret)
    reason = tab(logdir).refused(404, "meta", run="translator", recording="step_00001000")
    assert "root" not in reason
    assert tab(logdir).json("index")["runs"]["translator"]["steps"] == [0, 2000]


def test_a_link_that_replaces_a_listed_recording_is_not_followed(tab: type[Tab], logdir: Path, tmp_path: Path) -> None:
    """Guards the moment between the listing of a folder and the reading of its files, even to a valid recording."""
    shown = tab(logdir)
    arguments = {"run": "translator", "recording": "step_00001000"}
    assert shown.get("meta", **arguments).status_code == 200
    path = store.path(logdir / "translator", 1000)
    path.rename(tmp_path / "elsewhere.safetensors")
    path.symlink_to(tmp_path / "elsewhere.safetensors")
    assert "cannot be read" in shown.refused(404, "meta", **arguments)
