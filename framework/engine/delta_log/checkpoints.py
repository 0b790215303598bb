"""The checkpoints of Delta's log of a table on a local disk: is the newest one whole, and what is there without it?

Delta removes the commits that one stands for, when they are old. One may be a file of Parquet, several, or a list of
such (version 2, also as JSON).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from panekeeper.framework.engine.delta_log.commits import (
    CHECKPOINT,
    COMMIT,
    CUT_SHORT,
    LOG,
    POINTER,
    actions_of,
    newest_files,
    parts,
    size_of,
)
from panekeeper.framework.engine.delta_log.file_checksums import cut_short_checksum
from panekeeper.state.checkpoint.folder import LocalFolder, local_path, parse_json
from panekeeper.state.spark_logs.checksums import agreement, checksum_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from panekeeper.state.spark_logs.offsets import LogFolder

_PARQUET = b"PAR1"
_SIDECAR, _SIDECARS = "sidecar", "_sidecars"


def cut_short_checkpoint(table: LocalFolder) -> str | None:
    """Return what to do about a file of the newest checkpoint of the log that lacks its end, or all; None if none does.

    The commits that it stands for do in its place, if they are there.

    Args:
        table: its folder.
    """
    pointed = _pointed(table)  # before the names: a checkpoint is there before it is pointed to
    checkpoint, commits = newest_files(table)
    if pointed > int(checkpoint or -1):
        gone = f"the checkpoint of version {pointed}, which {POINTER} in {table.root} names, is gone"
        is_known = bool(checkpoint) or commits[:1] == [f"{0:020d}"]
        return f"{gone}: while nobody writes to the table, remove {POINTER}" if is_known else _lost(gone)
    if not checkpoint:
        lacks_all = bool(commits) and int(commits[0]) > 0
        return _lost(f"{LOG} in {table.root} begins with version {int(commits[0])}") if lacks_all else None
    names = _names(table, checkpoint)
    damage = next(filter(None, (_damage(table, name) for name in names)), None)
    if damage is None:
        files = files_of_checkpoint(table, checkpoint)
        return next(filter(None, (cut_short_checksum(table, one) for one in files)), None)
    if missing := _missing(table, int(checkpoint) - 1):
        first = min(missing)
        is_known = first > 0 and _is_known(table, first - 1)
        return f"{damage}: {go_back_before(table, first)}" if is_known else _lost(damage)
    files_of_it = f"{LOG}/{checkpoint}.checkpoint*"
    return f"{damage}: while nobody writes to the table, remove {files_of_it} and {POINTER}"


def go_back_before(table: LogFolder, version: int) -> str:
    """Return what to do so that a table on a local disk is as it was before a version, as a part of a sentence."""
    local = local_path(table.root)
    if local is not None and not _is_known(LocalFolder(local), version - 1):
        return f"put what is lost back from a copy of the table: its log does not say what it had before {version}"
    return (
        f"while nobody writes to the table, remove {POINTER} and all files in {LOG} whose number is "
        f"{version} or greater, also hidden ones"
    )


def files_of_checkpoint(table: LocalFolder, checkpoint: str) -> list[str]:
    """Return the names of the files of a checkpoint of the log in the table's folder.

    Args:
        table: its folder.
        checkpoint: its number, in 20 digits.
    """
    names = _names(table, checkpoint)
    return [f"{LOG}/{one}" for name in names for one in (name, *map(_file, _sidecars(table.path / LOG / name)))]


def _pointed(table: LocalFolder) -> int:
    """Return of which version the checkpoint is from which the log is read; -1: that is looked up in the log."""
    try:
        version = parse_json(table.read(POINTER))["version"]
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return -1
    return version if isinstance(version, int) else -1


def _lost(what: str) -> str:
    return (
        f"{what}, and neither a checkpoint of the log nor commits say what the table had before: put what is missing "
        f"in {LOG} back from a copy of the table; the files of its rows are still there"
    )


def _names(table: LocalFolder, checkpoint: str) -> list[str]:
    """Return the names of the files of a checkpoint in the log; what somebody is writing has another name."""
    return [name for name in table.names(LOG) if name.startswith(checkpoint) and CHECKPOINT.fullmatch(name)]


def _damage(table: LocalFolder, name: str) -> str | None:
    """Return what is damaged of a file of a checkpoint, or of those that it lists; None: nothing."""
    path = table.path / LOG / name
    if not _is_whole(path):
        return f"the checkpoint {LOG}/{name} in {table.root} {CUT_SHORT}"
    for one in _sidecars(path):
        sidecar = f"{LOG}/{_file(one)}"
        if size_of(table.path / sidecar) != one.get("sizeInBytes"):
            return f"{sidecar} in {table.root}, which the checkpoint {LOG}/{name} needs, {CUT_SHORT}, or is gone"
    return None


def _is_whole(path: Path) -> bool:
    if path.suffix == ".json":
        checksum = path.with_name(checksum_of(path.name))
        content, sums = path.read_bytes(), checksum.read_bytes() if checksum.exists() else b""
        return bool(actions_of(content)) and agreement(content, sums) in ("agrees", "checksum is cut short")
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - len(_PARQUET)))
        return file.read() == _PARQUET


def _file(sidecar: Mapping[str, Any]) -> str:
    return f"{_SIDECARS}/{sidecar.get('path')}"


def _sidecars(path: Path) -> Iterable[dict[str, Any]]:
    """Return the files that a checkpoint lists, which is whole."""
    if path.suffix == ".json":
        return parts(actions_of(path.read_bytes()) or [], _SIDECAR)
    if _SIDECAR not in pq.read_schema(path).names:
        return []
    return [one for one in pq.read_table(path, columns=[_SIDECAR]).column(_SIDECAR).to_pylist() if one is not None]


def _is_known(table: LocalFolder, version: int) -> bool:
    """Return whether the log says what a table had at a version, without what came later."""
    return not _missing(table, version)


def _missing(table: LocalFolder, version: int) -> set[int]:
    """Return the versions that the log lacks from its newest whole checkpoint to a version."""
    names = table.names(LOG)
    found = {match[1] for name in names if (match := CHECKPOINT.fullmatch(name)) and int(match[1]) <= version}
    whole = (int(one) for one in found if not any(_damage(table, name) for name in _names(table, one)))
    commits = {int(name[:20]) for name in names if COMMIT.fullmatch(name)}
    return set(range(max(whole, default=0), version + 1)) - commits
