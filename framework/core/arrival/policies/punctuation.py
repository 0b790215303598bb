# ruff: noqa: D102 -- what these methods mean is said once, in protocol.py
"""`Punctuation`: a mark in the stream (docs/semantics.md section 2.3)."""

from __future__ import annotations

import numpy as np

from panekeeper.framework.core.arrival.event_table import Cause, Phase
from panekeeper.framework.core.arrival.partitions import Partitions
from panekeeper.framework.core.arrival.policies.protocol import NewValues, RunningPolicy, Tumbles, make_tumbles
from panekeeper.framework.core.arrival.round import RoundRows
from panekeeper.framework.declarations.events import Reason
from panekeeper.framework.declarations.policies import Punctuation


class PunctuationPolicy(RunningPolicy):
    """Tumble at a window mark, which is a step of its own between two rounds."""

    tumbles_at_marks = True

    def __init__(self, declared: Punctuation) -> None:
        """Punctuation has no parameters."""

    def tumbles(self, round_rows: RoundRows, values: NewValues, partitions: Partitions) -> Tumbles:
        none = np.empty(0, dtype=np.int64)
        return make_tumbles(none, none, none, none, cause=Cause.ROW, phase=Phase.TRIGGER, reason=Reason.PUNCTUATION)
