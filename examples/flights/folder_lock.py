"""One demo at a time in one folder, even right after a `kill -9`.

After a `kill -9` of Python its Java process still runs for a short time and may be committing a batch. Two of them on
one checkpoint would conflict, so a new run waits until the old one has exited.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_TIMEOUT_SECONDS = 90.0


class FolderLocked(Exception):
    """The demo cannot run in this folder; the message says why and what to do."""


@contextmanager
def lock_folder(out: Path, settings: dict[str, object]) -> Iterator[None]:
    """Lock the folder for this process.

    Raises:
        FolderLocked: another demo is running in it, or it holds a run with other settings.
    """
    out.mkdir(parents=True, exist_ok=True)
    with (out / "lock").open("w") as lock:  # the system releases it when the process ends, however it ends
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderLocked(f"a demo is already running in {out}") from None
        _check_settings(out, settings)
        yield


def record_java_pid(out: Path, pid: int) -> None:
    """Record which Java process works on this folder."""
    (out / "java.pid").write_text(str(pid), encoding="utf-8")


def is_java_alive(out: Path) -> bool:
    """Return whether the Java process of an earlier run is still alive."""
    try:
        pid = int((out / "java.pid").read_text(encoding="utf-8"))
        os.kill(pid, 0)
    except (FileNotFoundError, ValueError, ProcessLookupError, PermissionError):
        return False
    command = Path(f"/proc/{pid}/cmdline")  # another process may have this number by now
    return not command.parent.parent.exists() or (command.exists() and b"java" in command.read_bytes())


def wait_for_java(out: Path) -> None:
    """Wait until the Java process of a killed run has exited.

    Raises:
        FolderLocked: it did not exit within 90 seconds.
    """
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while is_java_alive(out):
        if time.monotonic() > deadline:
            pid = (out / "java.pid").read_text(encoding="utf-8")
            raise FolderLocked(f"the Java process of the killed run ({pid}) does not exit: kill it and try again")
        time.sleep(0.1)


def _check_settings(out: Path, settings: dict[str, object]) -> None:
    path = out / "settings.json"
    if not path.exists():
        unfinished = path.with_name(".settings.json")
        unfinished.write_text(json.dumps(settings), encoding="utf-8")
        unfinished.replace(path)
        return
    kept = json.loads(path.read_text(encoding="utf-8"))
    if kept != settings:
        raise FolderLocked(
            f"{out} holds a run with {kept}, not {settings}: `rm -r {out}` to start over, or give another --out"
        )
