"""`python -m examples.flights`: replay, show, draw, check. Exit code 0 when the tables are right, 1 when they are not.

Killed at any moment and started again, it resumes; started after the end, it shows the results at once.
"""

import argparse
import sys
import time
from pathlib import Path

from rich.console import Console

from examples.flights.data import Input, Replay, around, raw_flights, write_input
from examples.flights.folder_lock import FolderLocked, lock_folder
from examples.flights.oracle import Oracle
from examples.flights.plot import draw
from examples.flights.progress import waiting
from examples.flights.replay import ReplayTotals, replay
from examples.flights.report import Results, print_balance, print_comparison, print_tables, worst_hours
from examples.flights.tables import LOG, QUARANTINE, VIEW, read_table
from panekeeper import PanekeeperError

WRONG, UNUSABLE, INTERRUPTED = 1, 2, 130


def main(arguments: list[str]) -> int:
    """Run the demo and return the exit code."""
    options = _options(arguments)
    console = Console(soft_wrap=False)
    out: Path = options.out
    started_at = time.monotonic()
    try:
        with lock_folder(out, {"days": options.days}):
            with waiting(console, "preparing the flights of 2013..."):
                raw = around(raw_flights(), options.days)
                given = write_input(out / "input", raw, Replay(days=options.days))
            finished_marker = out / "finished"
            if finished_marker.exists():
                console.print(f"this replay is finished; `rm -r {out}` to start over", highlight=False)
            elif replay(console, given, out):
                finished_marker.touch()
            else:
                return INTERRUPTED
            with waiting(console, "checking..."):
                oracle = Oracle(raw, given.boundaries)
            return _conclude(console, given, out, oracle, started_at)
    except KeyboardInterrupt:
        console.print("stopped; run `make demo` again to resume")
        return INTERRUPTED
    except (PanekeeperError, FolderLocked) as error:
        console.print(f"[red bold]the demo cannot continue:[/] {error}", highlight=False)
        return UNUSABLE


def _conclude(console: Console, given: Input, out: Path, oracle: Oracle, started_at: float) -> int:
    results = Results(log=read_table(out / LOG), view=read_table(out / VIEW), quarantine=read_table(out / QUARANTINE))
    picture = out / "worst_day.png"
    draw(results.log, results.view, given.worst_day, picture)
    counts = ReplayTotals.of_earlier_runs(out).counts()
    console.print()
    console.print(worst_hours(results))
    console.print()
    print_tables(console, results)
    balanced = print_balance(console, counts)
    found = oracle.differences(log=results.log, view=results.view, quarantine=results.quarantine)
    print_comparison(console, results, found)
    console.print(f"picture: {picture}", highlight=False)
    console.print(f"{time.monotonic() - started_at:.0f} seconds", highlight=False)
    return 0 if balanced and not found and counts == oracle.counts() else WRONG


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.flights", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("out/demo"),
        help="folder of the checkpoint, tables and picture (default: out/demo)",
    )
    parser.add_argument("--days", type=int, metavar="N", help="replay only N days around the worst one")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
