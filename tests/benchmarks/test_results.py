"""Figures of the benchmarks: parts of a run are put together, and what is watched from outside is found."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.__main__ import RESULTS
from benchmarks.contenders import TimedBatch
from benchmarks.data import Input, file_start_us
from benchmarks.into_delta import VisiblePanes
from benchmarks.measure import BenchmarkRun, Throughput
from benchmarks.memory import peak_memory
from benchmarks.pages import pages
from benchmarks.processor import ProcessorTime
from benchmarks.report import Result, as_json, read, table, write
from benchmarks.workloads import workloads

README = RESULTS.with_name("README.md")


def result(name: str, ours: float, theirs: float) -> Result:
    """A workload that was measured in one round of two batches."""
    (workload,) = (one for one in workloads() if one.name == name)
    workload = replace(workload, peers=workload.peers[:1])
    given = Input(folder=Path("in"), files=2, rows=1000, keys=10)
    return Result(
        workload=workload,
        runs=[BenchmarkRun(contender=one.contender, given=given, warm=0) for one in (workload.us, *workload.peers)],
        throughputs=[
            Throughput(
                rows=1000,
                rounds=[[seconds, seconds]],
                memory=[{"java": 5}],
                processor=[{"driver": seconds, "java": 2 * seconds, "workers": 0.0}],
            )
            for seconds in (ours, theirs)
        ],
        setting={"rows": 1000, "keys": 10, "rounds": 1, "seconds": 4, "load": [1.0, 2.0]},
    )


def whole(entry: dict[str, Any]) -> dict[str, Any]:
    """Return all that is published, with this entry in the place of its workload's."""
    entries = {one["name"]: one for one in read(RESULTS)["workloads"]} | {entry["name"]: entry}
    return {"workloads": list(entries.values())}


def test_a_part_replaces_its_own_figures_and_leaves_the_others(tmp_path: Path) -> None:
    """Workloads are measured in any parts, and stand in the file in their own order."""
    path = tmp_path / "results.json"
    write(path, [result("start", 2.0, 1.0), result("tumbling", 2.0, 1.0)])
    content = write(path, [result("start", 1.0, 3.0)])
    assert content == read(path)
    ratios = {entry["name"]: next(iter(entry["peers"].values()))["ratio"] for entry in content["workloads"]}
    assert list(ratios.items()) == [("tumbling", 0.5), ("start", 3.0)]
    assert "3.00" in table(content["workloads"])


def test_a_ratio_is_of_what_ran_in_one_round() -> None:
    """A machine that is slower in one round changes no ratio, whatever batches make the median of both rounds."""
    measured = result("tumbling", 1.0, 2.0)
    for throughput, batches in zip(measured.throughputs, ([4.0, 4.0, 2.0], [8.0, 8.0, 8.0]), strict=True):
        throughput.rounds.append(batches)
    (peer,) = as_json(measured)["peers"].values()
    assert (peer["ratio"], peer["ratio_of_rounds"]) == (2.0, [2.0, 2.0])


def test_the_processor_time_of_a_batch_stands_beside_its_seconds() -> None:
    """By kind of process; the ratio is that of all of them together, for a row."""
    measured = result("tumbling", 2.0, 1.0)
    measured.throughputs[1].rows = 500
    entry = as_json(measured)
    (peer,) = entry["peers"].values()
    assert entry["ours"]["processor_seconds"] == {"driver": 2.0, "java": 4.0, "workers": 0.0}
    assert peer["processor_rounds"] == [3.0]
    assert peer["processor_ratio"] == 1.0
    assert "6.000" in table([entry])
    assert "2.00, 4.00, 0.00" in pages(whole(entry))[README]


def test_a_run_counts_the_processor_time_of_all_its_batches() -> None:
    """Its start and the batches that do not count are in it, so it is divided by the number of all files."""
    (one,) = (run for run in result("tumbling", 1.0, 1.0).runs[:1])
    taken, throughput = ProcessorTime(), Throughput(rows=1000)
    taken.seconds = {"driver": 1.0, "java": 3.0}
    throughput.add_round([TimedBatch(1000, 0.5)] * 2, replace(one, warm=1), taken)
    assert throughput.rounds == [[0.5]]
    assert throughput.processor_seconds == {"driver": 0.5, "java": 1.5}
    assert throughput.all_processor_seconds == 2.0


def test_entries_from_before_processor_time_was_counted_stay_valid() -> None:
    """So do those of a system that does not count it: a dash stands there."""
    entry = as_json(result("tumbling", 2.0, 1.0))
    (peer,) = entry["peers"].values()
    for key in ("processor_seconds", "processor_rounds"):
        del entry["ours"][key], peer[key]
    del peer["processor_ratio"]
    assert "| 0.5 (0.5 to 0.5) | - |" in pages(whole(entry))[README]
    assert table([entry]).splitlines()[1].split()[:3] == ["tumbling", "2.000", "-"]


def test_panes_are_visible_from_the_commit_that_has_them(tmp_path: Path) -> None:
    """The log of a Delta table is read as it grows; the statistics of its files say which panes there are."""
    log = tmp_path / "_delta_log"
    log.mkdir()
    visible = VisiblePanes(tmp_path, [file_start_us(0), file_start_us(1)])
    stats = json.dumps({"maxValues": {"pane_start": "2023-11-14T22:13:20.000Z"}})
    lines = [{"commitInfo": {}}, {"add": {"path": "a", "stats": stats}}, {"add": {"path": "b"}}]
    visible.look()
    assert not visible.has(0)
    (log / f"{0:020d}.json").write_text("\n".join(map(json.dumps, lines)))
    visible.look()
    assert visible.has(0)
    assert not visible.has(1)


def test_the_memory_of_this_process_is_the_drivers() -> None:
    """Where there is no Java machine, there is none to measure; elsewhere than on Linux there are no figures."""
    with peak_memory() as peak:
        peak.sample()
    assert peak.megabytes["driver"] > 10
    assert peak.megabytes["java"] == 0
