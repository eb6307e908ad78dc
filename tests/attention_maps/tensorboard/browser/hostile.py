"""A recording in which every text is HTML or a script."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle, islice

from attention_maps.files.recording_checks import LONGEST_TEXTS
from attention_maps.record.head_measures_and_labels import head_measures
from attention_maps.record.recording import Antecedents, Prediction, Recording, Sample, Score, Tokens, tokens
from tests.attention_maps.tensorboard.browser import known

ATTACKS = (
    "<img src=x onerror=top.attack=1>",
    "<script>top.attack=1</script>",
    '" onmouseover="top.attack=1" x=\'',
    "' onfocus='top.attack=1' autofocus x=\"",
    "javascript:top.attack=1",
    "</script></title></style></textarea><svg onload=top.attack=1>",
    "&lt;img src=x onerror=top.attack=1&gt;",
    "'];top.attack=1;//${top.attack=1}\\",
)
RUN = '"><img src=x onerror=top.attack=1><script>top.attack=1</script>'
"""A run name is a path: `…<` is a folder, and `script>` the run in it."""


def attacks(count: int, start: int = 0) -> list[str]:
    """Return `count` different pieces, each a word."""
    return [f"▁{attack}" for attack in islice(cycle(ATTACKS), start, start + count)]


def hostile(side: Tokens, start: int) -> Tokens:
    """Replace the pieces of all tokens."""
    special = frozenset(number for number, is_special in zip(side.ids, side.special, strict=True) if is_special)
    return tokens(side.ids, attacks(len(side), start), special)


def hostile_recording(step: int) -> Recording:
    """Return a recording of a translation in which every text is an attack."""
    sample: Sample = known.translation(known.heads_of(known.CROSS))
    assert sample.source is not None
    rows = len(sample.reads)
    sample = replace(
        sample,
        reads=hostile(sample.reads, 0),
        predicts=hostile(sample.predicts, 1),
        source=hostile(sample.source, 2),
        predictions=tuple((Prediction(7, attack, 0.5),) for attack in attacks(rows)),
        name=ATTACKS[0],
        antecedents=Antecedents("source", ((3, 4, 0, 1),)),
    )
    measures = head_measures([sample])
    measures[ATTACKS[1]] = measures["entropy"]
    labels = {kind: [[ATTACKS[0]] * len(heads) for heads in layers] for kind, layers in measures["entropy"].items()}
    scores = tuple(Score(attack, attack, 50.0, "cross", 0, 0) for attack in ATTACKS)
    about = dict(zip(LONGEST_TEXTS, ATTACKS, strict=False))
    return Recording(step, (sample, replace(sample, name=ATTACKS[1])), measures, labels, scores, about=about)
