"""Settings of a table under which results could be lost, doubled or refused, with the statement that removes each."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from panekeeper.framework.declarations.errors import SinkError
from panekeeper.framework.engine.sink.tables import require_exact_partitions, require_usable_settings

WANTED = StructType([StructField("sensor", StringType(), nullable=False), StructField("total", LongType())])


def metadata(field: dict[str, Any] | None = None, **properties: str) -> dict[str, Any]:
    """The metadata of a table of results, with these attributes of its second column."""
    sensor = {"name": "sensor", "type": "string", "nullable": False, "metadata": {}}
    total = {"name": "total", "type": "long", "nullable": True, "metadata": {}} | (field or {})
    configuration = {f"delta.{name.replace('_', '.')}": value for name, value in properties.items()}
    return {"schemaString": json.dumps({"fields": [sensor, total]}), "configuration": configuration}


def test_a_table_as_a_job_makes_it_is_usable() -> None:
    """Also with properties that only say how it is kept, a column that results never leave empty, and a default."""
    for role in ("log", "view", "metrics"):
        require_usable_settings(role, "/t", metadata(checkpointInterval="100"), WANTED)
    usable = metadata(
        {"metadata": {"comment": "the sum", "CURRENT_DEFAULT": "0"}},
        logRetentionDuration="interval 30 days",
        columnMapping_mode="name",
        enableChangeDataFeed="true",
        appendOnly="false",
    )
    require_usable_settings("view", "/t", usable, WANTED)
    require_usable_settings("log", "/t", metadata(appendOnly="true"), WANTED)
    require_usable_settings("log", "/t", metadata({"nullable": False}), WANTED, never_null=["total"])


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (metadata(setTransactionRetentionDuration="interval 7 days"), r"'interval 7 days'.*UNSET TBLPROPERTIES"),
        (metadata(appendOnly="true"), r"append-only.*SET TBLPROPERTIES \('delta.appendOnly' = 'false'\)"),
        (metadata(constraints_positive="total > 0"), r"'positive' \(total > 0\).*DROP CONSTRAINT positive"),
        (metadata({"nullable": False}), r"'total' .* is NOT NULL.*ALTER COLUMN `total` DROP NOT NULL"),
        (metadata({"metadata": {"delta.generationExpression": "1 + 1"}}), r"'total' .* is generated"),
        (metadata({"metadata": {"delta.identity.start": 1}}), r"'total' .* is an identity column"),
        (metadata({"metadata": {"delta.invariants": "{}"}}), r"'total' .* has an invariant"),
        (metadata({"metadata": {"__CHAR_VARCHAR_TYPE_STRING": "char(6)"}}), r"'total' .* is a CHAR or VARCHAR"),
    ],
)
def test_what_may_fail_or_repeat_a_batch_is_refused(found: dict[str, Any], message: str) -> None:
    """The message names the table and the way out."""
    with pytest.raises(SinkError, match=message) as refused:
        require_usable_settings("view", "/t", found, WANTED)
    assert "/t" in str(refused.value)


@pytest.mark.parametrize(
    ("role", "column", "message"),
    [
        ("view", {"name": "sensor"}, "an empty text as NULL"),
        ("log", {"type": "binary"}, "bytes as text"),
        ("log", {"type": "timestamp"}, "times as those of America/New_York"),
    ],
)
def test_a_partition_column_that_delta_stores_as_another_value_is_refused(
    role: str, column: dict[str, str], message: str
) -> None:
    """A merge would not find such a row again. Other columns are exact, and so are times in UTC."""
    found = metadata(column) | {"partitionColumns": [column.get("name", "total")]}
    with pytest.raises(SinkError, match=message):
        require_exact_partitions(role, "/t", found, "America/New_York")
    require_exact_partitions(role, "/t", found | {"partitionColumns": []}, "America/New_York")


def test_partition_columns_that_delta_stores_as_they_are_may_be_there() -> None:
    """A log may have texts, of which an empty one is null there: it has been so, and nothing is merged."""
    require_exact_partitions("view", "/t", metadata() | {"partitionColumns": ["total"]}, "America/New_York")
    require_exact_partitions("log", "/t", metadata() | {"partitionColumns": ["sensor"]}, "America/New_York")
    require_exact_partitions("view", "/t", metadata({"type": "timestamp"}) | {"partitionColumns": ["total"]}, "UTC")
