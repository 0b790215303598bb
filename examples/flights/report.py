"""What the demo prints at the end: the worst hours, the flights by outcome, and the comparison with the oracle."""

from dataclasses import dataclass

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table

from examples.flights.data import NEW_YORK
from examples.flights.oracle import Difference

_HOURS_SHOWN = 12
_PARTS = {
    "admitted": "in time",
    "refined_late": "late, kept (a pane fired again)",
    "dropped_late": "too late (every pane closed): quarantine",
    "quarantined": "cancelled or malformed: quarantine",
    "outside": "in no pane",
}


@dataclass(frozen=True, kw_only=True)
class Results:
    """The finished tables."""

    log: pa.Table
    view: pa.Table
    quarantine: pa.Table


def worst_hours(results: Results) -> Table:
    """Return the hours (of the full-hour panes, so that each flight counts once) with the worst delays of the year."""
    view: pd.DataFrame = results.view.to_pandas()
    hours = view[view["pane_start"].dt.minute == 0].nlargest(_HOURS_SHOWN, "worst")
    firsts: pd.DataFrame = results.log.filter(pc.equal(results.log.column("refinement"), 0)).to_pandas()
    hours = hours.merge(firsts, on=["carrier", "origin", "pane_start"], suffixes=("", "_first"))
    table = Table(
        title="The worst hours (New York time)", title_style="bold", title_justify="left", box=None, pad_edge=False
    )
    for name in ("hour from", "at", "worst flight"):
        table.add_column(name, no_wrap=True)
    for name in ("delay", "at first", "mean", "flights", "refined"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in hours.itertuples():
        begin = row.pane_start.tz_convert(NEW_YORK)
        on_time = row.reason_first != "LATE"
        table.add_row(
            f"{begin:%a %d %b %H:%M}",
            row.origin,
            row.flight,
            f"[bold]{_duration(row.worst)}[/]",
            _duration(row.worst_first) if on_time else "[yellow]late[/]",
            _duration(row.mean),
            str(row.n),
            str(row.refinement),
        )
    return table


def print_tables(console: Console, results: Results) -> None:
    """Print how many rows each table has, by reason."""
    firings = results.log.column("reason").to_pandas().value_counts().sort_index()
    refused = results.quarantine.column("reason").to_pandas().value_counts().sort_index()
    summary = ", ".join(f"{count:,} {reason}" for reason, count in firings.items())
    console.print(f"log         {results.log.num_rows:>9,} firings: {summary}", highlight=False)
    console.print(f"view        {results.view.num_rows:>9,} panes, each as it last fired", highlight=False)
    summary = ", ".join(f"{count:,} {reason}" for reason, count in refused.items())
    console.print(f"quarantine  {results.quarantine.num_rows:>9,} flights: {summary}", highlight=False)


def print_balance(console: Console, counts: dict[str, int]) -> bool:
    """Print how many flights had which outcome; return whether these add up to those that came in."""
    parts = sum(counts[part] for part in _PARTS)
    console.print(f"\n[bold]{counts['rows_in']:>9,}[/]  flights came in", highlight=False)
    for part, meaning in _PARTS.items():
        console.print(f"{counts[part]:>9,}  {meaning}", highlight=False)
    balanced = parts == counts["rows_in"]
    conclusion = "[green]nothing is lost[/]" if balanced else "[red bold]the parts do not add up[/]"
    console.print(f"{parts:>9,}  in all: {conclusion}", highlight=False)
    return balanced


def print_comparison(console: Console, results: Results, found: list[Difference]) -> None:
    """Print whether the tables equal the independent computation, and where they differ."""
    if not found:
        sizes = (results.log.num_rows, results.view.num_rows, results.quarantine.num_rows)
        summary = "{:,} firings, {:,} panes, {:,} refused".format(*sizes)
        console.print(
            f"\n[green bold]checked:[/] {summary}: every row equals DuckDB's result over the published file",
            highlight=False,
            soft_wrap=True,
        )
        return
    for difference in found:
        console.print(
            f"\n[red bold]the {difference.table} is wrong:[/] {difference.missing:,} rows missing, "
            f"{difference.unexpected:,} that should not be there",
            highlight=False,
        )
        for example in difference.examples:
            console.print(f"  {example}", highlight=False, markup=False, soft_wrap=True)


def _duration(minutes: float) -> str:
    sign, minutes = ("-", -minutes) if minutes < 0 else ("", minutes)
    hours, rest = divmod(round(minutes), 60)
    return f"{sign}{hours}h{rest:02d}" if hours else f"{sign}{rest}min"
