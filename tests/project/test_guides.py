"""The guides: what they print works as printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa

from framework.core.job_spec import AT, Plan
from framework.core.steps import Rows
from panekeeper import Count, Tumbling
from state.store import MemoryStore
from tests.model.handlers import KEYS, run

GUIDE = Path(__file__).parents[2] / "docs" / "operator-with-state.md"


def printed() -> dict[str, Any]:
    """What the Python blocks of the guide define, one after the other."""
    names: dict[str, Any] = {"__name__": "guide"}
    for block in re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL):
        exec(block, names)  # noqa: S102 -- our own page
    return names


def test_the_test_that_the_guide_prints_passes() -> None:
    """A reader who copies both blocks has a green test."""
    names = printed()
    (test,) = [name for name in names if name.startswith("test_")]
    names[test]()


def test_the_operator_that_the_guide_prints_keeps_its_state_from_batch_to_batch() -> None:
    """In the core, too, where its state goes through the stored bytes."""
    operator = printed()["Lifetime"]()
    plan = Plan(
        window=Tumbling(Count(2)),
        keys=KEYS,
        columns=pa.schema([("key", pa.string()), ("value", pa.float64())]),
        operator=operator,
        output=pa.schema([("total", pa.float64()), ("windows", pa.int64())]),
        handlers=(operator,),
    )
    store, emitted = MemoryStore(), []
    for number, lot in enumerate(([1.0, 2.0], [4.0, 8.0])):
        table = pa.table({"key": ["a", "a"], "value": lot, AT: pa.array([number, number], pa.int64())})
        results = run(plan, store, number, Rows(table)).results
        assert results is not None
        emitted += results.select(["total", "windows"]).to_pylist()
    assert emitted == [{"total": 3.0, "windows": 1}, {"total": 15.0, "windows": 2}]
