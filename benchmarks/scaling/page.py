"""The generated part of docs/scaling.md: tables of what was measured."""

from __future__ import annotations

from typing import Any

from benchmarks.scaling.points import PANEKEEPER, SPARK


def page(content: dict[str, Any]) -> str:
    """Return it."""
    machine, loads = content["machine"], " to ".join(f"{load:g}" for load in content["load"])
    how = (
        f"{content['made'][:10]}, {machine['cores']} cores, load {loads} (with the benchmark's own): "
        f"{content['rows']:,} rows a batch, median of {content['files'] - content['warm']} batches."
    )
    return "\n\n".join([how, _against_keys(content), _against_key_groups(content)])


def against_keys(content: dict[str, Any], contender: str) -> list[tuple[int, float]]:
    """Return keys and seconds of the points of one contender."""
    return [
        (one["keys"], one["seconds"])
        for one in content["points"]
        if one["contender"] == contender and one["key_groups"] is None
    ]


def against_key_groups(content: dict[str, Any]) -> list[tuple[int, float]]:
    """Return key groups and seconds."""
    return [(one["key_groups"], one["seconds"]) for one in content["points"] if one["key_groups"] is not None]


def _against_keys(content: dict[str, Any]) -> str:
    ours, theirs = dict(against_keys(content, PANEKEEPER)), dict(against_keys(content, SPARK))
    lines = [f"| keys | {PANEKEEPER}, s | {SPARK}, s |", "| --- | --- | --- |"]
    lines += [f"| {keys:,} | {ours[keys]:.2f} | {theirs[keys]:.2f} |" for keys in sorted(ours)]
    return "\n".join(lines)


def _against_key_groups(content: dict[str, Any]) -> str:
    keys = next((one["keys"] for one in content["points"] if one["key_groups"] is not None), 0)
    lines = [f"| key groups, of {keys:,} keys | {PANEKEEPER}, s |", "| --- | --- |"]
    lines += [f"| {groups:,} | {seconds:.2f} |" for groups, seconds in against_key_groups(content)]
    return "\n".join(lines)
