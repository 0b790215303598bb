"""By which declaration the state that is looked at is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from panekeeper import TimeInterval, agg
from panekeeper.diagnostics.inspector import opened as inspector
from panekeeper.framework.core.inspection.recorded import recorded_ports
from panekeeper.framework.testing.run import declared_job
from panekeeper.framework.testing.scripted_stream import ScriptedStream
from panekeeper.state.checkpoint.folder import JOB_FILE
from panekeeper.state.checkpoint.job_record import read_record
from panekeeper.state.compatibility import as_recorded
from panekeeper.state.prepared import PreparedBatch, prepare
from tests.fake_checkpoint import FakeCheckpoint


def declaration(seconds: int) -> dict[str, Any]:
    """Return what is recorded of a job with panes of so many seconds."""
    declared = declared_job(
        TimeInterval(seconds),
        partition_by="k",
        event_time="at",
        aggregates={"n": agg.count()},
        schema="k string, at timestamp",
    )
    computation = declared.computation([ScriptedStream(port.columns) for port in declared.ports])
    return as_recorded(computation.to_delta("log").pipeline.declaration(), 1)


def test_what_is_looked_at_is_told_by_the_declaration_of_its_last_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start that was suspended has written another one late: the panes that are stored are not of that (A2, A9)."""
    monkeypatch.setattr(inspector, "session_for", lambda *_: None)
    job = FakeCheckpoint(tmp_path / "c").run(8)
    job.begin()
    folder, record = cast("Any", job.files), read_record(job.files)
    assert record is not None
    prepare(folder, PreparedBatch(number=8, epoch=0, spark_commit="", declaration=declaration(10)))
    job.put("commits/8", "{}")
    job.put(JOB_FILE, json.dumps({**record.to_json(), "declaration": declaration(7)}))
    with inspector.opened(tmp_path / "c") as found:
        assert found.ports == recorded_ports(declaration(10))
