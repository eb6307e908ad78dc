"""Check settings `key=value` of a command line against a dataclass, and format the `--help` text of settings."""

from __future__ import annotations

import ast
import difflib
import functools
import inspect
import textwrap
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from attention_maps.base.program import utf8

Settings = TypeVar("Settings")

NOT_A_SETTING = "not understood; settings are written key=value without dashes, --help lists them"


def read_settings(schema: type[Settings], arguments: Sequence[str]) -> tuple[Settings, list[str]]:
    """Parse arguments into `schema`, a dataclass with defaults -> (settings, problems). A field that is a dataclass has
    the keys `field.key`."""
    settings, kinds = schema(), key_types(schema)
    seen: set[str] = set()
    problems = []
    for argument in arguments:
        key, separator, text = argument.partition("=")
        if not separator or argument.startswith("-"):
            problems.append(f"{argument}: {NOT_A_SETTING}")
        elif key not in kinds:
            near = difflib.get_close_matches(key, kinds, n=1)
            guess = f" (did you mean {near[0]}?)" if near else ""
            problems.append(f"{key}: unknown setting{guess}; there are {', '.join(kinds)}")
        elif key in seen:
            problems.append(f"{key}= is given twice")
        else:
            seen.add(key)
            group, _, name = key.rpartition(".")
            try:
                setattr(getattr(settings, group) if group else settings, name, convert(utf8(text), kinds[key]))
            except ValueError:
                problems.append(f"{key}={text}: must be {' or '.join(expected(kinds[key]))}")
    return settings, problems


def key_types(schema: type) -> dict[str, Any]:
    """Return the type of each key of a dataclass, including the keys of fields that are dataclasses."""
    types: dict[str, Any] = {}
    for name, kind in get_type_hints(schema).items():
        if isinstance(kind, type) and is_dataclass(kind):
            types |= {f"{name}.{key}": inner for key, inner in key_types(kind).items()}
        else:
            types[name] = kind
    return types


def convert(text: str, kind: Any) -> Any:
    """Convert text to a field's type: bool, int, float, str, a Literal of strings, or a union. Raises ValueError."""
    if kind in (int, float, str):
        return kind(text)
    if kind is bool and text in ("true", "false"):
        return text == "true"
    if get_origin(kind) is Literal and text in get_args(kind):
        return text
    for member in get_args(kind):
        with suppress(ValueError):
            return convert(text, member)
    raise ValueError(text)


def expected(kind: Any) -> list[str]:
    """Return the values that a type accepts, as worded in error messages."""
    if get_origin(kind) is Literal:
        return list(get_args(kind))
    plain = {bool: ["true or false"], int: ["a whole number"], float: ["a number"], str: ["a text"], NoneType: []}
    if kind in plain:
        return plain[kind]
    return [words for member in get_args(kind) for words in expected(member)]


def describe(config: Any, prefix: str = "", none: str = "null") -> list[str]:
    """Return the body of --help for a dataclass: each `key=value` followed by its docstring, then nested groups. none:
    how to show a setting that is None."""
    schema: Any = type(config)
    documented = field_documentation(schema)
    lines, nested = [], []
    for name in (field.name for field in fields(config)):
        value = getattr(config, name)
        if is_dataclass(value):
            nested += ["", f"{name}: {inspect.getdoc(type(value))}", *describe(value, f"{prefix}{name}.", none)]
        else:
            text = none if value is None else str(value).lower() if isinstance(value, bool) else value
            indent = " " * 6
            paragraph = textwrap.wrap(documented[name], width=110, initial_indent=indent, subsequent_indent=indent)
            lines += [f"  {prefix}{name}={text}", *paragraph]
    return lines + nested


@functools.cache
def field_documentation(schema: type) -> dict[str, str]:
    """Return the docstring of each field of a dataclass and its base classes, on one line each."""
    documented = {}
    for base in reversed(schema.__mro__[:-1]):
        body = ast.parse(inspect.getsource(base)).body[0]
        assert isinstance(body, ast.ClassDef)
        for statement, following in zip(body.body, body.body[1:], strict=False):
            if (
                isinstance(statement, ast.AnnAssign)
                and isinstance(following, ast.Expr)
                and isinstance(following.value, ast.Constant)
            ):
                assert isinstance(statement.target, ast.Name)
                documented[statement.target.id] = " ".join(str(following.value.value).split())
    return documented
