"""The subcommand `drill`: break jobs on purpose, resume them, and compare their tables with the expected ones.

`recovery/drill/` does it, and is imported only when the subcommand runs.
"""

from __future__ import annotations

import argparse
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.recovery.cli.arguments import positive_seconds
from panekeeper.recovery.cli.output.schema import Schema, object_schema
from panekeeper.recovery.cli.subcommand import Subcommand, done_if
from panekeeper.state.checkpoint.clock import now_utc

if TYPE_CHECKING:
    from panekeeper.recovery.drill.runner import Drills, Result


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--list", action="store_true", help="name the drills and run none")
    parser.add_argument(
        "--only", metavar="PATTERN", help="those whose 'scenario x check' contains this, or matches it with *"
    )
    parser.add_argument(
        "--reduced", action="store_true", help="fewer scenarios, several faults in a row: minutes, not an hour"
    )
    parser.add_argument(
        "--budget", type=positive_seconds, metavar="TIME", help="start no scenario after this long: 90s, 10m, 1h"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the input and of random kills (1)")
    parser.add_argument("--job", metavar="FILE", help="drill this job, against an undisturbed run of it")
    parser.add_argument(
        "--savepoint",
        nargs="+",
        metavar=("LOCATION", "NAME"),
        help="begin that job from a clone of this savepoint, or of the newest there; nothing but the clone is written",
    )
    parser.add_argument("--s3-endpoint", metavar="URL", help="an S3 store other than Amazon's, for --savepoint")
    parser.add_argument("--html", metavar="FILE", help="write a page of HTML, too")
    parser.add_argument("--keep", metavar="FOLDER", help="keep inputs, tables, checkpoints and logs in a new folder")


def _run(options: argparse.Namespace) -> dict[str, Any]:
    from panekeeper.recovery.drill.report import format_html, report_fields

    drills = _drills(options)
    if options.list:
        names = [f"{one.scenario.name} x {check}" for one in drills.groups() for check in one.job_names]
        return {"drills": names, "passed": False}
    if options.html:
        _require_writable(Path(options.html))
    began = now_utc()
    fields = report_fields(drills.run(), seed=options.seed, began=began)
    if options.html:
        Path(options.html).write_text(format_html(fields), encoding="utf-8")
    return fields


def _drills(options: argparse.Namespace) -> Drills:
    from panekeeper.recovery.drill.runner import Drills

    if options.keep and Path(options.keep).exists():
        raise DeclarationError(f"{options.keep} exists already; name a new folder")
    return Drills(
        seed=options.seed,
        only=options.only,
        reduced=options.reduced,
        budget_seconds=options.budget,
        job=None if options.job is None else Path(options.job),
        savepoint=_savepoint(options),
        endpoint=options.s3_endpoint,
        keep_folder=None if options.keep is None else Path(options.keep).absolute(),
        on_result=_progress,
    )


def _require_writable(page: Path) -> None:
    """Fail before the drills, not after an hour of them."""
    try:
        page.touch()
    except OSError as error:
        raise DeclarationError(f"the page cannot be written: {error}; name another file") from error


def _savepoint(options: argparse.Namespace) -> tuple[str, str] | None:
    """Return location and name of the savepoint: the newest that can be read, if none is named."""
    from panekeeper.recovery.errors import NoSuchSavepoint
    from panekeeper.recovery.savepoint.catalog import savepoints
    from panekeeper.recovery.savepoint.manifest import Manifest
    from panekeeper.recovery.storage.s3_options import S3Options

    if options.savepoint is None:
        return None
    location, *name = options.savepoint
    if len(name) > 1:
        raise DeclarationError(f"--savepoint takes a location and at most one name, not {' '.join(name)}")
    if name:
        return location, name[0]
    found = savepoints(location, s3=S3Options(endpoint=options.s3_endpoint))
    good = [name for name, one in found.items() if isinstance(one, Manifest)]
    if not good:
        raise NoSuchSavepoint(f"{location} holds no savepoint that can be read, so there is none to drill")
    return location, good[-1]


def _progress(results: list[Result]) -> None:
    from panekeeper.recovery.drill.report import format_line

    for result in results:
        sys.stderr.write(f"{format_line(result)}\n")
    sys.stderr.flush()


def _format(fields: dict[str, Any]) -> str:
    from panekeeper.recovery.drill.report import format_table

    return "\n".join(fields["drills"]) if "drills" in fields else format_table(fields)


def _schema() -> Schema:
    from panekeeper.recovery.drill.runner import Result

    listed = object_schema(drills=list[str], passed=bool)
    report = object_schema(began=datetime, seed=int, passed=bool, outcomes=dict[str, int], results=list[Result])
    return {"anyOf": [listed, report]}


DRILL = Subcommand(
    name="drill",
    help="kill jobs, damage their state, and compare their tables with what should be there",
    arguments=_arguments,
    run=_run,
    format=_format,
    schema=_schema,
    exit_code=lambda _, fields: done_if(fields["passed"] or "drills" in fields),
)
