"""A table that is gone amid a reset, a restore or a clone; what a reset says of those that are gone before it.

The rest of a reset: `integration_tests/engine/test_drain.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from panekeeper.framework.declarations.errors import SinkError
from panekeeper.framework.engine.job.reset import ResetPreview
from panekeeper.framework.engine.job.roll_forward import roll_forward
from panekeeper.state.checkpoint.epochs import Begin, make_epoch, read_begin
from panekeeper.state.checkpoint.folder import LocalFolder
from panekeeper.state.checkpoint.job_record import JobRecord

RECORD = JobRecord(name="readings", id="0123456789ab", declaration={}, group_ids=(0,), epoch=1, versions={})


@pytest.mark.parametrize(
    ("kind", "way_out"),
    [
        ("reset", r"reset the job again, which lets them begin empty$"),
        ("restore", r"restore the savepoint again, which .* \(`panekeeper restore /sp one --checkpoint \S+`\)$"),
        ("clone", r"remove the folder of the clone and clone again$"),
    ],
)
def test_a_table_that_goes_amid_what_begins_an_epoch_is_refused_by_name(
    kind: Any, way_out: str, tmp_path: Path
) -> None:
    """Before anything is done with the others; what a commit that failed has left is no table."""

    def no_spark() -> Any:
        raise AssertionError

    (tmp_path / "log" / "_delta_log" / "_staged_commits").mkdir(parents=True)
    root = LocalFolder(tmp_path / "checkpoint")
    tables = {role: str(tmp_path / role) for role in ("log", "view")}
    begun = make_epoch(root, 1, Begin(kind=kind, savepoint="one", location="/sp", tables=tables))
    with pytest.raises(SinkError, match=way_out) as refused:
        roll_forward(begun, RECORD, no_spark, lambda: None)
    assert str(refused.value).startswith(f"the {kind} of the job of {root.root} is not complete, and the tables ")
    begin = read_begin(begun)
    assert begin is not None
    assert begin.done == ()


def test_a_reset_names_the_tables_that_begin_empty_before_it_is_confirmed() -> None:
    """Their volume may only not be mounted. A log that is there keeps its rows; one that is gone has none to keep."""
    preview = ResetPreview(job="readings", checkpoint="/cp", batch=3, open_panes=1, epoch=1, remade={"view": "/now"})
    gone = "Gone, and made again without rows by the next start: "
    assert f"The log keeps its rows. {gone}the view /now. Mount its volume first" in str(preview)
    both = ResetPreview(
        job="readings", checkpoint="/cp", batch=3, open_panes=1, epoch=1, remade={"log": "/log", "view": "/now"}
    )
    assert f"and the rows of its view. {gone}the log /log, the view /now. Mount" in str(both)
