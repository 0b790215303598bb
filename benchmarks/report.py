"""The results: as a table for the reader, as JSON for whoever compares runs."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.measure import Entry, Pace
from benchmarks.workloads import Workload

_PACKAGES = ("pyspark", "delta-spark", "pyarrow", "numpy", "pandas", "bytewax")


@dataclass(frozen=True, kw_only=True)
class Result:
    """A workload that was measured: entries and paces of ours and of each peer, in order."""

    workload: Workload
    entries: list[Entry]
    paces: list[Pace]

    @property
    def ratios(self) -> list[float]:
        """Our rate, in rates of each peer."""
        return [self.paces[0].rate / pace.rate for pace in self.paces[1:]]

    def ratio_range(self, peer: int) -> tuple[float, float]:
        """The least and the greatest ratio of one round."""
        rounds = zip(self.paces[0].rates(), self.paces[peer + 1].rates(), strict=True)
        ratios = [us / them for us, them in rounds]
        return min(ratios), max(ratios)


def as_json(results: list[Result], setting: dict[str, Any]) -> dict[str, Any]:
    """Return everything that was measured."""
    return {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
            "packages": _versions(),
        },
        "setting": setting,
        "workloads": [_workload(result) for result in results],
    }


def write(path: Path, content: dict[str, Any]) -> None:
    """Write the results."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def table(results: list[Result]) -> str:
    """Return the results as text, a line a peer."""
    lines = [("workload", "rows/s", "peer", "rows/s", "ratio", "of rounds", "aim")]
    for result in results:
        first = (result.workload.name, f"{result.paces[0].rate:,.0f}")
        peers = zip(result.workload.peers, result.paces[1:], result.ratios, strict=True)
        for number, (peer, pace, ratio) in enumerate(peers):
            low, high = result.ratio_range(number)
            lines.append(
                (
                    *(first if number == 0 else ("", "")),
                    peer.side.name,
                    f"{pace.rate:,.0f}",
                    f"{ratio:.2f}",
                    f"{low:.2f}..{high:.2f}",
                    f"{peer.aim:.2f} {'met' if ratio >= (peer.aim or 0) else 'missed'}",
                )
            )
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    numbers = {1, 3, 4, 5}
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _workload(result: Result) -> dict[str, Any]:
    peers = {}
    for number, (peer, ratio) in enumerate(zip(result.workload.peers, result.ratios, strict=True)):
        pace, low_high = result.paces[number + 1], result.ratio_range(number)
        peers[peer.side.name] = {
            **_pace(result.entries[number + 1], pace),
            "ratio": round(ratio, 3),
            "ratio_of_rounds": [round(edge, 3) for edge in low_high],
            "aim": round(peer.aim or 0, 3),
            "same_results": True,
            "results_compared": pace.compared,
        }
    return {
        "name": result.workload.name,
        "what": result.workload.what,
        "ours": _pace(result.entries[0], result.paces[0]),
        "peers": peers,
    }


def _pace(entry: Entry, pace: Pace) -> dict[str, Any]:
    return {
        "rows_per_second": round(pace.rate),
        "seconds_a_batch": round(pace.seconds, 3),
        "rows_a_batch": entry.given.rows,
        "keys": entry.given.keys,
        "rows": entry.given.rows * entry.given.files,
        "steady_batches": [[round(seconds, 3) for seconds in batches] for batches in pace.rounds],
    }


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
