"""What was found about one damaged file of a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Action = Literal["set aside", "replace", "none"]
"""`set aside`: the file is moved beside the checkpoint. `replace`: that, and a new one is written."""

SAVEPOINT_ADVICE = "restore the job from a savepoint: panekeeper restore LOCATION NAME --checkpoint {root}"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One damaged file.

    Attributes:
        file: its name in the checkpoint.
        action: what a repair does with it; "none" unless that is safe.
        why: why that is safe; or why nothing is, and what to do instead.
    """

    file: str
    action: Action
    why: str


def unrepairable(root: str, file: str, why: str) -> Finding:
    """Return the finding of a file for which a savepoint is needed.

    Args:
        root: full name of the checkpoint.
        file: its name in there.
        why: why no repair is safe.
    """
    return Finding(file=file, action="none", why=f"{why}; {SAVEPOINT_ADVICE.format(root=root)}")
