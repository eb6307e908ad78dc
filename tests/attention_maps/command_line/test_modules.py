"""Modules joined into one script. That they compute the same: tests/page/test_worker.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from attention_maps.command_line.modules import joined, modules_in
from attention_maps.command_line.page import STATIC
from tests.conftest import ROOT

ENGINE = ROOT / "page" / "engine"


@pytest.mark.parametrize(
    ("folder", "entry", "without"), [(STATIC, "index.js", set()), (ENGINE, "worker.js", {"client.js", "content.js"})]
)
def test_the_script_has_every_module_once(folder: Path, entry: str, without: set[str]) -> None:
    """Guards against a module that is missing, or there twice, and one that is named in another way."""
    script = joined(entry, modules_in(folder))
    names = re.findall(r"^modules\['(.*)'\] = ", script, re.MULTILINE)
    expected = {path.relative_to(folder).as_posix() for path in folder.rglob("*.js")} - without
    assert set(names) == expected
    assert len(names) == len(expected)
    assert set(re.findall(r"\bimported(?:Later)?\('(.*?)'\)", script)) <= expected
    assert script.endswith(f"imported('{entry}');\n")


def test_modules_are_found_from_the_folder_of_the_one_that_imports_them() -> None:
    """Guards against relative paths that are looked up elsewhere. Two modules import each other, one of them later."""
    modules = {
        "x.js": "export const x = 1;\n",
        "views/y.js": "import {load} from '../start.js';\nexport class Y {}\n",
        "start.js": "import {x} from './x.js';\nexport const load = () => import('./views/y.js');\n",
    }
    script = joined("start.js", modules)
    assert "const {x} = imported('x.js');\nconst load = () => importedLater('views/y.js');\nreturn {load};" in script
    assert "const {load} = imported('start.js');\nclass Y {}\nreturn {Y};" in script


def test_a_module_may_end_with_a_comment() -> None:
    """Guards against a comment that takes what follows it."""
    script = joined("a.js", {"a.js": "export const a = 1; // of one"})
    assert "const a = 1; // of one\nreturn {a};\n" in script


@pytest.mark.parametrize(
    ("modules", "sentence"),
    [
        ({"worker.js": "import {a} from './a.js';\n"}, "worker.js needs a.js, which is not there"),
        ({"worker.js": "const later = () => import('./a.js');\n"}, "the page needs a.js, which is not there"),
        ({}, "the page needs worker.js"),
        (
            {"worker.js": "import {a} from './a.js';\n", "a.js": "import {b} from './worker.js';\n"},
            "worker.js imports itself, through worker.js and a.js",
        ),
        (
            {
                "worker.js": "import {\n  a as own,\n  b,\n} from './a.js';\n",
                "a.js": "export const a = 1;\nconst b = 2;\n",
            },
            "worker.js imports b, which a.js does not export",
        ),
        ({"worker.js": "export default 3;\n"}, "not joined: export default 3;"),
        ({"worker.js": "export let x = 3;\n"}, "not joined: export let x"),
        ({"worker.js": "import './a.js';\n"}, "not joined: import './a.js';"),
        ({"worker.js": "const later = (name) => import(name);\n"}, "not joined: import(name)"),
        ({"worker.js": "export * from './a.js';\n", "a.js": ""}, "not joined"),
    ],
)
def test_a_module_that_cannot_be_joined_is_named(modules: dict[str, str], sentence: str) -> None:
    """Guards against a script that fails in the browser."""
    with pytest.raises(ValueError, match=re.escape(sentence)):
        joined("worker.js", modules)
