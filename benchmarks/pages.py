"""What pages say of the results: tables and sentences made from `results.json`, each between two marks.

`python -m benchmarks` writes them after each run. A test compares them with the file, so they never differ from it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.report import aim_text

_ROOT = Path(__file__).parent.parent
_WIDTH = 120
_BEGIN, _END = "<!-- results.json -->", "<!-- end -->"


def pages(content: dict[str, Any]) -> dict[Path, str]:
    """Return each page with what it says of the results."""
    said = {
        _ROOT / "benchmarks" / "README.md": f"{_when(content)}\n\n{_ratios(content)}\n\n{_seconds(content)}",
        _ROOT / "README.md": _sentence(content),
    }
    return {page: between_marks(page.read_text(encoding="utf-8"), text) for page, text in said.items()}


def write_pages(content: dict[str, Any]) -> None:
    """Write the pages."""
    for page, text in pages(content).items():
        page.write_text(text, encoding="utf-8")


def between_marks(page: str, text: str) -> str:
    """Return a page with the text between its marks."""
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"a page of results needs the marks {_BEGIN} and {_END}")
    return f"{before}{begin}\n{text}\n{end}{after}"


def _when(content: dict[str, Any]) -> str:
    entries = content["workloads"]
    days = sorted({entry["made"][:10] for entry in entries})
    loads = [load for entry in entries for load in entry["setting"]["load"]]
    rounds = sorted({entry["setting"]["rounds"] for entry in entries})
    cores = sorted({entry["machine"]["cores"] for entry in entries})
    return _wrapped(
        f"Measured on {_range(cores)} cores, {_range(days)}, {_range(rounds)} rounds, at a load of {min(loads):g} to "
        f"{max(loads):g}, the load of the benchmark itself included."
    )


def _ratios(content: dict[str, Any]) -> str:
    lines = [
        "| workload | peer | ratio (of single rounds) | of processor time | aim |",
        "| --- | --- | --- | --- | --- |",
    ]
    for entry in content["workloads"]:
        for name, peer in entry["peers"].items():
            low, high = peer["ratio_of_rounds"]
            ratio = f"{_short(peer['ratio'])} ({_short(low)} to {_short(high)})"
            processor = peer.get("processor_ratio")  # entries from before it was counted have none
            of_processor = "-" if processor is None else _short(processor)
            lines.append(f"| {entry['what']} | {name} | {ratio} | {of_processor} | {aim_text(peer) or '-'} |")
    return "\n".join(lines)


def _seconds(content: dict[str, Any]) -> str:
    of_processes = "processor s a batch: driver, Java, workers | MB: driver, Java, workers"
    lines = [
        f"| `--only` | contender | rows | median | 99th percentile | | {of_processes} |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for entry in content["workloads"]:
        for name, pace in {"panekeeper": entry["ours"], **entry["peers"]}.items():
            memory = ", ".join(f"{size:,}" for size in pace["memory_mb"].values()) or "-"
            processor = ", ".join(f"{seconds:.2f}" for seconds in pace.get("processor_seconds", {}).values()) or "-"
            figures = f"{pace['rows_a_batch']:,} | {pace['seconds']:.3f} | {pace['seconds_p99']:.3f} | {entry['unit']}"
            lines.append(f"| {entry['name']} | {name} | {figures} | {processor} | {memory} |")
    return "\n".join(lines)


def _sentence(content: dict[str, Any]) -> str:
    ratios = {entry["name"]: next(iter(entry["peers"].values()))["ratio"] for entry in content["workloads"]}
    return _wrapped(
        "How fast it is beside Spark's own windows: `make bench` measures both in one run. Last time "
        f"{_short(ratios['overlapping'])} times Spark's `groupBy(window)` where panes overlap 30-fold, "
        f"{_short(ratios['tumbling'])} times where they only touch, and "
        f"{_short(ratios['to-delta-1000'])} to {_short(ratios['to-delta-500000'])} times where both write Delta tables "
        "(1,000 to 500,000 rows a batch); "
        f"{_short(ratios['contents'])} times `transformWithStateInPandas` with a Python function of all rows: "
        "[figures and method](benchmarks/README.md), [why](docs/decisions/0010-what-a-batch-costs.md)."
    )


def _short(ratio: float) -> str:
    return f"{float(f'{ratio:.2g}'):g}"


def _range(values: list[Any]) -> str:
    return f"{values[0]}" if len(values) == 1 else f"{values[0]} to {values[-1]}"


def _wrapped(text: str) -> str:
    lines, line = [], ""
    for word in text.split(" "):
        if line and len(line) + 1 + len(word) > _WIDTH:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return "\n".join([*lines, line])
