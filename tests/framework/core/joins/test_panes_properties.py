"""Joins of panes against the naive panes, whose rows are joined one by one at each firing."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from panekeeper.framework.declarations.joins import PaneJoinKind
from panekeeper.framework.declarations.windows import Cumulate, TimeInterval
from tests.framework.core.joins.join_batches import FLUSH, Groups, Item, cut, spec
from tests.model.interval_cases import windows
from tests.model.time_intervals import NaiveTimeInterval


@st.composite
def inputs(draw: st.DrawFn) -> list[Item]:
    """Rows of both ports around a watermark that moves, each with a number of its own."""
    items: list[Item] = []
    now = 0
    for number in range(draw(st.integers(0, 26))):
        kind = draw(st.sampled_from("0011w"))
        if kind == "w":
            now += draw(st.integers(-2, 9))
            items.append(Item(None, now))
            continue
        key, time = draw(st.sampled_from(["a", "a", "b", None])), now + draw(st.integers(-8, 4))
        items.append(Item(int(kind), time, key, number, draw(st.sampled_from([0, 0, 1, None]))))
    return items


def joined(rows: list[dict[str, Any]], how: PaneJoinKind, *, on_kind: bool, key: Any) -> list[tuple[Any, Any]]:
    """What the rows of a pane and partition make together."""
    sides = [[row for row in rows if row["port"] == port] for port in (0, 1)]

    def match(one: dict[str, Any], other: dict[str, Any]) -> bool:
        return key is not None and (not on_kind or (one["kind"] is not None and one["kind"] == other["kind"]))

    met = [(one, other) for one in sides[0] for other in sides[1] if match(one, other)]
    alone = [(one, None) for one in sides[0] if not any(match(one, other) for other in sides[1])]
    others = [(None, other) for other in sides[1] if not any(match(one, other) for one in sides[0])]
    semi = [(one, None) for one in sides[0] if any(match(one, other) for other in sides[1])]
    found: Any = {
        "inner": met,
        "left": met + alone,
        "right": met + others,
        "full": met + alone + others,
        "semi": semi,
        "anti": alone,
    }[how]
    return [(one and one["n"], other and other["n"]) for one, other in found]


def expected_of(
    window: dict[str, Any], items: list[Item], how: PaneJoinKind, *, on_kind: bool, on_close: bool
) -> tuple[list[list[Any]], int]:
    """The result rows of each item, and the number of rows that are too late."""
    model, results, dropped = NaiveTimeInterval(window), list[list[Any]](), 0
    for item in items:
        before = len(model.events)
        if item.port is None:
            model.play([{"watermark": item.t}])
        else:
            row = {"ts": item.t, "port": item.port, "n": item.v, "kind": item.kind}
            model.play([{"key": item.key, "value": row}])
        new = model.events[before:]
        dropped += sum(event["event"] == "drop" for event in new)
        closing = {(event["key"], *event["pane"]) for event in new if event["event"] == "close"}
        found: list[Any] = []
        for event in new:
            if event["event"] != ("close" if on_close else "trigger"):
                continue
            pairs = joined(event["tuples"], how, on_kind=on_kind, key=event["key"])
            refinement = 0 if on_close else event["index"]
            if how == "anti" and refinement and not pairs:
                pairs = [(None, None)]
            is_final = (event["key"], *event["pane"]) in closing
            found += [(event["key"], event["pane"][0], *pair, refinement, is_final) for pair in pairs]
        results.append(found)
    return results, dropped


@settings(deadline=None, max_examples=300)
@given(
    window=windows(1),
    how=st.sampled_from(["inner", "left", "right", "full", "semi", "anti", "anti"]),
    items=inputs(),
    ends=st.sets(st.integers(1, 26)),
    groups=st.integers(1, 3),
    on_kind=st.booleans(),
    on_close=st.booleans(),
)
def test_results_are_those_of_the_naive_panes(
    window: dict[str, Any],
    how: PaneJoinKind,
    items: list[Item],
    ends: set[int],
    groups: int,
    on_kind: bool,  # noqa: FBT001 -- a parameter of Hypothesis
    on_close: bool,  # noqa: FBT001 -- as above
) -> None:
    """Each firing of a partition has all that its rows make together then, in whatever batches and key groups."""
    window = window | {"partitioned": True}
    period: Any = window.get("creationPeriod")
    make = partial(Cumulate, period) if window.get("cumulates") else partial(TimeInterval, creation_period=period)
    declared = make(
        window["intervalDuration"],
        discard_age=window["discardAge"],
        interval_offset=window["intervalOffset"],
        late=window["late"],
        emit="on_close" if on_close else "on_complete",
    )
    items = [*items, Item(None, 1000)]
    expected, dropped = expected_of(window, items, how, on_kind=on_kind, on_close=on_close)
    job, at, late = Groups(spec(declared, how, on_kind=on_kind), groups), 0, 0
    for batch in cut(items, ends):
        found = Counter(
            (r["key"], r["pane_start"].timestamp(), r["a"], r.get("b"), r["refinement"], r["is_final"])
            for r in job.run(batch)
        )
        assert found == Counter(one for some in expected[at : at + len(batch)] for one in some)
        at, late = at + len(batch), late + len(job.late)
    assert late == dropped
    assert [store.entries for store in job.stores] == [{}] * groups
    assert job.run([FLUSH]) == []
