"""The results: as JSON, one entry a workload, and as a text table of what was just measured."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.measure import BenchmarkRun, Throughput
from benchmarks.workloads import Workload, workloads

_PACKAGES = ("pyspark", "delta-spark", "deltalake", "pyarrow", "numpy", "pandas", "bytewax")


@dataclass(frozen=True, kw_only=True)
class Result:
    """A workload that was measured: runs and throughputs of Panekeeper and of each peer, in order."""

    workload: Workload
    runs: list[BenchmarkRun]
    throughputs: list[Throughput]
    setting: dict[str, Any]
    """How it was measured: rows, keys, rounds; the seconds it took, and the machine's load before and after."""

    def ratios(self, peer: int) -> list[float]:
        """Return Panekeeper's rate divided by that of a peer, round by round.

        Those of one round run one after the other. From round to round the machine may change, and Java compiles more.
        """
        rounds = zip(self.throughputs[0].rates(), self.throughputs[peer + 1].rates(), strict=True)
        return [us / them for us, them in rounds]

    def processor_ratio(self, peer: int) -> float | None:
        """Return a peer's processor time of a row divided by Panekeeper's; None where there are no figures."""
        us, them = self.throughputs[0], self.throughputs[peer + 1]
        ours, theirs = us.all_processor_seconds, them.all_processor_seconds
        return theirs / them.rows / (ours / us.rows) if ours and theirs else None


def write(path: Path, results: list[Result]) -> dict[str, Any]:
    """Put the results in place of earlier ones of the same workloads; return all that the file then holds."""
    entries = {entry["name"]: entry for entry in read(path)["workloads"]} if path.exists() else {}
    entries |= {result.workload.name: as_json(result) for result in results}
    order = {workload.name: number for number, workload in enumerate(workloads())}
    known = sorted((name for name in entries if name in order), key=order.__getitem__)
    content = {"workloads": [entries[name] for name in known]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return content


def read(path: Path) -> dict[str, Any]:
    """Return what `write` wrote."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def as_json(result: Result) -> dict[str, Any]:
    """Return all figures of a workload, its setting and the versions."""
    peers = {}
    for number, peer in enumerate(result.workload.peers):
        throughput, ratios = result.throughputs[number + 1], result.ratios(number)
        processor_ratio = result.processor_ratio(number)
        peers[peer.contender.name] = {
            **_pace(result.runs[number + 1], throughput),
            "ratio": round(median(ratios), 3),
            "ratio_of_rounds": [round(edge, 3) for edge in (min(ratios), max(ratios))],
            "processor_ratio": None if processor_ratio is None else round(processor_ratio, 3),
            "aim": None if peer.aim is None else round(peer.aim, 3),
            "same_results": True,
            "results_compared": throughput.compared,
        }
    return {
        "name": result.workload.name,
        "what": result.workload.what,
        "unit": result.workload.us.unit,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
            "packages": _versions(),
        },
        "setting": result.setting,
        "ours": _pace(result.runs[0], result.throughputs[0]),
        "peers": peers,
    }


def table(entries: list[dict[str, Any]]) -> str:
    """Return results as text, one line for each peer."""
    lines = [
        ("workload", "seconds", "processor", "peer", "seconds", "processor", "ratio", "of rounds", "processor", "aim")
    ]
    for entry in entries:
        first = (entry["name"], f"{entry['ours']['seconds']:.3f}", _processor(entry["ours"]))
        for number, (name, peer) in enumerate(entry["peers"].items()):
            low, high = peer["ratio_of_rounds"]
            lines.append(
                (
                    *(first if number == 0 else ("", "", "")),
                    name,
                    f"{peer['seconds']:.3f}",
                    _processor(peer),
                    f"{peer['ratio']:.2f}",
                    f"{low:.2f}..{high:.2f}",
                    "-" if (ratio := peer.get("processor_ratio")) is None else f"{ratio:.2f}",
                    aim_text(peer),
                )
            )
    return in_columns(lines, numbers={1, 2, 4, 5, 6, 7, 8})


def in_columns(lines: Sequence[Sequence[str]], numbers: set[int]) -> str:
    """Return lines of cells as text, with the columns of these numbers aligned at the right."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _processor(pace: dict[str, Any]) -> str:
    kinds = pace.get("processor_seconds", {})  # entries from before it was counted have none
    return f"{sum(kinds.values()):.3f}" if kinds else "-"


def aim_text(peer: dict[str, Any]) -> str:
    """Return the aim of a ratio and whether it was met; nothing where there is none."""
    if peer["aim"] is None:
        return ""
    return f"{peer['aim']:g}, {'met' if peer['ratio'] >= peer['aim'] else 'missed'}"


def _pace(run: BenchmarkRun, throughput: Throughput) -> dict[str, Any]:
    kinds = throughput.memory[0] if throughput.memory else {}
    return {
        "seconds": round(throughput.seconds, 3),
        "seconds_p99": round(throughput.slowest, 3),
        "rows_per_second": round(throughput.rate),
        "rows_a_batch": run.given.rows,
        "keys": run.given.keys,
        "rows": run.given.rows * run.given.files,
        "memory_mb": {kind: min(peak.get(kind, 0) for peak in throughput.memory) for kind in kinds},
        "processor_seconds": {kind: round(seconds, 3) for kind, seconds in throughput.processor_seconds.items()},
        "processor_rounds": [round(seconds, 3) for seconds in throughput.processor_totals()],
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
