"""The tables of a job that are gone, as an unmounted volume or a removed folder leaves it: what to do about them.

A start makes none of them again: it would lack all rows until then. A restore lets it, and so does a reset. Says the
same to who starts the job, who asks for its status, who reads a table of it, and who saves it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from panekeeper.framework.engine.sink.delta_log import LOG
from panekeeper.state.checkpoint.epochs import Begin, read_begin
from panekeeper.state.checkpoint.folder import CheckpointFolder, place_of
from panekeeper.state.checkpoint.job_record import JobRecord, read_last_savepoint, read_record, read_tables
from panekeeper.state.errors import StateError
from panekeeper.state.table_roles import kind_of, role_of, window_of

_OF_A_TABLE = re.compile(r"\d{20}\.(json|checkpoint\..*)")
"""A file in the log of a table that was made: a log without one is left by a start that was killed."""


def is_gone(table: CheckpointFolder) -> bool:
    """Return whether the folder of a table has no Delta log. Raises what the folder does if it cannot be asked."""
    return not any(_OF_A_TABLE.fullmatch(name) for name in table.names(LOG))


def lost_tables(record: Callable[[], JobRecord], gone: Collection[str]) -> dict[str, str]:
    """Return role -> why, of the tables that are gone and that the start after a restore cannot make again.

    A view is made from its log, if that tells what it had by the `record` of the job, which is read only then. The
    metrics and the downtime say how the job went, and nothing is computed from them. Results are in the log alone, and
    refused rows in the quarantine: there `why` is empty.
    """
    lost = dict[str, str]()
    for role in gone:
        if _begins_empty(role, gone):
            lost[role] = "is gone, too" if kind_of(role) == "view" else ""
        elif kind_of(role) == "view" and (why := record().why_unlike_view(window_of(role))) is not None:
            lost[role] = why
    return lost


def _begins_empty(role: str, gone: Collection[str]) -> bool:
    """Return whether nothing can make a table again: one with results or refused rows, a view without its log."""
    if kind_of(role) == "view":
        return role_of("log", window_of(role)) in gone
    return kind_of(role) in ("log", "quarantine")


def what_to_do(gone: Mapping[str, str], checkpoint: CheckpointFolder) -> str:
    """Return which tables are gone and what to do, in two sentences.

    `gone` is role -> path, of one table or more that the epoch of `checkpoint` has written to.
    """
    begin = read_begin(checkpoint)
    if (
        begin is not None
        and not begin.is_done
        and (needed := {role: gone[role] for role in gone if role in begin.tables})
    ):
        return what_to_do_first(needed, begin, checkpoint)
    anew = [role for role in gone if _begins_empty(role, gone)]
    again = [role for role in gone if role not in anew]
    options = [word for role in anew for word in ("--begin-anew", role)]
    is_one = len(gone) == 1
    # One that the last start did not declare is in no savepoint since.
    named = {(role, place_of(path)) for role, path in read_tables(checkpoint).items()}
    is_named = all((role, place_of(path)) in named for role, path in gone.items())
    way = " ".join(
        ["restore a savepoint", *([] if is_named else ["that has", "it" if is_one else "them"])]
        + (["with", *options] if options else [])
    )
    does = [f"lets {'it' if is_one else ' and '.join(f'the {role}' for role in anew)} begin empty"] if anew else []
    if again:
        unless = " or says why it cannot" if any(kind_of(role) == "view" for role in again) else ""
        does.append(f"makes {'it' if is_one else ' and '.join(f'the {role}' for role in again)} again{unless}")
    command, now = "", ""
    if is_named and (savepoint := read_last_savepoint(checkpoint)) is not None:
        words = ["panekeeper", "restore", savepoint.location, savepoint.name, "--checkpoint", checkpoint.root, *options]
        command = f" (`{shlex.join(words)}`)"
    if is_named and can_be_saved_without(gone, checkpoint):
        now = f", also one that is made now (`panekeeper savepoint {shlex.quote(checkpoint.root)} NAME --to LOCATION`)"
    it, its = ("it", "its") if is_one else ("them", "their")
    return (
        f"{_are(gone)} gone, and this checkpoint has written to {it}: made again, {'it' if is_one else 'they'} would "
        "lack all rows until now. "
        f"Mount {its} volume or put {it} back; or, if {'it is' if is_one else 'they are'} lost, {way}, which "
        f"{' and '.join(does)}{command}{now}; or declare {it} in another folder, where {'it' if is_one else 'they'} "
        f"{'begins' if is_one else 'begin'} empty; or give the job a new checkpoint folder and new tables"
    )


def what_to_do_first(gone: Mapping[str, str], begin: Begin, checkpoint: CheckpointFolder) -> str:
    """Return the same for tables without which what has begun the epoch of `checkpoint` cannot be completed."""
    is_one = len(gone) == 1
    it, its, they_are = ("it", "its", "it is") if is_one else ("them", "their", "they are")
    again = {
        "reset": f"reset the job again, which lets {it} begin empty",
        "clone": "remove the folder of the clone and clone again",
    }
    words = ["panekeeper", "restore", begin.location, begin.savepoint, "--checkpoint", checkpoint.root]
    restore = f"restore the savepoint again, which says how it does without {it} (`{shlex.join(words)}`)"
    return (
        f"the {begin.kind} of the job of {checkpoint.root} is not complete, and {_are(gone)} gone, which it changes. "
        f"Mount {its} volume or put {it} back, and start the job; or, if {they_are} lost, "
        f"{again.get(begin.kind, restore)}"
    )


def can_be_saved_without(gone: Collection[str], checkpoint: CheckpointFolder) -> bool:
    """Return whether a savepoint that is made now needs none of these tables: a restore of it makes all of them."""
    with suppress(StateError):
        record, begin = read_record(checkpoint), read_begin(checkpoint)
        if record is not None and (begin is None or not begin.remade):  # else one that a start is to make already
            return not lost_tables(lambda: record, gone)
    return False


def _are(gone: Mapping[str, str]) -> str:
    is_one = len(gone) == 1
    return f"the {'table' if is_one else 'tables'} {', '.join(gone.values())} {'is' if is_one else 'are'}"
