"""The full matrix. What a scenario is: `integration_tests/drills/scenario.py`."""

from __future__ import annotations

from integration_tests.drills.actions import (
    POINTS,
    ChangeCode,
    Continue,
    Damage,
    Drain,
    ExpectError,
    FillDisk,
    FillWhileIdle,
    FreeDisk,
    JumpClock,
    Kill,
    KillExecutor,
    KillWorker,
    Maintain,
    MakeSavepoint,
    Outage,
    Pause,
    PutBack,
    RandomKills,
    Restore,
    Resume,
    Run,
    TakeAway,
)
from integration_tests.drills.scenario import Scenario

RESTORED = (Restore(), Resume())
EXPECT_DAMAGED_STATE = ExpectError(messages=("restore this checkpoint from a savepoint",))
_FULL_DISK = ("a disk is full", "cannot be written")
EXPECT_FULL_DISK = ExpectError(messages=_FULL_DISK, all_jobs=False)
EXPECT_NO_TABLES = ExpectError(messages=("gone, and this checkpoint has written to",))

EXPECT_NO_CHECKPOINT = ExpectError(messages=("holds rows, and this checkpoint is new",))

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(name="no fault", actions=(Run(files=3), Resume())),
    *(Scenario(name=f"kill -9 {point}", actions=(Kill(point, batch=2), Resume())) for point in POINTS),
    Scenario(name="kill -9 of a Python worker", actions=(KillWorker(batch=2), Resume())),
    Scenario(name="kill -9 of an executor", actions=(KillExecutor(batch=2), Resume()), needs="cluster"),
    Scenario(
        name="kill -9 during a savepoint",
        actions=(Run(files=3), MakeSavepoint(killed=True), MakeSavepoint(), Damage("missing"), *RESTORED),
    ),
    Scenario(
        name="kill -9 during a restore",
        actions=(
            Run(files=2),
            MakeSavepoint(),
            Run(files=4),
            Restore(killed_at="copied"),
            Restore(killed_at="current"),
            Restore(killed_at="taken back"),
            *RESTORED,
        ),
    ),
    Scenario(
        name="a state file is corrupted",
        actions=(Run(files=2), MakeSavepoint(), Run(files=3), Damage("overwritten"), EXPECT_DAMAGED_STATE, *RESTORED),
    ),
    Scenario(name="drain and resume", actions=(Drain(files=3), Resume())),
    Scenario(
        name="a full disk",
        actions=(Run(files=2), FillDisk(leaving=50_000), EXPECT_FULL_DISK, FreeDisk(), Resume()),
        needs="disk",
    ),
    Scenario(
        name="a full disk while jobs of the wall clock are idle",
        actions=(
            JumpClock(files=2, hours=(2.5,), disk_is_full=True),
            FillWhileIdle(files=4, messages=_FULL_DISK),
            Outage(2.5),
            Resume(),
        ),
        job_names=("clock-tumbling", "clock-batched"),
        uses_wall_clock=True,
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
        name="kill -9 before the batch is recorded, then other code",
        actions=(
            Kill("before the offset log", batch=None),
            ChangeCode(keeps=False),
            Kill("after the offset log", batch=None),
            ChangeCode(keeps=False),
            Kill("after the state commit", batch=None),
            ChangeCode(keeps=False),
            Resume(),
        ),
        job_names=("sliding-count", "state-handler", "two-ports"),
    ),
    Scenario(
        name="kill -9 after the batch is recorded, then other code",
        actions=(
            Kill("between two Delta commits", batch=None),
            ChangeCode(keeps=True),
            Kill("after the batch is recorded", batch=None),
            ChangeCode(keeps=True),
            Kill("after Delta, before Spark's commit", batch=None),
            ChangeCode(keeps=True),
            Resume(),
        ),
        job_names=("sliding-count", "state-handler"),
    ),
    Scenario(
        name="kill -9 after and before the batch is recorded, then another operator",
        actions=(
            Kill("between two Delta commits", batch=None),
            ChangeCode("operator", keeps=True),
            Kill("after the state commit", batch=None),
            ChangeCode("operator", keeps=False),
            Resume(),
        ),
        job_names=("state-handler",),
    ),
    Scenario(
        name="paused before it records a batch, and taken over",
        actions=(Pause("before it records a batch", batch=2), Resume(), Continue()),
        job_names=("time-interval", "state-handler"),
    ),
    Scenario(
        name="paused in its commits, and taken over",
        actions=(Pause("in its commits", batch=2), Resume(), Continue()),
        job_names=("time-interval", "sliding-count"),
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
    ),
    Scenario(
        name="the volume of the tables is missing",
        actions=(Run(files=3), TakeAway(what="tables"), EXPECT_NO_TABLES, PutBack(), Resume()),
        job_names=("time-interval", "sliding-count", "state-handler"),
    ),
    Scenario(
        name="the volume of the checkpoint is missing",
        actions=(Run(files=3), TakeAway(what="checkpoint"), EXPECT_NO_CHECKPOINT, PutBack(), Resume()),
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
    ),
    Scenario(name="ten random kills", actions=(RandomKills(times=10), Resume())),
    Scenario(
        name="outage longer than every policy",
        actions=(Run(files=2), Outage(4.5), Run(files=4), Outage(3), Resume()),
        uses_wall_clock=True,
    ),
    Scenario(
        name="kill -9, then an outage",
        actions=(Kill("after Delta, before Spark's commit", batch=2), Outage(2.5), Run(files=4), Outage(3), Resume()),
        uses_wall_clock=True,
    ),
    Scenario(
        name="the clock goes back",
        actions=(Run(files=2), Outage(-3), Run(files=4), Outage(2.5), Resume()),
        uses_wall_clock=True,
    ),
    Scenario(
        name="the clock of a running job goes forward, then back",
        actions=(JumpClock(files=2, hours=(5, -7, 2.5)), Resume()),
        uses_wall_clock=True,
    ),
)
"""The full matrix."""
