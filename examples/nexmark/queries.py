"""The queries, each a value: as a job, `Q7.of({"bids": bids_df}, name="q7").to_delta(...)`; tried, `Q7.play(script)`.

What differs from Nexmark's SQL stands at the query. Those of its queries that have no window of time are not here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from examples.nexmark.events import LATEST, LONGEST_AUCTION, SCHEMAS
from panekeeper import Emit, Event, EventType, Operator, Session, Time, TimeInterval, Tumbling, agg, ports, windowed
from panekeeper.testing import Results, run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from panekeeper.framework.builder.outputs import Computation
    from panekeeper.framework.declarations.aggregates import Aggregate
    from panekeeper.framework.declarations.windows import Window


@dataclass(frozen=True, kw_only=True)
class Query:
    """What a job declares.

    Attributes:
        streams: input -> the arguments of `windowed()`.
        window: of each input; None for rows that are joined within a time.
        aggregates: the arguments of `.aggregate()`.
        operator: those of `.operator()`.
        join: those of `.join()`, or without a window of `.join_within()`.
        schemas: the columns of the inputs.
    """

    streams: Mapping[str, Mapping[str, Any]]
    window: Window | None = None
    aggregates: Mapping[str, Aggregate] | None = None
    operator: Mapping[str, Any] | None = None
    join: Mapping[str, Any] | None = None
    schemas: Mapping[str, str] = field(default_factory=lambda: SCHEMAS)

    def columns(self, stream: str) -> list[str]:
        """Return the names of the columns of an input."""
        return [column.split()[0] for column in self.schemas[stream].split(", ")]

    def of(self, frames: Mapping[str, DataFrame], name: str) -> Computation:
        """Return the query on streams of Spark; it takes a place for its results, such as `.to_delta(path)`."""
        inputs = [windowed(frames[stream], name=name, **declared) for stream, declared in self.streams.items()]
        if self.window is None:
            return ports(*inputs).join_within(**self.join or {})
        with_window = [one.window(self.window) for one in inputs]
        if self.join is not None:
            return ports(*with_window).join(**self.join)
        if self.operator is not None:
            return with_window[0].operator(**self.operator)
        return with_window[0].aggregate(**self.aggregates or {})

    def play(self, script: Sequence[Any], **how: Any) -> Results:
        """Return the results of a script, without Spark, or by `engine="spark"` on it (docs/testing.md)."""
        arguments: dict[str, Any] = dict(self.operator or {"aggregates": self.aggregates})
        if self.join is not None:
            window = {} if self.window is None else {"window": self.window}
            inputs = {name: {"schema": self.schemas[name], **window, **own} for name, own in self.streams.items()}
            arguments = {"join_within" if self.window is None else "join": self.join, "ports": inputs}
        else:
            ((stream, declared),) = self.streams.items()
            arguments |= {"window": self.window, "schema": self.schemas[stream], **declared}
        return run(script=script, **arguments, **how)


BY_TIME = {"event_time": "at", "watermark": LATEST}
A_DAY = TimeInterval("1 day", discard_age="1 hour")
"""Events that come after the end of a day refine its result, for an hour."""
FOR_EVER = TimeInterval("36500 days", emit="on_update")
"""One pane that does not end, with a result after each micro-batch that changes it."""
PRICES = {
    "": None,
    "rank1_": "price < 10000",
    "rank2_": "price >= 10000 AND price < 1000000",
    "rank3_": "price >= 1000000",
}
"""Prefix of a result -> the condition of the bids that it is of."""


class WinningBids(Operator):
    """Averages the highest bids of the auctions in a pane, of bids that came before their auction closed."""

    events = frozenset({EventType.TRIGGER})

    def handle_event(self, event: Event, emit: Emit) -> None:
        """Emit the average of a category."""
        in_time = event.table.filter(pc.less_equal(event.table["right_at"], event.table["expires"]))
        prices = in_time.group_by("id").aggregate([("price", "max")])["price_max"]
        if len(prices):
            emit(auctions=len(prices), average=pc.sum(prices).as_py() / len(prices))


Q4_BIDS = Query(
    streams={"auctions": {"partition_by": "id", **BY_TIME}, "bids": {"partition_by": "auction", **BY_TIME}},
    join={"before": 0, "after": LONGEST_AUCTION},
)
"""Query 4, the first job: the bids of each auction, in the longest time that one may be open."""

Q4 = Query(
    streams={"q4_bids": {"partition_by": "category", "event_time": "expires", "watermark": "3 minutes"}},
    window=TimeInterval("1 minute"),
    operator={"operator": WinningBids(), "output": "auctions bigint, average double"},
    schemas={"q4_bids": "id bigint, category bigint, expires timestamp, price bigint, right_at timestamp"},
)
"""What is the average price of the auctions of a category, when they close?

