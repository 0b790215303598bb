"""The stream of a script, as `windowed()` takes one: its columns and nothing else, so that no Java is started.

What a declaration asks a DataFrame for without reading rows is answered here: names and types of columns, whether a
condition is one, and whether there are operators of Spark before the windows, of which a script has none.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn, Self

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql.types import BooleanType, StructField, StructType

from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.engine.session.columns import arrow_schema
from panekeeper.framework.testing.sql import holds

if TYPE_CHECKING:
    import pyarrow as pa


class _NoOperators:
    """The analyzed plan of a script, as the gateway to Java shows one: a node without others below it."""

    def _itself(self) -> _NoOperators:
        return self

    queryExecution = analyzed = children = collectLeaves = getClass = _itself  # noqa: N815 -- Java's names

    def size(self) -> int:
        """How many nodes are below it."""
        return 0

    def getSimpleName(self) -> str:  # noqa: N802 -- Java's name
        """Return the kind of the node."""
        return "LocalRelation"


class _NoSession:
    """A session with the settings that Spark has by itself."""

    conf: dict[str, str] = {}  # noqa: RUF012 -- nobody writes it


@lru_cache(maxsize=256)
def _require_condition(condition: str, columns: pa.Schema) -> None:
    """Raise as `sql.holds` for what is no condition on these columns; it is asked for each declaration again."""
    holds(condition, columns.empty_table(), "the condition")


class ScriptedStream(DataFrame):
    """A stream of rows of these columns.

    Args:
        columns: their types, as Spark has them.
    """

    isStreaming = True  # noqa: N815 -- Spark's name
    sparkSession = _NoSession()  # type: ignore[assignment]  # noqa: N815
    _jdf: Any = _NoOperators()

    def __new__(cls, _: StructType) -> Self:
        """Return an object that belongs to no session."""
        return object.__new__(cls)

    def __init__(self, columns: StructType) -> None:
        self._columns = columns

    @property
    def schema(self) -> StructType:
        """The columns with their types."""
        return self._columns

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [*self._columns.names]

    @property
    def arrow_columns(self) -> pa.Schema:
        """The columns with their types in Arrow."""
        return arrow_schema(self._columns)

    def select(self, *columns: Any) -> NoReturn:
        """Raise an error: a script has no files, and nothing computes columns."""
        if columns == ("_metadata.file_path",):
            raise AnalysisException("a script has no files")
        raise DeclarationError(f"{columns[0]!r} is no name; in a script without Spark give columns by their names")

    def selectExpr(self, *conditions: Any) -> ScriptedStream:  # noqa: N802 -- Spark's name
        """Return the stream of the truth values of a condition. Raises as `sql.holds`."""
        for one in conditions:
            _require_condition(one, self.arrow_columns)
        return ScriptedStream(StructType([StructField("holds", BooleanType())]))

    def where(self, condition: Any) -> ScriptedStream:
        """Return the stream: a condition is one on each row."""
        return self
