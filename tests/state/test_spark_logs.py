"""What a start reads of Spark's own logs, and of the settings that a checkpoint was begun with."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest

from panekeeper.recovery.repair.logs import log_findings
from panekeeper.recovery.storage.local_files import LocalFiles
from panekeeper.state.checkpoint.folder import LocalFolder
from panekeeper.state.checkpoint.job_record import JobRecord, read_record
from panekeeper.state.checkpoint.layout import JOB_FILE
from panekeeper.state.checkpoint.run_record import Input, write_inputs
from panekeeper.state.errors import CheckpointError, CorruptState
from panekeeper.state.spark_logs.offsets import state_format
from panekeeper.state.spark_logs.source_logs import remove_unread_entries
from panekeeper.state.spark_logs.startup import require_readable_start


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


READ = ["metadata", "offsets/0", "offsets/1", "commits/1", "sources/0/1.compact", "sources/0/2", "sources/1/0"]


@pytest.mark.parametrize(
    ("file", "kept"),
    [
        *((file, kept) for file in (*READ, "state/0/_metadata/v2/1") for kept in (0, 1)),
        *((file, 5) for file in READ),
        *((file, kept) for file in ("commits/1", "sources/0/1.compact", "sources/0/2") for kept in (2, 3)),
        ("sources/1/0", 4),
        *(("state/0/_stateSchema/default/0_x", kept) for kept in range(len(STATE_SCHEMA))),
    ],
)
def test_a_file_that_was_cut_short_is_one_line_with_the_command(checkpoint: LocalFiles, file: str, kept: int) -> None:
    """Before the query starts; files that Spark does not read any more are not looked at."""
    for old in ("commits/0", "sources/0/0", "state/0/_metadata/v2/0"):
        checkpoint.put_bytes(old, b"")
    require_readable_start(checkpoint)
    checkpoint.put_bytes(file, FILES[file].encode()[:kept])
    with pytest.raises(CorruptState, match=rf"^{file} in .* is damaged: .*`panekeeper repair {checkpoint.root} --dry"):
        require_readable_start(checkpoint)


@pytest.mark.parametrize("batch", [0, 1])
def test_offsets_without_their_last_source_are_damaged(checkpoint: LocalFiles, batch: int) -> None:
    """The control stream is always one; the inputs of the job are recorded before its first batch."""
    write_inputs(checkpoint, [Input(kind="files", place="file:/in")])
    with pytest.raises(CorruptState, match=r"^offsets/0 in .* is damaged: it is truncated"):
        require_readable_start(checkpoint)
    for number in range(2):
        whole = FILES[f"offsets/{number}"] + '\n{"logOffset":0}'
        checkpoint.put_bytes(f"offsets/{number}", whole.encode())
    require_readable_start(checkpoint)
    checkpoint.put_bytes(f"offsets/{batch}", FILES[f"offsets/{batch}"].encode())
    with pytest.raises(CorruptState, match=rf"^offsets/{batch} in .* is damaged: it is truncated"):
        require_readable_start(checkpoint)


@pytest.mark.parametrize("file", ["metadata", "offsets/0"])
def test_a_file_that_is_gone_is_one_line_with_the_command(checkpoint: LocalFiles, file: str) -> None:
    """Of the offsets before the newest ones Spark would only say that the batch does not exist."""
    checkpoint.remove(file)
    with pytest.raises(CorruptState, match=rf"^{file} in .* is damaged: it is gone; `panekeeper repair"):
        require_readable_start(checkpoint)


def test_a_first_batch_that_was_killed_while_it_was_planned_is_run_again(tmp_path: Path) -> None:
    """Spark makes the folders of its state before it writes what describes it; then nobody has stored any."""
    first = LocalFiles(tmp_path)
    for name in ("metadata", "offsets/0", "sources/0/0"):
        first.put_bytes(name, FILES[name].encode())
    (tmp_path / "state/0/0/_metadata").mkdir(parents=True)
    require_readable_start(first)
    first.put_bytes("state/0/0/1_u0.changelog", b"of a task that had ended")
    require_readable_start(first)
    first.put_bytes("commits/0", b"v2\n{}")
    with pytest.raises(CorruptState, match=r"^state/0/_metadata/v2/0 in .* is damaged: it is gone"):
        require_readable_start(first)


def test_the_format_of_the_state_is_that_of_the_newest_commit(checkpoint: LocalFiles) -> None:
    """Not what the session says."""
    assert state_format(checkpoint) == "2"
    checkpoint.remove("commits/1")
    assert state_format(checkpoint) == "1"
    checkpoint.remove("commits/0")
    assert state_format(checkpoint) is None


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


@pytest.mark.parametrize("name", ["2", "2.compact"])
def test_a_checksum_without_its_entry_is_removed(tmp_path: Path, name: str) -> None:
    """Hadoop refuses to write the entry beside it; a process that was paused writes both names, one after the other."""
    folder = LocalFolder(tmp_path)
    for entry in ("0", "1"):
        folder.write(f"sources/0/{entry}", _entry("a"))
    folder.write("offsets/0", b'v1\n{"conf":{}}\n{"logOffset":1}\n-')
    checksum = tmp_path / f"sources/0/.{name}.crc"
    checksum.write_bytes(b"crc")
    assert remove_unread_entries(folder) == []
    assert not checksum.exists()
    assert folder.names("sources/0") == ["0", "1"]


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


@pytest.mark.parametrize(
    ("end", "entries", "lost"),
    [
        (1, ["0", "1", "2"], None),
        (1, ["0"], "1"),
        (0, [], "0"),
        (2, ["0", "2"], "1"),
        (12, ["9.compact", "10", "11", "12"], None),
        (12, ["8", "9.compact", "10", "12"], "11"),
        (10**17, ["9.compact"], "10"),
        (8, ["9.compact"], None),
        (8, ["1", "2", "3", "4", "5", "6", "7", "8"], "0"),
    ],
)
def test_a_source_whose_log_lacks_an_entry_is_refused(
    tmp_path: Path, end: int, entries: list[str], lost: str | None
) -> None:
    """As of a copy made while the job ran. Spark would take the next files for those that it has read as that entry."""
    folder = LocalFiles(tmp_path)
    for entry in entries:
        folder.put_bytes(f"sources/1/{entry}", _entry("a", number=int(entry.partition(".")[0])))
    folder.put_bytes("metadata", b'{"id":"7"}')
    folder.put_bytes("offsets/4", b'v1\n{"conf":{}}\n{"t":{"0":1}}\n-\n-')
    folder.put_bytes("offsets/5", f'v1\n{{"conf":{{}}}}\n{{"t":{{"0":1}}}}\n{{"logOffset":{end}}}\n-'.encode())
    folder.put_bytes("commits/5", b"v1\n{}")
    if lost is None:
        require_readable_start(LocalFolder(tmp_path))
        return
    with pytest.raises(CorruptState, match=rf"^sources/1/{lost} in .* is damaged: it is gone, and Spark would take"):
        require_readable_start(LocalFolder(tmp_path))
    findings = [*log_findings(folder, no_sink=False, s3=None)]
    assert [(one.file, one.action) for one in findings] == [(f"sources/1/{lost}", "none")]


def test_the_log_of_a_source_is_read_one_line_at_a_time(tmp_path: Path) -> None:
    """It has a line for each file that the source has ever read; as Python objects they take eight times as much."""
    line = '{"path":"file:///in/a-file-of-a-usual-name-%08d.json","timestamp":1795454711692,"batchId":%d}'
    text = "\n".join(["v1", *(line % (number, number) for number in range(20_000))])
    local = LocalFiles(tmp_path)
    local.put_bytes("sources/0/19999.compact", text.encode())
    tracemalloc.start()
    require_readable_start(local)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2 * len(text)
