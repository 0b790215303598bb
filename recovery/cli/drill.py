"""The subcommand `drill`: break a job on purpose, start it again, and compare its tables with an undisturbed run."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.recovery.cli.schema import Schema, object_schema
from panekeeper.recovery.cli.subcommand import Subcommand, done_if

if TYPE_CHECKING:
    from panekeeper.recovery.drill.drills import Result


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--job", metavar="FILE", help="the file that declares the job, as for plan")
    parser.add_argument("--only", metavar="NAME", help="only the drills whose name contains this")
    parser.add_argument("--list", action="store_true", help="name the drills and run none")


def _run(options: argparse.Namespace) -> dict[str, Any]:
    from panekeeper.recovery.drill.drills import names, run_drills

    if options.list:
        return {"drills": names(options.only)}
    if options.job is None:
        raise DeclarationError("no job is named to drill; name the file that declares it: --job FILE")
    results = run_drills(options.job, options.only, _progress)
    return {"passed": all(one.outcome == "passed" for one in results), "results": [asdict(one) for one in results]}


def _progress(result: Result) -> None:
    sys.stderr.write(f"{result.outcome:<8} {result.drill} ({result.seconds:.0f} s)\n")
    sys.stderr.flush()


def _format(found: dict[str, Any]) -> str:
    from panekeeper.recovery.drill.drills import Result

    if "drills" in found:
        return "\n".join(found["drills"])
    head = [one.name for one in fields(Result)][:-1]
    lines = [head, *([str(one[name]) for name in head] for one in found["results"])]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([*table, *(f"{one['drill']}: {one['why']}" for one in found["results"] if one["why"])])


def _schema() -> Schema:
    from panekeeper.recovery.drill.drills import Result

    return {"anyOf": [object_schema(drills=list[str]), object_schema(passed=bool, results=list[Result])]}


DRILL = Subcommand(
    name="drill",
    help="break a job on purpose, start it again, and compare its tables with an undisturbed run",
    arguments=_arguments,
    run=_run,
    format=_format,
    schema=_schema,
    exit_code=lambda _, found: done_if("drills" in found or found["passed"]),
)
