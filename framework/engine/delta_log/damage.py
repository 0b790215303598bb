"""What is damaged of a table on a local disk: in its log, or of the files that the log names. Nothing is written.

Neither Spark nor the library makes the operating system write through: a power cut may leave the name of the last
files, and not what was in them, or only a part of that.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from panekeeper.framework.declarations.errors import SinkError
from panekeeper.framework.engine.delta_log.checkpoints import cut_short_checkpoint, go_back_before
from panekeeper.framework.engine.delta_log.commits import (
    COMMIT,
    CUT_SHORT,
    LOG,
    NOTE,
    actions_of,
    info_of,
    newest_files,
    note_of,
    parts,
)
from panekeeper.framework.engine.delta_log.lost_files import cut_short_file, young_commits
from panekeeper.state.checkpoint.folder import LocalFolder, local_path
from panekeeper.state.checkpoint.job_record import TRANSACTION
from panekeeper.state.spark_logs.checksums import Agreement, agreement

if TYPE_CHECKING:
    from pathlib import Path

    from panekeeper.state.spark_logs.offsets import LogFolder

_LINES: Mapping[str, Sequence[str]] = {
    "add": (
        "numTargetFilesAdded",
        "numTargetDeletionVectorsAdded",
        "numAddedFiles",
        "numRestoredFiles",
        "numRestoredFile",
    ),
    "remove": ("numTargetFilesRemoved", "numTargetDeletionVectorsAdded", "numRemovedFiles", "numRemovedFile"),
}
"""Action -> metrics of a commit by Spark, or of a RESTORE by the library, which say how many lines it has at least."""
_NOTE = re.compile(rf"({TRANSACTION.pattern}):\d+")
_CHECKSUM = re.compile(r"\.?(\d{20})\.(?:json\.)?crc")


def damaged_log(path: str) -> SinkError | None:
    """Return the error of a table whose log, or newest files, were cut short; None if not. `path` is its folder."""
    local = local_path(path)
    table = None if local is None else LocalFolder(local)
    checks = (cut_short_checkpoint, cut_short_commit, _cut_short_beginning, cut_short_file, _other_checksum)
    damage = None if table is None else next(filter(None, (check(table) for check in checks)), None)
    return None if damage is None else _refused(damage)


def damaged_batch(path: str, transaction: str, number: int) -> SinkError | None:
    """Return the error of a table that lacks a file of rows of a batch, or of what came after it; None: it lacks none.

    Args:
        path: its folder.
        transaction: the id under which the batch was committed.
        number: of the batch.
    """
    local = local_path(path)
    damage = None if local is None else cut_short_file(LocalFolder(local), (transaction, number))
    return None if damage is None else _refused(damage)


def _refused(damage: str) -> SinkError:
    return SinkError(
        f"{damage}, and start the job again, and all others that write to the table: each writes its last batch again, "
        "or says what is missing"
    )


def cut_short_commit(table: LogFolder) -> str | None:
    """Return what to do about a commit of a table that was cut short, or is gone, as a sentence without its end.

    None: there is none such.

    Delta then reads no version of the table, or takes an empty one for a commit of nothing. No object store does this.

    Args:
        table: its folder.
    """
    missing = "is missing, and later ones are there, or a checkpoint of the log that needs it, or a checksum of it"
    found = ((first_cut_short(table), CUT_SHORT), (_missing_commit(table), missing))
    # Back to before the first of them: what the one after it had before cannot be known.
    first = min(((commit, what) for commit, what in found if commit is not None), default=None)
    return None if first is None else _lost(table, *first)


def _lost(table: LogFolder, commit: str, what: str) -> str:
    return (
        f"{LOG}/{commit} in {table.root} {what}, and what was in it is lost: {go_back_before(table, int(commit[:20]))}"
    )


def _cut_short_beginning(table: LocalFolder) -> str | None:
    """Return what to do about the very first commit if it says no more what the table is; Delta reads none then."""
    first = f"{0:020d}.json"
    if not table.exists(f"{LOG}/{first}") or newest_files(table)[0]:  # a long log is not listed for this
        return None
    actions = actions_of(table.read(f"{LOG}/{first}")) or []
    is_whole = parts(actions, "protocol") and parts(actions, "metaData")
    return None if is_whole else _lost(table, first, CUT_SHORT)


def _other_checksum(table: LocalFolder) -> str | None:
    """Return what to do about a checksum of Hadoop that does not agree with its commit, which is whole: Spark fails."""
    for name in (f"{one}.json" for one in newest_files(table)[1]):
        if _agreement(table, name) != "agrees":
            return (
                f"{LOG}/{name} in {table.root} is whole, and its checksum {LOG}/.{name}.crc does not agree with it, as "
                "after a power cut: remove the checksum"
            )
    return None


def _agreement(table: LogFolder, name: str) -> Agreement:
    """Return whether a commit is what Spark has written, by its checksum; the end of its last line does not count."""
    try:
        content, checksum = table.read(f"{LOG}/{name}"), table.read(f"{LOG}/.{name}.crc")
    except FileNotFoundError:
        return "agrees"
    found = agreement(content, checksum)
    return "checksum is cut short" if found != "agrees" and agreement(content + b"\n", checksum) == "agrees" else found


def first_cut_short(table: LogFolder, version: int | None = None) -> str | None:
    """Return the name of the first commit that is read for a version of a table and was cut short; None: none was.

    Args:
        table: its folder.
        version: of the table; its newest one, if not given.
    """
    if (local := local_path(table.root)) is None:
        return None
    # Spark writes a checkpoint right after its commit. What took a commit before it, by whomever, may have taken the
    # files that both name; so commits of the last minutes are looked at that nobody reads.
    last = "9" * 20 if version is None else f"{version:020d}"
    young = (one for one in young_commits(LocalFolder(local)) if one <= last)
    empty: dict[str, str] = {}
    for name in (f"{one}.json" for one in sorted({*newest_files(table, version)[1], *young})):
        actions = actions_of(table.read(f"{LOG}/{name}"))
        is_other = _agreement(table, name) in ("file is cut short", "differs")
        if not actions or is_other or not _is_whole(actions):
            return name
        if info_of(actions).get("operation") == "RESTORE":
            empty.clear()  # it has taken the table back behind them
        for done in parts(actions, "txn"):
            transaction, number = str(done.get("appId")), done.get("version", -1)
            empty = {key: one for key, one in empty.items() if key != note_of(transaction, number)}
            for key, lost in empty.items():
                if key.rpartition(":")[0] == transaction and number > int(key.rpartition(":")[2]):
                    return lost  # the job went on: nobody writes that batch again
        if (note := _note_of_nothing(actions)) is not None:
            empty[note] = name
    return None if version is None else next(iter(empty.values()), None)


def _missing_commit(table: LogFolder) -> str | None:
    """Return the name of the first commit that a table lacks; None: it lacks none."""
    if (local := local_path(table.root)) is None:
        return None
    gap = _gap(LocalFolder(local))
    if gap is None or _gap(LocalFolder(local)) != gap:  # it was made just now
        return None
    return f"{gap:020d}.json"


def _gap(table: LocalFolder) -> int | None:
    checksum, (checkpoint, read), young = _newest_checksum(table.path), newest_files(table), young_commits(table)
    numbers = sorted({*map(int, (*read, *young))})
    if checkpoint and int(checkpoint) not in numbers:
        return int(checkpoint)  # Delta reads no version without its commit, and keeps that of the newest checkpoint
    if young and numbers[0] == int(young[-1]):  # old commits are removed from the first one on
        there = (int(name[:20]) for name in table.names(LOG) if COMMIT.fullmatch(name))
        numbers[:0] = [max((one for one in there if one < numbers[0]), default=numbers[0] - 1)]
    if numbers and checksum > numbers[-1]:
        numbers.append(checksum + 1)  # the next commit would not fit it
    return next((one + 1 for one, after in pairwise(numbers) if after != one + 1), None)


def _newest_checksum(table: Path) -> int:
    """Return of which commit the newest checksum of Delta or Hadoop is, which come after it; -1 for none."""
    try:
        names = os.listdir(table / LOG)  # noqa: PTH208 -- names are all that is wanted
    except (FileNotFoundError, NotADirectoryError):
        return -1
    return max((int(match[1]) for name in names if (match := _CHECKSUM.fullmatch(name))), default=-1)


def _is_whole(actions: list[dict[str, Any]]) -> bool:
    """Return whether a commit that was not cut within a line has all its lines. One of a job says what it has."""
    info = info_of(actions)
    if info.get("operation") in ("OPTIMIZE", "RESTORE"):  # an OPTIMIZE that comes of a merge has the note of that, too
        return _has_all_files(info, actions)
    note = _NOTE.fullmatch(str(info.get(NOTE)))
    if note is None or _note_of_nothing(actions) is not None:
        return True
    return note[1] in {one.get("appId") for one in parts(actions, "txn")} and _has_all_files(info, actions)


def _note_of_nothing(actions: list[dict[str, Any]]) -> str | None:
    """Return the note of a commit of a job that has lost all else: the batch must be in a later one."""
    info = info_of(actions)
    has_anything = any(parts(actions, kind) for kind in ("txn", "add", "remove"))
    note = None if has_anything else _NOTE.fullmatch(str(info.get(NOTE)))
    return None if note is None else note[0]


def _has_all_files(info: Mapping[str, Any], actions: list[dict[str, Any]]) -> bool:
    """Return whether a commit has as many files as it says, if it does. The library writes the transaction last."""
    metrics = info.get("operationMetrics") or {}
    if "numFiles" in metrics:
        return _has_all_rows(metrics, parts(actions, "add"))
    wanted = {kind: sum(int(metrics.get(name, 0)) for name in names) for kind, names in _LINES.items()}
    return all(len(parts(actions, kind)) >= lines for kind, lines in wanted.items())


def _has_all_rows(metrics: Mapping[str, Any], added: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the files of an append have as many rows as it says.

    It counts its files, too; but with one that its first task writes in any case, and that is not added if its
    statistics say that it has no rows.
    """
    statistics = [json.loads(one.get("stats") or "{}") for one in added]
    if not all("numRecords" in one for one in statistics):  # a session may collect none
        return len(added) >= int(metrics["numFiles"])
    rows: int = sum(one["numRecords"] for one in statistics)
    return rows >= int(metrics.get("numOutputRows", 0))
