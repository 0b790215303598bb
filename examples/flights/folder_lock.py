"""One demo at a time in one folder, even right after a `kill -9`.

A killed Python process leaves its Java machine alive for a moment, and that one may still be committing a batch. Two
machines on one checkpoint would quarrel, so a new run waits until the old one is gone.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PATIENCE_S = 90.0


class Refused(Exception):
    """The demo cannot run in this folder; the message says what to do."""


@contextmanager
def claimed(out: Path, settings: dict[str, object]) -> Iterator[None]:
    """Hold the folder for this process.

    Raises:
        Refused: another demo is running in it, or it holds a run with other settings.
    """
    out.mkdir(parents=True, exist_ok=True)
    with (out / "lock").open("w") as lock:  # the system lets go of it when the process ends, however it ends
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(f"a demo is already running in {out}") from None
        _keep_settings(out, settings)
        yield


def remember_java(out: Path, pid: int) -> None:
    """Note which Java machine works on this folder."""
    (out / "java.pid").write_text(str(pid), encoding="utf-8")


def java_lingers(out: Path) -> bool:
    """Whether the Java machine of an earlier run is still alive."""
    try:
        pid = int((out / "java.pid").read_text(encoding="utf-8"))
        os.kill(pid, 0)
    except (FileNotFoundError, ValueError, ProcessLookupError, PermissionError):
        return False
    command = Path(f"/proc/{pid}/cmdline")  # the number may belong to somebody else by now
    return not command.parent.parent.exists() or (command.exists() and b"java" in command.read_bytes())


def await_java(out: Path) -> None:
    """Wait until the Java machine of a killed run has ended.

    Raises:
        Refused: it lives on.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while java_lingers(out):
        if time.monotonic() > deadline:
            pid = (out / "java.pid").read_text(encoding="utf-8")
            raise Refused(f"the Java machine of the killed run (process {pid}) does not end: kill it and try again")
        time.sleep(0.1)


def _keep_settings(out: Path, settings: dict[str, object]) -> None:
    path = out / "settings.json"
    if not path.exists():
        unfinished = path.with_name(".settings.json")
        unfinished.write_text(json.dumps(settings), encoding="utf-8")
        unfinished.replace(path)
        return
    kept = json.loads(path.read_text(encoding="utf-8"))
    if kept != settings:
        raise Refused(
            f"{out} holds a run with {kept}, not {settings}: `rm -r {out}` to start over, or give another --out"
        )
