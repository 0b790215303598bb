"""Where results go: the folders of the tables, and what is refused before anything runs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from panekeeper import DeclarationError, minutes
from panekeeper.framework.builder.outputs import Computation
from panekeeper.framework.builder.places import _moved, cluster_columns, full_name, require_view
from panekeeper.framework.engine.job.query import trigger_options

ONE_WINDOW: Any = SimpleNamespace(spec=SimpleNamespace(parts={"": None}, windows={}))
COMPUTATION = Computation(ONE_WINDOW)  # the folders of its tables depend on nothing else
CREATE = "CREATE TABLE m.view USING delta LOCATION '/old'"


@pytest.mark.parametrize("name", ["prod.db.table", "db.table", "log.delta", "spark_catalog.default.x"])
@pytest.mark.parametrize("table", ["path", "view", "quarantine", "metrics", "downtime"])
def test_the_name_of_a_table_in_a_catalog_is_no_folder(table: str, name: str) -> None:
    """Each table says what to write for a folder of that name."""
    given = {"path": "out/log"} | {table: name}
    with pytest.raises(
        DeclarationError, match=rf"{table} is '{name}'.*name of a table in a catalog.*table=.*\"\./{name}\""
    ):
        COMPUTATION.to_delta(**cast("Any", given))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "give one of them"),
        ({"path": "out/log", "table": "a.b"}, "give one of them"),
        ({"table": "out/log"}, "table is 'out/log'; with table= each table is given by its name"),
        ({"table": "prod..log"}, "table is 'prod..log'"),
        ({"table": "prod.log", "view": "s3a://bucket/view"}, "view is 's3a://bucket/view'"),
        ({"table": "prod.log", "view": Path("view")}, "view is"),
        ({"table": "prod.log", "view": "prod.log"}, "two tables are the same: log and view are both prod.log"),
        ({"path": "/t/log", "metrics": "/t/log_quarantine"}, "quarantine and metrics are both /t/log_quarantine; give"),
    ],
)
def test_tables_are_all_given_by_folder_or_all_by_name(given: dict[str, Any], words: str) -> None:
    """One that is given otherwise is named."""
    with pytest.raises(DeclarationError, match=words):
        COMPUTATION.to_delta(**given)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("", r"no column '' in the results; the results have sensor, worst"),
        ("sensro", r"no column 'sensro' in the results; did you mean 'sensor'\?"),
        (["sensor", "worst_.value"], r"no column 'worst_.value'"),
    ],
)
def test_tables_are_clustered_by_columns_of_the_results(wanted: str | list[str], words: str) -> None:
    """Another one failed the start, by a message of Spark. A field of a struct is a column, too."""
    with pytest.raises(DeclarationError, match=words):
        cluster_columns(wanted, ["sensor", "worst"])
    assert cluster_columns(["SENSOR", "worst.value"], ["sensor", "worst"]) == ("SENSOR", "worst.value")
    assert cluster_columns((), []) == ()


@pytest.mark.parametrize("name", ["_row_dropped_", "_Target_Row_Present_", "__delta_rs_source"])
def test_a_view_has_no_column_that_a_merge_uses_for_itself(name: str) -> None:
    """Each merge would fail, and with it each start. A log takes any name."""

    def results(*columns: str) -> Any:
        schema = pa.schema({column: pa.string() for column in columns})
        spec = SimpleNamespace(join=None, mixes_window_kinds=False, parts={"": SimpleNamespace(results_schema=schema)})
        return SimpleNamespace(spec=spec)

    with pytest.raises(DeclarationError, match=f"the result column '{name}' has a name that a merge uses"):
        require_view("out/view", results("sensor", name))
    require_view("out/view", results("sensor", "_row_"))
    require_view(None, results("sensor", name))


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
@pytest.mark.parametrize("secret", ["AKIA:hunter2@", "AKIA:hun/ter2@", "AKIA@"])
def test_credentials_in_a_url_are_refused_and_not_repeated(scheme: str, secret: str) -> None:
    """It would stand in the checkpoint, in savepoints and in every message about the folder."""
    with pytest.raises(DeclarationError, match="credentials do not belong in a URL") as refused:
        COMPUTATION.to_delta(f"{scheme}://{secret}bucket/log")
    assert not any(word in str(refused.value) for word in ("AKIA", "hun", "ter2"))
    url = "abfss://box@account.dfs.core.windows.net/log"
    assert COMPUTATION.to_delta(url).tables.by_role["log"] == url


FOLDERS = {
    "./db.table": "db.table",
    "out/db.table": "out/db.table",
    "log": "log",
    "../log.delta": "../log.delta",
}


@pytest.mark.parametrize("written", FOLDERS)
def test_a_path_with_a_slash_is_a_folder(written: str) -> None:
    """Dots in it mean nothing; it is made absolute."""
    assert (
        Path(COMPUTATION.to_delta(written).tables.by_role["log"] or "") == Path(FOLDERS[written]).absolute().resolve()
    )


def test_a_path_object_is_always_a_folder(tmp_path: Path) -> None:
    """Nobody makes a `Path` of the name of a table."""
    assert COMPUTATION.to_delta(Path("db.table")).tables.by_role["log"] == str(Path("db.table").absolute())
    assert COMPUTATION.to_delta(tmp_path / "a.b").tables.by_role["metrics"] == f"{tmp_path / 'a.b'}_metrics"


def test_a_url_is_kept_as_it_is() -> None:
    """Object stores have dots in their names; the scheme of S3 is Spark's."""
    assert COMPUTATION.to_delta("s3a://bucket.of.mine/log").tables.by_role["log"] == "s3a://bucket.of.mine/log"
    with pytest.raises(DeclarationError, match="write s3a://bucket/log"):
        COMPUTATION.to_delta("s3://bucket/log")


