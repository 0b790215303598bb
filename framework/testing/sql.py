"""Conditions of Spark SQL on rows in memory, for tests without Spark: DuckDB computes them, in its own words.

Needs the extra `panekeeper[testing]`. In a job Spark itself computes them, and is right where the two differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from panekeeper.framework.declarations.errors import DeclarationError, InputError, SetupError, did_you_mean

if TYPE_CHECKING:
    import duckdb


def holds(condition: str, rows: pa.Table, what: str = "where") -> pa.Array:
    """Return for each row whether a SQL condition holds; not where it is null.

    Args:
        condition: a condition of Spark SQL on the columns of one row.
        rows: the rows; may be none, if it is only to be checked.
        what: with what the message of an error begins.

    Raises:
        DeclarationError: it is none, or has a column that the rows do not have.
        InputError: it cannot be computed for some row.
        SetupError: the libraries that compute it are not installed.
    """
    try:
        from duckdb import BinderException, CatalogException, Error
    except ImportError:
        raise _missing() from None
    expression = _for_duckdb(condition, rows.column_names, what)
    database = _database().cursor()
    database.register("pk_rows", rows)
    try:
        relation = database.table("pk_rows")
        kind = str(relation.project(f"({expression})").types[0])
        if kind != "BOOLEAN":
            raise DeclarationError(f"{what}: {condition!r} is a {kind.lower()}, not a condition")
        held = relation.project(f"coalesce({expression}, false)").to_arrow_table().column(0)
    except (BinderException, CatalogException) as error:
        raise DeclarationError(f"{what}: {condition!r} is not a condition for DuckDB: {_first_line(error)}") from None
    except Error as error:
        raise InputError(f"{what}: {condition!r} cannot be computed for some row: {_first_line(error)}") from None
    finally:
        database.close()
    return pa.concat_arrays([*held.chunks, pa.array([], pa.bool_())])


def _for_duckdb(condition: str, columns: Sequence[str], what: str) -> str:
    """Return a condition as DuckDB writes it; raises `DeclarationError` for what is none on these columns."""
    try:
        import sqlglot
        from sqlglot import expressions
    except ImportError:
        raise _missing() from None
    try:
        parsed = sqlglot.parse_one(condition, read="spark", into=expressions.Condition)
    except sqlglot.ParseError:
        raise DeclarationError(f"{what}: {condition!r} is not a condition of SQL") from None
    if expression := parsed.find(expressions.AggFunc, expressions.Window, expressions.Query):
        raise DeclarationError(f"{what}: {condition!r} is not a condition on one row: it has {expression.sql()!r}")
    folded = {name.lower() for name in columns}
    for column in parsed.find_all(expressions.Column):
        name = column.parts[0].name
        if name.lower() not in folded:
            raise DeclarationError(
                f"{what}: {condition!r} is not a condition on these columns: there is no column {name!r}"
                f"{did_you_mean(name, list(columns))} (columns: {', '.join(columns)})"
            )
    return parsed.sql(dialect="duckdb")


@lru_cache(maxsize=1)
def _database() -> duckdb.DuckDBPyConnection:
    import duckdb

    database = duckdb.connect(config={"threads": 1})
    database.execute("SET TimeZone = 'UTC'")
    return database


def _missing() -> SetupError:
    return SetupError("conditions without Spark need DuckDB and sqlglot: pip install 'panekeeper[testing]'")


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
