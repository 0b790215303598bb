"""One load test, from the broker's start to the comparison of every row."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.soak.account import Differences, compare, panes_together, sent_sums, stored_sums
from benchmarks.soak.broker import Broker
from benchmarks.soak.commits import DeltaLog, pane_us, results_of, results_outside
from benchmarks.soak.footprint import Footprint, sampled
from benchmarks.soak.generator import PARTITIONS
from benchmarks.soak.job import CHECKPOINT, LOG, METRICS
from benchmarks.soak.latency import PaneLatency, ReadRows, Recovery, pane_latencies, recoveries
from benchmarks.soak.load import SECOND, Load
from benchmarks.soak.supervisor import Program, Supervisor

DRAIN_SECONDS = 900.0
"""In which the job must have read and written what is left when the generator has ended."""
_END_SECONDS = 120.0
_POLL = 0.1
_ROWS_AT_A_TIME = 4_000_000  # a few hundred MB
_TOPIC = {
    "message_timestamp_type": "LogAppendTime",  # latency begins when the broker has a row
    "segment_bytes": str(64 << 20),
    "retention_ms": str(2 * 3600 * 1000),
}
Print = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """How the job is declared; times in words of Spark.

    Attributes:
        pane: length of a pane.
        watermark: the watermark's delay.
        discard_age: how long a pane takes late rows.
        trigger: the query trigger.
        most_rows: of one batch.
    """

    pane: str
    watermark: str
    discard_age: str
    trigger: str
    most_rows: int

    def command(self, servers: str, topic: str, out: Path) -> list[str]:
        """Return the command line of the job's program."""
        given = {"servers": servers, "topic": topic, "out": str(out), "pane": self.pane, "watermark": self.watermark}
        given |= {"discard-age": self.discard_age, "trigger": self.trigger, "most-rows": str(self.most_rows)}
        return [word for name, value in given.items() for word in (f"--{name}", value)]


class JobTables:
    """What is seen of the job from outside: the logs of its tables."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.log = DeltaLog(out / LOG, "log")
        self.metrics = DeltaLog(out / METRICS, "metrics")

    def look(self) -> None:
        """Read what is new."""
        self.log.look()
        self.metrics.look()

    def batches(self) -> list[ReadRows]:
        """Return the committed batches, in order."""
        return [ReadRows(at=commit.at, rows=int(commit.greatest["rows_in"])) for commit in self.metrics.commits]

    def rows(self) -> int:
        """Return how many rows the committed batches have read."""
        return sum(batch.rows for batch in self.batches())

    def shown(self) -> list[tuple[float, int]]:
        """Return time and last pane of each commit to the log."""
        return [(commit.at, pane) for commit in self.log.commits if (pane := pane_us(commit)) is not None]

    def have_all(self, load: Load) -> bool:
        """Return whether all rows were read and the last pane is visible."""
        self.look()
        shown = self.shown()
        return self.rows() > load.rows and bool(shown) and max(pane for _, pane in shown) >= load.panes[-1]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run has shown. Times in seconds since the epoch.

    Attributes:
        sent: rows that were sent, and that Kafka has.
        sending_seconds: how long that took.
        most_behind: rows that were due and not sent yet, at most.
        lag_rows: rows that were not in a committed batch when the last one was sent.
        drain_seconds: how long the job took for the rest; None if it has not done so in time.
        latencies: of all panes.
        recoveries: of the first start and of each kill.
        kills: how many.
        differences: between table and rows.
        footprint: memory and state.
        problems: what went wrong besides, such as a job that ended by itself.
    """

    sent: int
    sending_seconds: float
    most_behind: int
    lag_rows: int
    drain_seconds: float | None
    latencies: list[PaneLatency]
    recoveries: list[Recovery]
    kills: int
    differences: Differences
    footprint: Footprint
    problems: list[str]

    @property
    def is_right(self) -> bool:
        """Whether each row is where it should be, once, and the job ended only when it was killed or drained."""
        return self.differences.are_none and not self.problems


