"""What Spark has stored is read from its files, byte by byte; what is not as known is refused, and never read as less.

`checkpoint.zip` has the logs and the state of a real job of Spark 4.2 as of its batches 10 to 14, with a snapshot of
each partition as of 10 and as of 12; `values.json` what Spark itself has read from it.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from panekeeper.state.checkpoint.folder import LocalFolder
from panekeeper.state.spark_files.cursor import NotReadable
from panekeeper.state.spark_files.read_state import StoredState

HERE = Path(__file__).parent
BATCHES = range(10, 15)
PLACES = 300
"""So many bits of each file are turned, spread over it."""

Digests = dict[str, str]


def digests(folder: Path, batch: int) -> Digests:
    """Return group, kind, slot and number -> SHA-256 of the value."""
    stored = StoredState.of(LocalFolder(folder), batch)
    groups = [stored.read(one, most=2**20) for one in stored.versions]
    return {
        json.dumps([group, *place]): hashlib.sha256(body).hexdigest()
        for part in groups
        for group, segments in part.items()
        for place, body in segments.items()
    }


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the epoch, which no test changes."""
    folder = tmp_path_factory.mktemp("epoch")
    with zipfile.ZipFile(HERE / "checkpoint.zip") as packed:
        packed.extractall(folder)
    return folder


@pytest.fixture
def epoch(unpacked: Path, tmp_path: Path) -> Path:
    """Return a copy of it."""
    return Path(shutil.copytree(unpacked, tmp_path / "epoch"))


@pytest.fixture(scope="module")
def expected() -> dict[str, Digests]:
    """Return batch -> what Spark has read."""
    found: dict[str, Digests] = json.loads((HERE / "values.json").read_text())
    return found


@pytest.mark.parametrize("batch", BATCHES)
def test_each_stored_value_is_as_spark_reads_it(unpacked: Path, expected: dict[str, Digests], batch: int) -> None:
    """Of a snapshot alone, of one with the changes of a batch, of two, and of a snapshot that shares tables."""
    assert digests(unpacked, batch) == expected[str(batch)]


def files_of_state(epoch: Path) -> Iterator[Path]:
    """Yield the files of one partition, and what leads to them, as of the last batch."""
    yield epoch / "commits" / "14"
    yield epoch / "offsets" / "14"
    yield from sorted((epoch / "state" / "0" / "0").rglob("1[345]_*"))
    yield from sorted((epoch / "state" / "0" / "0" / "SSTs").iterdir())


def test_a_bit_that_was_turned_is_never_read_as_another_value(epoch: Path, expected: dict[str, Digests]) -> None:
    """In whichever file: it is refused, or what it stands in is not needed (A13)."""
    refused, turn = 0, random.Random(7)
    for path in files_of_state(epoch):
        whole = path.read_bytes()
        for place in sorted({turn.randrange(len(whole)) for _ in range(PLACES)}):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << turn.randrange(8)
            path.write_bytes(damaged)
            try:
                assert digests(epoch, 14) == expected["14"], f"{path.name}, byte {place}"
            except NotReadable:
                refused += 1
        path.write_bytes(whole)
    assert refused > PLACES


def test_a_file_that_is_cut_short_or_gone_is_refused(epoch: Path) -> None:
    """Each file that is needed, by its name."""
    needed = [path for path in files_of_state(epoch) if not path.match("13_*.changelog")]
    is_refused = dict[str, bool]()
    for path in needed:
        whole = path.read_bytes()
        for content in (None, b"", whole[: len(whole) // 2], whole[:-1]):
            if content is None:
                path.unlink()
            else:
                path.write_bytes(content)
            try:
                digests(epoch, 14)
                is_refused.setdefault(path.name, False)
            except NotReadable:
                is_refused[path.name] = True
        path.write_bytes(whole)
    unused = {name for name, refused in is_refused.items() if not refused}
    assert all(name.endswith(".sst") for name in unused)  # tables of the snapshot before
    assert len(unused) < len([name for name in is_refused if name.endswith(".sst")])


def replaced(name: str, old: str, new: str) -> Callable[[Path], None]:
    """Return a change of the text of a file."""

    def change(epoch: Path) -> None:
        path = epoch / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (replaced("offsets/14", "RocksDBStateStoreProvider", "HDFSBackedStateStoreProvider"), "providerClass"),
        (replaced("offsets/14", '"unsaferow"', '"avro"'), "encodingFormat"),
        (replaced("offsets/14", 'rowChecksum.enabled":"false"', 'rowChecksum.enabled":"true"'), "rowChecksum"),
        (replaced("commits/14", "v2", "v3"), "version 3"),
        (replaced("commits/14", "stateUniqueIds", "stateIds"), "no id"),
        (replaced("commits/14", '"],["', '","x"],["'), "only store"),
        (replaced("commits/14", '[["', '[["../'), "no name of a file"),
    ],
)
def test_what_spark_stores_another_way_is_refused(epoch: Path, change: Callable[[Path], None], reason: str) -> None:
    """The format of rows, of commits, and a store that keeps more than one: then Spark reads the state."""
    change(epoch)
    with pytest.raises(NotReadable, match=reason):
        digests(epoch, 14)


def test_more_than_a_process_should_hold_is_refused(unpacked: Path) -> None:
    """By the sizes that the snapshot names, before the tables are read."""
    stored = StoredState.of(LocalFolder(unpacked), 14)
    with pytest.raises(NotReadable, match="which is much for one process"):
        stored.read(stored.versions[0], most=1000)