def test_a_tilde_is_refused_with_the_folder_that_is_meant() -> None:
    """Spark would take it for a folder of that name."""
    home = str(Path.home())
    with pytest.raises(DeclarationError, match=f"~/log begins with '~'.*write {home}/log"):
        COMPUTATION.to_delta("~/log")


def test_a_path_on_the_default_file_system_of_a_cluster_is_its_url() -> None:
    """Spark writes there what has no scheme, so nothing else may take it for a folder of this machine."""
    home = "hdfs://name-service/user/me"
    assert full_name("/data/log", home) == "hdfs://name-service/data/log"
    assert full_name("../log", home) == "hdfs://name-service/user/log"
    assert full_name("//data//log", "s3a://bucket") == "s3a://bucket/data/log"
    assert full_name("/data/log", "file:/home/me") == full_name("/data/log", ".") == "/data/log"
    assert full_name("../log", "file:/home/me") == "/home/log"
    assert full_name("/", home) == "hdfs://name-service/"


TRIGGERS: list[tuple[Any, dict[str, Any]]] = [
    ("available_now", {"availableNow": True}),
    ("immediate", {"processingTime": "0 seconds"}),
    ("10 seconds", {"processingTime": "10000 milliseconds"}),
    ("5m", {"processingTime": "300000 milliseconds"}),
    (minutes(1), {"processingTime": "60000 milliseconds"}),
    (0.25, {"processingTime": "250 milliseconds"}),
]


@pytest.mark.parametrize(("trigger", "options"), TRIGGERS, ids=[repr(trigger) for trigger, _ in TRIGGERS])
def test_a_trigger_is_a_word_or_a_duration(trigger: Any, options: dict[str, Any]) -> None:
    """Spark gets whole milliseconds."""
    assert trigger_options(trigger) == options


def test_the_word_continuous_is_refused_as_another_engine_of_spark() -> None:
    """It is Spark's continuous processing, so the message names the word that is meant."""
    with pytest.raises(DeclarationError, match=r"Spark's continuous processing.* use trigger='immediate'"):
        trigger_options("continuous")


@pytest.mark.parametrize("trigger", ["now", "availableNow", "10", 0, "0s", "999us", None, True])
def test_what_is_no_trigger_is_refused_with_all_that_are(trigger: Any) -> None:
    """The message names the value, both words and a duration."""
    with pytest.raises(DeclarationError, match=r"trigger is .*'available_now', 'immediate' or a duration .*10 seconds"):
        trigger_options(trigger)


@pytest.mark.parametrize(
    ("found", "is_there", "way_out"),
    [
        (None, True, f"To register that folder again, {CREATE}; or"),
        ("/new", True, f"rename the table that has its name (ALTER TABLE m.view RENAME TO ...), and {CREATE}; or"),
        (None, False, "rename it back"),
        ("/new", False, "rename it back"),
    ],
)
def test_the_way_out_fits_what_is_there(found: str | None, way_out: str, *, is_there: bool) -> None:
    """A statement that registers a folder without a table would make an empty one there."""
    text = _moved("m.view", "/old", found, is_there=is_there)
    assert way_out in text
    assert (CREATE in text) == is_there
