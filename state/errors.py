"""The root of the exception tree, and what can be wrong with stored state.

The whole tree is drawn in `framework/declarations/errors.py`; it starts here because `state` imports neither other
package.
"""

from __future__ import annotations


class PanekeeperError(Exception):
    """Root of every error that Panekeeper raises on purpose. Its text says what, which value, and what to do.

    Attributes:
        cause: what Spark, Delta or code of the user's has raised, if this says what that means.
    """

    cause: BaseException | None = None


class CheckpointError(PanekeeperError):
    """The checkpoint folder and the job do not belong together. Raised at `start()`, before anything runs."""


class StateError(PanekeeperError):
    """Stored state cannot be used as it is."""


class CorruptState(StateError):
    """A stored value is missing, truncated or fails its checksum.

    What to do: restore the checkpoint from a savepoint, or start with a new checkpoint folder.
    """


class StateVersionError(StateError):
    """A stored value was written by a version of Panekeeper that this one cannot read."""


class LifecycleError(PanekeeperError):
    """A state handler did what its method may not: evict outside drain, write outside checkpoint.

    What to do: move the call to the method that the message names.
    """
