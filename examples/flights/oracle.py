"""The oracle: what the tables must hold, computed from the published flights by DuckDB alone.

`oracle.sql` is the computation; this file passes it the flights and compares. It shares no code with the library, and
takes from `data` nothing but the times at which one file of the replay ends and the next begins.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa

_SQL = Path(__file__).with_name("oracle.sql").read_text(encoding="utf-8")
_COLUMNS = "carrier, origin, pane_start, pane_end, worst, flight, mean, n, refinement, reason"


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The window and the lateness of the watermark, as the job declares them."""

    duration: timedelta = timedelta(hours=1)
    period: timedelta = timedelta(minutes=20)
    age: timedelta = timedelta(hours=6)
    delay: timedelta = timedelta(minutes=30)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Rows of one table that only one side has, with up to three of each as text."""

    table: str
    missing: int
    unexpected: int
    examples: tuple[str, ...]


class Oracle:
    """The expected tables, to be compared with written ones."""

    def __init__(self, published: pd.DataFrame, boundaries: Sequence[datetime], rules: Rules | None = None) -> None:
        self._sql = duckdb.connect()
        self._sql.execute("SET TimeZone = 'UTC'")
        for name, value in vars(rules or Rules()).items():
            self._sql.execute(f"SET VARIABLE {name} = {value // timedelta(microseconds=1)}::BIGINT")
        self._sql.register("published", published.assign(line=range(len(published))))
        ends = pd.DataFrame({"at": pd.DatetimeIndex(list(boundaries)).as_unit("us").astype("int64")})
        self._sql.register("boundary", ends)
        self._sql.execute(_SQL)

    def log(self) -> pa.Table:
        """Return every firing, with its refinement number and reason."""
        return self._sql.table("expected_log").order("ALL").to_arrow_table()

    def view(self) -> pa.Table:
        """Return the newest refinement of each pane."""
        return self._sql.table("expected_view").order("ALL").to_arrow_table()

    def counts(self) -> dict[str, int]:
        """Return how many flights came in and how many were admitted, refined, dropped, quarantined and outside."""
        return dict(self._sql.table("expected_counts").to_arrow_table().to_pylist()[0])

    def differences(self, *, log: pa.Table, view: pa.Table, quarantine: pa.Table) -> list[Difference]:
        """Return what is wrong in the written tables; empty when they hold exactly the expected rows."""
        refused = self._sql.from_arrow(quarantine).project("reason, epoch_us(event_time) AS scheduled")
        found = [
            self._compare("log", self._sql.from_arrow(log).project(_COLUMNS)),
            self._compare("view", self._sql.from_arrow(view).project(_COLUMNS)),
            self._compare("quarantine", refused),
        ]
        return [difference for difference in found if difference.missing or difference.unexpected]

    def _compare(self, name: str, written: duckdb.DuckDBPyRelation) -> Difference:
        written.create_view("written", replace=True)
        self._sql.table(f"expected_{name}").create_view("expected", replace=True)
        missing = self._sql.sql("FROM expected EXCEPT ALL FROM written ORDER BY ALL").to_arrow_table()
        unexpected = self._sql.sql("FROM written EXCEPT ALL FROM expected ORDER BY ALL").to_arrow_table()
        examples = [f"missing    {row}" for row in missing.slice(0, 3).to_pylist()]
        examples += [f"unexpected {row}" for row in unexpected.slice(0, 3).to_pylist()]
        return Difference(
            table=name, missing=missing.num_rows, unexpected=unexpected.num_rows, examples=tuple(examples)
        )
