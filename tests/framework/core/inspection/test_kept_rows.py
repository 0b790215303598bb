"""What is said of windows by row and of interval joins, against the naive models that are asked the same."""

from __future__ import annotations

import copy
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panekeeper.framework.core.inspection.open_work import open_work, stored_kinds
from panekeeper.framework.core.inspection.partners import equal_types, row_facts, why_joined, why_side
from panekeeper.framework.core.inspection.reasons import Verdict
from panekeeper.framework.core.inspection.recorded import RecordedPort, recorded_ports
from panekeeper.framework.core.inspection.refusals import Refusal
from panekeeper.framework.core.joins import kept_rows
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.declarations.joins import JoinKind, Within
from panekeeper.state.compatibility import fingerprint
from panekeeper.state.store import MemoryStore
from tests.framework.core.by_row.test_by_row import ITEMS, OPTIONS, Item, fired, of_model, steps, together
from tests.framework.core.by_row.test_by_row import spec as by_row
from tests.framework.core.inspection.test_open_panes import port_of
from tests.framework.core.joins.join_batches import COLUMNS, SECOND, Groups, left, right, spec
from tests.framework.core.joins.join_batches import Item as Joined
from tests.framework.core.joins.join_batches import watermark as at_watermark
from tests.framework.core.joins.test_within_properties import BOUNDS, HOW, inputs
from tests.model.by_row import NaiveByRow
from tests.model.interval_join import NaiveIntervalJoin, Row

SLOTS = st.sampled_from([1, 4, 1_000_000])
ALONE: dict[JoinKind, tuple[int, ...]] = {"left": (0,), "right": (1,), "full": (0, 1), "inner": ()}
"""The sides whose rows go out alone if no partner comes."""


@settings(deadline=None)
@given(
    items=ITEMS,
    options=OPTIONS,
    slot=SLOTS,
)
def test_what_is_said_of_a_window_by_row_is_what_then_happens(
    items: list[Item],
    options: dict[str, Any],
    slot: int,
) -> None:
    """Its rows and firings; it fires at that watermark and not before. And so of each partition with its rows."""
    items = [(*item, number) if item[0] == "row" else item for number, item in enumerate(items)]
    window, difference, age = of_model(**options), options["difference"], options["age"]
    model, store, made = NaiveByRow(**options), MemoryStore(), by_row(window)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_rows, "_LEAST_US", slot)
        KeyGroupRunner(made, store).run(together(steps(items, 0, 1)))
        before = store.copy()
        windows = open_work(port_of(made), only_kinds(port_of(made), store)).to_pylist()
        partitions = open_work(port_of(made), store, by_partition=True).to_pylist()
    assert (store.header, store.entries) == (before.header, before.entries)
    fired(model, items)
    now = model.watermark
    contents = {
        (key, last): values for (key, last), values in model.contents().items() if now is None or last + 1 + age > now
    }
    found = {(one["k"], one["pane_end"]): one for one in windows}
    assert found.keys() == contents.keys()
    for (key, last), one in found.items():
        known = model.fired.get((key, last), [])
        assert (one["pane_start"], one["rows"], one["firings"]) == (
            last - difference,
            len(contents[key, last]),
            len(known),
        )
        assert one["unfired"] is model.has_news(key, last, contents[key, last])
        assert one["closes_at"] == last + 1 + age
        assert (one["fires_at"] is not None) is one["unfired"]
        if one["fires_at"] is not None:
            assert fires(model, one["fires_at"], key, last)
            assert not fires(model, one["fires_at"] - 1, key, last)
    rows: dict[object, list[int]] = {}
    for key, time, _ in model.rows:
        if now is None or time >= now - window.reach_us:
            rows.setdefault(key, []).append(time)
    assert {one["k"]: (one["rows"], one["first_row"], one["last_row"]) for one in partitions} == {
        key: (len(times), min(times), max(times)) for key, times in rows.items()
    }
    for one in partitions:
        waits = age if options["emit"] == "on_close" else 0
        assert one["waiting"] == sum(now is None or time + waits >= now for time in rows[one["k"]])
        assert one["fires_at"] == min(
            (each["fires_at"] for each in windows if each["k"] == one["k"] and each["unfired"]), default=None
        )
        last = one["first_row"] + difference + 1  # of the newest window that the row places, or lies in
        assert one["leaves_at"] == last + 1 + age
        assert one["watermark"] == now


