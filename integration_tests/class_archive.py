"""An archive of the classes that Java loads for a job, with which it starts in two thirds of the processor time.

Tests and drills start hundreds of Java machines for a minute each. `make test` writes the archive once, by
`python -m integration_tests.class_archive FILE`; a Java machine that cannot use it starts as without it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from integration_tests.engine.readings import FILES
from panekeeper.framework.engine.session.session import SHORT_LIVED

ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
_SILENT = "-Xlog:disable"  # that an archive does not fit would be printed among the results of a program
_EXIT_S = 300


def java_options() -> str:
    """Return the options of the Java machines that tests start."""
    return f"{SHORT_LIVED} -XX:SharedArchiveFile={ARCHIVE} {_SILENT}" if ARCHIVE.exists() else SHORT_LIVED


def write(archive: Path) -> None:
    """Run a small job and write an archive of the classes that it has loaded."""
    unfinished = archive.with_suffix(".unfinished")
    os.environ["SPARK_SUBMIT_OPTS"] = f"{SHORT_LIVED} -XX:ArchiveClassesAtExit={unfinished} {_SILENT}"
    from pyspark import SparkContext

    from integration_tests.engine import readings_program

    with TemporaryDirectory() as folder:
        _write_input(Path(folder) / "in")
        readings_program.main(Path(folder), "")
        gateway = SparkContext._gateway
        assert gateway is not None
        gateway.shutdown()
        gateway.proc.stdin.close()  # it exits, and writes the archive
        gateway.proc.wait(timeout=_EXIT_S)
    unfinished.replace(archive)


def _write_input(folder: Path) -> None:
    folder.mkdir()
    for number, rows in enumerate(FILES):
        lines = [
            json.dumps({"sensor": sensor, "at": at and f"2024-05-01T{at}Z", "value": value})
            for sensor, at, value in rows
        ]
        (folder / f"{number}.json").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
