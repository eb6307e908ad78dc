"""Final screen of `make demo`: three stories, eight translations, their scores and the next commands.

python -m training.demo_screen runs/demo_gpt runs/demo_enja < stories
"""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path

from training.run_folder.log import METRICS

QUESTION = "Lisa had to carry a big box. Emi came. Emi helped Lisa because she was kind. Who was kind?"


def demo_screen(gpt: Path, translator: Path, texts: list[str]) -> list[str]:
    """Return the lines of the screen: the three shortest of `texts`, stories by the GPT run, and eight evenly spaced
    translations of the split `novel`, whose combinations of words and constructions are not in the training data."""
    of_stories, of_translations = (json.loads((run / "test.json").read_text("utf-8")) for run in (gpt, translator))
    evaluations = (gpt / METRICS).read_text(encoding="utf-8").splitlines()
    loss = min(json.loads(line)["val/loss"] for line in evaluations)
    lines = [
        f"Stories by {gpt}: validation loss {loss:.2f} nats per token; right answers to"
        f" {of_stories['test/answers']:.0f} % of the",
        "questions about unseen stories, right antecedents for"
        f" {of_stories['test/pronouns']:.0f} % of the pronouns that only meaning resolves",
    ]
    for text in sorted(texts, key=len)[:3]:
        lines += ["", *textwrap.wrap(text, 100, initial_indent="  ", subsequent_indent="  ")]
    lines += [
        "",
        f"Unseen combinations translated by {translator}: {of_translations['novel/exact']:.1f} % exact,"
        f" chrF {of_translations['novel/chrf']:.1f}",
        "",
    ]
    rows = (translator / "translations.novel.tsv").read_text(encoding="utf-8").splitlines()[1:]
    for row in rows[:: max(1, len(rows) // 8)][:8]:
        source, _, translation = row.split("\t")
        lines += [f"  {source}", f"    {translation}"]
    return [
        *lines,
        "",
        f"Curves, samples, maps  make tensorboard  (tensorboard --logdir {gpt.parent})",
        f"Your own text          python generate.py run={gpt} prompt='Ken had a small dog.'",
        f"Your own question      python generate.py run={gpt} temperature=0 prompt='{QUESTION}'",
        f"Tables                 {gpt}/*.test.txt, {translator}/heads.*.txt",
    ]


if __name__ == "__main__":
    stories = sys.stdin.read().split("-" * 20)
    print("\n".join(demo_screen(Path(sys.argv[1]), Path(sys.argv[2]), [story.strip() for story in stories])))