def only_kinds(port: RecordedPort, store: MemoryStore) -> MemoryStore:
    """What is read of a key group from outside."""
    kinds = stored_kinds(port)
    return MemoryStore(store.header, {place: one for place, one in store.entries.items() if place[0] in kinds})


def fires(model: NaiveByRow, watermark: int, key: object, last: int) -> bool:
    """Whether a window fires if the watermark is this one next."""
    return any(one[0] == key and one[2] == last for one in copy.deepcopy(model).advance(watermark))


def sides_of(window: Within, how: JoinKind, *, on_kind: bool) -> list[RecordedPort]:
    """The ports of a join, as its checkpoint records them."""
    made = spec(window, how, on_kind=on_kind)
    assert made.join is not None
    sides = [
        {"window": window.declaration(), "partition_by": {name: "string"}, "event_time": "t"}
        for name in ("key", "name")
    ]
    return recorded_ports(fingerprint({**sides[0], "join": made.join.declaration(), "port_1": sides[1]}))


@settings(deadline=None)
@given(
    bounds=BOUNDS,
    how=HOW,
    items=inputs(),
    on_kind=st.booleans(),
    slot=st.sampled_from([1_000_000, 7_000_000]),
)
def test_what_is_said_of_the_sides_of_a_join_is_what_then_happens(
    bounds: tuple[int, int, int],
    how: JoinKind,
    items: list[Joined],
    on_kind: bool,  # noqa: FBT001 -- a parameter of Hypothesis
    slot: int,
) -> None:
    """How many rows, which of them wait for a partner, when the first goes out alone, and when the first leaves."""
    window = Within(bounds[0], bounds[1], discard_age=bounds[2])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_rows, "_LEAST_US", slot)
        job = Groups(spec(window, how, on_kind=on_kind))
        job.run(items)
        ports = sides_of(window, how, on_kind=on_kind)
        found = {
            (port.number, one[port.keys.names[0]]): one
            for port in ports
            for one in open_work(port, only_kinds(port, job.stores[0])).to_pylist()
        }
    model = played(NaiveIntervalJoin(*bounds, how), items, on_kind=on_kind)
    alone = ALONE[how]
    kept: dict[tuple[int, object], list[Row]] = {}
    for row in model.rows:
        if row[3] not in model.given_up and (None not in row[2] or row[0] in alone):
            kept.setdefault((row[0], row[2][0]), []).append(row)
    assert found.keys() == kept.keys()
    for (port, key), one in found.items():
        rows = kept[port, key]
        times = [row[1] * SECOND for row in rows]
        assert (one["rows"], one["first_row"], one["last_row"]) == (len(rows), min(times), max(times))
        waiting = [row for row in rows if row[3] not in model.matched]
        assert one["waiting"] == (len(waiting) if port in alone else None)
        first = min(rows, key=lambda row: row[1])
        assert [first[3] in after(model, one["leaves_at"] - less).given_up for less in (0, 1)] == [True, False]
        assert (one["fires_at"] is not None) is (port in alone and bool(waiting))
        if one["fires_at"] is not None:
            first = min(waiting, key=lambda row: row[1])
            assert [first[3] in after(model, one["fires_at"] - less).given_up for less in (0, 1)] == [True, False]


