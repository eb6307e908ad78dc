"""What `make demo` prints at its end: stories, a question and its answer, translations, two scores, and where to look
next.

python demo.py runs/demo_gpt runs/demo_enja
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path

from configs.program import check_system, importing, run_guarded

check_system()
with importing():
    from configs.errors import UserError
    from run import Run

WRITTEN = 20
"""Number of stories that are written; the screen shows the first of each kind."""
KINDS = 3
QUESTION = "Lisa had to carry a big box. Emi came. Emi helped Lisa because she was kind. Who was kind?"
OTHER = "Lisa had to carry a big box. Emi came. Emi helped Lisa because she was having trouble. Who was having trouble?"
"""The same story with another reason: only the meaning tells who `she` is."""
TRANSLATIONS = 8


def main() -> None:
    """Print the screen of the two runs that the command line names. Raises UserError."""
    if len(sys.argv) != 3:
        raise UserError(
            "give the run folders of a GPT and of a translator: python demo.py runs/demo_gpt runs/demo_enja"
        )
    gpt, translator = map(Path, sys.argv[1:])
    run = Run(gpt)
    stories = (run.generate("", seed=seed, temperature=0.5, min_p=0.1) for seed in range(1, WRITTEN + 1))
    answers = [run.generate(text, temperature=0.0) for text in (QUESTION, OTHER)]
    print("\n".join(screen(gpt, translator, first_of_each_kind(stories), answers)))


def first_of_each_kind(stories: Iterable[str]) -> list[str]:
    """Return the first story of each kind, `KINDS` at most, of those that ask a question. The kind of a story is its
    first question word (who, what, where): what the model must have kept in mind to answer."""
    chosen: dict[str, str] = {}
    for story in stories:
        question = re.search(r"(?<=[.!?] )(\w+)[^.!?]*\?", story)
        if question:
            chosen.setdefault(question[1], story)
        if len(chosen) == KINDS:
            break
    return list(chosen.values())


def screen(gpt: Path, translator: Path, stories: list[str], answers: list[str]) -> list[str]:
    """Return the lines of the screen. stories, answers: by the GPT run. The translations are evenly spaced sentences of
    the split `novel`, whose combinations of words and constructions are not in the training data."""
    of_stories, of_translations = (json.loads((run / "test.json").read_text("utf-8")) for run in (gpt, translator))
    lines = [
        f"{gpt} answers {of_stories['test/answers']:.0f} % of the questions about unseen stories (chance 50 %).",
        "Its first stories that ask different questions, and its answers to two questions of ours:",
    ]
    for text in [*stories, *answers]:
        lines += ["", *textwrap.wrap(text, 100, initial_indent="  ", subsequent_indent="  ")]
    exact = of_translations["novel/exact"]
    lines += ["", f"{translator} translates {exact:.1f} % of unseen combinations exactly:", ""]
    rows = (translator / "translations.novel.tsv").read_text(encoding="utf-8").splitlines()[1:]
    for row in rows[:: max(1, len(rows) // TRANSLATIONS)][:TRANSLATIONS]:
        source, _, translation = row.split("\t")
        lines += [f"  {source}", f"    {translation}"]
    return [
        *lines,
        "",
        "Where to look next",
        f"  In the browser         {gpt.parent / 'demo.html'}: ask both models, see every head, leave one out",
        f"  Curves, samples, maps  make tensorboard  (tensorboard --logdir {gpt.parent}), tab Attention",
        f"  Your own text          python generate.py run={gpt} prompt='Ken had a small dog.'",
        f"  Your own sentence      python generate.py run={translator} prompt='The small dog likes apples.'",
        f"  Tables                 {gpt}/*.test.txt, {translator}/heads.*.txt",
    ]


if __name__ == "__main__":
    run_guarded(main)
