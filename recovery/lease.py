"""Does a process run this job right now? The one place that reads the lease file of a checkpoint."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

from recovery.checkpoint_folder import RUNNING_FILE
from recovery.errors import SavepointRefused


def require_stopped(folder: Path) -> None:
    """Raise `SavepointRefused` while a process of this machine runs the job of this checkpoint."""
    holder = running_process(folder)
    if holder is not None:
        raise SavepointRefused(f"the job of {folder} is running (process {holder}); stop it first")


def running_process(folder: Path) -> int | None:
    """Return the id of the live process of this machine that runs the job, or None."""
    try:
        lease = json.loads((folder / RUNNING_FILE).read_bytes())
        host, process = lease["host"], int(lease["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return None  # no lease, or one that was cut short by a crash
    if host != socket.gethostname():
        return None  # whether it lives cannot be seen from here
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass  # it lives, and is another user's
    return process
