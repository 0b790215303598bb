"""The view of Spark's home that its Python workers are started from, and the manager of a checkpoint's files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest
from pyspark import SparkContext

from panekeeper.framework.declarations.errors import SetupError
from panekeeper.framework.engine.session import java_libraries
from panekeeper.framework.engine.session.java_libraries import (
    DELTA,
    KAFKA,
    S3,
    JavaLibraries,
    cached_jars,
    require_delta,
    require_libraries,
    spark_home,
)
from panekeeper.framework.engine.session.s3_settings import FILE_MANAGER
from panekeeper.framework.engine.session.session import session
from panekeeper.framework.engine.session.settings import DELTA_SETTINGS
from panekeeper.framework.engine.session.spark_folder import ON_DISK, file_manager


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache of its own."""
    monkeypatch.setenv("PANEKEEPER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_view_has_all_that_starts_spark_and_no_packed_python() -> None:
    """Programs and Java libraries are the installed ones; pyspark comes from the packages of this interpreter."""
    installed = Path(pyspark.__file__).parent
    assert (spark_home() / "bin" / "spark-submit").samefile(installed / "bin" / "spark-submit")
    assert (spark_home() / "jars").samefile(installed / "jars")
    assert (installed / "python" / "lib" / "pyspark.zip").exists()
    assert not (spark_home() / "python").exists()


@pytest.mark.parametrize(
    ("has_settings", "has_classes", "lines"),
    [(False, False, 3), (False, True, 2), (True, False, 1)],
)
def test_a_session_without_delta_is_told_all_that_it_lacks_at_once(
    *, has_settings: bool, has_classes: bool, lines: int
) -> None:
    """The package of its series of Spark, and both settings; a session with all of it is taken."""
    settings = DELTA_SETTINGS if has_settings else dict.fromkeys(DELTA_SETTINGS)
    with pytest.raises(SetupError) as refused:
        require_delta(settings, has_classes=has_classes)
    said = str(refused.value)
    assert said.count('.config("') == lines
    assert all((f'.config("{name}", "{wanted}")' in said) != has_settings for name, wanted in DELTA_SETTINGS.items())
    assert ("io.delta:delta-spark_" in said) != has_classes
    assert ("Stop it, and take it from" in said) == has_classes  # else another session of the process lacks it, too
    assert ("Restart the Python process, or the kernel of the notebook" in said) != has_classes
    require_delta({name: f"mine.Other,{wanted}" for name, wanted in DELTA_SETTINGS.items()}, has_classes=True)


def java_with(*libraries: JavaLibraries) -> Any:
    """What a process has of its Java side: a gateway to one that has the classes of some libraries."""
    known = {name for one in libraries for name in one.classes}
    utils = SimpleNamespace(classIsLoadable=known.__contains__)
    util = SimpleNamespace(Utils=utils)
    return SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(spark=SimpleNamespace(util=util))))


@pytest.mark.parametrize(
    ("has", "wanted", "said"),
    [
        ([], {}, r"without Delta \(io\.delta.*\. Restart the Python process, .*panekeeper\.session\(\) before"),
        ([DELTA], {"s3": True}, r"without S3 \(org.*\. Restart .*panekeeper\.session\(s3=True\) before anything else"),
        ([DELTA, S3], {"s3": True, "kafka": True}, r"without Kafka \(org.*\. Restart .*\.session\(kafka=True\)"),
    ],
)
def test_java_that_runs_without_a_library_gets_no_session(
    monkeypatch: pytest.MonkeyPatch, has: list[JavaLibraries], wanted: dict[str, Any], said: str
) -> None:
    """Before anything is fetched or started, with one message: Java stays when its session is stopped."""
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setattr(SparkContext, "_gateway", object())
    monkeypatch.setattr(SparkContext, "_jvm", java_with(*has))
    with pytest.raises(SetupError, match=said) as refused:
        session(**wanted)
    assert "\n" not in str(refused.value)
    for one in has:
        require_libraries(one)


def test_a_submitted_program_without_a_library_names_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Java side is the parent, which another call of `spark-submit` starts."""
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setattr(SparkContext, "_jvm", java_with(DELTA))
    with pytest.raises(SetupError, match=r"without Kafka .*add `--packages org\.apache\.spark:spark-sql-kafka"):
        require_libraries(KAFKA)


def test_the_view_is_made_once(cache: Path) -> None:
    """A second start finds it; nothing half made is left."""
    assert spark_home() == spark_home()
    assert list((cache / "spark").iterdir()) == [spark_home()]


def test_a_view_that_lacks_a_link_is_made_again(cache: Path) -> None:
    """What cleans up caches by age removes single files."""
    (spark_home() / "bin").unlink()
    assert (spark_home() / "bin" / "spark-submit").exists()
    assert list((cache / "spark").iterdir()) == [spark_home()]


def test_java_libraries_that_are_gone_are_fetched_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cleans up caches leaves the folder: no job would start any more."""
    libraries = JavaLibraries(what="some", folder="some-1", main="main", packages=(), left_out=())
    fetched = []

    def fetch(_: JavaLibraries, work: Path) -> Path:
        fetched.append(work)
        (work / "jars").mkdir()
        for name in ("main.jar", "other.jar"):
            (work / "jars" / name).touch()
        return work / "jars"

    monkeypatch.setattr(java_libraries, "_fetch", fetch)
    whole = cached_jars(libraries)
    for jar in whole:
        jar.unlink()
    assert cached_jars(libraries) == cached_jars(libraries) == whole
    assert len(fetched) == 2
    assert [one.name for one in (cache / "jars").iterdir()] == ["some-1"]


def test_without_a_place_for_the_view_the_installed_spark_serves(cache: Path) -> None:
    """A cache that cannot be written makes starts slower, not impossible."""
    cache.write_text("a file where the folder should be")
    assert spark_home() == Path(pyspark.__file__).parent


@pytest.mark.parametrize(
    ("checkpoint", "default", "given", "expected"),
    [
        ("/data/c", "file:///", None, ON_DISK),
        ("file:/data/c", "hdfs://host:8020", None, ON_DISK),
        ("file:///data/c", "hdfs://host:8020", None, ON_DISK),
        ("/data/c", "hdfs://host:8020", None, None),
        ("hdfs://host/c", "file:///", None, None),
        ("/data/c", "file:///", "my.Manager", "my.Manager"),
        ("s3a://bucket/c", "file:///", "my.Manager", FILE_MANAGER),
    ],
)
def test_the_file_manager_follows_the_place(
    checkpoint: str, default: str, given: str | None, expected: str | None
) -> None:
    """Ours on a local disk, the one for S3 there, and the user's or Spark's anywhere else."""
    assert file_manager(checkpoint, default, given) == expected
