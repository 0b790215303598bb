"""What is done with a damaged record of a batch: of what it writes to the tables; and what a whole one is good for."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from panekeeper.recovery.repair.repair import repair
from panekeeper.state.checkpoint.layout import FLUSHED_FILE, prepared_file
from panekeeper.state.prepared import PreparedBatch
from tests.recovery.conftest import FakeCheckpoint
from tests.recovery.repair.test_repair import actions, delta_log, truncate


def packed(*rows: int) -> bytes:
    """A file of packed rows: one for each number of results."""
    content = io.BytesIO()
    pq.write_table(pa.table({"tag": ["results"] * len(rows), "n": [*rows]}), content)
    return content.getvalue()


@pytest.mark.parametrize("damage", ["cut short", "of another job", "rows gone", "rows without a byte", "other rows"])
@pytest.mark.parametrize(("number", "needs_no_sink"), [(2, False), (3, True)])
def test_a_damaged_record_of_a_batch_is_set_aside(
    stored_job: FakeCheckpoint, damage: str, number: int, *, needs_no_sink: bool
) -> None:
    """Of a batch that is not committed, a sink of the user's own may have rows that a table has not."""
    file = prepared_file(0, number)
    part = f"{file}-ab/part-0.parquet"
    batch = PreparedBatch(
        number=number,
        epoch=0,
        spark_commit="",
        large_files=[part],
        large_counts={"results": 3},
        job="0123456789ab",
    )
    put = stored_job.files.put_bytes
    if number > 2:
        stored_job.begin()
    put(file, batch.to_bytes())
    put(part, packed(1, 2))
    assert repair(stored_job.root).findings == ()
    match damage:
        case "cut short":
            put(file, batch.to_bytes()[:-3])
        case "of another job":
            put(file, replace(batch, job="other").to_bytes())
        case "rows gone":
            stored_job.files.remove(part)
        case "rows without a byte":
            put(part, b"")
        case "other rows":
            put(part, packed(2))
    [found] = repair(stored_job.root).findings
    assert (found.file, found.action) == (file, "none" if needs_no_sink else "set aside")
    assert ("repair with --no-sink" in found.why) == needs_no_sink
    repair(stored_job.root, no_sink=True)
    assert not stored_job.files.exists(file)
    assert repair(stored_job.root).findings == ()


def begun_after_recorded(job: FakeCheckpoint, tmp_path: Path) -> str:
    """Let batch 3 be begun; batch 2 is recorded, and a table has it. Return Spark's commit of that."""
    job.tables(metrics=f"{tmp_path}/metrics")
    delta_log(tmp_path / "metrics", *range(3), role="metrics")
    commit = job.files.read("commits/2").decode()
    recorded = PreparedBatch(number=2, epoch=0, spark_commit=commit, job="0123456789ab")
    job.files.put_bytes(prepared_file(0, 2), recorded.to_bytes())
    job.begin()
    return commit


@pytest.mark.parametrize("cut", [("commits/2",), ("commits/2", "offsets/3")], ids=["alone", "with the next offsets"])
def test_a_commit_that_was_cut_short_after_the_next_batch_was_begun_is_known_by_its_record(
    job: FakeCheckpoint, tmp_path: Path, cut: tuple[str, ...]
) -> None:
    """Spark has written both just before a power cut. Without the offsets a start completes the batch once more."""
    commit = begun_after_recorded(job, tmp_path)
    for file in [file for file in job.files.sizes("state/") if "/4_" in file]:
        job.files.remove(file)
    for file in cut:
        truncate(job, file)
    how = {"commits/2": "replace"} if len(cut) == 1 else dict.fromkeys(cut, "set aside")
    assert actions(repair(job.folder, no_sink=True).findings) == how
    assert repair(job.folder, no_sink=True).findings == ()
    if len(cut) == 1:
        assert job.files.read("commits/2").decode() == commit


def test_the_commit_of_a_flush_that_was_cut_short_is_known_by_its_record(job: FakeCheckpoint) -> None:
    """The next start completes the flush, as without the file; without a record only a savepoint is left."""
    job.put(FLUSHED_FILE, json.dumps({"batch": 2}))
    truncate(job, "commits/2", 3)
    assert actions(repair(job.folder).findings) == {"commits/2": "none"}
    recorded = PreparedBatch(number=2, epoch=0, spark_commit="v2\n{}", job="0123456789ab")
    job.files.put_bytes(prepared_file(0, 2), recorded.to_bytes())
    assert actions(repair(job.folder).findings) == {"commits/2": "set aside"}
    assert repair(job.folder).findings == ()


