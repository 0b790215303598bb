"""How long a store in trouble is tried again."""

from __future__ import annotations

from typing import Any

from panekeeper.recovery.storage.s3 import RetryPolicy


class Response:
    def __init__(self, status: int) -> None:
        self.status_code = status


class Call:
    """One call, by a clock that the test moves."""

    def __init__(self, seconds: float) -> None:
        self.now = 100.0
        self.retry = RetryPolicy(seconds, now=lambda: self.now)
        self.request: dict[str, Any] = {}
        self.attempts = 0

    def ends(self, status: int | None) -> float | None:
        """An attempt ends with a status, or with a broken line."""
        self.attempts += 1
        response: Any = None if status is None else (Response(status), {})
        return self.retry.retry_delay(
            response=response, attempts=self.attempts, request_dict=self.request, operation="Put"
        )


def test_a_failing_store_is_tried_again_until_the_retry_time_ends() -> None:
    """With growing delays, counted from the first failure of the call."""
    call = Call(10)
    assert [call.ends(503) for _ in range(6)] == [0.25, 0.5, 1, 2, 4, 4]
    call.now += 9.9
    assert call.ends(500) == 4
    call.now += 0.1
    assert call.ends(503) is None


def test_what_is_no_failure_of_the_store_is_left_to_boto3() -> None:
    """A refused call, and a success."""
    call = Call(10)
    assert call.ends(403) is None
    assert call.ends(200) is None


def test_a_broken_connection_is_tried_again_only_if_the_store_has_responded_before() -> None:
    """Else the URL is probably wrong, and the error should come soon."""
    call = Call(10)
    assert call.ends(None) is None
    call.ends(200)
    call.attempts = 0
    assert call.ends(None) == 0.25
