"""How long a call to S3 is tried again while the store itself fails. botocore calls it after each attempt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from panekeeper.state.checkpoint.clock import monotonic_seconds

_INITIAL_DELAY, _MAX_DELAY = 0.25, 4.0
_FIRST_SERVER_ERROR = 500


class RetryPolicy:
    """Tries a call again after a response of 5xx or a broken connection.

    A store that has not responded yet is more likely a wrong URL: then botocore decides, which gives up soon.

    Args:
        seconds: how long, from the first failure of the call.
        now: returns the time, in seconds.
    """

    def __init__(self, seconds: float, now: Callable[[], float] = monotonic_seconds) -> None:
        self._seconds = seconds
        self._now = now
        self._has_responded = False

    def retry_delay(self, *, response: Any, attempts: int, request_dict: dict[str, Any], **_: Any) -> float | None:
        """Return the delay before the next attempt, in seconds; None: botocore decides.

        Args:
            response: (HTTP response, parsed response); None if there was none.
            attempts: how often this call was tried.
            request_dict: the call; the time of its first failure is stored in its context.
        """
        if response is not None and response[0].status_code < _FIRST_SERVER_ERROR:
            self._has_responded = True
            return None
        if response is None and not self._has_responded:
            return None
        now = self._now()
        began = request_dict.setdefault("context", {}).setdefault("panekeeper_failing_since", now)
        if now - began >= self._seconds:
            return None
        return min(_INITIAL_DELAY * 2.0 ** min(attempts - 1, 10), _MAX_DELAY)
