"""The queries of Nexmark on Spark and Delta, each result compared with that of DuckDB over all events at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.examples.test_nexmark import EXPECTED, require_results_of_duckdb

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOON = {"q8", "q15"}
"""Two streams; conditions, distinct values and late events."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in SOON else pytest.mark.release) for name in EXPECTED]
)
def test_each_result_is_that_of_duckdb(name: str, spark: SparkSession) -> None:
    """By real jobs into Delta tables, in a few micro-batches, with restarts."""
    require_results_of_duckdb(name, batches=3, engine="spark", spark=spark)
