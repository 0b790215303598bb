"""What runs in the process of one side of `--against`: the contenders of its tree, one run for each line of its input.

It is always the file of the work tree that runs, also over the packages of an older commit. So it uses no more of them
than it must. Its first line of output is the names of the workloads of its tree; then comes one for each run.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import panekeeper
from benchmarks.contenders import RunEnvironment
from benchmarks.data import Input
from benchmarks.workloads import workloads


def main(tree: Path, folder: Path) -> None:
    """Answer requests until there are no more.

    Args:
        tree: whose packages are measured.
        folder: for what the runs write.
    """
    if not Path(panekeeper.__file__).is_relative_to(tree):
        raise ImportError(f"panekeeper is not imported from this tree, but from {panekeeper.__file__}")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # for whatever else prints
    contenders = {workload.name: workload.us.contender for workload in workloads()}
    spark = panekeeper.session("panekeeper-benchmarks", **_of_jobs())
    try:
        environment = RunEnvironment(spark=spark, folder=folder)
        print(json.dumps(list(contenders)), file=answers, flush=True)
        for line in sys.stdin:
            request = json.loads(line)
            batches = contenders[request["workload"]].measure(_input(request["given"]), environment)
            print(json.dumps([[batch.rows, batch.seconds] for batch in batches]), file=answers, flush=True)
    finally:
        spark.stop()


def _input(given: dict[str, Any]) -> Input:
    known = {field.name: given[field.name] for field in fields(Input)}
    return Input(**known | {"folder": Path(given["folder"])})


def _of_jobs() -> dict[str, str]:
    """Return the settings of a session that jobs have, of those trees that know them."""
    for module in ("spark_folder", "checkpoint_files"):  # the second in older trees
        with suppress(ImportError, AttributeError):
            named = import_module(f"panekeeper.framework.engine.session.{module}")
            return {named.MANAGER_SETTING: named.ON_DISK}
    return {}


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
