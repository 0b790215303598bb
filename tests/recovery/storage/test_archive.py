"""The rules of an archive, for the built-in ones and for one of a user; and how a location names it."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from panekeeper.recovery.cli.main import main
from panekeeper.recovery.errors import ArchiveError, NoSuchSavepoint
from panekeeper.recovery.restore.restore import restore
from panekeeper.recovery.savepoint.catalog import prune, savepoints, show, verify
from panekeeper.recovery.storage import locations
from panekeeper.recovery.storage.archive import Archive
from panekeeper.recovery.storage.locations import open_archive, register_archive
from tests.recovery.conftest import savepoint
from tests.recovery.storage.memory_archive import MemoryArchive

if TYPE_CHECKING:
    from tests.recovery.conftest import FakeCheckpoint


@pytest.fixture(params=["disk", "s3", "user"])
def any_archive(request: pytest.FixtureRequest, tmp_path: Path) -> Archive:
    """An empty archive of each kind."""
    if request.param == "user":
        return MemoryArchive()
    return open_archive(tmp_path if request.param == "disk" else f"{request.getfixturevalue('bucket')}/saved")


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> dict[str, MemoryArchive]:
    """Locations `memory://...` name archives of this process, while the test runs; by location."""
    opened: dict[str, MemoryArchive] = {}
    monkeypatch.setattr(locations, "_registered", {})
    register_archive("memory", lambda location: opened.setdefault(location, MemoryArchive(location)))
    return opened


def content(archive: Archive, name: str) -> bytes:
    """The bytes of a stored file."""
    into = io.BytesIO()
    archive.get(name, into)
    return into.getvalue()


def test_a_stored_file_is_found_and_can_be_replaced(any_archive: Archive, tmp_path: Path) -> None:
    """By every method, and under a name with folders in it."""
    (tmp_path / "local").write_bytes(b"from a file")
    any_archive.put_file("blobs/a", tmp_path / "local")
    any_archive.put_bytes("blobs/a", b"new")
    any_archive.put_bytes("blobs/deep/b", b"")
    assert content(any_archive, "blobs/a") == b"new"
    assert any_archive.sizes("blobs/") == {"blobs/a": 3, "blobs/deep/b": 0}
    assert any_archive.sizes("blobs/d") == {"blobs/deep/b": 0}
    assert any_archive.exists("blobs/a")


def test_a_file_that_is_not_there_is_reported_as_such(any_archive: Archive) -> None:
    """Reading it fails, removing it does nothing."""
    with pytest.raises(FileNotFoundError):
        content(any_archive, "blobs/none")
    any_archive.remove("blobs/none")
    assert not any_archive.exists("blobs/none")
    assert any_archive.sizes() == {}


def test_a_removed_file_is_gone_and_its_name_is_free(any_archive: Archive) -> None:
    """For `put_new`, too."""
    any_archive.put_new("savepoints/a.json", b"1")
    any_archive.remove("savepoints/a.json")
    any_archive.put_new("savepoints/a.json", b"2")
    assert content(any_archive, "savepoints/a.json") == b"2"


def test_of_two_that_create_the_same_file_one_succeeds(any_archive: Archive) -> None:
    """The content is that of the one that did."""

    def create(data: bytes) -> bytes | None:
        try:
            any_archive.put_new("savepoints/a.json", data)
        except FileExistsError:
            return None
        return data

    with ThreadPoolExecutor(4) as pool:
        created = [data for data in pool.map(create, (b"1", b"2", b"3", b"4")) if data is not None]
    assert created == [content(any_archive, "savepoints/a.json")]


def test_savepoints_live_in_an_archive_that_a_user_wrote(job: FakeCheckpoint) -> None:
    """Made, listed, verified, restored and pruned there, without a change to Panekeeper."""
    archive, before = MemoryArchive(), job.contents()
    savepoint(job.folder, "one", to=archive)
    savepoint(job.run().folder, "two", to=archive)
    assert list(savepoints(archive)) == ["one", "two"]
    assert verify(archive, "one").files == len(show(archive, "one").files)
    assert restore(archive, "one").forgotten == (3, 3)
    assert set(job.contents()) == set(before)
    assert prune(archive, keep=1).removed == ("one",)


def test_a_registered_scheme_is_a_location_everywhere(
    job: FakeCheckpoint, registered: dict[str, MemoryArchive], capsys: pytest.CaptureFixture[str]
) -> None:
    """In Python and on the command line."""
    savepoint(job.folder, "one", to="memory://shared/a")
    assert verify("memory://shared/a", "one").name == "one"
    assert main(["savepoints", "memory://shared/a"]) == 0
    assert capsys.readouterr().out.startswith("one: ")
    assert list(registered) == ["memory://shared/a"]
    with pytest.raises(NoSuchSavepoint, match="in memory://shared/b: it holds none"):
        show("memory://shared/b", "one")


def test_an_installed_package_declares_a_scheme_by_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that cannot be imported is reported with its name."""
    declared = {
        "memory": "tests.recovery.storage.memory_archive:MemoryArchive",
        "broken": "tests.recovery.storage.memory_archive:Missing",
    }

    def installed(**wanted: Any) -> EntryPoints:
        found = [EntryPoint(name, value, locations.ENTRY_POINTS) for name, value in declared.items()]
        return EntryPoints(found).select(**wanted)

    monkeypatch.setattr(locations, "entry_points", installed)
    assert isinstance(open_archive("memory://x"), MemoryArchive)
    with pytest.raises(ArchiveError, match=r"broken://\.\.\. cannot be loaded from tests\.recovery.*:Missing"):
        open_archive("broken://x")


@pytest.mark.parametrize(
    ("scheme", "problem"),
    [("s3", "is built in"), ("file", "is built in"), ("GS", "is not a URL scheme"), ("gs://", "is not a URL scheme")],
)
def test_a_scheme_that_cannot_be_registered_is_refused(scheme: str, problem: str) -> None:
    """Those that are built in, and what stands before no `://`."""
    with pytest.raises(ArchiveError, match=problem):
        register_archive(scheme, MemoryArchive)


def test_an_archive_that_lacks_a_method_cannot_be_made() -> None:
    """The class says what is missing, not the first savepoint."""
    unfinished: Any = type("Unfinished", (Archive,), {})
    with pytest.raises(TypeError, match="put_new"):
        unfinished()


def test_a_tilde_that_no_shell_has_expanded_is_refused() -> None:
    """As in `--to=~/savepoints`: it would be a folder of that name."""
    with pytest.raises(ArchiveError, match=f"write {Path.home()}/savepoints"):
        open_archive("~/savepoints")