The second job: it reads the log of the first. Of the auctions that close in each minute; Nexmark's average is of all
so far. Time here is that of the close, and the log has bids of a minute after it, hence the watermark.
"""


class HotItems(Operator):
    """Finds the auctions with the most bids in a pane: more than one, if they have equally many."""

    events = frozenset({EventType.TRIGGER})

    def handle_event(self, event: Event, emit: Emit) -> None:
        """Emit a row for each of these auctions."""
        auctions, bids = event.table["auction"].value_counts().flatten()
        most = pc.max(bids)
        for auction in auctions.filter(pc.equal(bids, most)).to_pylist():
            emit(auction=auction, n=most.as_py())


Q5 = Query(
    streams={"bids": BY_TIME},
    window=TimeInterval("10 seconds", creation_period="2 seconds"),
    operator={"operator": HotItems(), "output": "auction bigint, n bigint"},
    schemas={"bids": "at timestamp, auction bigint"},
)
"""Which auctions had the most bids in the last 10 seconds? Every 2 seconds.

The window keeps all columns of its stream for an operator, so the stream has those alone that this one reads.
Where one of them is enough, `.aggregate(n=agg.count(), group_within="auction", top=1, by="n desc")` keeps
numbers of bids in place of bids.
"""

Q7 = Query(
    streams={"bids": BY_TIME},
    window=TimeInterval("10 seconds"),
    aggregates={"bid": agg.first_row(by="price desc", columns=["auction", "bidder", "price", "at"])},
)
"""What was the highest bid of every 10 seconds? Of equal ones the first to arrive; Nexmark has all of them."""

Q8 = Query(
    streams={"persons": {"partition_by": "id", **BY_TIME}, "auctions": {"partition_by": "seller", **BY_TIME}},
    window=TimeInterval("10 seconds"),
    join={"how": "semi"},
)
"""Who opened an auction in the 10 seconds in which they registered?"""

Q11 = Query(
    streams={"bids": {"partition_by": "bidder", **BY_TIME}},
    window=Session("10 seconds"),
    aggregates={"bids": agg.count()},
)
"""How many bids did a user make in each session of activity, which 10 seconds without a bid end?"""

Q12 = Query(
    streams={"bids": {"partition_by": "bidder"}},
    window=Tumbling(Time("10 seconds"), aligned=True),
    aggregates={"bids": agg.count()},
)
"""How many bids did a user make in every 10 seconds of the wall clock, as they came? `fired_at` is the end of each."""

Q15 = Query(
    streams={"bids": BY_TIME},
    window=A_DAY,
    aggregates={
        **{f"{prefix}bids": agg.count(where=condition) for prefix, condition in PRICES.items()},
        **{f"{prefix}bidders": agg.count_distinct("bidder", where=condition) for prefix, condition in PRICES.items()},
        **{f"{prefix}auctions": agg.count_distinct("auction", where=condition) for prefix, condition in PRICES.items()},
    },
)
"""How many bids, bidders and auctions with bids were there each day: in all, and in each of three classes of prices?

Nexmark has a result after each bid; `early=Every("10 seconds")` shows the day so far.
"""

Q16 = Query(
    streams={"bids": {"partition_by": "channel", **BY_TIME}},
    window=A_DAY,
    aggregates={"last_bid": agg.max("at"), **(Q15.aggregates or {})},
)
"""The same for each channel, with the time of its last bid."""

Q17 = Query(
    streams={"bids": {"partition_by": "auction", **BY_TIME}},
    window=A_DAY,
    aggregates={
        **{f"{prefix}bids": agg.count(where=condition) for prefix, condition in PRICES.items()},
        "min_price": agg.min("price"),
        "max_price": agg.max("price"),
        "avg_price": agg.mean("price"),
        "sum_price": agg.sum("price"),
    },
)
"""How many bids did each auction have each day, and at which prices?"""

Q18 = Query(
    streams={"bids": {"partition_by": ["bidder", "auction"], **BY_TIME}},
    window=FOR_EVER,
    aggregates={"bid": agg.last_row(by="at", columns=["price", "channel", "at"])},
)
"""What is the last bid of each bidder on each auction, by its own time? The view has it."""

QUERIES = {
    "q4_bids": Q4_BIDS, "q4": Q4, "q5": Q5, "q7": Q7, "q8": Q8, "q11": Q11,
    "q12": Q12, "q15": Q15, "q16": Q16, "q17": Q17, "q18": Q18,
}  # fmt: skip
