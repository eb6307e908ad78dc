"""Draw attention weights as SVG lines between two columns of tokens."""

from __future__ import annotations

import numpy as np

from attention_maps.draw.heat_map import GAP, NAME, SUBTITLE, TITLE
from attention_maps.draw.labels import readable, visible
from attention_maps.draw.surface import INK, MUTED, Align, Text
from attention_maps.draw.svg import Svg
from attention_maps.record.chosen_map import ChosenMap
from attention_maps.record.recording import Tokens

COLOUR = "#1f5fc4"
MARGIN, STEP, ACROSS, LABEL = 16, 22, 190, 10.0  # pixels: page margin, row height, column gap; points


def lines(chosen: ChosenMap, top: int = 3) -> str:
    """Draw the `top` strongest links from each query (left) to its keys (right), with width and opacity by weight;
    return SVG text."""
    weights, rows, columns = chosen.matrix, chosen.queries, chosen.keys
    left = MARGIN + max(Svg.text_width(readable(piece), LABEL) for piece in rows.pieces) + GAP
    right, y = left + ACROSS, MARGIN + 76
    names = Svg.text_width(chosen.subject, TITLE), Svg.text_width(chosen.origin, SUBTITLE)
    widest = max(Svg.text_width(readable(piece), LABEL) for piece in columns.pieces)
    page = Svg(
        max(right + GAP + widest, MARGIN + max(names)) + MARGIN, y + STEP * max(len(rows), len(columns)) + MARGIN
    )
    page.write(Text(MARGIN, MARGIN + 9, chosen.subject, TITLE, bold=True))
    page.write(Text(MARGIN, MARGIN + 35, chosen.origin, SUBTITLE, colour=MUTED))
    page.write(Text(left - GAP, y - 8, chosen.rows, NAME, align="right", colour=MUTED))
    page.write(Text(right + GAP, y - 8, "attends to", NAME, colour=MUTED))
    strongest = np.argsort(-weights, axis=1, kind="stable")[:, :top]  # [Q,top]
    for (row, _), column in np.ndenumerate(strongest):
        weight = float(weights[row, column])
        if weight > 0:
            hint = f"{visible(rows.pieces[row])} → {visible(columns.pieces[column])}: {100 * weight:.1f} %"
            page.curve((left, y + (row + 0.5) * STEP), (right, y + (column + 0.5) * STEP), COLOUR, weight, hint)
    sides: list[tuple[Tokens, float, Align]] = [(rows, left - GAP, "right"), (columns, right + GAP, "left")]
    for tokens, x, align in sides:
        for place, piece in enumerate(tokens.pieces):
            colour = MUTED if tokens.special[place] else INK
            page.write(Text(x, y + (place + 0.5) * STEP, readable(piece), LABEL, colour, align))
    return page.drawing()
