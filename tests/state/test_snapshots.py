"""Names in a snapshot of Spark's state: Spark writes files by them, wherever they lead."""

from __future__ import annotations

import io
import json
import zipfile

import pytest

from state.snapshots import require_plain_ids, require_plain_names_in_snapshot

FILE = {"localFileName": "000008.sst", "dfsSstFileName": "000008-a833b682-ac35.sst", "sizeBytes": 2636}


def metadata(*files: dict[str, object]) -> str:
    """The names of files as Spark writes them."""
    return "v1\n" + json.dumps({"sstFiles": files, "numKeys": -1, "columnFamilyMapping": {"timer": 4, "default": 1}})


def snapshot(entries: dict[str, str], *, compression: int = zipfile.ZIP_DEFLATED) -> io.BytesIO:
    """A zip file that was written to a stream, as Spark does: sizes follow each entry."""

    class Stream(io.RawIOBase):
        def __init__(self) -> None:
            self.data = bytearray()

        def writable(self) -> bool:
            return True

        def write(self, data: object) -> int:
            self.data += bytes(data)  # type: ignore[call-overload]
            return len(bytes(data))  # type: ignore[call-overload]

    stream = Stream()
    with zipfile.ZipFile(stream, "w", compression) as written:
        for name, text in entries.items():
            written.writestr(name, text)
    return io.BytesIO(bytes(stream.data))


def test_names_that_spark_writes_are_taken() -> None:
    """Whatever else is in the snapshot."""
    require_plain_names_in_snapshot(snapshot({"CURRENT": "x" * 200_000, "metadata": metadata(FILE, FILE), "end": ""}))
    require_plain_names_in_snapshot(snapshot({}))


@pytest.mark.parametrize("name", ["../x.sst", "/etc/x", "a/b", "..", ".", "", "a\\b", "a\0", "\u202e"])
@pytest.mark.parametrize("field", ["localFileName", "dfsSstFileName"])
def test_a_name_that_leads_elsewhere_is_refused(name: str, field: str) -> None:
    """In the first place that Spark looks at, or further on."""
    for files in ([FILE | {field: name}], [FILE, FILE | {field: name}]):
        with pytest.raises(ValueError, match="is no name of a file"):
            require_plain_names_in_snapshot(snapshot({"CURRENT": "x", "metadata": metadata(*files)}))


def test_no_second_name_second_entry_or_text_behind_hides_one() -> None:
    """Spark takes the first of two names in JSON, the last of two entries, and ignores what follows the JSON."""
    bad = metadata(FILE | {"localFileName": "../x"})
    twice = 'v1\n{"sstFiles": [{"localFileName": "../x", "localFileName": "x"}]}'
    for entries in ({"metadata": twice}, {"metadata": bad + " }"}, {"a/metadata": bad, "metadata": metadata()}):
        with pytest.raises(ValueError, match="is no name of a file"):
            require_plain_names_in_snapshot(snapshot(entries))


def test_an_entry_that_is_in_no_directory_is_read() -> None:
    """Java does not look at the directory at the end."""
    hidden = snapshot({"metadata": metadata(FILE | {"localFileName": "../x"})}).getvalue()
    entry = hidden[: hidden.index(b"PK\x01\x02")]
    shown = snapshot({"CURRENT": "x"}).getvalue()
    with pytest.raises(ValueError, match="is no name of a file"):
        require_plain_names_in_snapshot(io.BytesIO(entry + shown))


def test_stored_entries_are_read() -> None:
    """With their size before them, as Java takes them."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_STORED) as one:
        one.writestr("CURRENT", "x" * 100_000)
        one.writestr("metadata", metadata(FILE | {"localFileName": "../x"}))
    written.seek(0)
    with pytest.raises(ValueError, match="is no name of a file"):
        require_plain_names_in_snapshot(written)


def test_a_snapshot_that_was_cut_short_has_no_names() -> None:
    """Spark cannot unpack it: that is damage, which other checks find."""
    data = snapshot({"CURRENT": "x" * 1000, "metadata": metadata(FILE)}).getvalue()
    for end in range(0, len(data), 7):
        require_plain_names_in_snapshot(io.BytesIO(data[:end]))
    require_plain_names_in_snapshot(io.BytesIO(b"0 of 0"))


def test_metadata_that_are_too_large_or_too_deep_are_refused() -> None:
    """A small file may hold them."""
    with pytest.raises(ValueError, match="too large"):
        require_plain_names_in_snapshot(snapshot({"metadata": " " * (64 * 2**20 + 1)}))
    with pytest.raises(ValueError, match="too deeply"):
        require_plain_names_in_snapshot(snapshot({"metadata": "v1\n" + "[" * 100_000}))


def test_ids_in_a_commit_are_no_paths() -> None:
    """Spark looks for a snapshot by them."""
    require_plain_ids(b'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{"0":[["72a5a791-08d8"],["844d51d5-c454"]]}}')
    require_plain_ids(b"v2")
    require_plain_ids(b'v2\n{"nextBatch')
    with pytest.raises(ValueError, match="is no name of a file"):
        require_plain_ids(b'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{"0":[["../x"]]}}')
