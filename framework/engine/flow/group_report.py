"""What a key group tells the driver of a micro-batch, beside its rows: one small JSON object on its way."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from panekeeper.framework.core.panes.open_runs import Runs
from panekeeper.framework.core.quarantine import ErrorKind

if TYPE_CHECKING:
    from panekeeper.framework.core.group_batch import GroupBatch
    from panekeeper.framework.core.steps import BatchOutcome

_SAME = (
    "counts",
    "missed_panes",
    "due_watermark_us",
    "due_us",
    "late_us",
    "open_panes",
    "open_runs",
    "watermark",
    "kept_rows",
    "outage_counts",
    "errors",
)
"""Fields of a `BatchOutcome` that the driver gets as they are."""


@dataclass(frozen=True, kw_only=True)
class GroupReport:
    """What one key group did in a micro-batch.

    What is named as in `BatchOutcome` is that. `counts` may lack what no row went to.

    Attributes:
        group: id of the key group.
        resume_file: number of the control file of the start that the batch processed; None if there was none.
        resumed_us: when that start was, us since the epoch.
        drain_file: number of the newest control file with a drain that the batch processed, or None.
        control_file: number of the newest control file with a time that the batch processed, or None.
        flushed: whether it closed everything.
    """

    group: int
    counts: Mapping[str, int] = field(default_factory=dict)
    missed_panes: int = 0
    due_watermark_us: int | None = None
    due_us: int | None = None
    late_us: int | None = None
    open_panes: int = 0
    open_runs: Mapping[str, Runs] = field(default_factory=dict)
    watermark: int | None = None
    kept_rows: int | None = None
    outage_counts: Mapping[str, int] | None = None
    errors: Sequence[ErrorKind] = ()
    resume_file: int | None = None
    resumed_us: int | None = None
    drain_file: int | None = None
    control_file: int | None = None
    flushed: bool = False

    @classmethod
    def of(cls, batch: GroupBatch, outcome: BatchOutcome) -> GroupReport:
        """Return what is told of a batch."""
        start = max((row for row in batch.control if row.kind == "resume"), key=lambda row: row.pos, default=None)
        return cls(
            group=batch.group,
            **{name: getattr(outcome, name) for name in _SAME},
            resume_file=None if start is None else start.pos,
            resumed_us=None if start is None else start.n,
            drain_file=max((row.pos for row in batch.control if row.kind == "drain"), default=None),
            control_file=max((row.pos for row in batch.control if row.kind in ("resume", "tick")), default=None),
            flushed=any(row.kind == "flush" for row in batch.control),
        )

    def to_bytes(self) -> bytes:
        """Return it as the worker sends it."""
        return json.dumps(vars(self) | {"errors": [asdict(one) for one in self.errors]}).encode()

    @classmethod
    def from_bytes(cls, sent: bytes) -> GroupReport:
        """Return what `to_bytes` made."""
        fields = json.loads(sent)
        return cls(**fields | {"errors": [ErrorKind(**one) for one in fields["errors"]]})
