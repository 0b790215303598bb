"""What a start reads of Spark's own logs, and of the settings that a checkpoint was begun with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from panekeeper.recovery.storage.files import LocalFiles
from panekeeper.state.checkpoint.folder import JOB_FILE, LocalFolder
from panekeeper.state.checkpoint.job_record import JobRecord, read_record
from panekeeper.state.errors import CheckpointError
from panekeeper.state.spark_logs import remove_unread_entries


def _java_texts(*texts: str) -> str:
    """Texts as Java's `writeUTF` writes them."""
    return "".join(len(text).to_bytes(2).decode() + text for text in texts)


ONE = "\0\0\0\1"
STATE_SCHEMA = (
    _java_texts("v3")
    + ONE
    + _java_texts("state")
    + 2 * ("\0\0" + "\0\0\0\2" + _java_texts('{"type":"struct",', '"fields":[]}'))
    + 2 * (ONE + _java_texts("{    }"))
)
"""What Spark stores of one column family: its name, the schemas of key and value, two encoders."""
FILES = {
    "metadata": '{"id":"7"}',
    "offsets/0": 'v1\n{"conf":{}}\n{"logOffset":0}',
    "offsets/1": 'v1\n{"conf":{}}\n{"logOffset":1}',
    "commits/0": "v1\n{}",
    "commits/1": 'v2\n{"stateUniqueIds":{}}',
    "sources/0/0": 'v1\n{"path":"a"}',
    "sources/0/1.compact": 'v1\n{"path":"a"}\n{"path":"b"}',
    "sources/0/2": 'v1\n{"path":"c"}',
    "state/0/_metadata/v2/0": 'v2\n{"operatorInfo":{}}',
    "state/0/_metadata/v2/1": 'v2\n{"operatorInfo":{}}',
    "state/0/_stateSchema/default/0_x": STATE_SCHEMA,
    "sources/1/0": '\0v1\n{"topic":{"0":7}}',
}


@pytest.fixture
def checkpoint(tmp_path: Path) -> LocalFiles:
    """The logs of two batches of a query with a file source and a Kafka source."""
    folder = LocalFiles(tmp_path)
    for name, content in FILES.items():
        folder.put_bytes(name, content.encode())
    return folder


def test_a_record_without_settings_is_one_of_an_older_version(checkpoint: LocalFiles) -> None:
    """It is read, and has recorded none."""
    record = JobRecord(name="x", id="1", declaration={}, group_ids=(1,), versions={}, settings={"zone": "UTC"})
    checkpoint.write_json(JOB_FILE, record.to_json())
    assert read_record(checkpoint) == record
    older = {name: value for name, value in record.to_json().items() if name != "settings"}
    checkpoint.write_json(JOB_FILE, older, replace=True)
    found = read_record(checkpoint)
    assert found is not None
    assert found.settings == {}


def _entry(*files: str, number: int = 0) -> bytes:
    lines = [json.dumps({"path": file, "timestamp": 1, "batchId": number}) for file in files]
    return "\n".join(["v1", *lines]).encode()


@pytest.mark.parametrize(
    ("ends", "entries", "removed"),
    [
        (1, ["0", "1"], []),
        (1, ["0", "1", "2"], ["2"]),
        (1, ["0", "1", "2", "3"], ["3", "2"]),
        ("-", ["0"], ["0"]),
        (None, ["0"], ["0"]),
        (9, ["7", "8", "9.compact", "10"], ["10"]),
        (8, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9.compact"], ["9.compact"]),
        (8, ["7", "8", "9.compact"], []),
        (19, ["8", "9.compact", *map(str, range(10, 19)), "19.compact", "20"], ["20"]),
    ],
)
def test_what_a_source_has_found_and_no_batch_has_read_is_removed(
    tmp_path: Path, ends: int | str | None, entries: list[str], removed: list[str]
) -> None:
    """So a start reads no two lots of files in one batch; unless the rest were no complete log any more."""
    folder = LocalFiles(tmp_path)
    for entry in entries:
        folder.put_bytes(f"sources/0/{entry}", _entry("a"))
    folder.put_bytes("sources/1/0", b'\0v1\n{"topic":{"0":7}}')
    if ends is not None:
        line = ends if ends == "-" else json.dumps({"logOffset": ends})
        folder.put_bytes("offsets/5", f'v1\n{{"conf":{{}}}}\n{line}\n-'.encode())
    local = LocalFolder(tmp_path)
    assert remove_unread_entries(local) == [f"sources/0/{entry}" for entry in removed]
    assert set(local.names("sources/0")) == set(entries) - set(removed)
    assert local.names("sources/1") == ["0"]  # where a topic began: Spark would begin at another place


def test_a_start_that_has_lost_its_lease_removes_no_entry(tmp_path: Path) -> None:
    """Paused since it had read the offsets: another process runs by now, and its batches have read these entries."""

    def lost() -> None:
        raise CheckpointError("another job has taken over")

    folder = LocalFolder(tmp_path)
    for entry in ("0", "1", "2"):
        folder.write(f"sources/0/{entry}", _entry("a"))
    folder.write("offsets/0", b'v1\n{"conf":{}}\n{"logOffset":0}\n-')
    with pytest.raises(CheckpointError):
        remove_unread_entries(folder, lost)
    assert folder.names("sources/0") == ["0", "1", "2"]
