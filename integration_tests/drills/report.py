"""Shows the results of drills: as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from integration_tests.drills.runner import Result

_HEAD = ("scenario", "check", "outcome", "rows", "lost", "doubled", "wrong", "back after", "first result")


def passed(results: Iterable[Result]) -> bool:
    """Return whether there were drills and every one of them passed."""
    outcomes = {result.outcome for result in results}
    return outcomes == {"passed"}


def format_table(results: Sequence[Result], *, seed: int) -> str:
    """Return the results as a table, the reasons of the drills that did not pass, and how many had which outcome.

    Args:
        results: of the drills.
        seed: of the drills.
    """
    lines = [_HEAD, *(_cells(result) for result in results)]
    widths = [max(len(row[column]) for row in lines) for column in range(len(_HEAD))]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in lines]
    reasons = [f"{one.outcome}: {one.scenario} x {one.check}: {one.why}" for one in results if one.outcome != "passed"]
    outcomes = Counter(result.outcome for result in results)
    counts = ", ".join(f"{number} {outcome}" for outcome, number in sorted(outcomes.items()))
    summary = f"{len(results)} drills with seed {seed}: {counts}"
    return "\n".join([*(line.rstrip() for line in table), "", *reasons, summary])


def format_line(result: Result) -> str:
    """Return one drill in one line, for progress messages."""
    numbers = f"lost {result.lost}, doubled {result.doubled}, wrong {result.wrong} of {result.rows}"
    why = "" if result.outcome == "passed" else f": {result.why}"
    return f"{result.outcome:<8} {result.scenario} x {result.check} ({numbers}){why}"


def _cells(result: Result) -> tuple[str, ...]:
    compared = result.outcome in ("passed", "failed")
    numbers = [str(number) if compared else "-" for number in (result.rows, result.lost, result.doubled, result.wrong)]
    times = [
        "-" if seconds is None else f"{seconds:.1f} s"
        for seconds in (result.recover_seconds, result.first_result_seconds)
    ]
    return (result.scenario, result.check, result.outcome, *numbers, *times)
