"""Draw a map as lines between query tokens (left) and key tokens (right), as SVG."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.transforms import Bbox

from attention_maps.draw import fonts
from attention_maps.draw.heat_map import DPI, INK, LABEL, MARGIN, MUTED, NAME, SUBTITLE, TITLE, saved
from attention_maps.draw.labels import printable, readable
from attention_maps.record.chosen_map import ChosenMap

COLOUR = "#1f5fc4"
STEP, ACROSS, GAP = 22, 190, 7  # pixels: height of a row, width of the lines, distance to the tokens


def lines(chosen: ChosenMap, top: int = 3) -> str:
    """Draw the `top` strongest links from each query to its keys, with width and opacity by weight; return SVG text."""
    weights, rows, columns = chosen.matrix, chosen.queries, chosen.keys
    height = STEP * max(len(rows), len(columns))
    figure = Figure(figsize=(ACROSS / DPI, height / DPI), dpi=DPI)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, ACROSS), ylim=(height, 0))
    axes.set_axis_off()
    strongest = np.argsort(-weights, axis=1, kind="stable")[:, :top]  # [Q,top]
    for (row, _), column in np.ndenumerate(strongest):
        weight = float(weights[row, column])
        if weight > 0:
            (x, end), (y, foot) = (0, ACROSS), ((row + 0.5) * STEP, (column + 0.5) * STEP)
            bend = Path([(x, y), (end / 2, y), (end / 2, foot), (end, foot)], [Path.MOVETO, *3 * [Path.CURVE4]])
            width, alpha = 0.4 + 3.6 * weight, 0.1 + 0.9 * weight
            axes.add_patch(PathPatch(bend, fill=False, ec=COLOUR, lw=width, alpha=alpha, gid=f"line_{row}_{column}"))
    for tokens, x, align in ((rows, -GAP, "right"), (columns, ACROSS + GAP, "left")):
        for place, piece in enumerate(tokens.pieces):
            style: dict[str, Any] = {"ha": align, "va": "center", "color": MUTED if tokens.special[place] else INK}
            text = readable(piece, fonts.characters())
            axes.text(x, (place + 0.5) * STEP, text, fontproperties=fonts.font(LABEL), parse_math=False, **style)
    axes.text(-GAP, -8, chosen.rows, ha="right", size=NAME, color=MUTED)
    axes.text(ACROSS + GAP, -8, "attends to", size=NAME, color=MUTED)
    figure.draw_without_rendering()
    left = figure.get_tightbbox().x0 * DPI
    for text, y, size, colour in ((chosen.origin, -32, SUBTITLE, MUTED), (chosen.subject, -52, TITLE, INK)):
        known = printable(text, fonts.characters())
        font = fonts.font(size, size == TITLE and fonts.has_bold(known))
        axes.text(left, y, known, fontproperties=font, color=colour, parse_math=False)
    box, pad = figure.get_tightbbox(), MARGIN / DPI
    return saved(figure, Bbox.from_extents(box.x0 - pad, box.y0 - pad, box.x1 + pad, box.y1 + pad), "svg").decode()
