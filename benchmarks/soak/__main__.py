"""`python -m benchmarks.soak`: load a job from Kafka, kill it at random times, and account for every row.

Exit code 0 if each row is in its result, once; 1 if one is lost, doubled or wrong, or the job ended by itself.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.pages import between_marks
from benchmarks.soak.broker import Broker
from benchmarks.soak.capacity import capacity, rounded_rate
from benchmarks.soak.kills import default_kills, kill_times
from benchmarks.soak.load import SECOND, Load
from benchmarks.soak.report import figures, page
from benchmarks.soak.run import JobOptions, Soak
from benchmarks.soak.supervisor import ROOT, JobCannotRun

RESULTS = Path(__file__).with_name("results.json")
PAGE = ROOT / "docs" / "soak.md"
_TERMINATED = 128 + signal.SIGTERM
_HEAD_START_S = 2.0  # until the generator's first row
_BACKLOG_ROWS, _BACKLOG_BATCHES, _NOMINAL_RATE = 2_000_000, 10, 20_000
_BATCH_SECONDS = 10  # a batch takes at most the rows of so long a time


def main(arguments: list[str]) -> int:
    """Run the load test and return the exit code."""
    options = _options(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    try:
        return _run(options)
    except (JobCannotRun, TimeoutError) as error:
        print(f"the load test cannot go on: {error}", file=sys.stderr)
        return 1


def _run(options: argparse.Namespace) -> int:
    load_before, measured = os.getloadavg()[0], None
    with TemporaryDirectory(prefix="broker-", dir=options.out) as folder:
        broker = Broker(Path(folder).absolute())
        try:
            if options.rate is None:
                measured = _capacity(options, broker)
                options.rate = rounded_rate(measured)
                _say(f"this machine processes {measured:,.0f} rows a second")
            load, job = _load(options), _job(options, _BATCH_SECONDS * options.rate)
            kills = kill_times(seed=options.seed, seconds=options.minutes * 60, kills=options.kills)
            _say(f"{load.rows:,} rows in {options.minutes:g} minutes, {len(kills)} kills")
            outcome = Soak(broker, load, job, _folder(options.out / "run"), _say).run(kills)
        finally:
            broker.kill()
    setting = {
        "minutes": options.minutes,
        "capacity": None if measured is None else round(measured),
        "load": [round(load_before, 1), round(os.getloadavg()[0], 1)],
    }
    _write(options, figures(load, job, outcome, setting))
    return 0 if outcome.is_right else 1


def _write(options: argparse.Namespace, content: dict[str, Any]) -> None:
    text, printed = page(content), json.dumps(content, indent=1) + "\n"
    (options.out / "results.json").write_text(printed, encoding="utf-8")
    (options.out / "report.md").write_text(text + "\n", encoding="utf-8")
    if options.publish:
        RESULTS.write_text(printed, encoding="utf-8")
        PAGE.write_text(between_marks(PAGE.read_text(encoding="utf-8"), text), encoding="utf-8")
    print(f"\n{text}\n\nwritten: {options.out / 'results.json'}, {options.out / 'report.md'}", flush=True)


def _capacity(options: argparse.Namespace, broker: Broker) -> float:
    _say(f"no --rate: how fast does the job read {_BACKLOG_ROWS:,} rows?")
    load = replace(_load(options, rate=_NOMINAL_RATE), rows=_BACKLOG_ROWS)
    job = _job(options, _BACKLOG_ROWS // _BACKLOG_BATCHES)
    return capacity(Soak(broker, load, job, _folder(options.out / "capacity"), _say), _BACKLOG_ROWS)


def _load(options: argparse.Namespace, rate: int | None = None) -> Load:
    rate = options.rate if rate is None else rate
    return Load(
        seed=options.seed,
        rate=rate,
        rows=max(1, round(rate * options.minutes * 60)),
        keys=options.keys,
        hot_share=options.hot_share,
        start_us=int((time.time() + _HEAD_START_S) * SECOND),
        pane_us=options.pane * SECOND,
        delay_us=options.watermark * SECOND,
    )


def _job(options: argparse.Namespace, most_rows: int) -> JobOptions:
    return JobOptions(
        pane=f"{options.pane} seconds",
        watermark=f"{options.watermark} seconds",
        discard_age=f"{options.discard_age} seconds",
        trigger=options.trigger,
        most_rows=most_rows,
    )


def _folder(path: Path) -> Path:
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    return path.absolute()


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=15, help="how long rows are sent (default: 15)")
    parser.add_argument("--rate", type=int, help="rows a second (default: by what the job reads of a backlog)")
    parser.add_argument("--keys", type=int, default=1_000_000, help="different keys (default: 1000000)")
    parser.add_argument("--hot-share", type=float, default=0.05, help="share of the rows with one key (default: 0.05)")
    parser.add_argument("--kills", type=int, help="how often the job is killed (default: once in three minutes)")
    parser.add_argument("--seed", type=int, default=1, help="of rows and kills (default: 1)")
    parser.add_argument("--pane", type=int, default=5, help="length of a pane, s (default: 5)")
    parser.add_argument("--watermark", type=int, default=2, help="the watermark's delay, s (default: 2)")
    parser.add_argument("--discard-age", type=int, default=60, help="how long a pane takes late rows, s (default: 60)")
    parser.add_argument("--trigger", default="immediate", help='of the query, such as "1 second" (default: immediate)')
    parser.add_argument("--out", type=Path, default=Path("out/soak"), help="folder for the run (default: out/soak)")
    parser.add_argument("--publish", action="store_true", help="write the figures into docs/soak.md, too")
    options = parser.parse_args(arguments)
    options.kills = default_kills(options.minutes) if options.kills is None else options.kills
    return options


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))  # by way of `finally`: nothing is left running
    sys.exit(main(sys.argv[1:]))
