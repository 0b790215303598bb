"""A view of the installed Spark without its packed Python sources, so that Python workers start in a fifth of the time.

Spark puts `python/lib/pyspark.zip` of its home in front of all else in every Python process that it starts, and one is
started with each query. Python keeps nothing compiled for sources in an archive: each of these processes would compile
pyspark anew (0.6 s of a core instead of 0.1). The packages of this interpreter hold the same sources, compiled.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path

import pyspark

from framework.engine.jars import cache_folder

_PARTS = ("bin", "conf", "data", "jars", "sbin")  # `conf` is the user's to make, now or later


def spark_home() -> Path:
    """The folder to name as SPARK_HOME for Spark on this machine; the installed one where no view can be made of it."""
    installed = Path(pyspark.__file__).parent
    name = f"{pyspark.__version__}-{hashlib.sha256(str(installed).encode()).hexdigest()[:12]}"
    view = cache_folder().absolute() / "spark" / name
    try:
        if not view.is_dir():
            _make(view, installed)
    except OSError:
        return installed
    return view


def _make(view: Path, installed: Path) -> None:
    """Makes a folder of its own and renames it, whoever else makes one too."""
    view.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=view.parent, prefix=".making-"))
    try:
        for part in _PARTS:
            (work / part).symlink_to(installed / part)
        try:
            work.rename(view)
        except OSError:
            if not view.is_dir():  # otherwise another process was first
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
