"""Generate cases with hypothesis, run each in a child process, and count the faults."""

from __future__ import annotations

import gc
import itertools
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import hypothesis
from hypothesis import HealthCheck, Phase, given
from hypothesis.errors import HypothesisException

from tests.robustness.fuzz.isolation import Verdict, judge

KINDS = {
    "settings": (20, 20),
    "data_files": (20, 35),
    "runs": (32, 5),
    "prompts": (8, 1),
    "recordings": (10, 10),
    "tab": (10, 25),
    "remote": (8, 4),
}
"""Kinds of inputs, the modules of `tests.robustness.fuzz.kinds`, with their shares of the cases in a full and in a
quick campaign, which has mostly cases of a few milliseconds."""

FAULTS = {
    "traceback": "tracebacks",
    "crash": "crashes",
    "hang": "hangs",
    "half-made": "half-made folders",
    "changed": "changed inputs",
    "message": "errors that are not one line",
}
"""Faults of `Verdict.fault`, as printed."""

SIMPLIFIED = ("settings", "data_files", "tab", "remote")
"""Kinds whose cases with a fault are simplified; the cases of the other kinds are single changes, and slower."""

BATCH = 250
"""Cases of one run of hypothesis: after a fault it starts the next one, with another seed."""


TRACE = bool(os.environ.get("CHUMOKU_FUZZ_TRACE"))
"""Print every case with its outcome."""


class Fault(Exception):
    """A case with a fault, for hypothesis to simplify."""


def counts(tally: Counter[str]) -> str:
    """Return the numbers of cases: `worked`, `refused`, and each of FAULTS."""
    faults = ", ".join(f"{tally[fault]} {name}" for fault, name in FAULTS.items())
    sums = f"{tally.total():,} cases: {tally['worked']:,} worked, {tally['refused']:,} refused in one line each"
    return f"{sums}; {faults}"


def campaign(kinds: Sequence[str], cases: int, seed: int, quick: bool = False) -> int:
    """Run cases of these kinds, print each fault with its simplest case and the counts -> the number of faults."""
    whole = sum(KINDS[kind][quick] for kind in kinds)
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="chumoku-fuzz-") as folder:
        for kind in kinds:
            tally: Counter[str] = Counter()
            module = import_module(f"tests.robustness.fuzz.kinds.{kind}")
            if hasattr(module, "make_ready"):
                module.make_ready(Path(folder, kind))
            gc.freeze()  # the objects of this process are not copied when a child collects garbage
            started = time.monotonic()
            share = max(1, round(cases * KINDS[kind][quick] / whole))
            for number in range(share + 1):  # after a fault, another seed takes the cases that are left
                if (left := share - tally.total()) <= 0:
                    break
                _batch(kind, module.cases(), tally, min(BATCH, left), 1000 * seed + number, Path(folder))
            print(f"{kind}: {counts(tally)}; {time.monotonic() - started:.0f} s", flush=True)
            total += tally
    print(f"fuzz, seed {seed}: {counts(total)}")
    return sum(total[fault] for fault in FAULTS)


def _batch(
    kind: str, strategy: hypothesis.strategies.SearchStrategy, tally: Counter[str], cases: int, seed: int, folder: Path
) -> None:
    """Run up to `cases` cases of one seed; print the simplest case with a fault, if there is one."""
    result: dict[str, tuple[str, Verdict]] = {}
    numbers = itertools.count()

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=cases,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink) if kind in SIMPLIFIED else (Phase.generate,),
        report_multiple_bugs=False,
    )
    @given(strategy)
    def holds(case: object) -> None:
        verdict = judge(case.prepare, case.act, folder / f"{kind}-{next(numbers)}", getattr(case, "may_change", ()))
        if TRACE:
            print(f"{verdict.fault or verdict.code}: {verdict.detail[-300:]!r}\n   {repr(case)[:300]}", flush=True)
        if not result:  # while hypothesis simplifies a case, it is one fault
            tally[verdict.fault or ("refused" if verdict.code else "worked")] += 1
        if verdict.fault:
            result["fault"] = repr(case), verdict
            raise Fault(verdict.fault)

    try:
        holds()
    except (Fault, HypothesisException):
        case, verdict = result["fault"]
        shown = case if len(case) < 3000 else f"{case[:1500]} … {case[-1500:]}"
        print(f"FAULT ({verdict.fault}) in {kind}:\n{shown}\n{verdict.detail[-3000:]}", file=sys.stderr, flush=True)
