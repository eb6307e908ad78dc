"""The model card, README.md of an exported folder: everything that the run folder knows, and fields to fill in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from interop.about import data, introduction, recipe
from interop.export_input import Trained, weights_hash

ROWS = 12
"""Number of evaluations in the table of the curve, evenly spaced."""

CURVE = ("step", "tokens", "seconds", "train/loss", "val/loss", "val/bits_per_byte", "val/chrf", "val/bleu")
"""Columns of the curve, if the run has them."""

SETTINGS = ("model", "tokenizer", "optim", "schedule", "trainer", "seed")
"""Groups of the config that a card lists; the others contain paths of the machine."""


@dataclass(frozen=True)
class Usage:
    """How a format is used."""

    library: str | None
    """`library_name` on the hub."""

    tags: Sequence[str]

    text: str
    """Markdown: code that loads the model, and what differs from Chumoku."""


def model_card(trained: Trained, usage: Usage, checks: Iterable[str]) -> str:
    """Return the model card. checks: what was compared between the exported model and ours, and the result."""
    parts = [
        front_matter(trained, usage),
        f"# {trained.run.name}",
        introduction(trained),
        "**To fill in before publishing**: the licence of the weights and of the data, the languages (both at the top "
        "of this file), who made the model and what for, and what it must not be used for.",
        "## Use",
        usage.text,
        "\n".join(f"- {line}" for line in checks),
        "## Data",
        data(trained.config["data"], trained.config["task"]),
        "## Training",
        training(trained),
        "## Curve",
        curve(read_lines(trained.run / "metrics.jsonl"), trained.step),
        "## Scores",
        scores(trained),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def front_matter(trained: Trained, usage: Usage) -> str:
    """Return the fields that the hub reads; the licence is left for the author."""
    primer = trained.config["data"]["source"] == "primer"
    translator = trained.config["task"] == "translate"
    languages = (["en", "ja"] if translator else ["en"]) if primer else []
    lines = [
        "---",
        "license:  # to fill in: mit, apache-2.0, cc-by-4.0 ...",
        f"language: [{', '.join(languages)}]" + ("" if languages else "  # to fill in: en, ja ..."),
        f"pipeline_tag: {'translation' if translator else 'text-generation'}",
        f"tags: [{', '.join(('chumoku', *usage.tags))}]",
        *([f"library_name: {usage.library}"] if usage.library else []),
        "---",
    ]
    return "\n".join(lines)


def training(trained: Trained) -> str:
    """Return the recipe and the complete settings."""
    settings = trained.config
    chosen = yaml.safe_dump({key: settings[key] for key in SETTINGS}, sort_keys=False, allow_unicode=True)
    intro = f"`{recipe(settings)}` with these settings"
    start = settings.get("init_from")
    intro += f", from the weights of `{Path(start).name}`" if start else ""
    return f"{intro}:\n\n<details><summary>Settings</summary>\n\n```yaml\n{chosen}```\n\n</details>"


def curve(lines: Sequence[Mapping[str, Any]], step: int) -> str:
    """Return a table of evaluations during training: evenly spaced ones, the last, and that of the exported step."""
    if not lines:
        return "No evaluation is recorded in the run folder."
    chosen = {round(number * (len(lines) - 1) / (ROWS - 1)) for number in range(ROWS)}
    chosen |= {number for number, line in enumerate(lines) if line.get("step") == step}
    columns = [column for column in CURVE if any(column in line for line in lines)]
    rows = [[figure(lines[number].get(column)) for column in columns] for number in sorted(chosen)]
    return f"Losses are in nats per token.\n\n{table(columns, rows)}"


def scores(trained: Trained) -> str:
    """Return the scores of the final test and of `evaluate.py`, each with the step that was evaluated; what the model
    alone does not reach is left out by name."""
    tables, left_out, own_weights = [], [], weights_hash(trained.model)
    test = json_or_nothing(trained.run / "test.json")
    if test and test.get("step") != trained.step:
        left_out.append(f"`test.json` (other weights, step {test.get('step')})")
    elif test:
        rows = [[name, figure(value)] for name, value in test.items() if "/" in name]
        other = {name: value for name, value in test.items() if "/" not in name and not isinstance(value, bool)}
        means = ", ".join(f"{name} {figure(value)}" for name, value in other.items())
        tables.append(f"Test at the end of the training, {means}:\n\n{table(['score', 'value'], rows)}")
    for path in sorted((trained.run / "evaluation").glob("*.json")):
        result = json_or_nothing(path)
        measured, model = result.get("scores"), result.get("model")
        if isinstance(measured, dict) and isinstance(model, dict):
            if reasons := other_means(result, own_weights):
                left_out.append(f"`{path.name}` ({', '.join(reasons)})")
                continue
            rows = [
                [name, figure(score.get("value")), f"{figure(score.get('low'))} to {figure(score.get('high'))}"]
                for name, score in measured.items()
                if isinstance(score, dict)
            ]
            title = f"`evaluate.py`, split {result.get('split')}, step {model.get('step')}"
            tables.append(f"{title}:\n\n{table(['score', 'value', '95 % interval'], rows)}")
    if not tables:
        tables.append("None in the run folder: `python evaluate.py run=…` before the export.")
    if left_out:
        tables.append(f"Left out, since they are not those of this model alone: {', '.join(left_out)}.")
    return "\n\n".join(tables)


def other_means(result: Mapping[str, Any], own_weights: str) -> list[str]:
    """Return why a result of `evaluate.py` is not that of the plain model whose weights have the hash `own_weights`."""
    model, protocol = result["model"], result.get("protocol")
    protocol = protocol if isinstance(protocol, dict) else {}
    context = protocol.get("context")
    rules = (
        (bool(model.get("members")), "an ensemble"),
        (
            "members" not in model and model.get("weights_sha256", own_weights) != own_weights,
            f"other weights, step {model.get('step')}",
        ),
        (bool(protocol.get("reverse")), "reversed"),
        ("neighbours" in protocol, "with retrieval"),
        ("mbr" in protocol, "minimum Bayes risk decoding"),
        ("tried" in protocol, "settings chosen on this split"),
        (protocol.get("stride", context) != context, f"stride={protocol.get('stride')}, context={context}"),
    )
    return [reason for holds, reason in rules if holds]


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def figure(value: Any) -> str:
    """Format a number of a table; a dash for none."""
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def json_or_nothing(path: Path) -> dict[str, Any]:
    """Read a JSON object; empty if the file is missing or damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read a file of one JSON object per line, up to the first damaged line; empty if it is missing."""
    records: list[dict[str, Any]] = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return records
    for line in lines:
        try:
            records.append(dict(json.loads(line)))
        except (ValueError, TypeError):
            break
    return records
