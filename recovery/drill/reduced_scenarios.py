"""The scenarios of the reduced matrix, with several faults in each."""

from __future__ import annotations

from panekeeper.recovery.drill.actions import (
    POINTS,
    ChangeCode,
    Continue,
    Damage,
    Drain,
    FillDisk,
    FreeDisk,
    Kill,
    KillWorker,
    MakeSavepoint,
    Outage,
    Pause,
    PutBack,
    Restore,
    Resume,
    Run,
    TakeAway,
)
from panekeeper.recovery.drill.scenario import Scenario
from panekeeper.recovery.drill.scenarios import (
    EXPECT_DAMAGED_STATE,
    EXPECT_FULL_DISK,
    EXPECT_NO_CHECKPOINT,
    EXPECT_NO_TABLES,
    RESTORED,
)

_KILLED_BATCHES = (1, 1, 2, 3, 3, 4, 4, 5)

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
            EXPECT_DAMAGED_STATE,
            Restore(killed_at="tables"),
            *RESTORED,
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
        actions=(Run(files=2), FillDisk(leaving=50_000), EXPECT_FULL_DISK, FreeDisk(), Resume()),
        needs="disk",
    ),
    Scenario(
        name="killed between two commits, then started with other code",
        job_names=("state-handler",),
        actions=(Kill("between two Delta commits", batch=None), ChangeCode(keeps=True), Resume()),
        for_user_job=False,
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
            EXPECT_NO_TABLES,
            PutBack(),
            TakeAway(what="checkpoint"),
            EXPECT_NO_CHECKPOINT,
            PutBack(),
            Resume(),
        ),
        for_user_job=False,
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
