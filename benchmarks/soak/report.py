"""What is printed and written of a run: JSON, and a page in Markdown that is made from it."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from benchmarks.soak.latency import PaneLatency, Recovery, percentile, undisturbed
from benchmarks.soak.load import SECOND, Load
from benchmarks.soak.run import JobOptions, Outcome
from panekeeper.framework.engine.session.session import usable_memory

_WHOLE = 100  # from there on no digits after the point are shown


def figures(load: Load, job: JobOptions, outcome: Outcome, setting: dict[str, Any]) -> dict[str, Any]:
    """Return all figures of a run.

    Args:
        load: what was sent.
        job: how the job was declared.
        outcome: what happened.
        setting: what else is to be known of it: minutes, capacity, the machine's load before.
    """
    found = outcome.differences
    total = outcome.sending_seconds + (outcome.drain_seconds or 0)
    return {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "memory_gb": round(usable_memory() / (1 << 30), 1),
            "system": platform.platform(),
            "python": platform.python_version(),
        },
        "setting": setting | _setting(load, job),
        "right": outcome.is_right,
        "problems": outcome.problems,
        "rows": {
            "sent": outcome.sent,
            "results": found.results,
            "lost": found.lost,
            "doubled": found.doubled,
            "wrong_results": found.wrong,
            "repeated_firings": found.repeated,
            "examples": list(found.examples),
        },
        "sent_per_second": round(outcome.sent / outcome.sending_seconds),
        "processed_per_second": round(outcome.sent / total),
        "most_rows_behind_in_generator": outcome.most_behind,
        "lag_at_end_rows": outcome.lag_rows,
        "drain_seconds": _rounded(outcome.drain_seconds),
        "latency_seconds": {
            "all": _latency(outcome.latencies),
            "without_recoveries": _latency(undisturbed(outcome.latencies, outcome.recoveries)),
        },
        "kills": outcome.kills,
        "recoveries": [_recovery(one, load) for one in outcome.recoveries],
        **outcome.footprint.figures(),
    }


def _setting(load: Load, job: JobOptions) -> dict[str, Any]:
    return {
        "rate": load.rate,
        "keys": load.keys,
        "hot_share": load.hot_share,
        "seed": load.seed,
        "pane": job.pane,
        "watermark": job.watermark,
        "discard_age": job.discard_age,
        "trigger": job.trigger,
    }


def page(content: dict[str, Any]) -> str:
    """Return the generated part of the page on load tests."""
    setting, machine = content["setting"], content["machine"]
    most = setting["capacity"]
    capacity = f" ({setting['rate'] / most:.0%} of what it reads of a backlog)" if most else ""
    loads = " to ".join(f"{load:g}" for load in setting["load"])
    how = (
        f"{content['made'][:10]}, {machine['cores']} cores, {machine['memory_gb']:g} GB of memory, load {loads} (with "
        f"the test's own): {setting['minutes']:g} minutes at {setting['rate']:,} rows a second{capacity}, "
        f"{setting['keys']:,} keys, one with {setting['hot_share']:.0%} of all rows; panes of {setting['pane']}, "
        f"watermark {setting['watermark']}, discard age {setting['discard_age']}, query trigger {setting['trigger']}, "
        f"{content['kills']} kills, seed {setting['seed']}."
    )
    parts = [
        how,
        _verdict(content),
        _table("", "", _totals(content)),
        _table("latency of a pane, s", "panes | median | 99th percentile | greatest", _latencies(content)),
        _table("", "at minute | first commit after, s | caught up after, s", _recoveries(content)),
        _table("MB", "greatest | growth | growth in one process", _sizes(content)),
    ]
    return "\n\n".join(parts)


def _verdict(content: dict[str, Any]) -> str:
    rows = content["rows"]
    if content["right"]:
        return (
            f"**All {rows['sent']:,} rows are in their results, once: {rows['results']:,} counts and sums are right.**"
        )
    wrong = (
        f"**Not right:** {rows['lost']:,} rows lost, {rows['doubled']:,} doubled, {rows['wrong_results']:,} results "
        f"with a wrong sum, {rows['repeated_firings']:,} firings twice in the table."
    )
    lines = [wrong, "", *(f"* {example}" for example in [*rows["examples"], *content["problems"]])]
    return "\n".join(lines)


def _totals(content: dict[str, Any]) -> list[list[str]]:
    drained = content["drain_seconds"]
    return [
        ["rows sent a second", f"{content['sent_per_second']:,}"],
        ["rows processed a second, to the last result", f"{content['processed_per_second']:,}"],
        ["rows not yet committed when the last one was sent", f"{content['lag_at_end_rows']:,}"],
        ["seconds until they were", "not in time" if drained is None else f"{drained:g}"],
    ]


def _latencies(content: dict[str, Any]) -> list[list[str]]:
    names = {"all": "all", "without_recoveries": "while the job neither was down nor caught up"}
    found = []
    for key, name in names.items():
        one = content["latency_seconds"][key]
        found.append([name, str(one["panes"]), *(_text(one[column]) for column in ("p50", "p99", "max"))])
    return found


def _recoveries(content: dict[str, Any]) -> list[list[str]]:
    return [
        ["killed" if number else "first start", f"{one['minute']:g}", _text(one["committed"]), _text(one["caught_up"])]
        for number, one in enumerate(content["recoveries"])
    ]


def _sizes(content: dict[str, Any]) -> list[list[str]]:
    names = {"driver": "memory of the driver (Python)", "java": "of Java", "workers": "of the Python workers"}
    rows = [
        [name, _text(one["max"]), _text(one["growth"]), _text(one["growth_of_longest_process"])]
        for kind, name in names.items()
        for one in [content["memory_mb"][kind]]
    ]
    state = content["state_mb"]
    return [*rows, ["state on disk", _text(state["max"]), _text(state["growth"]), "-"]]


def _table(first: str, others: str, rows: Sequence[Sequence[str]]) -> str:
    head = [first, *(others.split(" | ") if others else [""])]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |".replace("|  |", "| |") for line in lines)


def _latency(latencies: Sequence[PaneLatency]) -> dict[str, float | int | None]:
    seconds = [one.seconds for one in latencies]
    shares = {"p50": percentile(seconds, 0.5), "p99": percentile(seconds, 0.99), "max": max(seconds, default=None)}
    return {"panes": len(seconds), **{name: _rounded(value) for name, value in shares.items()}}


def _recovery(one: Recovery, load: Load) -> dict[str, float | None]:
    committed, caught_up = (None if at is None else at - one.began for at in (one.committed, one.caught_up))
    minute = max(0.0, one.began - load.start_us / SECOND) / 60
    return {"minute": round(minute, 1), "committed": _rounded(committed), "caught_up": _rounded(caught_up)}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 2)


def _text(value: float | None) -> str:
    return "-" if value is None else f"{round(value) if abs(value) >= _WHOLE else value:,g}"
