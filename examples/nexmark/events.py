"""The events of the auction house: a seeded generator of persons, auctions and bids.

Of 50 events one is a person who registers, three are auctions that open, and 46 are bids, as in Nexmark. Half of the
bids go to a few hot auctions. The same arguments give the same events.
"""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pyarrow as pa

BEGIN_US = 1_767_225_600_000_000
"""2026-01-01 in UTC, us since the epoch."""
LATEST = timedelta(seconds=4)
"""How much an event may be behind a later one that comes before it, with the spacing and disorder by default."""
LONGEST_AUCTION = timedelta(minutes=1)
TURN = np.array(["persons", *["auctions"] * 3, *["bids"] * 46])
"""The streams of 50 events, which come again and again."""
CHANNELS = ("apple", "baidu", "facebook", "google")

SCHEMAS = {
    "persons": "number bigint, at timestamp, id bigint, name string, state string",
    "auctions": "number bigint, at timestamp, id bigint, seller bigint, category bigint, expires timestamp",
    "bids": "number bigint, at timestamp, auction bigint, bidder bigint, price bigint, channel string",
}
"""Stream -> its columns. `number` is the place of an event among all of them, in the order in which they come."""


def events(
    count: int, *, seed: int = 0, spacing: timedelta = timedelta(milliseconds=100), disorder: int = 40
) -> dict[str, pa.Table]:
    """Return the first events, by stream, each in the order in which they come.

    Args:
        count: of events of all streams.
        seed: of the random numbers.
        spacing: the time between an event and the next.
        disorder: how many places an event may come too late.
    """
    random = np.random.default_rng(seed)
    turn, place = np.divmod(np.arange(count), len(TURN))
    at = BEGIN_US + np.arange(count) * (spacing // timedelta(microseconds=1))
    number = np.empty(count, dtype=np.int64)
    number[np.argsort(np.arange(count) + random.random(count) * disorder, kind="stable")] = np.arange(count)
    persons, auctions = turn + 1, 3 * turn + np.clip(place, 0, 3)  # how many there are at each event

    def newest(of: np.ndarray, within: int) -> np.ndarray:
        """Return for each event the id of one of the newest persons or auctions."""
        ids: np.ndarray = of - 1 - (random.random(count) * np.minimum(of, within)).astype(np.int64)
        return ids

    is_hot, hot = random.choice([True, False], count), (auctions - 1) // 20 * 20
    seconds_open = random.integers(10, LONGEST_AUCTION // timedelta(seconds=1), count, endpoint=True)
    columns = {
        "persons": {"id": persons - 1, "name": _names("person", turn), "state": _names("state", turn % 7)},
        "auctions": {
            "id": auctions - 1,
            "seller": newest(persons, 20),
            "category": random.integers(10, 15, count),
            "expires": _times(at + seconds_open * 1_000_000),
        },
        "bids": {
            "auction": np.where(is_hot, hot, newest(auctions, 100)),
            "bidder": newest(persons, 50),
            "price": (10 ** (random.random(count) * 6) * 100).astype(np.int64),
            "channel": np.array(CHANNELS)[np.minimum(random.geometric(0.4, count), len(CHANNELS)) - 1],
        },
    }
    return {
        stream: pa.table({"number": number, "at": _times(at), **own})
        .filter(pa.array(TURN[place] == stream))
        .sort_by("number")
        for stream, own in columns.items()
    }


def _names(kind: str, numbers: np.ndarray) -> list[str]:
    return [f"{kind} {number}" for number in numbers]


def _times(times_us: np.ndarray) -> pa.Array:
    return pa.array(times_us).cast(pa.timestamp("us", tz="UTC"))
