"""One query of Nexmark by Flink's SQL, in a process of its own: `apache-flink` needs other packages than the rest.

Reads a JSON object from its arguments: `input`, a CSV file; `columns` and `results`, with types; `query`; `delay` of
the watermark, seconds; `workers`; `output`, a new folder for CSV files, or null to discard the results. Prints the
seconds of the query, without those of its start.
"""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module


def main(text: str) -> None:
    """Run the query."""
    given = json.loads(text)
    table = import_module("pyflink.table")
    environment = table.TableEnvironment.create(table.EnvironmentSettings.in_streaming_mode())
    environment.get_config().set("parallelism.default", str(given["workers"]))
    environment.execute_sql("SELECT * FROM (VALUES (1))").wait()  # starts what the first job starts
    rows = "'connector' = 'filesystem', 'format' = 'csv', 'csv.null-literal' = ''"
    watermark = (
        "row_time AS CAST(`at` AS TIMESTAMP(3)), "  # Flink has no event times of microseconds
        f"WATERMARK FOR row_time AS row_time - INTERVAL '{given['delay']}' SECOND"
    )
    environment.execute_sql(
        f"CREATE TABLE events ({given['columns']}, {watermark}) WITH ({rows}, 'path' = '{given['input']}')"
    )
    for stream in ("persons", "auctions", "bids"):
        environment.execute_sql(f"CREATE VIEW {stream} AS SELECT * FROM events WHERE `stream` = '{stream}'")  # noqa: S608
    sink = "'connector' = 'blackhole'" if given["output"] is None else f"{rows}, 'path' = '{given['output']}'"
    environment.execute_sql(f"CREATE TABLE results ({given['results']}) WITH ({sink})")
    began = time.perf_counter()
    environment.execute_sql(f"INSERT INTO results {given['query']}").wait()
    print(time.perf_counter() - began)


if __name__ == "__main__":
    main(sys.argv[1])
