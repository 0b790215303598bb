"""Tables by their names in the catalog of the session: created there at the first start, then used by their folders.

Savepoints, restores and clones know folders only, so a table keeps its results whatever a catalog calls it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from panekeeper.framework.declarations.errors import OutputNotWritable, SinkError
from panekeeper.framework.engine.session.columns import quoted
from panekeeper.framework.engine.session.spark_errors import first_line
from panekeeper.framework.engine.sink.spark_table import is_delta_table
from panekeeper.state.checkpoint.folder import local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from panekeeper.framework.core.job_spec import JobSpec
    from panekeeper.framework.engine.sink.tables import TableLayout, Tables


@dataclass(frozen=True)
class NamedTables:
    """The tables of a job by name.

    Attributes:
        names: of `Tables`, each with the name of a table instead of its path.
    """

    names: Tables

    def existing(self, spark: SparkSession) -> Tables:
        """Return the tables by their folders; one that the catalog does not have stays a name."""
        return self._replaced({role: _folder_of(spark, name) or name for role, name in self._roles().items()})

    def create(
        self, spark: SparkSession, spec: JobSpec, written: Mapping[str, str], layout: TableLayout | None
    ) -> Tables:
        """Create the tables that the catalog does not have, and return all by their folders.

        Args:
            spark: the session with the catalog.
            spec: what the job writes.
            written: role -> folder of the tables that this checkpoint has written to.
            layout: how tables are created; None: as by default.

        Raises:
            SinkError: a table that this checkpoint has written to is gone from the catalog, or is another one there.
            OutputNotWritable: a table cannot be created, or is no Delta table.
        """
        schemas = self.names.schemas(spec)
        folders: dict[str, str] = {}
        for role, name in self._roles().items():
            found = _folder_of(spark, name)
            if (before := written.get(role)) is not None and found != before:
                raise SinkError(_moved(name, before, found, is_there=is_delta_table(spark, before)))
            if found is None:
                found = _create(spark, name, role, layout, schemas[name])
            folders[role] = found
        return self._replaced(folders)

    def _roles(self) -> dict[str, str]:
        return {role: name for role, name in asdict(self.names).items() if name is not None}

    def _replaced(self, folders: Mapping[str, str]) -> Tables:
        return type(self.names)(**{**asdict(self.names), **folders})


def _folder_of(spark: SparkSession, name: str) -> str | None:
    """Return the folder of a table in the catalog; None if there is no such table."""
    if not spark.catalog.tableExists(_quoted(name)):
        return None
    try:
        detail = spark.sql(f"DESCRIBE DETAIL {_quoted(name)}").select("format", "location").collect()[0]
    except Exception as error:
        raise OutputNotWritable(f"the table {name} cannot be described: {first_line(error)}") from error
    if detail["format"] != "delta":
        raise OutputNotWritable(f"the table {name} is of format {detail['format']}; results need a Delta table")
    folder = local_path(detail["location"])
    return detail["location"] if folder is None else str(folder)


def _create(spark: SparkSession, name: str, role: str, layout: TableLayout | None, schema: StructType) -> str:
    from panekeeper.framework.engine.sink.tables import TableLayout, new_table

    try:
        new_table(spark, role, schema, layout or TableLayout()).tableName(_quoted(name)).execute()
    except Exception as error:
        raise OutputNotWritable(
            f"the table {name} cannot be created: {first_line(error)}; create its schema, or get the permission"
        ) from error
    folder = _folder_of(spark, name)
    assert folder is not None, f"{name} was created"
    return folder


def _moved(name: str, before: str, found: str | None, *, is_there: bool) -> str:
    now = "the catalog has no such table" if found is None else f"in the catalog that is the table in {found}"
    why = f"this checkpoint has written the table {name} to {before}, and {now}: results would be in two tables"
    if not is_there:
        return (
            f"{why}. That folder holds no Delta table any more. If the table was renamed, its folder was moved: rename "
            "it back (ALTER TABLE ... RENAME TO the name it had) and declare that name, or put the folder back. If it "
            "is lost, declare another name; or give the job a new checkpoint folder, to begin again"
        )
    first = "" if found is None else f"rename the table that has its name (ALTER TABLE {name} RENAME TO ...), and "
    again = f"CREATE TABLE {name} USING delta LOCATION '{before}'"
    return f"{why}. To register that folder again, {first}{again}; or take the session whose catalog has it"


def _quoted(name: str) -> str:
    return ".".join(map(quoted, name.split(".")))
