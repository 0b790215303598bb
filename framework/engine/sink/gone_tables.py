"""The tables of a job that are gone, as an unmounted volume or a removed folder leaves it: what to do about them.

A start makes none of them again: it would lack all results until then. Says the same to who starts the job, who asks
for its status, and who reads a table of it.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from panekeeper.framework.engine.sink.delta_log import LOG
from panekeeper.state.checkpoint.folder import CheckpointFolder
from panekeeper.state.checkpoint.job_record import LastSavepoint
from panekeeper.state.table_roles import kind_of, role_of, window_of


def is_gone(table: CheckpointFolder) -> bool:
    """Return whether the folder of a table has no Delta log. Raises what the folder does if it cannot be asked."""
    return not table.exists(LOG)


def what_to_do(gone: Mapping[str, str], checkpoint: str, savepoint: LastSavepoint | None) -> str:
    """Return which tables are gone and what to do, in two sentences.

    `gone` is role -> path, of one table or more; `savepoint` the newest one of the checkpoint, of which a command is
    made; None if that is not known.
    """
    anew = [role for role in gone if _begins_empty(role, gone)]
    again = [role for role in gone if role not in anew]
    options = [word for role in anew for word in ("--begin-anew", role)]
    is_one = len(gone) == 1
    way = " ".join(["restore a savepoint", *(["with", *options] if options else [])])
    does = [f"lets {'it' if is_one else ' and '.join(f'the {role}' for role in anew)} begin empty"] if anew else []
    if again:
        unless = " or says why it cannot" if any(kind_of(role) == "view" for role in again) else ""
        does.append(f"makes {'it' if is_one else ' and '.join(f'the {role}' for role in again)} again{unless}")
    command = ""
    if savepoint is not None:
        words = ["panekeeper", "restore", savepoint.location, savepoint.name, "--checkpoint", checkpoint, *options]
        command = f" (`{shlex.join(words)}`)"
    it, its = ("it", "its") if is_one else ("them", "their")
    return (
        f"the {'table' if is_one else 'tables'} {', '.join(gone.values())} {'is' if is_one else 'are'} gone, and this "
        f"checkpoint has written to {it}: made again, {'it' if is_one else 'they'} would lack all results until now. "
        f"Mount {its} volume or put {it} back; or, if {'it is' if is_one else 'they are'} lost, {way}, which "
        f"{' and '.join(does)}{command}; or declare {it} in another folder, where {it if is_one else 'they'} "
        f"{'begins' if is_one else 'begin'} empty; or give the job a new checkpoint folder"
    )


def _begins_empty(role: str, gone: Mapping[str, str]) -> bool:
    """Return whether a restore cannot make a table again: one with results or refused rows, a view without its log."""
    if kind_of(role) == "view":
        return role_of("log", window_of(role)) in gone
    return kind_of(role) in ("log", "quarantine")
