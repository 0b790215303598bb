"""Which partition is meant by a key that a user gives, and which key group has it?

Values that need a rule of Spark's, as a text that is to be a time, are cast by Spark; the others without it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panekeeper.framework.core.inspection.nearest import NULL_TEXTS
from panekeeper.framework.declarations.errors import DeclarationError, did_you_mean
from panekeeper.state.spark_files.group_of_key import group_of_key

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

Key = Mapping[str, Any]
"""Partition column -> value, of some or all of the columns; None is a null. A text is read as the column's type."""

_DIGITS = re.compile(r"-?\d+")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True)
class TypedKey:
    """A key, or a part of one, with the types of the partition columns.

    Attributes:
        values: partition column -> its value, in Arrow.
        kinds: the types of all partition columns.
        ids: the ids of the key groups.
        given: the key as the user gave it.
    """

    values: Mapping[str, pa.Scalar]
    kinds: Mapping[str, pa.DataType]
    ids: tuple[int, ...]
    given: Key

    @property
    def is_whole(self) -> bool:
        """Whether it has a value for each partition column."""
        return self.values.keys() == self.kinds.keys()

    def require_whole(self) -> None:
        """Raise `DeclarationError` unless it has a value for each partition column."""
        if missing := [name for name in self.kinds if name not in self.values]:
            raise DeclarationError(f"key lacks {', '.join(missing)}; give a value for each partition column")

    @cached_property
    def columns(self) -> Mapping[str, Column]:
        """Partition column -> its value, in Spark."""
        return _columns(self.given, self.kinds)

    @property
    def in_group(self) -> Column:
        """The condition for the column `g` to be the key group of a whole key."""
        from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

        from panekeeper.framework.engine.flow.checked_rows import key_group

        number = key_group([self.columns[name] for name in self.kinds], len(self.ids))
        return F.col("g") == F.element_at(F.array(*map(F.lit, self.ids)), number + 1)

    def group(self, session: Callable[[], SparkSession]) -> int | None:
        """Return the id of the key group; None for a part of a key. Spark says it of types that only it can hash."""
        if not self.is_whole:
            return None
        group = group_of_key([self.values[name] for name in self.kinds], self.ids)
        if group is not None:
            return group
        from panekeeper.framework.engine.flow.pipeline import frame_of

        all_ids = frame_of(session(), pa.table({"g": pa.array(self.ids, pa.int64())}))
        return int(all_ids.where(self.in_group).collect()[0][0])


def key_as_stored(
    session: Callable[[], SparkSession], ids: tuple[int, ...], kinds: Mapping[str, pa.DataType], key: Key
) -> TypedKey:
    """Return a key by the types of the partition columns, for key groups of these ids.

    Raises `DeclarationError` for what is no such key.
    """
    for name in key:
        if name not in kinds:
            near = did_you_mean(name, list(kinds))
            listed = f"its partition columns are {', '.join(kinds)}" if kinds else "the job has no partition columns"
            raise DeclarationError(f"key names {name!r}, which is no partition column{near or f'; {listed}'}")
    for name, value in key.items():
        if isinstance(value, str) and value.casefold() in NULL_TEXTS and not _takes_any_text(kinds[name]):
            raise DeclarationError(
                f"key has {name}={value!r}, which is no {kinds[name]}; a null is given by --null {name}, in Python by "
                "None"
            )
    values = {name: _plain(value, kinds[name]) for name, value in key.items()}
    if None in values.values():
        values = _by_spark(session(), kinds, key)
    return TypedKey(values, kinds, ids, dict(key))


def _takes_any_text(kind: pa.DataType) -> bool:
    return any(is_type(kind) for is_type in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary))


def _plain(value: Any, kind: pa.DataType) -> pa.Scalar | None:
    """Return a value of a type, where it needs no rule of Spark's; None if it may."""
    is_text = isinstance(value, str)
    plain: Any = None
    if value is None:
        return pa.scalar(None, kind)
    if pa.types.is_integer(kind) and (type(value) is int or (is_text and _DIGITS.fullmatch(value))):
        plain = int(value)
    elif pa.types.is_string(kind) and (is_text or type(value) is int):
        plain = str(value)
    elif pa.types.is_boolean(kind) and (isinstance(value, bool) or value in ("true", "false")):
        plain = value in (True, "true")
    elif pa.types.is_date32(kind) and is_text and _DAY.fullmatch(value):
        plain = value
    elif pa.types.is_date32(kind) and isinstance(value, date) and not isinstance(value, datetime):
        plain = value.isoformat()
    if plain is None:
        return None
    try:
        return pa.scalar(date.fromisoformat(plain) if pa.types.is_date32(kind) else plain, kind)
    except (pa.ArrowException, OverflowError, ValueError):
        return None


def _columns(key: Key, kinds: Mapping[str, pa.DataType]) -> dict[str, Column]:
    from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention
    from pyspark.sql.pandas.types import from_arrow_type

    return {name: F.lit(value).cast(from_arrow_type(kinds[name])) for name, value in key.items()}


def _by_spark(spark: SparkSession, kinds: Mapping[str, pa.DataType], key: Key) -> dict[str, pa.Scalar]:
    from panekeeper.framework.engine.session.spark_errors import first_line

    try:
        columns = _columns(key, kinds)
        table = spark.range(1).select(*(column.alias(name) for name, column in columns.items())).toArrow()
    except Exception as error:
        raise DeclarationError(
            f"key is {dict(key)!r}, which is no value of these columns: {first_line(error)}"
        ) from error
    return {name: table.column(place).cast(kinds[name])[0] for place, name in enumerate(columns)}
