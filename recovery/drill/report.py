"""Shows the results of drills: as a table, as JSON-able fields, and as a self-contained page of HTML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from html import escape
from typing import Any

from panekeeper.recovery.drill.runner import Result

_HEAD = ("scenario", "check", "outcome", "rows", "lost", "doubled", "wrong", "back after", "first result")
_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Restart drills</title>
<style>
body {{ font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; color: #222 }}
table {{ border-collapse: collapse; width: 100% }}
th, td {{ padding: .3rem .6rem; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top }}
td.number {{ text-align: right; font-variant-numeric: tabular-nums }}
.passed {{ color: #137333 }} .failed {{ color: #b3261e; font-weight: 600 }}
.unknown, .skipped, .not-run {{ color: #8a5a00; font-weight: 600 }}
.why {{ color: #666; font-size: 13px; overflow-wrap: anywhere }}
</style>
<h1>Restart drills</h1>
<p>{summary}</p>
<p>{made}</p>
<table><thead><tr>{head}</tr></thead><tbody>
{rows}
</tbody></table>
</html>
"""


def report_fields(results: Sequence[Result], *, seed: int, began: datetime) -> dict[str, Any]:
    """Return the report, JSON-able.

    Args:
        results: of the drills.
        seed: of the drills.
        began: when the first drill began.
    """
    return {
        "began": began.astimezone(UTC).isoformat(timespec="seconds"),
        "seed": seed,
        "passed": passed(results),
        "outcomes": dict(Counter(result.outcome for result in results)),
        "results": [asdict(result) for result in results],
    }


def passed(results: Iterable[Result]) -> bool:
    """Return whether there were drills and every one of them passed."""
    outcomes = {result.outcome for result in results}
    return outcomes == {"passed"}


def format_table(fields: dict[str, Any]) -> str:
    """Return a report as a table, the reasons of the drills that did not pass, and a summary."""
    results = [Result(**one) for one in fields["results"]]
    lines = [_cells(result) for result in results]
    widths = [max(len(row[column]) for row in [_HEAD, *lines]) for column in range(len(_HEAD))]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in [_HEAD, *lines]]
    reasons = [f"{one.outcome}: {one.scenario} x {one.check}: {one.why}" for one in results if one.outcome != "passed"]
    return "\n".join([*(line.rstrip() for line in table), "", *reasons, summary(fields)])


def format_line(result: Result) -> str:
    """Return one drill in one line, for progress messages."""
    numbers = f"lost {result.lost}, doubled {result.doubled}, wrong {result.wrong} of {result.rows}"
    why = "" if result.outcome == "passed" else f": {result.why}"
    return f"{result.outcome:<8} {result.scenario} x {result.check} ({numbers}){why}"


def summary(fields: dict[str, Any]) -> str:
    """Return how many drills had which outcome."""
    counts = ", ".join(f"{number} {outcome}" for outcome, number in sorted(fields["outcomes"].items()))
    return f"{len(fields['results'])} drills with seed {fields['seed']}, {fields['began']}: {counts}"


def format_html(fields: dict[str, Any]) -> str:
    """Return a report as a page of HTML."""
    results = [Result(**one) for one in fields["results"]]
    head = "".join(f"<th>{escape(name)}</th>" for name in (*_HEAD, "what happened"))
    return _PAGE.format(
        summary=escape(summary(fields)),
        made=escape(
            "Lost, doubled and wrong are numbers of result rows, found by comparison with an independent oracle."
        ),
        head=head,
        rows="\n".join(_html_row(result) for result in results),
    )


def _html_row(result: Result) -> str:
    scenario, check, outcome, *numbers = _cells(result)
    kind = result.outcome.replace(" ", "-")
    cells = [f"<td>{escape(scenario)}</td>", f"<td>{escape(check)}</td>", f'<td class="{kind}">{escape(outcome)}</td>']
    cells += [f'<td class="number">{escape(number)}</td>' for number in numbers]
    cells.append(f'<td class="why">{escape(result.why)}</td>')
    return f"<tr>{''.join(cells)}</tr>"


def _cells(result: Result) -> tuple[str, ...]:
    compared = result.outcome in ("passed", "failed")
    numbers = [str(number) if compared else "-" for number in (result.rows, result.lost, result.doubled, result.wrong)]
    times = [
        "-" if seconds is None else f"{seconds:.1f} s"
        for seconds in (result.recover_seconds, result.first_result_seconds)
    ]
    return (result.scenario, result.check, result.outcome, *numbers, *times)
