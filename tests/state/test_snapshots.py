"""Names in a snapshot of Spark's state: Spark writes files by them, wherever they lead."""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from itertools import product

import pytest

from panekeeper.state.snapshots import require_plain_ids, require_plain_names_in_snapshot, require_schemas_within

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


def entry(
    name: bytes, content: bytes, *, method: int = 8, sizes: tuple[int, int] = (0, 0), extra: bytes = b""
) -> bytes:
    """An entry of a zip file, with the sizes before it that are given: as it is packed, and as it is."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS, 9, zlib.Z_FIXED)
    packed = content if method == zipfile.ZIP_STORED else deflate.compress(content) + deflate.flush()
    before = struct.pack(
        "<4s5H3I2H", b"PK\x03\x04", 20, 0, method, 0, 0, zlib.crc32(content), *sizes, len(name), len(extra)
    )
    return before + name + extra + packed


BAD = metadata(FILE | {"localFileName": "../x"}).encode()


@pytest.mark.parametrize(
    ("sizes", "extra"),
    [((10**6, 5), b""), ((0xFFFFFFFF, 0xFFFFFFFF), struct.pack("<HHQQ", 1, 16, 5, 5))],
    ids=["packed", "zip64"],
)
def test_no_stored_entry_hides_what_follows_it(sizes: tuple[int, int], extra: bytes) -> None:
    """Java goes by its own size, or by that in an extra field, and Spark stores none: so it is refused."""
    hidden = entry(b"CURRENT", b"x" * 5, method=zipfile.ZIP_STORED, sizes=sizes, extra=extra) + entry(b"metadata", BAD)
    with pytest.raises(ValueError, match="is not deflated"):
        require_plain_names_in_snapshot(io.BytesIO(hidden))


@pytest.mark.parametrize("end", ["\r", "\r\n"])
def test_the_line_of_the_version_ends_where_java_ends_it(end: str) -> None:
    """Also if another line follows, which would be the first one for others."""
    for content in (BAD.decode().replace("\n", end), BAD.decode().replace("\n", end) + "\n{}"):
        with pytest.raises(ValueError, match="is no name of a file"):
            require_plain_names_in_snapshot(snapshot({"metadata": content}))


def test_what_deflate_still_holds_at_the_end_of_the_file_is_read() -> None:
    """All bytes are taken by then, and a last piece of text is still to come."""
    end = b" " * 60 + b"}]}"
    for more, length in product(range(10), range(65_470, 65_536)):
        begin = BAD[: BAD.index(b"}]")].replace(b"{", b'{"pad": "' + end + b'", "more": "' + b"b" * more + b'", ', 1)
        content = begin.replace(b"{", b'{"most": "' + b"a" * (length - len(begin)) + b'", ', 1) + end
        with pytest.raises(ValueError, match="is no name of a file"):
            require_plain_names_in_snapshot(io.BytesIO(entry(b"metadata", content)))


@pytest.mark.parametrize("name", ["a/metadata", "METADATA", "meta\u200cdata", ".."])
def test_an_entry_that_a_file_system_may_take_for_the_metadata_is_refused(name: str) -> None:
    """Some look at no upper and lower case, and at no invisible characters; Spark writes plain names."""
    with pytest.raises(ValueError, match="is no name of a file"):
        require_plain_names_in_snapshot(snapshot({name: BAD.decode()}))


def test_a_snapshot_that_was_cut_short_has_no_names() -> None:
    """Spark cannot unpack it: that is damage, which other checks find."""
    data = snapshot({"CURRENT": "x" * 1000, "metadata": metadata(FILE)}).getvalue()
    for end in range(len(data)):
        require_plain_names_in_snapshot(io.BytesIO(data[:end]))
    require_plain_names_in_snapshot(io.BytesIO(b"0 of 0"))


def test_metadata_that_are_too_large_or_too_deep_are_refused() -> None:
    """A small file may hold them."""
    with pytest.raises(ValueError, match="too large"):
        require_plain_names_in_snapshot(snapshot({"metadata": " " * (64 * 2**20 + 1)}))
    with pytest.raises(ValueError, match="too deeply"):
        require_plain_names_in_snapshot(snapshot({"metadata": "v1\n" + "[" * 100_000}))


def test_an_entry_that_is_larger_than_any_of_sparks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file may hold it, and Spark would write it to the disk; behind 4 GB Java looks elsewhere for the next."""
    monkeypatch.setattr("panekeeper.state.snapshots._MAX_ENTRY", 2**20)
    require_plain_names_in_snapshot(snapshot({"CURRENT": "x" * 2**20}))
    with pytest.raises(ValueError, match="is too large"):
        require_plain_names_in_snapshot(snapshot({"CURRENT": "x" * (2**20 + 1)}))
    nothing = b"\0\0\0\xff\xff" * 2**18  # of packed bytes there are more than of others
    many = entry(b"CURRENT", b"")[:-2] + nothing
    with pytest.raises(ValueError, match="is too large"):
        require_plain_names_in_snapshot(io.BytesIO(many))


def test_ids_in_a_commit_are_no_paths() -> None:
    """Spark looks for a snapshot by them."""
    require_plain_ids(b'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{"0":[["72a5a791-08d8"],["844d51d5-c454"]]}}')
    require_plain_ids(b"v2")
    with pytest.raises(ValueError, match="is no name of a file"):
        require_plain_ids('v2\n{"pad":"\u2028","stateUniqueIds":{"0":[["../x"]]}}'.encode())
    require_plain_ids(b'v2\n{"nextBatch')
    with pytest.raises(ValueError, match="is no name of a file"):
        require_plain_ids(b'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{"0":[["../x"]]}}')


def description(*schemas: str) -> bytes:
    """The description of an operator, as Spark writes it, with these files of schemas."""
    store = {"storeName": "default", "numPartitions": 2, "stateSchemaFilePaths": schemas}
    return f"v2\n{json.dumps({'operatorInfo': {'operatorId': 0}, 'stateStoreInfo': [store]})}".encode()


def test_schemas_are_read_within_the_checkpoint_only() -> None:
    """Spark opens them by the full names in the description, whatever the file system of the name is."""

    def within(name: str) -> bool:
        return name.startswith(("file:///jobs/a/", "file:/jobs/a/"))

    inside = "file:///jobs/a/state/0/_stateSchema/default/0_x"
    require_schemas_within(description(inside), within)
    require_schemas_within(description(), within)
    outside = ["file:/jobs/ab/x", "file:///jobs/a/../b/x", "s3a://theirs/x", "/etc/passwd", ""]
    for path in outside:
        with pytest.raises(ValueError, match="not in the checkpoint"):
            require_schemas_within(description(inside, path), within)
    twice = description(inside).replace(b'"numPartitions"', b'"stateSchemaFilePaths": ["/etc/passwd"], "numPartitions"')
    for content in (twice, b"v2\n{", b"v2\n" + b"[" * 100_000):
        with pytest.raises(ValueError, match=r"not in the checkpoint|Expecting|nested"):
            require_schemas_within(content, within)
