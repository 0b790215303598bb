"""Which listeners a job had when a savepoint was made, and which it has now: by the code that its start recorded."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from typing import Any

from recovery.savepoint.manifest import Manifest
from recovery.storage.archive import Archive
from recovery.storage.blobs import download
from state.checkpoint.compatibility import Change, Compatibility
from state.checkpoint.folder import parse_json
from state.checkpoint.layout import CODE_FILE

_LISTENER = re.compile(r"listener \d+ (\w+)(?:\.(.*))?")
_WHY = {
    "added": "it receives the events of the next batch on; nothing is stored for it",
    "removed": "it receives no more events; nothing is stored for it",
    "changed": "the events of the next batch on go to its new code",
    "unchanged": "unchanged",
}


def saved_code(archive: Archive, manifest: Manifest) -> dict[str, Any] | None:
    """Return the code that the last start before a savepoint recorded; None if it recorded none.

    Raises:
        DamagedSavepoint: the file is missing or altered.
    """
    content = io.BytesIO()
    for file in manifest.files:
        if file.path == CODE_FILE:
            download(archive, file, content)
    try:
        found = parse_json(content.getvalue() or b"null")
    except ValueError:  # a damaged one was saved as it was; each start writes it again
        return None
    return found if isinstance(found, dict) else None


def compare_listeners(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    """Return what became of each listener, by its class: `added`, `removed`, `changed` or `unchanged`.

    Args:
        before: the recorded code, by field (`framework/engine/flow/code_fields.py`).
        now: that of the declared job.

    >>> compare_listeners({"listener 0 Old": "code:1"}, {"listener 0 New": "code:2"})
    {'New': 'added', 'Old': 'removed'}
    """
    old, new = _listeners(before), _listeners(now)
    found = dict.fromkeys(new, "unchanged")
    found |= {name: "changed" if name in old else "added" for name in new if new[name] != old.get(name)}
    return found | {name: "removed" for name in old if name not in new}


def listener_changes(listeners: Mapping[str, str]) -> Iterator[Change]:
    """Yield what a change of each listener means."""
    for name, what in listeners.items():
        yield Change(item=f"listener {name}", compatibility=Compatibility.COMPATIBLE, why=_WHY[what])


def _listeners(code: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return class of a listener -> its fields, without its number, which changes with those before it."""
    found: dict[str, dict[str, Any]] = {}
    for field, value in code.items():
        if match := _LISTENER.fullmatch(field):
            found.setdefault(match[1], {})[match[2] or ""] = value
    return found
