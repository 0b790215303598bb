"""The scenarios: the actions on some jobs, in order. After the last action the tables are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from recovery.drill.actions import (
    POINTS,
    Action,
    Continue,
    Damage,
    Drain,
    ExpectError,
    FillDisk,
    FreeDisk,
    Kill,
    KillExecutor,
    KillWorker,
    Maintain,
    MakeSavepoint,
    Outage,
    Pause,
    PutBack,
    RandomKills,
    Reset,
    Restore,
    Resume,
    Run,
    TakeAway,
)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One way to break jobs and to resume them.

    Attributes:
        name: shown in reports and matched by `panekeeper drill --only`.
        actions: in the order in which they happen.
        uses_wall_clock: whether it is for jobs that use the wall clock, or for the others.
        job_names: the jobs to run it on; if empty, all jobs that fit `uses_wall_clock`.
        for_user_job: whether it can be run on a user's own job, too.
        needs: what the host must provide: the right to mount a small disk, libraries for an S3 server, or a cluster.
    """

    name: str
    actions: tuple[Action, ...]
    uses_wall_clock: bool = False
    job_names: tuple[str, ...] = ()
    for_user_job: bool = True
    needs: Literal["disk", "s3", "cluster"] | None = None


_RESTORED = (Restore(), Resume())
_EXPECT_DAMAGED_STATE = ExpectError(messages=("restore this checkpoint from a savepoint",))
_EXPECT_FULL_DISK = ExpectError(messages=("a disk is full", "cannot be written"), all_jobs=False)
_EXPECT_NO_TABLES = ExpectError(messages=("is gone, and this checkpoint has written to it",))
_EXPECT_NO_CHECKPOINT = ExpectError(messages=("holds the rows of another checkpoint, and this one is new",))

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(name="no fault", actions=(Run(files=3), Resume())),
    *(
        Scenario(name=f"kill -9 {point}", actions=(Kill(point, batch=2), Resume()), for_user_job=fault is not None)
        for point, fault in POINTS.items()
    ),
    Scenario(name="kill -9 of a Python worker", actions=(KillWorker(batch=2), Resume())),
    Scenario(
        name="kill -9 of an executor", actions=(KillExecutor(batch=2), Resume()), for_user_job=False, needs="cluster"
    ),
    Scenario(
        name="kill -9 during a savepoint",
        actions=(Run(files=3), MakeSavepoint(killed=True), MakeSavepoint(), Damage("missing"), *_RESTORED),
    ),
    Scenario(
        name="kill -9 during a restore",
        actions=(
            Run(files=2),
            MakeSavepoint(),
            Run(files=4),
            Restore(killed_at="intended"),
            Restore(killed_at="tables"),
            Restore(killed_at="aside"),
            *_RESTORED,
        ),
    ),
    Scenario(
        name="a state file is corrupted",
        actions=(Run(files=2), MakeSavepoint(), Run(files=3), Damage("overwritten"), _EXPECT_DAMAGED_STATE, *_RESTORED),
    ),
    Scenario(
        name="a state file is missing",
        actions=(Run(files=2), MakeSavepoint(), Run(files=3), Damage("missing"), _EXPECT_DAMAGED_STATE, *_RESTORED),
    ),
    Scenario(name="drain and resume", actions=(Drain(files=3), Resume()), for_user_job=False),
    Scenario(
        name="a full disk",
        actions=(Run(files=2), FillDisk(leaving=50_000), _EXPECT_FULL_DISK, FreeDisk(), Resume()),
        needs="disk",
    ),
    Scenario(
        name="the object store fails for 10 s",
        actions=(
            Run(files=3),
            MakeSavepoint(store="s3 fails"),
            Damage("missing"),
            Restore(store="s3 fails"),
            Resume(),
        ),
        needs="s3",
    ),
    Scenario(
        name="the object store is slow",
        actions=(Run(files=3), MakeSavepoint(store="s3 slow"), Damage("missing"), Restore(store="s3 slow"), Resume()),
        needs="s3",
    ),
    Scenario(
        name="paused before its commits, and taken over",
        actions=(Pause("before its commits", batch=2), Resume(), Continue()),
        job_names=("time-interval", "state-handler", "two-ports"),
        for_user_job=False,
    ),
    Scenario(
        name="paused in its commits, and taken over",
        actions=(Pause("in its commits", batch=2), Resume(), Continue()),
        job_names=("time-interval", "sliding-count"),
        for_user_job=False,
    ),
    Scenario(
        name="paused in its commits, and restored",
        actions=(
            Run(files=2),
            MakeSavepoint(),
            Pause("in its commits", batch=3),
            Restore(elsewhere=True),
            Resume(),
            Continue(),
        ),
        job_names=("time-interval", "tumbling-count", "state-handler"),
        for_user_job=False,
    ),
    Scenario(
        name="paused in its commits, and reset to the initial state",
        actions=(Run(files=2), Pause("in its commits", batch=3), Reset(), Resume(), Continue()),
        job_names=("sliding-count", "state-handler"),  # time intervals fire one batch later than their oracle
        for_user_job=False,
    ),
    Scenario(
        name="the volume of the tables is missing",
        actions=(Run(files=3), TakeAway(what="tables"), _EXPECT_NO_TABLES, PutBack(), Resume()),
        job_names=("time-interval", "sliding-count", "state-handler"),
    ),
    Scenario(
        name="the volume of the checkpoint is missing",
        actions=(Run(files=3), TakeAway(what="checkpoint"), _EXPECT_NO_CHECKPOINT, PutBack(), Resume()),
        job_names=("time-interval", "sliding-count", "state-handler"),
    ),
    Scenario(
        name="tables are compacted, vacuumed and altered",
        job_names=("time-interval", "state-handler"),
        actions=(
            Maintain(statements=("OPTIMIZE", "VACUUM RETAIN 0", "SET TBLPROPERTIES"), beside=3, files=4),
            MakeSavepoint(),
            Maintain(statements=("ADD COLUMNS",)),
            ExpectError(messages=("DROP COLUMNS (`note`)",)),
            Restore(),
            Kill("between two Delta commits", batch=4),
            Maintain(statements=("OPTIMIZE", "VACUUM", "SET TBLPROPERTIES")),
            MakeSavepoint(name="after-the-kill"),
            Restore(name="after-the-kill"),
            Resume(),
        ),
        for_user_job=False,
    ),
    Scenario(name="ten random kills", actions=(RandomKills(times=10), Resume())),
    Scenario(
        name="outage longer than every policy",
        actions=(Run(files=2), Outage(4.5), Run(files=4), Outage(3), Resume()),
        uses_wall_clock=True,
        for_user_job=False,
    ),
    Scenario(
        name="kill -9, then an outage",
        actions=(Kill("after Delta, before Spark's commit", batch=2), Outage(2.5), Run(files=4), Outage(3), Resume()),
        uses_wall_clock=True,
        for_user_job=False,
    ),
    Scenario(
        name="the clock goes back",
        actions=(Run(files=2), Outage(-3), Run(files=4), Outage(2.5), Resume()),
        uses_wall_clock=True,
        for_user_job=False,
    ),
)
"""The full matrix."""

