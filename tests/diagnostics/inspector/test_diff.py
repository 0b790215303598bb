"""What has become of a pane that is open in the earlier of two batches, and not in the later one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from panekeeper import Session, TimeInterval
from panekeeper.diagnostics.inspector.diff import end_of_panes
from panekeeper.framework.declarations.windows import EventTimeWindow
from panekeeper.state.checkpoint.folder import JOB_FILE
from panekeeper.state.checkpoint.job_record import read_record
from panekeeper.state.compatibility import fingerprint
from tests.fake_checkpoint import FakeCheckpoint


@pytest.mark.parametrize(
    ("window", "end"), [(TimeInterval(60), "closed"), (Session(60, discard_age=60), "closed or merged")]
)
def test_a_pane_that_went_has_closed_where_time_went_on(window: EventTimeWindow, end: str, tmp_path: Path) -> None:
    """Of two batches, the earlier one first; which of two savepoints is the later one, or of which job, is not said."""
    place = tmp_path / "c"
    job = FakeCheckpoint(place).run(8)
    record = read_record(job.files)
    assert record is not None
    declared = {"window": window.declaration(), "partition_by": {"k": "string"}, "event_time": "at", "aggregate": {}}
    job.put(JOB_FILE, json.dumps({**record.to_json(), "declaration": fingerprint(declared)}))
    assert end_of_panes(place, 3, 7) == end
    assert [end_of_panes(place, *two) for two in ((7, 3), (3, 3), ("one", "two"))] == [None] * 3
