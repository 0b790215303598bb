"""The epochs of a checkpoint: a folder for each, and one small file that says which of them is current.

    job.json        the pointer: which job this is, and which epoch is current
    epochs/0003/    all of that epoch: Spark's own checkpoint and what `folder.py` names

An epoch begins with the first start, and with each restore or reset. All that begins one is prepared in a folder of its
own; then the pointer is switched, which is one step: before it nothing has changed, after it `begin.json` in the new
folder says what is still to be done with the tables (`framework/engine/job/roll_forward.py`). The pointer is the only
file of a checkpoint that is ever replaced with a condition: a process that was paused cannot switch it back.

Numbers of epochs are never used twice: they are in the transaction ids of the tables.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Literal, TypeVar

from panekeeper.state.checkpoint.folder import JOB_FILE, CheckpointFolder, read_object
from panekeeper.state.errors import CheckpointError, CorruptState

POINTER_FILE = "job.json"
EPOCHS_FOLDER = "epochs"
BEGIN_FILE = "begin.json"

STEPS = ("fenced", "taken back", "owned")
"""What is done with the tables when an epoch has begun, in this order."""

_DIGITS = 4
_RESTORE = "restore a savepoint to this folder, or start with a new checkpoint folder"


Root = TypeVar("Root", bound=CheckpointFolder)


@dataclass(frozen=True, kw_only=True)
class Pointer:
    """The content of `job.json`: the job's name, the id that all epochs share, and the current epoch."""

    name: str
    id: str
    epoch: int

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        return json.dumps(asdict(self)).encode()


