"""The settings of a session, without starting one, and the tasks of a new checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from panekeeper.framework.builder.places import qualified_path
from panekeeper.framework.declarations.errors import DeclarationError, SetupError
from panekeeper.framework.engine.session.java_libraries import cache_folder
from panekeeper.framework.engine.session.s3_settings import s3_settings
from panekeeper.framework.engine.session.session import _fits_socket_names, session, spark_settings
from panekeeper.framework.engine.session.settings import default_key_groups, default_partitions, is_same_zone
from panekeeper.state.key_groups import MAX_KEY_GROUPS, group_ids, spark_hash

GIB = 1024**3


@pytest.mark.parametrize(("memory", "heap"), [(2 * GIB, "1g"), (8 * GIB, "2g"), (31 * GIB, "7g"), (256 * GIB, "8g")])
def test_the_driver_takes_a_quarter_of_the_memory_within_bounds(memory: int, heap: str) -> None:
    """Small machines keep room for Python and RocksDB; large ones are not filled with garbage to collect."""
    assert spark_settings(cores=2, memory=memory, jars=[])["spark.driver.memory"] == heap


def test_shuffle_partitions_follow_the_cores() -> None:
    """One for each; on a cluster a job's first start decides, and not the driver's machine."""
    assert spark_settings(cores=3, memory=GIB, jars=[])["spark.sql.shuffle.partitions"] == "3"
    assert "spark.sql.shuffle.partitions" not in spark_settings(cores=None, memory=GIB, jars=[])


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("UTC", "Etc/UTC", True),
        ("Z", "+00:00", True),
        ("GMT", "utc", True),
        ("Asia/Calcutta", "Asia/Kolkata", True),
        ("Europe/Berlin", "Europe/Berlin", True),
        ("+02:00", "+02:00", True),
        ("+02:00", "Europe/Berlin", False),
        ("UTC", "Africa/Abidjan", False),
        ("Europe/Berlin", "Europe/Paris", False),
        ("UTC", "America/New_York", False),
    ],
)
def test_a_zone_by_another_of_its_names_is_no_change(one: str, other: str, *, same: bool) -> None:
    """A checkpoint begun in `UTC` goes on in `Etc/UTC`: days, and times in text, are the same."""
    assert is_same_zone(one, other) is is_same_zone(other, one) is same


def test_no_arrow_batch_is_measured_row_by_row() -> None:
    """Spark leaves out the measuring at the greatest limit in bytes only; the limit in rows must then be low."""
    settings = spark_settings(cores=1, memory=GIB, jars=[])
    assert settings["spark.sql.execution.arrow.maxBytesPerBatch"] == "2147483647"
    assert int(settings["spark.sql.execution.arrow.maxRecordsPerBatch"]) * 2**20 < 2**31


@pytest.mark.parametrize(("folder", "fits"), [("/tmp", True), ("/tmp/" + "x" * 60, False)])  # noqa: S108 (nothing is written)
def test_sockets_are_files_where_their_names_fit(folder: str, fits: bool) -> None:  # noqa: FBT001 (a parameter of the test)
    """The name of a socket has at most about a hundred bytes; in a temporary folder with a long name TCP stays."""
    assert _fits_socket_names(folder) == fits


def test_delta_comes_from_local_files_only() -> None:
    """No setting of ours makes a start fetch packages from the network."""
    settings = spark_settings(cores=1, memory=GIB, jars=[Path("/a/one.jar"), Path("/a/two.jar")])
    assert settings["spark.jars"] == "/a/one.jar,/a/two.jar"
    assert "spark.jars.packages" not in settings


def test_a_name_that_is_no_spark_setting_is_refused() -> None:
    """A misspelt argument would otherwise be taken for a setting and do nothing."""
    with pytest.raises(DeclarationError, match="core is not a Spark setting"):
        session("typo", core=2)


def test_a_start_of_spark_is_told(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """By whatever starts one, before anything that takes long: so does each command that does."""

    def refuse(**_: object) -> None:
        raise SetupError("there is no Java")

    monkeypatch.setattr(f"{session.__module__}._running", lambda: None)
    monkeypatch.setattr(f"{session.__module__}.check_environment", refuse)
    with caplog.at_level("INFO", "panekeeper.progress"), pytest.raises(SetupError, match="there is no Java"):
        session()
    assert caplog.messages == ["starting Spark"]


def test_the_cache_folder_can_be_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """PANEKEEPER_CACHE says where fetched files are kept; without it, the user's cache folder."""
    monkeypatch.setenv("PANEKEEPER_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("PANEKEEPER_CACHE")
    monkeypatch.setenv("HOME", "/home/someone")
    assert cache_folder() == Path("/home/someone/.cache/panekeeper")


def test_s3_is_found_where_boto3_finds_it() -> None:
    """A store of one's own is reached by its endpoint, without a host name for each bucket, in some region."""
    settings = s3_settings({"AWS_ENDPOINT_URL": "http://store:7070", "AWS_SECRET_ACCESS_KEY": "hidden"})
    prefix = "spark.hadoop.fs.s3a"
    assert settings[f"{prefix}.endpoint"] == "http://store:7070"
    assert settings[f"{prefix}.path.style.access"] == "true"
    assert settings[f"{prefix}.endpoint.region"] == "us-east-1"
    assert "hidden" not in settings.values()  # Spark takes it from the environment: no setting has it
    assert f"{prefix}.endpoint" not in s3_settings({"AWS_REGION": "eu-central-1"})
    assert s3_settings({"AWS_REGION": "eu-central-1"})[f"{prefix}.endpoint.region"] == "eu-central-1"


def test_a_place_on_s3_is_named_as_spark_names_it() -> None:
    """Spark has no file system for the scheme s3; the message names the right one."""
    with pytest.raises(DeclarationError, match="write s3a://bucket/log"):
        qualified_path("s3://bucket/log")


@pytest.mark.parametrize(
    ("cores", "executors", "partitions"),
    [(2, 1, 2), (4, 3, 12), (1, 32, 32), (0, 0, 1), (96, 100, MAX_KEY_GROUPS)],
)
def test_each_core_of_each_executor_has_a_partition(cores: int, executors: int, partitions: int) -> None:
    """At least one, and not more than there can be key groups."""
    assert default_partitions(cores, executors) == partitions


@pytest.mark.parametrize("partitions", [1, 2, 3, 5, 7, 8, 12, 31, 200, MAX_KEY_GROUPS])
def test_no_core_has_more_key_groups_than_another(partitions: int) -> None:
    """And a small checkpoint has eight, for more cores later."""
    groups = default_key_groups(partitions)
    assert 8 <= groups < partitions + 8
    homes = [spark_hash(one) % partitions for one in group_ids(groups, partitions)]
    assert {homes.count(home) for home in range(partitions)} == {groups // partitions}
