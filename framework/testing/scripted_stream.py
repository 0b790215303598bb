"""The stream of a script, as `windowed()` takes one: columns of plain rows from nowhere. No Java is started for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.engine.flow.input_stream import InputStream
from panekeeper.framework.engine.session.columns import arrow_schema
from panekeeper.framework.testing.sql import holds

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType


@lru_cache(maxsize=256)
def _require_condition(what: str, condition: str, columns: pa.Schema) -> None:
    """Raise as `sql.holds` for what is no condition on these columns; it is asked for each declaration again."""
    holds(condition, columns.empty_table(), what)


@dataclass(frozen=True)
class ScriptedStream(InputStream):
    """A stream of rows of these columns, with their types as Spark has them."""

    of: StructType

    @property
    def schema(self) -> StructType:
        """The columns with their types."""
        return self.of

    @property
    def is_case_sensitive(self) -> bool:
        """As Spark is by itself."""
        return False

    @property
    def df(self) -> DataFrame:
        """Raise an error: only a job on Spark asks for it."""
        raise DeclarationError("a script has no DataFrame; declare the job on a stream of Spark's to start it")

    def name_of(self, what: str, given: Column) -> str:
        """Raise an error: nothing computes columns."""
        _require_name(given)

    def has_field(self, path: str) -> bool:
        """Raise an error: nothing computes columns."""
        _require_name(path)

    def require_condition(self, what: str, rule: str, columns: Sequence[str]) -> None:
        """Raise as `sql.holds`."""
        _require_condition(what, rule, arrow_schema(self.of))

    def has_file_names(self) -> bool:
        """A script has no files."""
        return False

    def kafka_partition(self) -> tuple[str, ...] | None:
        """It comes from no source of Kafka."""
        return None

    def has_refused_watermark(self) -> bool:
        """There is nothing of Spark's before the windows."""
        return False

    def stateful_operators(self) -> list[str]:
        """There are none."""
        return []

    def cautions(self, name: str, *, event_time: str | None) -> Iterator[str]:
        """There is nothing to know."""
        return iter(())


def _require_name(given: Any) -> NoReturn:
    raise DeclarationError(f"{given!r} is no name; in a script without Spark give columns by their names")
