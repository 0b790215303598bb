"""The commits in Delta's log of a table, as files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from panekeeper.state.checkpoint.folder import parse_json

LOG = "_delta_log"
CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.(?:.*\.)?(?:parquet|json)")


def actions_of(content: bytes) -> list[dict[str, Any]]:
    """Return the actions of a commit. Raises `ValueError` if it is none."""
    actions = [parse_json(line) for line in content.splitlines() if line]
    if not all(isinstance(action, dict) for action in actions):
        raise ValueError("a line is no JSON object")
    return actions


def parts(actions: Iterable[Mapping[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Return what the actions of a kind say."""
    return [one[kind] for one in actions if isinstance(one.get(kind), dict)]
