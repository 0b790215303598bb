"""Which files of Spark in a checkpoint are damaged, and which of them does a start not need?

A repair leads to a state that an ordinary crash leaves, too: a batch that was begun and not committed is run again.
Everything else is not safe. In particular, a batch must never get other rows under a number that a table may have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import PurePosixPath

from panekeeper.framework.engine.delta_log.damage import damaged_log
from panekeeper.recovery.errors import SavepointError
from panekeeper.recovery.jobs.batch_versions import versions_after_batch
from panekeeper.recovery.repair.finding import Finding, unrepairable
from panekeeper.recovery.repair.strays import MAY_HAVE_ROWS, stray_findings, stray_offsets
from panekeeper.recovery.storage.delta_log import newest_version
from panekeeper.recovery.storage.files import Files
from panekeeper.recovery.storage.locations import files_at
from panekeeper.recovery.storage.s3_options import S3Options
from panekeeper.state.checkpoint.folder import batch_numbers, read_object
from panekeeper.state.checkpoint.job_record import is_flushed, read_record, read_tables
from panekeeper.state.checkpoint.layout import (
    CONTROL_FOLDER,
    METADATA_FILE,
    PREPARED_FOLDER,
    control_file,
    control_file_number,
    prepared_batch,
)
from panekeeper.state.control_log import control_files_up_to, lost_control_files
from panekeeper.state.errors import CorruptState, StateError
from panekeeper.state.prepared import last_prepared
from panekeeper.state.spark_logs.offsets import require_later_offsets, require_readable_commit, require_readable_offsets
from panekeeper.state.spark_logs.source_logs import damaged_entries, is_unread, lost_entries
from panekeeper.state.spark_logs.startup import damaged_descriptions, require_readable_id

_NO_BATCH = -1
_NEW_ID = "it has only the id by which Spark names the query; a new one is written, as for a clone"
_RUN_AGAIN = (
    "the offsets of this batch are intact, so the next start completes it as it is recorded, as after a crash just "
    "before the commit; tables have the rows of each batch once"
)
_PLAN_AGAIN = (
    "the batch was neither committed nor recorded, and no table has a row of it, so the next start plans it again; "
    "what tasks of it have stored is replaced"
)
_DESCRIBED_AGAIN = "the batch that has begun with it is not recorded and is run again, by which Spark writes it anew"
_COMMIT_RECORDED = "the batch is recorded with what Spark has logged for it, and the next one was begun after it"
NO_SINK = (
    "the batch was not committed. If the job has no sink of its own (with_sink, transform), whose rows of this batch "
    "are not known here, repair with --no-sink"
)


def log_findings(folder: Files, *, no_sink: bool, s3: S3Options | None) -> Iterator[Finding]:
    """Yield what is damaged among the files of Spark, as far as a start reads them.

    Args:
        folder: the checkpoint of a stopped job.
        no_sink: the caller says that the job writes to no sink but its tables.
        s3: how S3 is reached.
    """
    if _is_damaged(lambda: require_readable_id(folder)):
        yield Finding(file=METADATA_FILE, action="replace", why=_NEW_ID)
    offsets, commits = batch_numbers(folder, "offsets"), batch_numbers(folder, "commits")
    if not offsets:
        yield from _source_findings(folder, _NO_BATCH)
        return
    last = commits[-1] if commits else _NO_BATCH
    strays = stray_offsets(offsets, last)
    offsets = offsets[: len(offsets) - len(strays)]
    if not offsets:
        yield from (unrepairable(folder.root, f"offsets/{one}", "no batch before it is there") for one in strays)
        return
    newest = begun = offsets[-1]
    why_not = _why_not_known(folder, newest, s3) if strays else None
    stray = [*stray_findings(folder, strays, newest, why_not=why_not)] if strays else []
    yield from stray
    found = _newest_finding(folder, newest, last, no_sink=no_sink, s3=s3)
    if found is not None:
        yield found
        if found.action == "none":
            return
        offsets, newest = offsets[:-1], newest - 1
    if not offsets:
        yield from _source_findings(folder, _NO_BATCH)
        return
    if commits and _is_damaged(lambda: require_readable_commit(folder, commits[-1])):
        yield _commit_finding(folder, newest, commits[-1])
    if newest and (newest - 1 not in offsets or _is_damaged(lambda: require_readable_offsets(folder, newest - 1))):
        yield unrepairable(folder.root, f"offsets/{newest - 1}", "Spark compares the newest offsets with them")
    yield from _description_findings(folder, begun if begun > last and recorded_commit(folder, begun) is None else None)
    files = {one.file for one in stray}
    yield from (one for one in _source_findings(folder, newest) if one.file not in files)


def _newest_finding(
    folder: Files, batch: int, committed: int, *, no_sink: bool, s3: S3Options | None
) -> Finding | None:
    """Return what can be done about the newest batch, if its offsets or a control file of it cannot be read."""
    if committed > batch:
        why = "it is gone, and where the committed batch ended in the sources is lost"
        return unrepairable(folder.root, f"offsets/{committed}", why)
    is_damaged = _is_damaged(lambda: require_later_offsets(folder, batch))
    is_needed = not is_damaged and batch > committed and recorded_commit(folder, batch) is None
    lost = [*_lost_of_batch(folder, batch, committed)] if is_needed else []  # else a start completes the batch
    if not is_damaged and not lost:
        return None
    found = _offsets_finding(folder, batch, committed, no_sink=no_sink, s3=s3)
    why = f"it was begun with {', '.join(lost)}, which is gone or cut short; {found.why}"
    return replace(found, why=why) if lost else found


def _offsets_finding(folder: Files, batch: int, committed: int, *, no_sink: bool, s3: S3Options | None) -> Finding:
    """Return what can be done about the newest offsets, which cannot be read, or not be used."""
    file = f"offsets/{batch}"
    why_not = next(_why_not_again(folder, batch, committed, s3), None if no_sink else NO_SINK)
    if why_not is not None:
        return unrepairable(folder.root, file, why_not)
    return Finding(file=file, action="set aside", why=_PLAN_AGAIN)


def _why_not_again(folder: Files, batch: int, committed: int, s3: S3Options | None) -> Iterator[str]:
    """Yield why a batch cannot be planned again."""
    if batch <= committed:
        yield "the batch was committed, and where it ended in the sources is lost"
    first = committed == _NO_BATCH
    if batch != committed + 1 or (not first and _is_damaged(lambda: _require_batch(folder, committed))):
        yield "the batch before it is not intact"
    if any(one is not None and one[1] == batch for one in map(prepared_batch, folder.names(PREPARED_FOLDER))):
        yield "the batch is recorded, and a table may have rows of it"
    if (why_not := _why_not_known(folder, committed, s3)) is not None:
        yield why_not


def _why_not_known(folder: Files, batch: int, s3: S3Options | None) -> str | None:
    """Return why it is not certain that no table has anything of a later batch; None: it is."""
    if _tables_end_with(folder, batch, s3):
        return None
    try:
        damage = next(filter(None, map(damaged_log, filter(None, read_tables(folder).values()))), None)
    except StateError:
        damage = None
    return MAY_HAVE_ROWS if damage is None else f"which batches a table has is not known: {damage}. Then repair again"


def _lost_of_batch(folder: Files, batch: int, committed: int) -> Iterator[str]:
    """Yield what a batch was begun with, and no committed one, that is gone or cut short.

    Entries of its sources are gone if the process that has begun it was paused while a start removed what nobody had
    read. A power cut may take from an entry and not from the offsets, which Spark has written a moment later.
    """
    try:
        needed = [] if committed == _NO_BATCH else [*lost_entries(folder, committed)]
        cut = [one for one in damaged_entries(folder) if is_unread(folder, one, committed)]
        lost = [*lost_entries(folder, batch), *(one for one in cut if not is_unread(folder, one, batch))]
        yield from [] if needed else lost
        yield from [] if lost else lost_control_files(folder, batch)
    except (CorruptState, FileNotFoundError):
        return  # another finding names the damaged log, or what is gone


def _require_batch(folder: Files, batch: int) -> None:
    require_readable_offsets(folder, batch)
    if recorded_commit(folder, batch) is None:
        require_readable_commit(folder, batch)


def _tables_end_with(folder: Files, batch: int, s3: S3Options | None) -> bool:
    """Return whether it is certain that no table has anything of a later batch."""
    try:
        record, paths = read_record(folder), read_tables(folder)
        tables = {role: files for role, path in paths.items() if (files := files_at(path, s3)) is not None}
        if record is None or len(tables) < len(paths) or "metrics" not in tables:
            return False
        ids = {role: record.transaction(role) for role in tables}
        after = versions_after_batch(tables, ids, batch)
        return all(after[role] == newest_version(files) for role, files in tables.items())
    except (StateError, SavepointError, OSError, ValueError, KeyError):
        return False


def _commit_finding(folder: Files, newest: int, batch: int) -> Finding:
    """Return what can be done about the newest commit, which cannot be read."""
    file = f"commits/{batch}"
    is_recorded = recorded_commit(folder, batch) is not None
    if newest != batch and is_recorded:
        return Finding(file=file, action="replace", why=_COMMIT_RECORDED)
    if newest != batch:
        return unrepairable(folder.root, file, f"batch {newest} was begun after it, so it is needed")
    if is_flushed(folder) and not is_recorded:
        return unrepairable(folder.root, file, "the job was flushed, so the batch is not run again")
    return Finding(file=file, action="set aside", why=_RUN_AGAIN)


def _description_findings(folder: Files, run_again: int | None) -> Iterator[Finding]:
    """Yield what can be done about damaged files that describe the state: those of a batch that is run again go."""
    damaged = [*damaged_descriptions(folder)]
    of_batch = [file for file in damaged if PurePosixPath(file).name.split("_")[0] == str(run_again)]
    for file in damaged:
        if file not in of_batch:
            yield unrepairable(folder.root, file, "without it Spark does not find the stored values")
    for file in of_batch:
        yield Finding(file=file, action="set aside", why=_DESCRIBED_AGAIN)
        naming = f"{file.partition('/_stateSchema/')[0]}/_metadata/v2/{run_again}"
        if "/_stateSchema/" in file and naming not in damaged and folder.exists(naming):
            yield Finding(file=naming, action="set aside", why=f"it names {file}; {_DESCRIBED_AGAIN}")


def recorded_commit(folder: Files, batch: int) -> str | None:
    """Return what Spark has logged as the commit of a batch, by the record of the batch; None if that is not there."""
    try:
        record = read_record(folder)
    except StateError:
        return None  # another finding names it
    found = None if record is None else last_prepared(folder, record, batch)
    return None if found is None else found.spark_commit


def _source_findings(folder: Files, batch: int) -> Iterator[Finding]:
    damaged = damaged_entries(folder)
    for file in damaged:
        if is_unread(folder, file, batch):
            why = "no batch has read what it names; the source finds these files again"
            yield Finding(file=file, action="set aside", why=why)
        else:
            yield unrepairable(folder.root, file, "which files the source has read is nowhere else")
    lost = [*lost_entries(folder, batch)] if batch != _NO_BATCH else []
    for file in lost:
        yield unrepairable(folder.root, file, "it is gone, and which files the source has read is nowhere else")
    if damaged or lost:
        return  # which control files were read is not known before these are repaired
    read = set() if batch == _NO_BATCH else control_files_up_to(folder, batch)
    for number in filter(None, map(control_file_number, folder.names(CONTROL_FOLDER))):
        file = control_file(number)
        if number not in read and _is_damaged(lambda name=file: read_object(folder, name)):  # type: ignore[misc]
            why = "no batch has read it; if it was a command (drain, savepoint, flush), give it again"
            yield Finding(file=file, action="set aside", why=why)


def _is_damaged(read: Callable[[], object]) -> bool:
    try:
        read()
    except CorruptState:
        return True
    return False
