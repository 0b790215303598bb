"""Step 3 of a restore: the intent file, which says what was begun and which step was done last.

A write-ahead record: it is written before anything is changed, after each step, and removed at the end. While it is
there, no job starts from the checkpoint (`framework/engine/job/startup_checks.py`).
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass

from panekeeper.recovery.savepoint.restore_paths import RestorePaths
from panekeeper.recovery.storage.files import Files
from panekeeper.state.errors import CorruptState

COPY_NAME = re.compile("[0-9a-f]{12}")
"""The name of a copy."""

STEPS = ("copied", "intended", "tables", "aside", "in place", "removed")
"""The names of steps 2 to 7, recorded when they are done."""


@dataclass(frozen=True, kw_only=True)
class RestoreIntent:
    """What a restore needs to be completed after a kill. The fields are stored.

    Attributes:
        location: where the savepoint is.
        name: of the savepoint.
        made_at: when that was made: one that has its name later is another. Empty if an older version began it.
        epoch: the new one.
        replaces: whether a checkpoint was there, which is removed.
        files: how many files the copy has.
        copy: its name, as `RestorePaths.copy`.
        done: the last of `STEPS` that was done.
        superseded: the epochs of interrupted restores that this one took the place of; their files are removed, too.
        tables: paths of the tables that it was permitted to take back.
        spoiled: other files were in the copy when it had become the checkpoint: it is not completed, but begun again.
    """

    location: str
    name: str
    made_at: str = ""
    epoch: int
    replaces: bool
    files: int
    copy: str = ""
    done: str = "copied"
    superseded: tuple[int, ...] = ()
    tables: tuple[str, ...] = ()
    spoiled: bool = False

    @property
    def epochs(self) -> tuple[int, ...]:
        """Its epoch, and those of the restores that it took the place of."""
        return (self.epoch, *self.superseded)

    def has_done(self, step: str) -> bool:
        """Return whether a step of `STEPS` was done."""
        return STEPS.index(self.done) >= STEPS.index(step)


def read_intent(paths: RestorePaths) -> RestoreIntent | None:
    """Return the intent of the restore that was interrupted, None if none was.

    Raises:
        CorruptState: the intent file cannot be read.
    """
    try:
        fields = paths.siblings.read_json(paths.intent_file)
        if fields is None:
            return None
        lists = {name: tuple(fields.get(name, ())) for name in ("superseded", "tables")}
        found = RestoreIntent(**{**fields, **lists})
        _require_valid(found)
    except (AttributeError, TypeError, ValueError) as error:
        file = paths.siblings.child(paths.intent_file).root
        raise CorruptState(f"{file} is damaged ({error}); remove it and run the restore again") from error
    return found


def _require_valid(intent: RestoreIntent) -> None:
    """Raise `ValueError` for a field that no restore writes: folders are named by epochs, and are removed."""
    texts = (intent.location, intent.name, intent.made_at, intent.copy, *intent.tables)
    numbers = (*intent.epochs, intent.files)
    if not all(isinstance(one, str) for one in texts) or not {*map(type, (intent.replaces, intent.spoiled))} == {bool}:
        raise ValueError("a field has a value of another type")
    if not all(type(one) is int and one >= 0 for one in numbers):
        raise ValueError("an epoch or the number of files is no number")
    if intent.copy and COPY_NAME.fullmatch(intent.copy) is None:
        raise ValueError(f"no copy is named {intent.copy[:100]!r}")
    if intent.done not in STEPS:
        raise ValueError(f"no step is named {str(intent.done)[:100]!r}")


def write_intent(paths: RestorePaths, intent: RestoreIntent) -> None:
    """Write the intent, replacing the one before."""
    paths.siblings.put_bytes(paths.intent_file, json.dumps(asdict(intent)).encode())


def moved_aside(paths: RestorePaths) -> list[Files]:
    """Return where an interrupted restore may have moved the checkpoint to, and those whose place it had taken."""
    intent = read_intent(paths)
    return [] if intent is None else [*map(paths.replaced, intent.epochs)]


def remove_intent(paths: RestorePaths) -> None:
    """Remove the intent: the restore is complete, or was not begun after all."""
    paths.siblings.remove(paths.intent_file)
