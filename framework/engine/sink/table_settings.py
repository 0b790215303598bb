"""Can a job rely on what Delta does with a table: its properties, its constraints, the rules of its columns?

Only what the results themselves decide may be refused by a table. A rule that somebody added later would fail a batch
with results that are right, and fail it again at each start.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from panekeeper.framework.declarations.errors import SinkError

_RULES = {
    "delta.generationExpression": "is generated",
    "delta.identity.start": "is an identity column",
    "delta.invariants": "has an invariant",
    "__CHAR_VARCHAR_TYPE_STRING": "is a CHAR or VARCHAR, which pads or refuses texts",
}
"""Attribute of a column in Delta's log -> what it makes of the column."""
_UTC = ("UTC", "ETC/UTC", "Z", "GMT", "+00:00")


def require_usable_settings(
    role: str, path: str, metadata: Mapping[str, Any], wanted: StructType, never_null: Collection[str] = ()
) -> None:
    """Raise `SinkError` if a table has settings under which results could be lost, doubled or refused.

    Args:
        role: which table of the job it is.
        path: its folder.
        metadata: of the table, as its log has it.
        wanted: the columns of the results.
        never_null: columns that may be NOT NULL nevertheless, as the stream has no nulls there.
    """
    table = f"delta.`{path}`"
    properties: Mapping[str, str] = metadata.get("configuration") or {}
    retention = properties.get("delta.setTransactionRetentionDuration")
    if retention is not None:
        raise SinkError(
            f"the table {path} records for {retention!r} only which batches it has "
            "(delta.setTransactionRetentionDuration): one that is run again after a longer stop would be there twice. "
            f"ALTER TABLE {table} UNSET TBLPROPERTIES ('delta.setTransactionRetentionDuration')"
        )
    if role == "view" and properties.get("delta.appendOnly", "false").lower() == "true":
        raise SinkError(
            f"the view {path} is append-only (delta.appendOnly), and its rows are replaced by newer refinements. ALTER "
            f"TABLE {table} SET TBLPROPERTIES ('delta.appendOnly' = 'false')"
        )
    for name, condition in properties.items():
        if name.startswith("delta.constraints."):
            constraint = name.removeprefix("delta.constraints.")
            raise SinkError(
                f"the table {path} has the constraint {constraint!r} ({condition}): a result that violates it would "
                f"fail its batch, at each start again. ALTER TABLE {table} DROP CONSTRAINT {constraint}"
            )
    may_be_null = {field.name for field in wanted if field.nullable} - {*never_null}
    _require_columns_without_rules(path, json.loads(metadata["schemaString"])["fields"], may_be_null)


def require_exact_partitions(role: str, path: str, metadata: Mapping[str, Any], time_zone: str) -> None:
    """Refuse partition columns whose values Delta stores as others: a merge finds no row of such a key again.

    Args:
        role: which table of the job it is.
        path: its folder.
        metadata: of the table, as its log has it.
        time_zone: of the session. Delta stores times in partition columns as they are there, without an offset.
    """
    changed = {"binary": "bytes as text"}
    if role == "view":
        changed["string"] = "an empty text as NULL"
    if time_zone.upper() not in _UTC:
        changed["timestamp"] = f"times as those of {time_zone}, where an hour is there twice when summer ends"
    for field in json.loads(metadata["schemaString"])["fields"]:
        name, kind = field["name"], field["type"]
        if name in (metadata.get("partitionColumns") or ()) and isinstance(kind, str) and kind in changed:
            raise SinkError(
                f"the {role} {path} is partitioned by {name!r}, of type {kind}, and Delta stores {changed[kind]}: rows "
                "of such keys would be others, and in a view once more in each batch. Give the job a table without "
                "that, such as one made by to_delta(..., cluster_by=...)"
            )


def _require_columns_without_rules(path: str, fields: list[Mapping[str, Any]], may_be_null: Collection[str]) -> None:
    for field in fields:
        name = field["name"]
        rules = [what for attribute, what in _RULES.items() if attribute in field.get("metadata", {})]
        if not field.get("nullable", True) and name in may_be_null:
            raise SinkError(
                f"the column {name!r} of the table {path} is NOT NULL, and results may have nulls there: they would "
                f"fail their batch, at each start again. ALTER TABLE delta.`{path}` ALTER COLUMN `{name}` DROP NOT NULL"
            )
        if rules:
            raise SinkError(
                f"the column {name!r} of the table {path} {rules[0]}, and a job writes all columns itself. Give the "
                "job a table of its own, and derive such columns from it"
            )


def stored_schema(schema: StructType) -> StructType:
    """Return the columns of results with nothing NOT NULL within: to Delta a null struct would violate that."""
    return StructType([StructField(one.name, _stored(one.dataType), one.nullable, one.metadata) for one in schema])


def _stored(kind: DataType) -> DataType:
    match kind:
        case ArrayType():
            return ArrayType(_stored(kind.elementType))
        case MapType():
            return MapType(_stored(kind.keyType), _stored(kind.valueType))
        case StructType():
            return StructType([StructField(one.name, _stored(one.dataType)) for one in kind])
    return kind
