"""Folders that are made once and kept on this machine: Java libraries, a view of Spark."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


def cache_folder() -> Path:
    """Where they are kept: `PANEKEEPER_CACHE`, by default `~/.cache/panekeeper`."""
    given = os.environ.get("PANEKEEPER_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "panekeeper"


def cached_folder(name: str, make: Callable[[Path], Path]) -> Path:
    """Return a folder of the cache, made first if it is not there; complete, also if several processes make it.

    Args:
        name: its path in the cache.
        make: is given an empty folder to work in, and returns which folder in it, or itself, is to be kept.
    """
    folder = cache_folder().absolute() / name
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".making-"))
    try:
        made = make(work)
        try:
            made.rename(folder)
        except OSError:
            if not folder.is_dir():  # otherwise another process was first, with the same files
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return folder
