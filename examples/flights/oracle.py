"""The judge: what the tables must hold, worked out from the published flights by DuckDB alone.

`oracle.sql` is the computation; this file feeds it and compares. It shares no code with the library, and takes from
`data` nothing but the moments at which the replay was cut into files.
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
    """Rows of one table that are on one side only, with a few of them to look at."""

    table: str
    missing: int
    unexpected: int
    examples: tuple[str, ...]


class Oracle:
    """The expected tables, ready to be compared with written ones."""

    def __init__(self, published: pd.DataFrame, cuts: Sequence[datetime], rules: Rules | None = None) -> None:
        self._sql = duckdb.connect()
        self._sql.execute("SET TimeZone = 'UTC'")
        for name, value in vars(rules or Rules()).items():
            self._sql.execute(f"SET VARIABLE {name} = {value // timedelta(microseconds=1)}::BIGINT")
        self._sql.register("published", published.assign(line=range(len(published))))
        moments = pd.DataFrame({"at": pd.DatetimeIndex(list(cuts)).as_unit("us").astype("int64")})
        self._sql.register("cut", moments)
        self._sql.execute(_SQL)

    def log(self) -> pa.Table:
        """Every firing, with its refinement number and reason."""
        return self._sql.table("expected_log").order("ALL").to_arrow_table()

    def view(self) -> pa.Table:
        """The newest refinement of each pane."""
        return self._sql.table("expected_view").order("ALL").to_arrow_table()

    def counts(self) -> dict[str, int]:
        """Where the flights went: rows_in and its parts."""
        return dict(self._sql.table("expected_counts").to_arrow_table().to_pylist()[0])

    def differences(self, *, log: pa.Table, view: pa.Table, quarantine: pa.Table) -> list[Difference]:
        """What is wrong in the written tables; empty when every row is right and there is no other."""
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