_KILLED_BATCHES = (1, 1, 2, 3, 3, 4, 5)

REDUCED: tuple[Scenario, ...] = (
    Scenario(
        name="a kill at every point, one after the other",
        job_names=("time-interval", "sliding-time", "state-handler", "two-ports"),
        actions=(*(Kill(point, batch=batch) for point, batch in zip(POINTS, _KILLED_BATCHES, strict=True)), Resume()),
    ),
    Scenario(
        name="state is lost, savepoint and restore are cut short",
        job_names=("sliding-count", "delta"),
        actions=(
            Run(files=2),
            MakeSavepoint(killed=True),
            MakeSavepoint(),
            Run(files=3),
            Damage("overwritten"),
            _EXPECT_DAMAGED_STATE,
            Restore(killed_at="tables"),
            *_RESTORED,
        ),
    ),
    Scenario(
        name="drained, then its workers are killed",
        job_names=("eviction-in-drain", "punctuation"),
        actions=(Drain(files=3), KillWorker(batch=4), Resume()),
        for_user_job=False,
    ),
    Scenario(
        name="the object store fails, then it is slow",
        job_names=("batched",),
        actions=(Run(files=3), MakeSavepoint(store="s3 fails"), Damage("missing"), Restore(store="s3 slow"), Resume()),
        needs="s3",
    ),
    Scenario(
        name="the disk is full for a while",
        job_names=("tumbling-count", "tumbling-time"),
        actions=(Run(files=2), FillDisk(leaving=50_000), _EXPECT_FULL_DISK, FreeDisk(), Resume()),
        needs="disk",
    ),
    Scenario(
        name="paused in its commits, and restored by another process",
        job_names=("time-interval",),
        actions=(
            Run(files=1),
            MakeSavepoint(),
            Pause("in its commits", batch=2),
            Restore(elsewhere=True),
            Resume(),
            Continue(),
        ),
        for_user_job=False,
    ),
    Scenario(
        name="the volumes are missing, one after the other",
        job_names=("sliding-count",),
        actions=(
            Run(files=3),
            TakeAway(what="tables", leaving="empty folders"),
            _EXPECT_NO_TABLES,
            PutBack(),
            TakeAway(what="checkpoint"),
            _EXPECT_NO_CHECKPOINT,
            PutBack(),
            Resume(),
        ),
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
        uses_wall_clock=True,
        for_user_job=False,
    ),
)
"""The same faults, several in one scenario, and each kind of window once: takes minutes, the full matrix an hour."""
