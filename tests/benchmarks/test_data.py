"""The input of benchmarks: each file has rows of its own, in its own time."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.data import EVENTS, FILE_SECONDS, file_start_us


def test_files_of_events_go_on_where_the_one_before_ends() -> None:
    """Times, numbers and ids; and bids are on auctions of their own file, by persons of it."""
    tables = [EVENTS.table(number, 1000, 1) for number in range(2)]
    assert EVENTS.table(1, 1000, 1) == tables[1]
    for number, table in enumerate(tables):
        start = file_start_us(number)
        times = table["at"].cast(pa.int64())
        assert start <= pc.min(times).as_py() <= pc.max(times).as_py() < start + FILE_SECONDS * 1_000_000
        assert table["number"].to_pylist() == list(range(1000 * number, 1000 * number + 1000))
        of = {name: table.filter(pc.field("stream") == name) for name in ("persons", "auctions", "bids")}
        assert of["persons"]["id"].to_pylist() == list(range(20 * number, 20 * number + 20))
        assert sorted(of["auctions"]["id"].to_pylist()) == list(range(60 * number, 60 * number + 60))
        for column, known in (("auction", "auctions"), ("bidder", "persons")):
            assert {*of["bids"][column].to_pylist()} <= {*of[known]["id"].to_pylist()}
