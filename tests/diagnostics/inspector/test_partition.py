"""What is known of a partition, from what is stored of its key group and the tables of its job."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from panekeeper import TimeInterval, agg
from panekeeper.diagnostics.inspector.opened import Opened
from panekeeper.diagnostics.inspector.partition import Partition
from panekeeper.diagnostics.keys import key_as_stored
from panekeeper.framework.core.inspection.reasons import Verdict
from panekeeper.framework.core.inspection.recorded import recorded_ports
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.steps import Watermark
from panekeeper.recovery.storage.files import LocalFiles
from panekeeper.state.checkpoint.job_record import JobRecord
from panekeeper.state.compatibility import fingerprint
from panekeeper.state.store import MemoryStore
from tests.fake_checkpoint import FakeCheckpoint
from tests.framework.core.panes.firings import spec_of

TEN = datetime(2024, 5, 1, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)
WINDOW = TimeInterval(3600)


def us(time: datetime) -> int:
    """A time in us since the epoch."""
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def partition(folder: Path, customer: str | None, watermarks: Sequence[datetime], acted_on: datetime) -> Partition:
    """A partition of panes of an hour: batch by batch the watermark of the job, and the one of its key group."""
    batches = pa.table(
        {"batch": [*range(len(watermarks))], "watermark": pa.array(watermarks, pa.timestamp("us", "UTC"))}
    )
    write_deltalake(str(folder / "metrics"), batches)
    firing = {"refinement": 0, "reason": "WATERMARK", "is_final": True, "op": 1, "n": 3}
    fired = [{"customer": one, "pane_start": TEN - HOUR, "pane_end": TEN, **firing} for one in ("dorra", "zeta", None)]
    write_deltalake(str(folder / "log"), pa.Table.from_pylist(fired))
    store = MemoryStore()
    KeyGroupRunner(spec_of(WINDOW), store).run([Watermark(us(acted_on))])
    declaration = fingerprint(
        {
            "window": WINDOW.declaration(),
            "partition_by": {"customer": "string"},
            "event_time": "at",
            "aggregate": {"n": agg.count().declaration()},
            "output": {"n": "int64"},
        }
    )
    job, tables = (
        FakeCheckpoint(folder / "c").run(len(watermarks)),
        {one: str(folder / one) for one in ("metrics", "log")},
    )
    job.tables(**tables)
    port, files = recorded_ports(declaration)[0], job.files
    assert isinstance(files, LocalFiles)
    state = Opened(
        session=lambda: pytest.fail("no session is needed"),
        files=files,
        record=JobRecord(name="billing", id="0", declaration=declaration, group_ids=(1, 2), versions={}),
        ports=[port],
        batch=len(watermarks) - 1,
        first=0,
        tables=tables,
    )
    key = key_as_stored(state.session, (1, 2), {"customer": pa.string()}, {"customer": customer})
    return Partition(state, port, key, store)


def test_the_watermark_of_an_answer_is_the_one_of_the_job(tmp_path: Path) -> None:
    """Whatever the key group of the partition has acted on: nothing may have come to it since."""
    asked = partition(tmp_path, "dora", [TEN, TEN + HOUR * 3], acted_on=TEN)
    answer = asked.why(us(TEN), us(TEN + HOUR))
    assert answer.verdict is Verdict.NEVER
    assert "it closed at the watermark 2024-05-01T11:00:00Z, which is now 2024-05-01T13:00:00Z" in answer.reasons[0]
    assert asked.why(us(TEN + HOUR * 3), us(TEN + HOUR * 4)).reasons[0] == (
        "no row of it has come; it takes rows until the watermark, now 2024-05-01T13:00:00Z, reaches "
        "2024-05-01T14:00:00Z"
    )
