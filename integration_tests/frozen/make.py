"""Freezes the checkpoints of the present state version: `python -m integration_tests.frozen.make`.

Run once for each state version, by the code that is released with it, and never again: what is frozen is what users
have. The archive holds a location of savepoints, one for each job in `jobs.py`, and the jobs' Delta tables.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

from integration_tests.frozen.jobs import BEFORE, JOBS, archive, put, start
from panekeeper import session
from panekeeper.recovery.savepoint.create import savepoint
from panekeeper.state.codec import STATE_VERSION


def main() -> None:
    """Run the jobs over what comes before, and pack what is left."""
    target = archive(STATE_VERSION)
    if target.exists():
        sys.exit(
            f"{target} is there: state of version {STATE_VERSION} is frozen already; remove it if it was not released"
        )
    spark = session("freeze", cores=2, **{"spark.sql.shuffle.partitions": 2})
    root = Path(tempfile.mkdtemp(prefix="panekeeper-frozen-"))
    for name in JOBS:
        put(root / name / "in", BEFORE, first=0)
    for job in [start(spark, root / name, name) for name in JOBS]:
        job.await_end()
    for name in JOBS:
        savepoint(root / name / "checkpoint", name, to=root / "saved")
        shutil.rmtree(root / name / "checkpoint")  # it is in the savepoint
        shutil.rmtree(root / name / "in")  # it was read
    spark.stop()
    with tarfile.open(target, "w:gz") as packed:
        for path in sorted(root.rglob("*")):
            if path.is_file() and path.suffix != ".crc":
                packed.add(path, path.relative_to(root).as_posix(), filter=_nobody)
    shutil.rmtree(root)
    sys.stdout.write(f"{target}: {target.stat().st_size:,} bytes\n")


def _nobody(info: tarfile.TarInfo) -> tarfile.TarInfo:
    """Leave out who made it."""
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


if __name__ == "__main__":
    main()
