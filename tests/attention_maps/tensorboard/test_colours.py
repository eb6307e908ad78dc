"""The colours of labels and verdicts, as people with a colour vision deficiency see them."""

from __future__ import annotations

import re
from itertools import combinations

import numpy as np
import pytest

from tests.conftest import ROOT

STATIC = ROOT / "attention_maps/tensorboard/static"
SIMULATED = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
"""Matrices for linear RGB (Machado et al. 2009, severity 1)."""

DISTINCT = 15
"""CIE76 distance; 2.3 is just noticeable."""


def linear(colour: str) -> np.ndarray:
    """Return the linear RGB of #rrggbb."""
    values = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    """Return the CIELAB coordinates (D65) of a linear RGB colour."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = to_xyz @ rgb / [0.9505, 1, 1.089]
    fx, fy, fz = (t ** (1 / 3) if t > 216 / 24389 else (24389 / 27 * t + 16) / 116 for t in (x, y, z))
    return np.array([116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)])


def distance(first: str, second: str, vision: str) -> float:
    """Return the CIE76 distance of two colours."""
    a, b = (lab(np.clip(np.asarray(SIMULATED[vision]) @ linear(colour), 0, 1)) for colour in (first, second))
    return float(np.linalg.norm(a - b))


def constants(name: str) -> dict[str, str]:
    """Return the colours in an object of colours.js."""
    text = (STATIC / "draw/colours.js").read_text("utf-8")
    (body,) = re.findall(rf"const {name} = \{{(.*?)\}};", text, re.DOTALL)
    return {(quoted or bare): colour for quoted, bare, colour in re.findall(r"(?:'([^']+)'|(\w+)): '(#\w{6})'", body)}


@pytest.mark.parametrize("vision", SIMULATED)
def test_label_colours_are_distinguishable(vision: str) -> None:
    """Guards against two labels whose bands look the same in the story."""
    labels = constants("LABELS")
    assert len(labels) == 8
    near = {pair: distance(*map(labels.get, pair), vision) for pair in combinations(labels, 2)}
    assert min(near.values()) > DISTINCT, sorted((round(value, 1), pair) for pair, value in near.items())[:5]


@pytest.mark.parametrize("vision", SIMULATED)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_signs_of_a_difference_have_distinct_colours(theme: str, vision: str) -> None:
    """Guards against more and less attention in the same colour; equal weights have the colour in the middle."""
    text = (STATIC / "draw/colours.js").read_text("utf-8")
    (stops,) = re.findall(rf"const DIVERGING = \{{.*?{theme}: \[(.*?)\]", text, re.DOTALL)
    colours = re.findall(r"#\w{6}", stops)
    assert len(colours) == 7
    for place in range(3):
        assert distance(colours[place], colours[-1 - place], vision) > DISTINCT
