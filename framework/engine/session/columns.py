"""Names of columns as Spark takes them: one with a dot or a space must be quoted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

if TYPE_CHECKING:
    from pyspark.sql import Column


def quoted(name: str) -> str:
    """Return a name as an identifier of Spark SQL.

    >>> quoted("delay in min.")
    '`delay in min.`'
    """
    return "`" + name.replace("`", "``") + "`"


def column(name: str) -> Column:
    """Return the top-level column of exactly this name, dots and all."""
    return F.col(quoted(name))
