"""`python -m benchmarks`: run the workloads, print a table, write the results.

Exit code 0 if every contender computed the same results as Panekeeper, 1 if one did not. Times do not change the exit
code: they are measured on a machine that may be busy. 2 if there is nothing to run: wrong options, or `--against` with
a commit that is not there or cannot be run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import against, pages, report
from benchmarks.contenders import RunEnvironment
from benchmarks.data import write_input
from benchmarks.measure import BenchmarkRun, Mismatch, Throughput, run_comparison
from benchmarks.report import Result
from benchmarks.workloads import Workload, WorkloadEntry, workloads
from panekeeper import session
from panekeeper.framework.engine.session.spark_folder import MANAGER_SETTING, ON_DISK

WRONG = 1
CANNOT_RUN = 2
RESULTS = Path(__file__).parent / "results.json"
_QUICK: dict[str, Any] = {"rows": 4000, "keys": 100, "rounds": 1, "files": 3}


def main(arguments: list[str]) -> int:
    """Run the benchmarks and return the exit code."""
    options = _options(arguments)
    setting = {"rows": options.rows, "keys": options.keys, "rounds": options.rounds}
    setting = _QUICK if options.quick else setting
    chosen = [w for w in workloads() if not options.only or w.name in options.only]
    if options.against is not None:
        return _against(options.against, chosen, options.out, setting)
    work = options.out / "work"
    options.out.mkdir(parents=True, exist_ok=True)
    with redirected_stderr(options.out / "spark.log"):
        spark = session("panekeeper-benchmarks", **{MANAGER_SETTING: ON_DISK})  # as jobs have it, for all contenders
    shutil.rmtree(work, ignore_errors=True)
    environment = RunEnvironment(spark=spark, folder=work)
    results: list[Result] = []
    content: dict[str, Any] = {}
    try:
        for workload in chosen:
            print(f"\n{workload.name}: {workload.what}", flush=True)
            results.append(_measure(workload, environment, options.out / "input", setting))
            content = report.write(options.results, results)
    except Mismatch as error:
        print(f"\nnot the same results: {error}", file=sys.stderr)
        return WRONG
    finally:
        spark.stop()
        shutil.rmtree(work, ignore_errors=True)
    if options.results == RESULTS:
        pages.write_pages(content)
    print(f"\n{report.table([report.as_json(result) for result in results])}\n\nwritten: {options.results}")
    return 0


def _against(commit: str, chosen: list[Workload], out: Path, setting: dict[str, Any]) -> int:
    """Compare Panekeeper of a commit with that of the work tree; return the exit code."""
    measured: dict[str, tuple[Throughput, Throughput]] = {}
    try:
        with against.sides(commit, out) as both:
            for workload in chosen:
                print(f"\n{workload.name}: {workload.what}", flush=True)
                if missing := [side.name for side in both if workload.name not in side.workloads]:
                    print(f"  not in {missing[0]}", flush=True)
                    continue
                measured[workload.name] = against.run_in_turns(
                    both,
                    workload.name,
                    _run_of(workload.us, out / "input", setting),
                    rounds=setting["rounds"],
                    print_line=lambda text: print(f"  {text}", flush=True),
                )
    except against.CannotCompare as error:
        print(f"python -m benchmarks: {error}", file=sys.stderr)
        return CANNOT_RUN
    finally:
        if measured:
            print(f"\n{against.table(commit, measured)}")
    return 0 if measured else CANNOT_RUN


@contextmanager
def redirected_stderr(path: Path) -> Iterator[None]:
    """Redirect the stderr of Java and its workers, started in here, to a file."""
    ours = os.dup(2)
    try:
        with path.open("wb") as kept:
            os.dup2(kept.fileno(), 2)
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)


def _measure(workload: Workload, environment: RunEnvironment, cache: Path, setting: dict[str, Any]) -> Result:
    began, load = time.monotonic(), os.getloadavg()[0]
    runs = [_run_of(entry, cache, setting) for entry in (workload.us, *workload.peers)]
    throughputs = run_comparison(
        runs[0], runs[1:], environment, rounds=setting["rounds"], print_line=lambda text: print(f"  {text}", flush=True)
    )
    took = {"seconds": round(time.monotonic() - began), "load": [round(load, 1), round(os.getloadavg()[0], 1)]}
    return Result(workload=workload, runs=runs, throughputs=throughputs, setting=setting | took)


def _run_of(entry: WorkloadEntry, cache: Path, setting: dict[str, Any]) -> BenchmarkRun:
    files = setting.get("files", entry.files)
    keys = max(1, setting["keys"] * entry.key_factor // entry.share)
    given = write_input(cache, files=files, rows=max(100, setting["rows"] // entry.share), keys=keys, kind=entry.kind)
    return BenchmarkRun(contender=entry.contender, given=given, warm=min(entry.warm, files - 1))


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure Panekeeper and its alternatives on the same rows."
    )
    names = [workload.name for workload in workloads()]
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=f"some of: {', '.join(names)}")
    parser.add_argument(
        "--against",
        metavar="COMMIT",
        help="run Panekeeper of a commit and of the work tree in turns; no results are written",
    )
    parser.add_argument("--rows", type=int, default=500_000, help="rows of a micro-batch (default: 500000)")
    parser.add_argument("--keys", type=int, default=10_000, help="different keys (default: 10000)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each contender is measured (default: 3)")
    parser.add_argument("--quick", action="store_true", help="a few thousand rows, one round: do the results agree?")
    parser.add_argument("--out", type=Path, default=Path("out/bench"), help="folder for input and runs")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where to write the results")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
