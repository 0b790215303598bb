"""What a key group tells the driver of a micro-batch, beside its rows: one small JSON object on its way."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

from panekeeper.framework.core.quarantine import ErrorKind
from panekeeper.framework.core.steps import GroupFigures

if TYPE_CHECKING:
    from panekeeper.framework.core.group_batch import GroupBatch
    from panekeeper.framework.core.steps import BatchOutcome


@dataclass(frozen=True, kw_only=True)
class GroupReport(GroupFigures):
    """What one key group did in a micro-batch: its figures, and what it has processed of the control stream.

    `counts` may lack what no row went to.

    Attributes:
        group: id of the key group.
        resume_file: number of the control file of the start that the batch processed; None if there was none.
        resumed_us: when that start was, us since the epoch.
        drain_file: number of the newest control file with a drain that the batch processed, or None.
        control_file: number of the newest control file with a time that the batch processed, or None.
        flushed: whether it closed everything.
    """

    group: int
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
            **{figure.name: getattr(outcome, figure.name) for figure in fields(GroupFigures)},
            resume_file=None if start is None else start.pos,
            resumed_us=None if start is None else start.n,
            drain_file=max((row.pos for row in batch.control if row.kind == "drain"), default=None),
            control_file=max((row.pos for row in batch.control if row.kind in ("resume", "tick")), default=None),
            flushed=any(row.kind == "flush" for row in batch.control),
        )

    def to_bytes(self) -> bytes:
        """Return it as the worker sends it."""
        return json.dumps(vars(self) | {"errors": [asdict(error) for error in self.errors]}).encode()

    @classmethod
    def from_bytes(cls, sent: bytes) -> GroupReport:
        """Return what `to_bytes` made."""
        told = json.loads(sent)
        return cls(**told | {"errors": [ErrorKind(**error) for error in told["errors"]]})
