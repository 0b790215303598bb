"""Whether the library that commits small outputs can write a table: by its protocol, its properties, its columns.

Only what is known to be written correctly passes. A feature, property or column attribute that is not listed here
stands for a rule that Spark's Delta applies on write and the library may not: such a table is written by Spark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

_FEATURES = frozenset({"appendOnly", "invariants", "timestampNtz"})
_PROPERTIES = frozenset(
    {
        "delta.appendOnly",
        "delta.checkpoint.writeStatsAsJson",
        "delta.checkpoint.writeStatsAsStruct",
        "delta.checkpointInterval",
        "delta.dataSkippingNumIndexedCols",
        "delta.deletedFileRetentionDuration",
        "delta.enableExpiredLogCleanup",
        "delta.logRetentionDuration",
        "delta.setTransactionRetentionDuration",
        "delta.targetFileSize",
        "delta.tuneFileSizesForRewrites",
    }
)
_TYPES = frozenset(
    "string long integer short byte float double boolean binary date timestamp timestamp_ntz".split()  # noqa: SIM905
)
_BY_MAPPING = re.compile(r"[ ,;{}()\n\t=]")
"""Characters that Spark's Delta has in names of columns of tables with column mapping only."""
NEW_TABLE = {"delta.checkpointInterval": "100"}
"""The properties of tables of ours. Delta's default, a checkpoint of the log every 10 commits, nearly doubles the cost
of small batches."""
_DECIMAL = re.compile(r"decimal\(\d+,\d+\)")


class UnsupportedTable(Exception):
    """The library cannot be trusted to write this table; the message says why. Spark's Delta can write it."""


class UnreachableTable(UnsupportedTable):
    """The store of a table does not respond to the library just now; later it may."""


def require_protocol(reader: int, writer: int, features: Iterable[str]) -> None:
    """Raise `UnsupportedTable` unless the library implements everything that the protocol of a table demands.

    Args:
        reader: the table's minimum reader version.
        writer: its minimum writer version.
        features: its reader and writer features, if its versions are 3 and 7.
    """
    if (writer > 2 and writer != 7) or reader not in (1, 3):  # noqa: PLR2004 -- versions of Delta's protocol
        raise UnsupportedTable(
            f"its protocol has reader version {reader} and writer version {writer}: only 1 and 2, or single features "
            "(3 and 7), are written directly"
        )
    unknown = sorted(set(features) - _FEATURES)
    if unknown:
        raise UnsupportedTable(f"it has the table feature {unknown[0]!r}")


def require_metadata(schema: Mapping[str, Any], partition_by: Sequence[str], properties: Mapping[str, str]) -> None:
    """Raise `UnsupportedTable` unless the library writes these columns as Spark does.

    Args:
        schema: the table's schema, as its log has it.
        partition_by: the columns that Delta partitions the table by.
        properties: the table's properties.
    """
    if partition_by:
        raise UnsupportedTable(f"Delta partitions it by the column {partition_by[0]!r}")
    for name, value in properties.items():
        if name.startswith("delta.") and name not in _PROPERTIES and value not in ("false", "none"):
            raise UnsupportedTable(f"its property {name} is {value!r}")
    _require_fields(schema["fields"])


def require_new_table(schema: Mapping[str, Any], properties: Mapping[str, str]) -> None:
    """Raise `UnsupportedTable` unless Spark would create the table, too. The library refuses less than Spark.

    A table that Spark would not have created cannot be restored by it, and it may fail to write what it cannot read.

    Args:
        schema: the columns of the table.
        properties: its properties. The values of those that a user gives are checked by Spark.
    """
    require_metadata(schema, (), properties)
    for name, value in properties.items():
        if NEW_TABLE.get(name) != value:
            raise UnsupportedTable(f"its property {name} is for Spark to check")
    for name in _names(schema):
        if _BY_MAPPING.search(name):
            raise UnsupportedTable(f"its column {name!r} needs column mapping")


def schema_of(text: str) -> Mapping[str, Any]:
    """Return a schema from the JSON text of a table's log."""
    schema: Mapping[str, Any] = json.loads(text)
    return schema


def _require_fields(fields: Iterable[Mapping[str, Any]]) -> None:
    for field in fields:
        name = field["name"]
        attributes = sorted(set(field.get("metadata", {})) - {"comment"})
        if attributes:
            raise UnsupportedTable(f"its column {name!r} has the attribute {attributes[0]!r}")
        if not field.get("nullable", True):
            raise UnsupportedTable(f"its column {name!r} is NOT NULL")
        _require_type(name, field["type"])


def _names(kind: Any) -> Iterator[str]:
    """Yield the names of the columns of a table, and of the fields within them."""
    if isinstance(kind, str):
        return
    for field in kind.get("fields", ()):
        yield field["name"]
        yield from _names(field["type"])
    for part in ("elementType", "keyType", "valueType"):
        yield from _names(kind.get(part, ""))


def _require_type(name: str, kind: Any) -> None:
    if isinstance(kind, str):
        if kind not in _TYPES and not _DECIMAL.fullmatch(kind):
            raise UnsupportedTable(f"its column {name!r} is of type {kind}")
    elif kind["type"] == "struct":
        _require_fields(kind["fields"])
    elif kind["type"] == "array":
        _require_type(name, kind["elementType"])
    elif kind["type"] == "map":
        _require_type(name, kind["keyType"])
        _require_type(name, kind["valueType"])
    else:
        raise UnsupportedTable(f"its column {name!r} is of type {kind['type']}")
