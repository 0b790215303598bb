"""Other code of an operator: under its name, with one other method. A module of its own, as `operators.py`."""

from __future__ import annotations

from framework.declarations.events import Event
from framework.declarations.operator import Emit
from recovery.drill.process import operators


class RunningTotalOperator(operators.RunningTotalOperator):
    """Emits the negative of each sum. Its state is the same."""

    def handle_event(self, event: Event, emit: Emit) -> None:
        """Add one window to the totals and emit them."""
        windows, total = self.so_far.get(event.key, [0, 0])
        self.so_far[event.key] = [windows + 1, total + int(event.column("value").sum())]
        emit(windows=windows + 1, total=-self.so_far[event.key][1])
