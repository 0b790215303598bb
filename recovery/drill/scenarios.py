"""What is done to the jobs. Read a scenario aloud: its actions happen in this order, then the tables are judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from recovery.drill.actions import (
    POINTS,
    Action,
    Damage,
    Drain,
    Fails,
    FillDisk,
    FreeDisk,
    Kill,
    KillExecutor,
    KillWorker,
    Outage,
    RandomKills,
    Restore,
    Resume,
    Run,
    Savepoint,
)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One way to break a job, and to come back.

    Attributes:
        name: what the table of outcomes calls it.
        actions: what happens.
        clocked: for checks that live by the wall clock; otherwise for the others.
        checks: the checks that meet it; all those of its clock, if none is named.
        own: also for a user's own job.
        needs: what must be there: a small disk of its own, an S3, or a cluster.
    """

    name: str
    actions: tuple[Action, ...]
    clocked: bool = False
    checks: tuple[str, ...] = ()
    own: bool = True
    needs: Literal["disk", "s3", "cluster"] | None = None


_MENDED = (Restore(), Resume())
_BAD_STATE = Fails(says=("restore this checkpoint from a savepoint",))
_NO_ROOM = Fails(says=("a disk is full", "cannot be written"), everybody=False)

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(name="no fault", actions=(Run(files=3), Resume())),
    *(
        Scenario(name=f"kill -9 {point}", actions=(Kill(point, batch=2), Resume()), own=fault is not None)
        for point, fault in POINTS.items()
    ),
    Scenario(name="kill -9 of a Python worker", actions=(KillWorker(batch=2), Resume())),
    Scenario(name="kill -9 of an executor", actions=(KillExecutor(batch=2), Resume()), own=False, needs="cluster"),
    Scenario(
        name="kill -9 during a savepoint",
        actions=(Run(files=3), Savepoint(killed=True), Savepoint(), Damage("missing"), *_MENDED),
    ),
    Scenario(
        name="kill -9 during a restore",
        actions=(
            Run(files=2),
            Savepoint(),
            Run(files=4),
            Restore(killed_at="intended"),
            Restore(killed_at="tables"),
            Restore(killed_at="aside"),
            *_MENDED,
        ),
    ),
    Scenario(
        name="a state file is corrupted",
        actions=(Run(files=2), Savepoint(), Run(files=3), Damage("overwritten"), _BAD_STATE, *_MENDED),
    ),
    Scenario(
        name="a state file is missing",
        actions=(Run(files=2), Savepoint(), Run(files=3), Damage("missing"), _BAD_STATE, *_MENDED),
    ),
    Scenario(name="drain and resume", actions=(Drain(files=3), Resume()), own=False),
    Scenario(
        name="a full disk",
        actions=(Run(files=2), FillDisk(leaving=50_000), _NO_ROOM, FreeDisk(), Resume()),
        needs="disk",
    ),
    Scenario(
        name="the object store fails for 10 s",
        actions=(
            Run(files=3),
            Savepoint(store="s3 fails"),
            Damage("missing"),
            Restore(store="s3 fails"),
            Resume(),
        ),
        needs="s3",
    ),
    Scenario(
        name="the object store is slow",
        actions=(Run(files=3), Savepoint(store="s3 slow"), Damage("missing"), Restore(store="s3 slow"), Resume()),
        needs="s3",
    ),
    Scenario(name="ten random kills", actions=(RandomKills(times=10), Resume())),
    Scenario(
        name="outage longer than every policy",
        actions=(Run(files=2), Outage(4.5), Run(files=4), Outage(3), Resume()),
        clocked=True,
        own=False,
    ),
    Scenario(
        name="kill -9, then an outage",
        actions=(Kill("after Delta, before Spark's commit", batch=2), Outage(2.5), Run(files=4), Outage(3), Resume()),
        clocked=True,
        own=False,
    ),
    Scenario(
        name="the clock goes back",
        actions=(Run(files=2), Outage(-3), Run(files=4), Outage(2.5), Resume()),
        clocked=True,
        own=False,
    ),
)
"""The full matrix."""

REDUCED: tuple[Scenario, ...] = (
    Scenario(
        name="a kill at every point, one after the other",
        checks=("time-interval", "sliding-time", "state-handler", "two-ports"),
        actions=(*(Kill(point, batch=max(1, number)) for number, point in enumerate(POINTS)), Resume()),
    ),
    Scenario(
        name="state is lost, savepoint and restore are cut short",
        checks=("sliding-count", "delta"),
        actions=(
            Run(files=2),
            Savepoint(killed=True),
            Savepoint(),
            Run(files=3),
            Damage("overwritten"),
            _BAD_STATE,
            Restore(killed_at="tables"),
            *_MENDED,
        ),
    ),
    Scenario(
        name="drained, then its workers are killed",
        checks=("eviction-in-drain", "punctuation"),
        actions=(Drain(files=3), KillWorker(batch=4), Resume()),
        own=False,
    ),
    Scenario(
        name="the object store fails, then it is slow",
        checks=("batched",),
        actions=(Run(files=3), Savepoint(store="s3 fails"), Damage("missing"), Restore(store="s3 slow"), Resume()),
        needs="s3",
    ),
    Scenario(
        name="the disk is full for a while",
        checks=("tumbling-count", "tumbling-time"),
        actions=(Run(files=2), FillDisk(leaving=50_000), _NO_ROOM, FreeDisk(), Resume()),
        needs="disk",
    ),
    Scenario(
        name="killed, an outage, and the clock goes back",
        actions=(
            Kill("after Delta, before Spark's commit", batch=1),
            Outage(2.5),
            Run(files=4),
            Outage(-1),
            Run(files=5),
            Outage(2.75),
            Resume(),
        ),
        clocked=True,
        own=False,
    ),
)
"""The same faults, several in a row and each kind of window once: minutes instead of an hour."""