@dataclass(frozen=True, kw_only=True)
class Begin:
    """How an epoch began, and what of it is done: `begin.json` in its folder. The first epoch has none.

    Attributes:
        kind: what has begun it.
        savepoint: name of the savepoint that it was made from; empty for a reset.
        location: where that is.
        made_at: when that was made.
        tables: role -> path of the tables that belong to the epoch.
        versions: role -> version to which a table is taken back; one that is not named stays as it is.
        emptied: paths of the views that are emptied.
        remade: role -> path of the tables that are gone and do not go back; empty again when a start has made them.
        batch: the last batch that the tables have from the epoch before, which is never run again; None: there is none.
        done: the `STEPS` that are done.
    """

    kind: Literal["restore", "reset", "clone"]
    savepoint: str = ""
    location: str = ""
    made_at: str = ""
    tables: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)
    emptied: Sequence[str] = ()
    remade: Mapping[str, str] = field(default_factory=dict)
    batch: int | None = None
    done: tuple[str, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether the tables fit the checkpoint."""
        return set(STEPS) <= set(self.done)

    def after(self, step: str) -> Begin:
        """Return it with one more step done."""
        return replace(self, done=(*self.done, step))


def read_pointer(root: CheckpointFolder) -> Pointer | None:
    """Return which epoch of a checkpoint is current; None if there is none: the folder is new, or no checkpoint.

    Raises:
        CheckpointError: it is a checkpoint of an older layout, or of a query of the user's own.
        CorruptState: the file is damaged, or points to an epoch that is gone.
    """
    pointer = stored_pointer(root)
    if pointer is None:
        if root.exists(JOB_FILE):
            raise CheckpointError(
                f"{root.root} is the checkpoint of a query of its own (transform()), or has an older layout: it has "
                f"{JOB_FILE} and no {POINTER_FILE}. Give the job a new checkpoint folder"
            )
        return None
    if not root.exists(epoch_name(pointer.epoch)):
        raise CorruptState(
            f"{POINTER_FILE} in {root.root} points to epoch {pointer.epoch}, and {epoch_name(pointer.epoch)} is gone. "
            f"Put that folder back; or {_RESTORE}"
        )
    return pointer


def stored_pointer(root: CheckpointFolder) -> Pointer | None:
    """Return what the pointer says, be its epoch there or not; None if there is none. Raises `CorruptState`."""
    try:
        stored = root.read_json(POINTER_FILE)
        if stored is None:
            return None
        return Pointer(name=str(stored["name"]), id=str(stored["id"]), epoch=int(stored["epoch"]))
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptState(f"{POINTER_FILE} in {root.root} is damaged; {_RESTORE}") from error


def require_no_later_epoch(root: CheckpointFolder) -> None:
    """Refuse a checkpoint that has lost its pointer, or never got it (A6, A11): a start would begin at epoch 0."""
    newest = max(epoch_numbers(root), default=0)
    if not newest:
        return
    begin = read_begin(root.part(epoch_name(newest)))
    if begin is not None and begin.kind == "clone":
        raise CorruptState(f"{root.root} holds a clone that is not complete; remove its folder and clone again")
    raise CorruptState(
        f"{root.root} has epochs up to {newest} and no {POINTER_FILE}, which says which one is current. Put "
        f"{POINTER_FILE} back; or restore a savepoint: panekeeper restore"
    )


def epoch_folder(root: Root, epoch: int) -> Root:
    """Return the folder of an epoch, which need not be there."""
    return root.part(epoch_name(epoch))


def current_epoch(root: Root) -> Root | None:
    """Return the folder of the current epoch; None if there is none. Raises as `read_pointer`."""
    pointer = read_pointer(root)
    return None if pointer is None else epoch_folder(root, pointer.epoch)


def epoch_name(epoch: int) -> str:
    """Return the name of the folder of an epoch in its checkpoint.

    >>> epoch_name(3)
    'epochs/0003'
    """
    return f"{EPOCHS_FOLDER}/{epoch:0{_DIGITS}d}"


def epoch_numbers(root: CheckpointFolder) -> list[int]:
    """Return the epochs that have a folder, in ascending order, also those that never became current."""
    return sorted(int(name) for name in root.names(EPOCHS_FOLDER) if name.isdecimal())


def next_epoch(root: CheckpointFolder, known: Iterable[int] = ()) -> int:
    """Return the number of a new epoch: greater than those of all folders, and than those that tables know."""
    return 1 + max([*epoch_numbers(root), *known], default=-1)


def make_epoch(root: Root, epoch: int, begin: Begin) -> Root:
    """Make the folder of a new epoch, which is not current yet, and return it. Raises if another process made it."""
    folder = epoch_folder(root, epoch)
    try:
        folder.write_json(BEGIN_FILE, asdict(begin))
    except FileExistsError as error:
        raise CheckpointError(
            f"another process is making epoch {epoch} of {root.root} at the same time. Nothing was changed; run the "
            "same command again when it has ended"
        ) from error
    return folder


def create_pointer(root: CheckpointFolder, pointer: Pointer) -> None:
    """Let a first epoch be current. Raises `CheckpointError` if another process was faster."""
    try:
        root.write_json(POINTER_FILE, asdict(pointer))
    except FileExistsError as error:
        if read_pointer(root) != pointer:  # else a store has repeated a request whose response was lost
            raise CheckpointError(f"another process has made a checkpoint in {root.root} just now") from error


def switch(root: CheckpointFolder, old: bytes | None, pointer: Pointer) -> None:
    """Let another epoch be current: the one step of a restore or reset before which nothing has changed.

    `old` is the content of `job.json` when the caller read it; None if there was none. Raises `CheckpointError` if
    another process has switched it meanwhile.
    """
    if old is None:
        create_pointer(root, pointer)
        return
    try:
        root.swap(POINTER_FILE, old, pointer.to_bytes())
    except FileExistsError as error:
        raise CheckpointError(
            f"another process has restored or reset {root.root} meanwhile. Nothing was changed; look at it with "
            f"`panekeeper status {shlex.quote(root.root)}`, and run the same command again if it is still needed"
        ) from error


def read_begin(folder: CheckpointFolder) -> Begin | None:
    """Return how the epoch of a folder began; None for the first one of a checkpoint. Raises `CorruptState`."""
    value = read_object(folder, BEGIN_FILE)
    try:
        return (
            None if value is None else Begin(**{**value, **{name: tuple(value[name]) for name in ("emptied", "done")}})
        )
    except (TypeError, KeyError) as error:
        raise CorruptState(f"{BEGIN_FILE} in {folder.place} is damaged; {_RESTORE}") from error


def write_begin(folder: CheckpointFolder, begin: Begin) -> None:
    """Note what is done."""
    folder.write_json(BEGIN_FILE, asdict(begin), replace=True)


def is_begun(folder: CheckpointFolder) -> bool:
    """Return whether the tables fit the epoch of a folder: nothing of what began it is left to do."""
    begin = read_begin(folder)
    return begin is None or begin.is_done
