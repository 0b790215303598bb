"""The states of a user's aggregate are merged within a partition only, whatever is beside them in the store."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from panekeeper import TimeInterval, agg
from panekeeper.framework.core.job_spec import JobSpec
from panekeeper.framework.core.steps import Rows
from panekeeper.state.store import MemoryStore
from tests.framework.core.quarantine_batches import COLUMNS, END, KEYS, S, bad, rows, run, values


class Money(agg.UserAggregate):
    """A sum in one currency; another one cannot be added."""

    state = pa.string()

    def zero(self) -> str:
        return ""

    def add(self, state: str, value: int) -> str:
        return f"{'EUR' if value < 100 else 'USD'} {int(state[4:] or 0) + value % 100}"

    def merge(self, a: str, b: str) -> str:
        if a[:3] != b[:3]:
            raise ValueError(f"{a} and {b} cannot be added")
        return self.add(a, int(b[4:]) + (100 if a.startswith("USD") else 0))

    def result(self, state: str) -> str:
        return state


def test_states_of_different_partitions_are_never_merged() -> None:
    """Two keys of one key group are neighbours in the store; each has its own currency."""
    output = pa.schema([("x", pa.string())])
    money = {"x": agg.user(Money(), "v", output="string")}
    window = TimeInterval(6, creation_period=2)
    spec = JobSpec(window=window, keys=KEYS, columns=COLUMNS, aggregates=money, output=output, on_error="quarantine")
    steps = [rows(("a", n), ("b", 100 + n), ("c", n + 1), at=n * S) for n in range(1, 8)]
    together = run(spec, MemoryStore(), *steps, END)
    assert bad(together) == []
    own = {key: run(spec, MemoryStore(), *[_only(step, key) for step in steps], END) for key in "abc"}
    assert values(together, "x") == {key: values(done, "x")[key] for key, done in own.items()}


def _only(step: Rows, key: str) -> Rows:
    return Rows(step.table.filter(pc.field("key") == key))
