"""What is done with a damaged record of a batch: of what it writes to the tables."""

from __future__ import annotations

import pytest

from recovery.repair.repair import repair
from state.checkpoint.layout import prepared_file
from state.prepared import PreparedBatch
from tests.recovery.conftest import FakeCheckpoint


@pytest.mark.parametrize("damage", ["cut short", "rows gone"])
@pytest.mark.parametrize(("number", "needs_no_sink"), [(2, False), (3, True)])
def test_a_damaged_record_of_a_batch_is_set_aside(
    stored_job: FakeCheckpoint, damage: str, number: int, *, needs_no_sink: bool
) -> None:
    """Of a batch that is not committed, a sink of the user's own may have rows that a table has not."""
    file = prepared_file(0, number)
    content = PreparedBatch(number=number, epoch=0, spark_commit="", large_files=[f"{file}-ab/part-0"]).to_bytes()
    stored_job.files.put_bytes(file, content)
    for name in ("part-0", "part-1"):
        stored_job.files.put_bytes(f"{file}-ab/{name}", b"")
    assert repair(stored_job.root).findings == ()
    if damage == "cut short":
        stored_job.files.put_bytes(file, content[:-3])
    else:
        stored_job.files.remove(f"{file}-ab/part-0")
    [found] = repair(stored_job.root).findings
    assert (found.file, found.action) == (file, "none" if needs_no_sink else "set aside")
    assert ("repair with --no-sink" in found.why) == needs_no_sink
    repair(stored_job.root, no_sink=True)
    assert not stored_job.files.exists(file)
    assert repair(stored_job.root).findings == ()
