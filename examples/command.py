"""Runs one small example from the command line and prints its results."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from panekeeper import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def run(example: Callable[[SparkSession, Path], DataFrame]) -> None:
    """Run an example in the folder named on the command line, or in a new temporary one."""
    out = Path(sys.argv[1] if len(sys.argv) > 1 else mkdtemp(prefix="panekeeper-"))
    example(session("example"), out).show(30, truncate=False)
    sys.stdout.write(f"The tables are in {out}\n")
