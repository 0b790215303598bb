"""The queries of Nexmark, each result compared with that of DuckDB over all events at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

pytest.importorskip("duckdb", reason="conditions and the oracle need the extra panekeeper[testing]")

import duckdb

from examples.nexmark.events import LATEST, SCHEMAS, events
from examples.nexmark.queries import Q4, Q4_BIDS, QUERIES, Query
from panekeeper.framework.testing.scripted_stream import ScriptedStream
from panekeeper.testing import Clock, Restart, Watermark

Row = dict[str, Any]
COUNT = 5000
SEED = 1

TEN_SECONDS = 'time_bucket(INTERVAL 10 SECOND, "at")'
CLASSES = {
    "": "true",
    "rank1_": "price < 10000",
    "rank2_": "price >= 10000 AND price < 1000000",
    "rank3_": "price >= 1000000",
}
COUNTS = ", ".join(f"count(*) FILTER ({condition}) AS {rank}bids" for rank, condition in CLASSES.items())
DISTINCT = ", ".join(
    f"count(DISTINCT {column}) FILTER ({condition}) AS {rank}{column}s"
    for column in ("bidder", "auction")
    for rank, condition in CLASSES.items()
)

EXPECTED = {
    "q4": """
        SELECT category, date_trunc('minute', expires) AS pane_start, count(*) AS auctions, avg(highest) AS average
        FROM (SELECT auctions.id, category, expires, max(price) AS highest FROM auctions
              JOIN bids ON auction = auctions.id AND bids.at BETWEEN auctions.at AND expires GROUP BY ALL)
        GROUP BY ALL""",
    "q5": """
        SELECT * FROM (
            SELECT time_bucket(INTERVAL 2 SECOND, "at") - k * INTERVAL 2 SECOND AS pane_start, auction, count(*) AS n
            FROM bids, range(5) steps(k) GROUP BY ALL)
        QUALIFY n = max(n) OVER (PARTITION BY pane_start)""",
    "q7": f"""
        SELECT {TEN_SECONDS} AS pane_start, auction, bidder, price, "at" FROM bids
        QUALIFY row_number() OVER (PARTITION BY pane_start ORDER BY price DESC, number) = 1""",  # noqa: S608
    "q8": f"""
        SELECT id, {TEN_SECONDS} AS pane_start, name, state, "at" FROM persons
        WHERE (id, pane_start) IN (SELECT (seller, {TEN_SECONDS}) FROM auctions)""",  # noqa: S608
    "q11": """
        SELECT bidder, min("at") AS session_start, max("at") AS last_row, count(*) AS bids
        FROM (SELECT *, sum(begins::INT) OVER (PARTITION BY bidder ORDER BY "at") AS session FROM (
              SELECT *, "at" - lag("at") OVER (PARTITION BY bidder ORDER BY "at") > INTERVAL 10 SECOND AS begins
              FROM bids))
        GROUP BY bidder, coalesce(session, 0)""",
    "q12": """
        SELECT bidder, make_timestamp((arrived // 10 + 1) * 10_000_000) AS fired_at, count(*) AS bids
        FROM bids JOIN arrivals USING (number) GROUP BY ALL""",
    "q15": f"""
        SELECT date_trunc('day', "at")::TIMESTAMP AS pane_start, {COUNTS}, {DISTINCT} FROM bids GROUP BY ALL""",  # noqa: S608
    "q16": f"""
        SELECT channel, date_trunc('day', "at")::TIMESTAMP AS pane_start, max("at") AS last_bid, {COUNTS}, {DISTINCT}
        FROM bids GROUP BY ALL""",  # noqa: S608
    "q17": f"""
        SELECT auction, date_trunc('day', "at")::TIMESTAMP AS pane_start, {COUNTS}, min(price) AS min_price,
            max(price) AS max_price, avg(price) AS avg_price, sum(price)::BIGINT AS sum_price
        FROM bids GROUP BY ALL""",  # noqa: S608
    "q18": """
        SELECT bidder, auction, price, channel, "at" FROM bids
        QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY "at" DESC) = 1""",
}
KEYS = ("category", "id", "bidder", "channel", "auction", "pane_start", "session_start", "fired_at")
"""What tells results apart, of the columns that a query has outside its result."""
OF_DAYS = {"q15", "q16", "q17"}


@pytest.mark.parametrize("name", EXPECTED)
def test_each_result_is_that_of_duckdb(name: str) -> None:
    """Over events out of order, in micro-batches of random sizes, with restarts; late events refine the days."""
    require_results_of_duckdb(name, batches=20)


def require_results_of_duckdb(name: str, batches: int, **how: Any) -> None:
    """Compare the results of a query in about so many micro-batches with those of DuckDB; `how` it is played."""
    by_days = name in OF_DAYS
    tables = events(COUNT, seed=SEED, spacing=timedelta(seconds=40 if by_days else 0.1))
    midnights = {2162, 4322} if by_days else set()  # late events come after these numbers
    ends = sorted({*np.random.default_rng(SEED).integers(1, COUNT, batches).tolist(), *midnights, COUNT})
    if name == "q12":
        rows = QUERIES[name].play(list(by_clock(cut(tables, QUERIES[name], ends))), **how)
    elif name == "q4":
        pairs = Q4_BIDS.play(list(by_watermark(cut(tables, Q4_BIDS, ends), "at", LATEST)), **how)
        rows = Q4.play(list(by_watermark(logged(pairs), "expires", timedelta(minutes=3))), **how)
    else:
        script = by_watermark(cut(tables, QUERIES[name], ends), "at", LATEST)
        rows = QUERIES[name].play(list(script), **how)
    expected = by_duckdb(EXPECTED[name], tables, ends)
    assert not rows.quarantine
    assert by_days == (rows.counts["refined_late"] > 0)
    assert len(expected) > (2 if by_days else 10)
    assert in_order(newest(rows, expected[0].keys())) == in_order(expected)


@pytest.mark.parametrize("name", QUERIES)
def test_each_query_is_a_job(name: str) -> None:
    """What is played is what a job declares, on streams of these columns."""
    query = QUERIES[name]
    frames: Any = {stream: ScriptedStream(spark_columns(query.schemas[stream])) for stream in query.streams}
    computation = query.of(frames, name=name)
    assert callable(computation.to_delta)


def test_the_events_are_those_of_their_seed() -> None:
    """Equal for equal arguments; of 50 one is a person and three are auctions; some come too late, none by 4 s."""
    tables, first = events(COUNT, seed=3), events(COUNT // 2, seed=3)
    assert events(COUNT, seed=3) == tables != events(COUNT, seed=4)
    assert [tables[stream].num_rows for stream in SCHEMAS] == [COUNT // 50, 3 * COUNT // 50, 46 * COUNT // 50]
    assert sorted(number for table in tables.values() for number in table["number"].to_pylist()) == list(range(COUNT))
    assert first["persons"].num_rows == COUNT // 100
    times = tables["bids"]["at"].cast(pa.int64()).to_numpy()
    behind = (np.maximum.accumulate(times) - times).max()
    assert 0 < behind <= LATEST / timedelta(microseconds=1)


def cut(tables: Mapping[str, pa.Table], query: Query, ends: Sequence[int]) -> Iterator[dict[str, list[Row]]]:
    """Yield the rows of each micro-batch, with the columns that the query is given."""
    for begin, end in zip([0, *ends], ends, strict=False):
        of_batch = (pc.field("number") >= begin) & (pc.field("number") < end)
        yield {
            stream: tables[stream].filter(of_batch).select(query.columns(stream)).to_pylist()
            for stream in query.streams
        }


def logged(pairs: Sequence[Row]) -> Iterator[dict[str, list[Row]]]:
    """Yield the log of the joined bids, a micro-batch for each that wrote to it, with the columns that are read."""
    columns = Q4.columns("q4_bids")
    for batch in sorted({row["batch"] for row in pairs}):
        yield {"q4_bids": [{one: row[one] for one in columns} for row in pairs if row["batch"] == batch]}


def by_watermark(batches: Iterable[dict[str, list[Row]]], time: str, delay: timedelta) -> Iterator[Any]:
    """Yield a script in which the watermark follows the rows, with restarts, and passes all of them in the end."""
    greatest: datetime | None = None
    for number, batch in enumerate(batches):
        yield batch if len(batch) > 1 else next(iter(batch.values()))
        if number % 4 == 2:
            yield Restart()
        times = [row[time] for rows in batch.values() for row in rows]
        if times:
            greatest = max(times) if greatest is None else max(greatest, *times)
            yield Watermark(greatest - delay)
        if number % 5 == 3:
            yield Restart()
    assert greatest is not None
    yield Watermark(greatest + timedelta(days=3))


def by_clock(batches: Iterable[dict[str, list[Row]]]) -> Iterator[Any]:
    """Yield a script in which a micro-batch comes every 3 seconds."""
    for number, batch in enumerate(batches):
        yield batch["bids"]
        if number % 4 == 2:
            yield Restart()
        yield Clock("3 seconds")
    yield Clock("10 seconds")


def by_duckdb(query: str, tables: Mapping[str, pa.Table], ends: Sequence[int]) -> list[Row]:
    """Return the rows of a query over all events, which has an `arrivals` with the time of each, seconds."""
    numbers = np.arange(COUNT)
    arrived = pa.table({"number": numbers, "arrived": np.searchsorted(np.array(ends), numbers, side="right") * 3})
    with duckdb.connect() as connection:
        for name, table in {**tables, "arrivals": arrived}.items():
            without_zones = [
                pa.field(one.name, pa.timestamp("us") if pa.types.is_timestamp(one.type) else one.type)
                for one in table.schema
            ]
            connection.register(name, table.cast(pa.schema(without_zones)))
        return list(connection.sql(query).to_arrow_table().to_pylist())


def newest(rows: Iterable[Row], columns: Iterable[str]) -> list[Row]:
    """Return the last result of each key and pane, with these columns: their own, or those of the row in `bid`."""
    results: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        flat = {**row, **row.get("bid", {})}
        results[tuple(row.get(key) for key in KEYS)] = {one: without_zone(flat[one]) for one in columns}
    return list(results.values())


def without_zone(value: Any) -> Any:
    """Return a time as DuckDB has it, which is in UTC."""
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Return rows in an order of their own."""
    return sorted(rows, key=lambda row: [str(value) for value in row.values()])


def spark_columns(schema: str) -> Any:
    """Return columns as Spark has them."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from panekeeper.framework.builder.result_columns import declared_columns

    return from_arrow_schema(declared_columns(schema))