def test_a_repair_that_is_killed_while_it_replaces_a_commit_is_completed_by_the_next(
    job: FakeCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It removed the commit first; without it the next batch was one too many, and only a savepoint helped."""
    commit = begun_after_recorded(job, tmp_path)
    truncate(job, "commits/2")
    job.put("commits/.2.crc", "of other content")
    put = type(job.files).put_bytes

    def killed(files: Any, name: str, data: bytes) -> None:
        if name == "commits/2":
            raise KeyboardInterrupt
        put(files, name, data)

    with monkeypatch.context() as patch:
        patch.setattr(type(job.files), "put_bytes", killed)
        with pytest.raises(KeyboardInterrupt):
            repair(job.folder, no_sink=True)
    assert repair(job.folder, no_sink=True).is_complete
    assert job.files.read("commits/2").decode() == commit
    assert not job.files.exists("commits/.2.crc")


def test_a_recorded_batch_needs_no_control_file_that_it_was_begun_with(job: FakeCheckpoint) -> None:
    """The next start completes it as it is recorded."""
    job.write_control_file(2)
    job.begin()
    job.files.remove("pulse/000000000002.json")
    assert actions(repair(job.folder).findings) == {"offsets/3": "none"}
    recorded = PreparedBatch(number=3, epoch=0, spark_commit="v2", job="0123456789ab")
    job.files.put_bytes(prepared_file(0, 3), recorded.to_bytes())
    assert repair(job.folder).findings == ()


@pytest.mark.parametrize("cut", ["_metadata/v2/3", "_stateSchema/default/3_x"])
def test_what_a_batch_that_is_run_again_says_of_its_state_is_written_again(job: FakeCheckpoint, cut: str) -> None:
    """The first batch of a run writes it while it is planned. A recorded one has it on the disk."""
    described = {"_metadata/v2/3": "_metadata/v2/0", "_stateSchema/default/3_x": "_stateSchema/default/0_x"}
    job.begin()
    for file, like in described.items():
        content = job.files.read(f"state/0/{like}").replace(b"0_x", b"3_x")
        job.files.put_bytes(f"state/0/{file}", content)
    assert repair(job.folder).findings == ()
    truncate(job, f"state/0/{cut}")
    done = actions(repair(job.folder).findings)
    assert done == dict.fromkeys({f"state/0/{cut}", "state/0/_metadata/v2/3"}, "set aside")
    assert repair(job.folder).findings == ()


def planned_again(job: FakeCheckpoint, tmp_path: Path) -> Path:
    """Let the next batch be begun, and nothing of it stored; batch 2 is recorded. Return the log of a table."""
    begun_after_recorded(job, tmp_path)
    for file in [file for file in job.files.sizes("state/") if "/4_" in file]:
        job.files.remove(file)
    return tmp_path / "metrics/_delta_log"


def test_what_a_batch_that_is_planned_again_says_of_its_state_is_written_again(
    job: FakeCheckpoint, tmp_path: Path
) -> None:
    """A power cut has taken its offsets, too: the first batch of a run, before any of it is flushed."""
    planned_again(job, tmp_path)
    described = job.files.read("state/0/_metadata/v2/0")
    job.files.put_bytes("state/0/_metadata/v2/3", described)
    for file in ("offsets/3", "state/0/_metadata/v2/3"):
        truncate(job, file)
    done = actions(repair(job.folder, no_sink=True).findings)
    assert done == dict.fromkeys(("offsets/3", "state/0/_metadata/v2/3"), "set aside")
    assert repair(job.folder, no_sink=True).findings == ()


@pytest.mark.parametrize("lost", ["offsets/3", "commits/2"])
def test_a_table_that_was_cut_short_is_named_by_a_repair(job: FakeCheckpoint, tmp_path: Path, lost: str) -> None:
    """Which batches it has is not known; a start does not get so far that it would say what to do."""
    log = planned_again(job, tmp_path)
    (log / f"{2:020d}.json").write_bytes(b"")
    truncate(job, lost) if lost == "offsets/3" else job.files.remove(lost)
    [finding] = repair(job.folder, no_sink=True).findings
    assert (finding.file, finding.action) == ("offsets/3", "none")
    assert f"{2:020d}.json in {tmp_path}/metrics was cut short" in finding.why
    assert "Then repair again" in finding.why
    (log / f"{2:020d}.json").unlink()
    assert actions(repair(job.folder, no_sink=True).findings)["offsets/3"] == "set aside"
    assert repair(job.folder, no_sink=True).findings == ()
