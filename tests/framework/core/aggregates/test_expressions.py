"""agg.expr: what operators and functions give of nulls, of NaN and of negative numbers, as Spark has them."""

from __future__ import annotations

from typing import Any

import pytest

from panekeeper import Count, TimeInterval, Tumbling, agg
from panekeeper.testing import run

NAN = float("nan")
SPARKS: dict[str, list[tuple[Any, Any, Any]]] = {
    "least(min(a), min(b))": [(1, 2, 1), (None, 2, 2), (2, None, 2), (None, None, None), (NAN, 2, 2), (1, NAN, 1)],
    "greatest(min(a), min(b)) > 9": [(1, 2, False), (None, 10, True), (10, None, True), (NAN, 2, True), (1, NAN, True)],
    "greatest(min(a), min(b))": [(1, 2, 2), (None, None, None)],
    "min(a) % min(b)": [(7, 3, 1), (-7, 3, -1), (7, -3, 1), (-7, -3, -1), (7.5, 2, 1.5), (7, 0, None), (None, 3, None)],
    "-min(a) % min(b)": [(7, 3, -1)],
    "min(a) == min(b)": [(NAN, NAN, True), (NAN, 1, False), (0.0, -0.0, True), (NAN, None, None)],
    "min(a) <> min(b)": [(NAN, NAN, False), (NAN, 1, True)],
    "min(a) < min(b)": [(1, NAN, True), (NAN, 1, False), (NAN, NAN, False), (float("inf"), NAN, True)],
    "min(a) <= min(b)": [(1, NAN, True), (NAN, 1, False), (NAN, NAN, True)],
    "min(a) > min(b)": [(NAN, 1, True), (1, NAN, False), (NAN, NAN, False)],
    "min(a) >= min(b)": [(NAN, 1, True), (1, NAN, False), (NAN, NAN, True)],
    "not min(a) < min(b)": [(1, NAN, False), (NAN, 1, True), (None, 1, None)],
    "nullif(min(a), min(b))": [(NAN, NAN, None), (3, 4, 3), (3, 3, None), (3, None, 3)],
}
"""Expression -> a, b, and what Spark 4.2 gives of them; `integration_tests/engine/test_aggregates.py` asks for some."""


@pytest.mark.parametrize("text", SPARKS)
def test_nulls_nan_and_signs_are_those_of_spark(text: str) -> None:
    """Nulls are left out by least and greatest, NaN is above all and itself, a remainder has the sign of the first."""
    rows = [{"k": k, "a": a, "b": b} for k, (a, b, _) in enumerate(SPARKS[text])]
    made = {"got": agg.expr(text)}
    found = run(
        Tumbling(Count(1)), aggregates=made, schema="k int, a double, b double", partition_by="k", script=[rows]
    )
    assert [row["got"] for row in found] == [right for *_, right in SPARKS[text]]


def test_a_pane_fires_by_a_condition_that_takes_nan_as_the_greatest() -> None:
    """As `fires_when` is such an expression: a maximum that is NaN is above every bound."""
    window = TimeInterval(10, fires_when="top > 100")
    script = [[{"t": 1, "v": 5.0}, {"t": 2, "v": NAN}]]
    found = run(window, aggregates={"top": agg.max("v")}, schema="t timestamp, v double", event_time="t", script=script)
    assert [row["reason"] for row in found] == ["EARLY"]


class NoThrees(agg.UserAggregate):
    """The sum of integers, which raises for a 3."""

    state = "bigint"

    def zero(self) -> int:
        return 0

    def add(self, state: int, value: int) -> int:
        if value == 3:
            raise ValueError("no threes")
        return state + value

    def merge(self, a: int, b: int) -> int:
        return a + b

    def result(self, state: int) -> int:
        return state


def test_a_row_for_which_a_function_of_the_users_raises_is_set_aside_in_an_expression_of_it_too() -> None:
    """As in the function's own column: a job whose batch fails for it would fail at each start (A4)."""
    made = {"total": agg.user(NoThrees(), "n", output="bigint"), "twice": agg.expr("total * 2")}
    rows = [{"n": n} for n in (1, 3, 5)]
    log = run(Tumbling(Count(3)), aggregates=made, schema="n bigint", script=[rows], allow_errors=True)
    assert [(row["total"], row["twice"]) for row in log] == [(6, 12.0)]
    assert [(refused["reason"], refused["row"]) for refused in log.quarantine] == [("USER_ERROR", {"n": 3})] * 2