@settings(deadline=None)
@given(
    bounds=BOUNDS,
    how=HOW,
    items=inputs(),
    slot=st.sampled_from([1_000_000, 7_000_000]),
)
def test_of_each_row_of_a_join_the_answer_is_that_of_the_model(
    bounds: tuple[int, int, int], how: JoinKind, items: list[Joined], slot: int
) -> None:
    """Which partners that are kept it has, or that it waits, until which watermark; or that it is not kept any more."""
    window = Within(bounds[0], bounds[1], discard_age=bounds[2])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_rows, "_LEAST_US", slot)
        job = Groups(spec(window, how, on_kind=True))
        job.run(items)
    ports, store = sides_of(window, how, on_kind=True), job.stores[0]
    model = played(NaiveIntervalJoin(*bounds, how), items, on_kind=True)
    alone = ALONE[how]
    asked = {(one.port, one.key, one.kind, one.t) for one in items if one.port is not None and one.t is not None}
    for number, key, kind, time in sorted({*asked, (0, "a", 0, 3)}, key=repr):
        port = ports[number]
        kinds = equal_types(port, ports, store)
        values = {name: pa.scalar(one).cast(kinds[name]) for name, one in zip(kinds, (key, kind), strict=True)}
        facts = row_facts(port, ports, store, values, round(time * SECOND))
        here = [row for row in model.rows if row[:3] == (number, time, (key, kind)) and row[3] not in model.given_up]
        here = [row for row in here if None not in row[2] or number in alone]
        assert facts.kept == len(here)
        low, high = (-bounds[0], bounds[1]) if number == 0 else (-bounds[1], bounds[0])
        partners = [
            row[1]
            for row in model.rows
            if row[0] != number and row[2] == (key, kind) and None not in row[2] and low <= row[1] - time <= high
        ]
        kept = [row[1] for row in model.rows if row[3] not in model.given_up and row[0] != number]
        assert facts.partners == sorted(one * SECOND for one in partners if one in kept)
        answer, is_known = why_joined(facts), bool(here)
        if is_known:
            has_met = any(row[3] in model.matched for row in here) and number in alone
            assert (answer.verdict is Verdict.FIRED) is bool(facts.partners or has_met)
            assert answer.verdict in (Verdict.FIRED, Verdict.WAITING)
            names = [row[3] for row in here]
            assert [{*names} <= after(model, facts.leaves_at - less).given_up for less in (0, 1)] == [True, False]
        elif not model.flushed and (now := model.watermark) is not None and facts.leaves_at <= now * SECOND:
            assert answer.verdict is Verdict.CLOSED
        else:
            assert answer.verdict is (Verdict.CLOSED if model.flushed else Verdict.NEVER)
        assert answer.reasons


def test_a_row_that_was_dropped_says_so_and_one_that_waits_says_until_when() -> None:
    """With the times that a partner may have, and what the side as a whole keeps."""
    window = Within(2, 3, discard_age=1)
    ports, job = sides_of(window, "left", on_kind=False), Groups(spec(window, "left"))
    job.run([left("a", 10), left("a", 20), right("a", 21), at_watermark(9)])
    late = Refusal(reason="LATE", detail="1m behind", at=0, batch=4)
    values = {"key": pa.scalar("a")}
    facts = [
        row_facts(ports[0], ports, job.stores[0], values, at * SECOND, refused=refused)
        for at, refused in ((10, ()), (20, ()), (0, [late]))
    ]
    assert [str(why_joined(one)).splitlines() for one in facts] == [
        [
            "waiting",
            "  no row of port 1 that matches is kept: a partner is of 1970-01-01T00:00:08Z to 1970-01-01T00:00:13Z",
            (
                "  without one it goes out alone once the watermark, now 1970-01-01T00:00:09Z, is past "
                "1970-01-01T00:00:14Z"
            ),
        ],
        [
            "fired",
            "  it has met 1 row of port 1: 1970-01-01T00:00:21Z",
            "  further partners may come until the watermark, now 1970-01-01T00:00:09Z, is past 1970-01-01T00:00:24Z",
        ],
        [
            "dropped",
            "  a row of 1970-01-01T00:00:00Z came too late in batch 4 and is in the quarantine: 1m behind",
        ],
    ]
    held = open_work(ports[0], job.stores[0]).to_pylist()[0]
    assert str(why_side(held, ())).splitlines()[1:] == [
        "  2 rows of 1970-01-01T00:00:10Z to 1970-01-01T00:00:20Z",
        "  1 of them without a partner; the first goes out alone once the watermark is past 1970-01-01T00:00:14Z",
        "  the first row leaves once the watermark is past 1970-01-01T00:00:14Z",
    ]
    assert why_side(None, ()).verdict is Verdict.NEVER


def played(model: NaiveIntervalJoin, items: list[Joined], *, on_kind: bool) -> NaiveIntervalJoin:
    """The model after some items."""
    for item in items:
        if item.t is None:
            model.on_flush()
        elif item.port is None:
            model.on_watermark(int(item.t))
        else:
            model.on_row((item.port, int(item.t), (item.key, item.kind) if on_kind else (item.key,), item.v))
    return model


def after(model: NaiveIntervalJoin, watermark: int) -> Any:
    """The model after a watermark, us."""
    found: Any = copy.deepcopy(model)
    found.on_watermark(watermark / SECOND)
    return found


def test_the_sides_of_a_join_are_recorded_with_their_own_columns() -> None:
    """The log has the names of the first port."""
    first, second = sides_of(Within(1, 2), "left", on_kind=False)
    assert (first.row_keys, second.row_keys, second.log_keys) == (("key",), ("name",), ("key",))
    assert [one.names[0] for one in COLUMNS] == ["key", "name"]
    assert second.is_within
