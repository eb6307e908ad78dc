"""`python -m tests.robustness.fuzz cases=10000 seed=1 kinds=settings,data_files`: try generated inputs, count the
faults."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass

from configs.errors import UserError
from configs.program import run_guarded
from configs.settings import read_settings


@dataclass
class FuzzSettings:
    """What to try."""

    cases: int = 10_000
    """Number of generated cases."""

    seed: int = 1
    """The same seed generates the same cases."""

    quick: bool = False
    """Mostly kinds whose cases take milliseconds."""

    kinds: str = "all"
    """Kinds of inputs, separated by commas, or `all`."""


def main() -> None:
    """Run the cases; exit code 1 if there is a fault."""
    settings, problems = read_settings(FuzzSettings, sys.argv[1:])
    if problems:
        raise UserError(*problems)
    from tests.robustness.fuzz.campaign import KINDS, campaign

    kinds = list(KINDS) if settings.kinds == "all" else settings.kinds.split(",")
    if unknown := set(kinds) - set(KINDS):
        raise UserError(f"kinds={settings.kinds}: no such kind: {', '.join(unknown)}; there are {', '.join(KINDS)}")
    if campaign(kinds, settings.cases, settings.seed, settings.quick):
        raise SystemExit(1)


if __name__ == "__main__":
    warnings.filterwarnings("ignore", "This process .* is multi-threaded, use of fork", DeprecationWarning)
    run_guarded(main)
