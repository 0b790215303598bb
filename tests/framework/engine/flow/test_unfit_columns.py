"""A column of another type than is needed is refused with what makes one that fits, and that no value lets fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from panekeeper import DeclarationError, Delta, Tumbling, windowed
from panekeeper.framework.builder.result_columns import declared_columns
from panekeeper.framework.engine.flow.pipeline import spark_schema
from panekeeper.framework.testing.scripted_stream import ScriptedStream

COLUMNS = spark_schema(declared_columns("text string, wide decimal(38,18), n bigint"))


def stream(**options: Any) -> Any:
    """A stream of these columns."""
    made: Any = ScriptedStream(COLUMNS)
    return windowed(made, name="x", **options)


READ = 'df.withColumn("text_time", F.try_to_timestamp("text", F.lit("yyyy-MM-dd HH:mm:ss")))'


@pytest.mark.parametrize(
    ("declare", "code"),
    [
        (lambda: stream(event_time="text"), READ),
        (lambda: stream(arrival_time="text"), READ),
        (lambda: stream().window(Tumbling(Delta("text", 1))), 'F.col("text").try_cast("double")'),
        (lambda: stream().window(Tumbling(Delta("wide", 1))), 'F.col("wide").try_cast("decimal(18,9)")'),
    ],
)
def test_what_makes_a_column_fit_gives_null_for_a_bad_value(declare: Callable[[], Any], code: str) -> None:
    """The row is then in the quarantine, with its text. `to_timestamp` and `cast` would fail each batch that has it."""
    with pytest.raises(DeclarationError) as refused:
        declare()
    assert str(refused.value).endswith((code, f"{code})"))