class Soak:
    """A run in a folder of its own.

    Args:
        broker: a running broker.
        load: what is sent.
        job: how the job is declared.
        out: an empty folder.
        say: prints a line.
    """

    def __init__(self, broker: Broker, load: Load, job: JobOptions, out: Path, say: Print) -> None:
        self._broker = broker
        self._load = load
        self._out = out
        self._say = say
        self._topic = broker.create_topic(PARTITIONS, **_TOPIC)
        self._job = job.command(broker.bootstrap, self._topic, out)
        self._tables = JobTables(out)
        self._problems: list[str] = []

    def run(self, kills: list[float]) -> Outcome:
        """Run the job on the load and kill it at these times, in seconds from the start."""
        generator = self.generate()
        job = Supervisor("benchmarks.soak.job", self._job, self._out / "job.log")
        try:
            with sampled(lambda: job.pid, self._out / CHECKPOINT / "epochs/0000/state") as footprint:
                self._supervise(job, generator, kills)
                ended = time.time()
                self._tables.look()
                lag = self._load.rows + 1 - self._tables.rows()
                self._say(f"all rows are sent; the job has {max(0, lag):,} to read")
                drained = self._drain(job)
        finally:
            generator.kill()
            job.close()
        return self._outcome(job, footprint, ended, lag, drained)

    def generate(self, *, paced: bool = True) -> Program:
        """Start to send the load."""
        self._load.save(path := self._out / "load.json")
        options = [] if paced else ["--unpaced"]
        command = [str(path), self._broker.bootstrap, self._topic, str(self._sent_log), *options]
        return Program("benchmarks.soak.generator", command, self._out / "generator.log")

    def unsupervised(self) -> Supervisor:
        """Start the job alone, for who looks after it otherwise."""
        return Supervisor("benchmarks.soak.job", self._job, self._out / "job.log")

    @property
    def tables(self) -> JobTables:
        """What the job has written."""
        return self._tables

    @property
    def _sent_log(self) -> Path:
        return self._out / "sent.jsonl"

    def _supervise(self, job: Supervisor, generator: Program, kills: list[float]) -> None:
        ahead = [self._load.start_us / SECOND + seconds for seconds in kills]
        while generator.exit_code is None:
            if ahead and time.time() >= ahead[0]:
                ahead.pop(0)
                job.kill_and_start()
                self._say(f"killed, {len(ahead)} kills ahead")
            job.keep_running()
            time.sleep(_POLL)
        if generator.exit_code:
            self._problems.append(f"the generator failed: {generator.tail()}")

    def _drain(self, job: Supervisor) -> float | None:
        """Wait until the job has written all panes, then end it; return how long the wait was."""
        began = time.time()
        if self._problems:  # there may be rows that nobody has sent
            return None
        while not self._tables.have_all(self._load):
            if time.time() - began > DRAIN_SECONDS:
                self._problems.append(f"the job has not read all rows within {DRAIN_SECONDS:g} s of the last one")
                return None
            job.keep_running()
            time.sleep(_POLL)
        took = time.time() - began
        try:
            if code := job.drain(_END_SECONDS):
                self._problems.append(f"the job ended with exit code {code} at SIGTERM")
        except TimeoutError as error:
            self._problems.append(str(error))
        return took

    def _outcome(self, job: Supervisor, footprint: Footprint, ended: float, lag: int, drained: float | None) -> Outcome:
        self._tables.look()
        entries = [json.loads(line) for line in self._sent_log.read_text(encoding="utf-8").splitlines()]
        stored = {entry["pane"]: entry["stored"] for entry in entries if "pane" in entry}
        in_topic = self._broker.stored_messages(self._topic)
        if in_topic != self._load.rows + 1:
            self._problems.append(f"Kafka has {in_topic} rows, {self._load.rows + 1} were sent")
        self._problems += [f"the job ended by itself: {printed}" for printed in job.failures]
        began = [job.started, *job.killed]
        return Outcome(
            sent=self._load.rows,
            sending_seconds=ended - self._load.start_us / SECOND,
            most_behind=max((entry["behind_rows"] for entry in entries if "behind_rows" in entry), default=0),
            lag_rows=lag,
            drain_seconds=drained,
            latencies=pane_latencies(stored, self._tables.shown()),
            recoveries=recoveries(began, self._tables.batches(), self._load),
            kills=len(job.killed),
            differences=account_for(self._load, self._out, self._say),
            footprint=footprint,
            problems=self._problems,
        )


def account_for(load: Load, out: Path, say: Print) -> Differences:
    """Compare the job's table with what was sent, some panes at a time."""
    table = out / LOG
    ranges = panes_together(load, _ROWS_AT_A_TIME)
    found = Differences()
    for number, panes in enumerate(ranges, 1):
        stored, repeated = stored_sums(results_of(table, panes))
        found += compare(sent_sums(load, panes), stored, repeated)
        say(f"compared {number} of {len(ranges)}: {found.rows:,} rows in {found.results:,} results")
    if outside := results_outside(table, load.panes):
        found += Differences(doubled=outside, examples=(f"{outside} results of panes that got no rows",))
    return found
