"""What a batch of a key group costs, without a clock."""

from __future__ import annotations

import sys
import tracemalloc
from typing import Any

from panekeeper.framework.core.job_spec import JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.steps import BatchOutcome, Step
from panekeeper.state.store import MemoryStore


class Cost:
    """How many Python functions a batch calls, and how many bytes it has at once."""

    def __init__(self) -> None:
        self.calls = self.bytes = 0

    def of(self, job: JobSpec, store: MemoryStore, *steps: Step) -> BatchOutcome:
        """Run a batch, and take note of its cost."""

        def count(_frame: Any, event: str, _arg: Any) -> None:
            self.calls += event == "call"

        tracemalloc.start()
        sys.setprofile(count)
        try:
            done = KeyGroupRunner(job, store).run(steps)
        finally:
            sys.setprofile(None)
            self.bytes = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        return done
