"""Runs the flights from Kafka on two workers into Delta tables on S3, and breaks the stack meanwhile.

Kafka is restarted, the store is away for 20 s, a worker is killed, the driver is killed, and the job is taken back to a
savepoint. At the end every row must equal DuckDB's result over the published file.
"""

import argparse
import re
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from rich.console import Console

from examples.flights.data import Replay, around, file_boundaries, in_replay_order, raw_flights
from examples.flights.oracle import Oracle
from examples.flights.report import Results, print_comparison, print_tables, worst_hours
from examples.flights.tables import LOG, QUARANTINE, VIEW, read_table
from examples.stack.services import Stack, StackError, Submission, download

PROGRAM = "examples/flights/kafka_main.py"
SAVED, RESTORED = 2, 7
"""The numbers of files that the job has read when its savepoint is made, and when it is restored."""
SLOW_FILES = 6
"""Into how many files the worst day is split: as few as give each fault a file of its own."""
STORE_AWAY_S = 20
_ATTEMPTS = 3
_BUCKET = "flights"


class Run:
    """One replay, with a topic and a folder of its own."""

    def __init__(self, console: Console, stack: Stack, days: int) -> None:
        self._console = console
        self._stack = stack
        self._days = days
        self._name = f"flights-{datetime.now(UTC):%Y%m%d-%H%M%S}"
        self._place = f"s3a://{_BUCKET}/{self._name}"
        self._savepoints = f"s3://{_BUCKET}/{self._name}/savepoints"
        self._submissions = 0

    def go(self) -> bool:
        """Run the replay with everything that happens to it; return whether the tables are as expected."""
        self._stack.up()
        self._stack.create_bucket(_BUCKET)
        self._say(f"the first {SAVED} files: Kafka -> windows on two workers -> Delta in {self._place}")
        self._submit(SAVED).wait()
        self._say("a savepoint")
        checkpoint = f"{self._place}/checkpoint"
        self._stack.panekeeper("savepoint", checkpoint, "before", "--to", self._savepoints)
        self._break_services()
        self._say("the driver is submitted again, in a fresh container")
        self._submit(RESTORED).wait()
        self._stack.compose("start", "worker-1")
        self._say(f"job and tables back to the savepoint, then the rest: files {SAVED + 1} to {RESTORED} in one batch")
        self._stack.panekeeper("restore", self._savepoints, "before", "--bootstrap-servers", "kafka:9092")
        self._submit().wait()
        return self._compare()

    def _break_services(self) -> None:
        """Let the services fail under the job, one after the other, and at last its driver."""
        faults: dict[str, Callable[[], object]] = {
            "Kafka is restarted": lambda: self._stack.compose("restart", "kafka"),
            f"the store is away for {STORE_AWAY_S} s": self._take_store_away,
            "one of the two workers is killed": lambda: self._stack.compose("kill", "worker-1"),
            "the driver is killed": lambda: None,
        }
        job = self._submit(RESTORED)
        for number, (what, happen) in enumerate(faults.items(), SAVED + 1):
            job = self._at_file(number, job)
            self._say(f"file {number} is read: {what}")
            happen()
        job.kill()

    def _at_file(self, number: int, job: Submission) -> Submission:
        """Wait until the job has read this file, or a later one; a driver that ended is submitted again."""

        def is_read(line: str) -> bool:
            found = re.search(r"file (\d+) of", line)
            return found is not None and int(found[1]) >= number

        for _ in range(_ATTEMPTS):
            if job.wait_for(is_read):
                return job
            self._say(f"the driver ended ({last_error(job.printed)}) and is submitted again")
            job = self._submit(RESTORED)
        raise StackError(f"the job does not reach file {number}:\n{job.printed[-6000:]}")

    def _take_store_away(self) -> None:
        self._stack.compose("stop", "--timeout", "0", "s3")
        time.sleep(STORE_AWAY_S)
        self._stack.compose("start", "s3")

    def _submit(self, files: int | None = None) -> Submission:
        """Submit the job: to read the replay's first files, or to its end."""
        self._submissions += 1
        return self._stack.submit(
            f"{self._name}-{self._submissions}",
            *(PROGRAM, "kafka:9092", "--topic", self._name, "--out", self._place, "--days", str(self._days)),
            *("--slow-files", str(SLOW_FILES)),
            *(() if files is None else ("--files", str(files))),
        )

    def _compare(self) -> bool:
        """Print the tables; return whether they equal what DuckDB makes of the published file."""
        with TemporaryDirectory() as folder:
            download(self._stack.store(), _BUCKET, self._name, Path(folder))
            log, view, quarantine = (read_table(Path(folder) / table) for table in (LOG, VIEW, QUARANTINE))
        results = Results(log=log, view=view, quarantine=quarantine)
        self._console.print(worst_hours(results))
        print_tables(self._console, results)
        raw = around(raw_flights(), self._days)
        found = Oracle(raw, batches(raw, self._days)).differences(log=log, view=view, quarantine=quarantine)
        print_comparison(self._console, results, found)
        return not found

    def _say(self, what: str) -> None:
        self._console.print(f"[bold]{datetime.now(UTC):%H:%M:%S}[/] {what}", highlight=False)


def batches(raw: pd.DataFrame, days: int) -> list[pd.Timestamp]:
    """Return the times at which one batch ends and the next begins: those of the files, without the restored ones.

    After the restore the topic has all files that were read since the savepoint, and one batch reads them.
    """
    flights = in_replay_order(raw)
    boundaries = file_boundaries(flights, Replay(days=days, slow_files=SLOW_FILES))
    file_of = np.unique(pd.DatetimeIndex(boundaries).searchsorted(pd.DatetimeIndex(flights["arrives"]), side="right"))
    return [*boundaries[: file_of[SAVED]], *boundaries[file_of[RESTORED - 1] :]]


def last_error(printed: str) -> str:
    """Return the last line of what a driver printed that says why it ended."""
    lines = [line for line in printed.splitlines() if "cannot continue" in line or "Error" in line]
    return lines[-1][:200] if lines else "without an error"


def main(arguments: list[str]) -> int:
    """Run the replay on the stack and compare its tables; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m examples.stack", description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=1, metavar="N", help="replay N days around the worst one (1)")
    console = Console(soft_wrap=True)
    try:
        right = Run(console, Stack(), parser.parse_args(arguments).days).go()
    except StackError as error:
        console.print(f"[red bold]the run cannot continue:[/] {error}", highlight=False, markup=True)
        return 2
    console.print("the services still run: `docker compose down --volumes` removes them and their data")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
