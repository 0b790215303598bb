"""Runs the matrix, or a part of it: `python -m integration_tests.drills [--only PATTERN] [--list]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from integration_tests.drills.report import format_line, format_table, passed
from integration_tests.drills.runner import Drills, Result


def main() -> int:
    """Run the drills that the command line names; return 0 if all passed."""
    parser = argparse.ArgumentParser(description="break jobs, resume them, and compare their tables with an oracle")
    parser.add_argument("--list", action="store_true", help="name the drills and run none")
    parser.add_argument("--only", metavar="PATTERN", help="those whose 'scenario x job' has this, or matches it with *")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the input and of random kills (1)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep tables, checkpoints and logs in a new folder")
    options = parser.parse_args()
    drills = Drills(seed=options.seed, only=options.only, keep_folder=options.keep, on_result=_progress)
    if options.list:
        names = [f"{one.scenario.name} x {name}\n" for one in drills.groups() for name in one.job_names]
        sys.stdout.writelines(names)
        return 0
    results = drills.run()
    sys.stdout.write(f"{format_table(results, seed=options.seed)}\n")
    return 0 if passed(results) else 1


def _progress(results: list[Result]) -> None:
    sys.stderr.writelines(f"{format_line(result)}\n" for result in results)
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
