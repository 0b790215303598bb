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


def cached_folder(name: str, make: Callable[[Path], Path], is_whole: Callable[[Path], bool]) -> Path:
    """Return a folder of the cache, made first if it is not there; complete, also if several processes make it.

    One that is not whole is made again: what was written last is not on the disk before a power cut, and what cleans
    up caches and temporary folders may remove old files and leave the folder.

    Args:
        name: its path in the cache.
        make: is given an empty folder to work in, and returns which folder in it, or itself, is to be kept.
        is_whole: returns whether a folder that is there has all that is needed of it.
    """
    folder = cache_folder().absolute() / name
    if folder.is_dir() and is_whole(folder):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    work, aside = (Path(tempfile.mkdtemp(dir=folder.parent, prefix=".making-")) for _ in range(2))
    try:
        made = make(work)
        if folder.is_dir() and not is_whole(folder):
            folder.rename(aside / "damaged")
        try:
            made.rename(folder)
        except OSError:
            if not folder.is_dir():  # otherwise another process was first, with the same files
                raise
    finally:
        for left in (work, aside):
            shutil.rmtree(left, ignore_errors=True)
    return folder
