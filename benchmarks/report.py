"""The results: as a text table, and as JSON to compare runs."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.measure import BenchmarkRun, Throughput
from benchmarks.workloads import Workload

_PACKAGES = ("pyspark", "delta-spark", "pyarrow", "numpy", "pandas", "bytewax")


@dataclass(frozen=True, kw_only=True)
class Result:
    """A workload that was measured: runs and throughputs of Panekeeper and of each peer, in order."""

    workload: Workload
    runs: list[BenchmarkRun]
    throughputs: list[Throughput]

    @property
    def ratios(self) -> list[float]:
        """Panekeeper's rate divided by that of each peer."""
        return [self.throughputs[0].rate / throughput.rate for throughput in self.throughputs[1:]]

    def ratio_range(self, peer: int) -> tuple[float, float]:
        """Return the least and the greatest ratio of one round."""
        rounds = zip(self.throughputs[0].rates(), self.throughputs[peer + 1].rates(), strict=True)
        ratios = [us / them for us, them in rounds]
        return min(ratios), max(ratios)


def as_json(results: list[Result], setting: dict[str, Any]) -> dict[str, Any]:
    """Return all figures, the settings and the versions, as they are written to `results.json`."""
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
    """Return the results as text, one line for each peer."""
    lines = [("workload", "rows/s", "peer", "rows/s", "ratio", "of rounds", "aim")]
    for result in results:
        first = (result.workload.name, f"{result.throughputs[0].rate:,.0f}")
        peers = zip(result.workload.peers, result.throughputs[1:], result.ratios, strict=True)
        for number, (peer, throughput, ratio) in enumerate(peers):
            low, high = result.ratio_range(number)
            lines.append(
                (
                    *(first if number == 0 else ("", "")),
                    peer.contender.name,
                    f"{throughput.rate:,.0f}",
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
        throughput, low_high = result.throughputs[number + 1], result.ratio_range(number)
        peers[peer.contender.name] = {
            **_pace(result.runs[number + 1], throughput),
            "ratio": round(ratio, 3),
            "ratio_of_rounds": [round(edge, 3) for edge in low_high],
            "aim": round(peer.aim or 0, 3),
            "same_results": True,
            "results_compared": throughput.compared,
        }
    return {
        "name": result.workload.name,
        "what": result.workload.what,
        "ours": _pace(result.runs[0], result.throughputs[0]),
        "peers": peers,
    }


def _pace(run: BenchmarkRun, throughput: Throughput) -> dict[str, Any]:
    return {
        "rows_per_second": round(throughput.rate),
        "seconds_a_batch": round(throughput.seconds, 3),
        "rows_a_batch": run.given.rows,
        "keys": run.given.keys,
        "rows": run.given.rows * run.given.files,
        "steady_batches": [[round(seconds, 3) for seconds in batches] for batches in throughput.rounds],
    }


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
