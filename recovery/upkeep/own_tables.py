"""Step 1 of the upkeep: which tables of a checkpoint may be maintained? Only its own, as the checkpoint names them."""

from __future__ import annotations

from collections.abc import Collection

from panekeeper.recovery.errors import SavepointRefused
from panekeeper.recovery.jobs.checkpoint import require_current_record
from panekeeper.recovery.storage.files import Files
from panekeeper.recovery.storage.locations import place_of
from panekeeper.state.checkpoint.job_record import JobRecord, read_tables


def require_upkeep_allowed(checkpoint: Files) -> JobRecord:
    """Return the record of the checkpoint's job.

    Raises:
        SavepointRefused: a restore or reset of it is not complete.
        SavepointError: there is no checkpoint of Panekeeper.
        StateError: the job record is damaged or of another version.
    """
    return require_current_record(checkpoint)


def wanted_tables(checkpoint: Files, wanted: Collection[str]) -> dict[str, str]:
    """Return role -> path of the tables to be maintained.

    Args:
        checkpoint: which names the tables of its job.
        wanted: roles or paths of some of them; none: all.

    Raises:
        SavepointRefused: the checkpoint names no tables, or not this one.
        StateError: the file that names them is damaged.
    """
    own = read_tables(checkpoint)
    if not own:
        raise SavepointRefused(f"the checkpoint {checkpoint.root} names no Delta tables; start the job once")
    if not wanted:
        return own
    by_name = {role: role for role in own} | {place_of(path): role for role, path in own.items()}
    roles = {one: by_name.get(one) or by_name.get(place_of(one)) for one in wanted}
    for one, role in roles.items():
        if role is None:
            raise SavepointRefused(
                f"{one} is no table of the checkpoint {checkpoint.root}, and no other is touched; its tables are "
                f"{', '.join(f'{role} ({path})' for role, path in own.items())}"
            )
    return {role: path for role, path in own.items() if role in roles.values()}
