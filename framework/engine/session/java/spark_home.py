"""A view of the installed Spark without its packed Python sources, so that Python workers start in a fifth of the time.

Spark puts `python/lib/pyspark.zip` of its home in front of all else in every Python process that it starts, and one is
started with each query. Python keeps nothing compiled for sources in an archive: each of these processes would compile
pyspark again (0.6 s of a core instead of 0.1). The packages of this interpreter hold the same sources, compiled.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyspark

from panekeeper.framework.engine.session.java.local_cache import cached_folder

_LINKED_FOLDERS = ("bin", "conf", "data", "jars", "sbin")  # `conf` is the user's to make, now or later


def spark_home() -> Path:
    """The folder to name as SPARK_HOME for Spark on this machine; the installed one where no view can be made of it."""
    installed = Path(pyspark.__file__).parent
    name = f"{pyspark.__version__}-{hashlib.sha256(str(installed).encode()).hexdigest()[:12]}"
    try:
        return cached_folder(f"spark/{name}", lambda view: _linked_view(view, installed), _is_whole)
    except OSError:
        return installed


def _linked_view(view: Path, installed: Path) -> Path:
    for part in _LINKED_FOLDERS:
        (view / part).symlink_to(installed / part)
    return view


def _is_whole(view: Path) -> bool:
    return all((view / part).is_symlink() for part in _LINKED_FOLDERS)
