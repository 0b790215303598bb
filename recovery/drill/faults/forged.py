"""How somebody adds files to a savepoint that would be written outside of its folder."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from panekeeper.recovery.drill.faults.damage import FaultNotConfirmed

PLANTED = "planted"
"""The name of the file that is added."""
PATHS = (f"../{PLANTED}", f"state/../../{PLANTED}", f"/{PLANTED}")
REFUSAL = "content that Panekeeper never writes"

_DATA = b"{}"


def forge(location: Path, name: str, path: str) -> None:
    """Add a file to a savepoint, with right checksums.

    Args:
        location: of the savepoint, a folder.
        name: of the savepoint.
        path: where a restore would write the file, in the checkpoint.

    Raises:
        FaultNotConfirmed: there is no such savepoint.
    """
    manifest = location / "savepoints" / f"{name}.json"
    if not manifest.exists():
        raise FaultNotConfirmed(f"{manifest} is not there, so no savepoint was forged")
    whole = json.loads(manifest.read_text())
    checksum = hashlib.sha256(_DATA).hexdigest()
    whole["content"]["files"].append({"path": path, "size": len(_DATA), "sha256": checksum})
    whole["sha256"] = hashlib.sha256(json.dumps(whole["content"], sort_keys=True).encode()).hexdigest()
    manifest.write_text(json.dumps(whole))
    (location / "blobs" / checksum).write_bytes(_DATA)


def contents(folder: Path) -> dict[str, str]:
    """Return the checksum of each file under a folder, by its path in it."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
