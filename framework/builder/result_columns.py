"""Which columns may results have, and how does a user write those that an operator emits?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from panekeeper.framework.declarations.arrow_types import arrow_type, has_void_inside, named_columns
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.engine.flow.pipeline import spark_schema
from panekeeper.framework.engine.session.columns import arrow_schema
from panekeeper.state.codec import that_may_be_null


def require_type_of_spark(field: pa.Field) -> None:
    """Raise `DeclarationError` for a result column that Spark or Delta has no type for."""
    if has_void_inside(field.type):
        raise DeclarationError(
            f"the result column {field.name!r} is of {field.type}, and Delta stores no void, the type of a NULL "
            "without one, within a column; cast it before the window, as to string"
        )
    try:
        spark_schema(pa.schema([field]))
    except Exception as error:
        raise DeclarationError(
            f"the result column {field.name!r} is of {field.type}, a type that Spark does not have: {error}; declare "
            'another, such as "bigint", "double" or "timestamp"'
        ) from error


def output_schema(output: Any) -> pa.Schema:
    """Return what an operator emits; a row may lack any column, as that of a window mark does."""
    try:
        return that_may_be_null(declared_columns(output))
    except Exception as error:
        raise DeclarationError(
            f'output is {output!r}; write columns as SQL does, "spread double, n bigint", or give a schema of Arrow or '
            "Spark"
        ) from error


def declared_columns(output: Any) -> pa.Schema:
    """Return columns that are declared as a schema of Arrow or Spark, names with types, or SQL. Raises any error."""
    if isinstance(output, pa.Schema):
        return output
    if isinstance(output, Mapping):
        return pa.schema([(name, arrow_type(kind, "output", repr(name))) for name, kind in output.items()])
    from pyspark.sql.types import StructType

    if not isinstance(output, str):
        return arrow_schema(StructType([*output]))
    try:
        return arrow_schema(StructType([*StructType.fromDDL(output)]))  # type: ignore[misc]
    except Exception:  # noqa: BLE001 -- Spark has a class of its own for each fault of a text
        return named_columns(output)  # by the names of Arrow's types
