"""Runs contenders in turn: first compares their results, then measures their times.

Panekeeper and each peer run once over the peer's rows, into a sink that keeps the results, and every row must be equal.
That run is the warm-up, too. Then come rounds: every contender runs once a round over its rows, in alternating order,
so that the load of the machine does not always fall on the same one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

import pyarrow as pa

from benchmarks.contenders import Contender, RunEnvironment, TimedBatch
from benchmarks.data import Input
from benchmarks.memory import peak_memory
from benchmarks.processor import ProcessorTime, processor_time


class Mismatch(Exception):
    """Two contenders computed different results from the same rows."""


@dataclass(frozen=True, kw_only=True)
class BenchmarkRun:
    """A contender and the rows it runs over.

    Attributes:
        contender: the contender.
        given: its input.
        warm: micro-batches at the beginning of a run that do not count.
    """

    contender: Contender
    given: Input
    warm: int


@dataclass(kw_only=True)
class Throughput:
    """How fast a contender was: the seconds of its steady batches, round by round."""

    rows: int
    """Rows of one batch."""
    rounds: list[list[float]] = field(default_factory=list)
    memory: list[dict[str, int]] = field(default_factory=list)
    """The greatest memory of each round, MB, by kind of process."""
    processor: list[dict[str, float]] = field(default_factory=list)
    """The processor time of a batch, round by round: seconds by kind of process. See `add_round`."""
    compared: int | None = None
    """Number of result rows that were compared with Panekeeper's; None for Panekeeper itself."""

    def add_round(self, batches: list[TimedBatch], run: BenchmarkRun, taken: ProcessorTime) -> None:
        """Add what one run took. Its processor time is that of all of it, with its start and the first batches.

        Raises:
            Mismatch: it has not read each file in a batch of its own.
        """
        self.rounds.append(steady_batches(batches, run))
        self.processor.append({kind: seconds / run.given.files for kind, seconds in taken.seconds.items()})

    @property
    def seconds(self) -> float:
        """Median duration of a steady batch."""
        return median(seconds for batches in self.rounds for seconds in batches)

    @property
    def slowest(self) -> float:
        """The 99th percentile of the durations of steady batches."""
        seconds = sorted(seconds for batches in self.rounds for seconds in batches)
        return seconds[min(len(seconds) - 1, round(0.99 * (len(seconds) - 1)))]

    @property
    def rate(self) -> float:
        """Rows a second in the median steady batch."""
        return self.rows / self.seconds

    def rates(self) -> list[float]:
        """Rows a second, by round."""
        return [self.rows / median(batches) for batches in self.rounds]

    @property
    def processor_seconds(self) -> dict[str, float]:
        """Median processor time of a batch by kind of process; empty where there are no figures."""
        kinds = self.processor[0] if self.processor else {}
        return {kind: median(seconds[kind] for seconds in self.processor) for kind in kinds}

    @property
    def all_processor_seconds(self) -> float | None:
        """Median processor time of a batch, of all processes together."""
        return median(totals) if (totals := self.processor_totals()) else None

    def processor_totals(self) -> list[float]:
        """Processor time of a batch, of all processes together, by round."""
        return [sum(seconds.values()) for seconds in self.processor if seconds]


Print = Callable[[str], None]


def run_comparison(
    ours: BenchmarkRun, peers: list[BenchmarkRun], environment: RunEnvironment, *, rounds: int, print_line: Print
) -> list[Throughput]:
    """Compare results, then measure; return the throughput of Panekeeper and of each peer. Raises `Mismatch`."""
    throughputs = [Throughput(rows=run.given.rows) for run in (ours, *peers)]
    results: dict[Input, pa.Table] = {}
    for peer, throughput in zip(peers, throughputs[1:], strict=True):
        if peer.given not in results:
            results[peer.given] = ours.contender.results(peer.given, environment)
        throughput.compared = compare(
            results[peer.given], peer.contender.results(peer.given, environment), peer.contender.name
        )
        print_line(f"{peer.contender.name}: {throughput.compared:,} result rows are the same")
    results.clear()
    contenders = list(zip((ours, *peers), throughputs, strict=True))
    for number in range(rounds):
        for run, throughput in contenders if number % 2 == 0 else reversed(contenders):
            with processor_time(os.getpid()) as taken, peak_memory() as peak:
                batches = run.contender.measure(run.given, environment)
            taken.leave_out("driver", peak.processor_seconds)
            throughput.memory.append(peak.megabytes)
            throughput.add_round(batches, run, taken)
            print_line(f"round {number + 1}, {run.contender.name}: {round_text(batches, taken)}")
    return throughputs


def round_text(batches: list[TimedBatch], taken: ProcessorTime) -> str:
    """Return a line on one run: the seconds of its batches, and the processor time of all of it."""
    shown = " ".join(f"{batch.seconds:.2f}" for batch in batches)
    processor = " ".join(f"{kind} {seconds:.1f}" for kind, seconds in taken.seconds.items())
    return f"{shown} s; processor {processor or '-'} s (load {os.getloadavg()[0]:.1f})"


def steady_batches(batches: list[TimedBatch], run: BenchmarkRun) -> list[float]:
    """Return the seconds of the batches that count: full ones, without the warm-up."""
    full = [batch.seconds for batch in batches if batch.rows >= run.given.rows]
    if len(full) < run.given.files:
        raise Mismatch(f"{run.contender.name} read {len(full)} of {run.given.files} files in batches of their own")
    return full[run.warm :]


def compare(ours: pa.Table, theirs: pa.Table, name: str) -> int:
    """Return how many rows both tables have; raises `Mismatch` if they are not the same rows, in any order."""
    by = [(column, "ascending") for column in ours.column_names]
    theirs = theirs.select(ours.column_names).cast(ours.schema).sort_by(by).combine_chunks()
    ours = ours.sort_by(by).combine_chunks()
    if ours.equals(theirs):
        if not ours.num_rows:
            raise Mismatch(f"{name}: there are no results to compare")
        return int(ours.num_rows)
    same = [pair[0].equals(pair[1]) for pair in zip(ours.columns, theirs.columns, strict=True)]
    differing = [column for column, equal in zip(ours.column_names, same, strict=True) if not equal]
    raise Mismatch(
        f"{name}: {ours.num_rows} rows of ours, {theirs.num_rows} of theirs; differing: {', '.join(differing)}\n"
        f"ours:   {_only(ours, theirs)}\ntheirs: {_only(theirs, ours)}"
    )


def _only(table: pa.Table, other: pa.Table) -> list[dict[str, object]]:
    others = {tuple(row.values()) for row in other.to_pylist()}
    rows = (row for row in table.to_pylist() if tuple(row.values()) not in others)
    return [row for _, row in zip(range(3), rows, strict=False)]
