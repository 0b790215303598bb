"""Where does a checkpoint, or a savepoint, continue in each topic of Kafka? Needs neither Spark nor a broker."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from panekeeper.recovery.errors import DamagedSavepoint, SavepointError
from panekeeper.recovery.savepoint.catalog import show
from panekeeper.recovery.storage.blobs import download
from panekeeper.recovery.storage.locations import Location, LocationOrArchive, files_at, open_archive
from panekeeper.recovery.storage.s3_options import S3Options
from panekeeper.state.checkpoint.folder import batch_numbers
from panekeeper.state.checkpoint.layout import COMMITS_FOLDER, OFFSETS_FOLDER
from panekeeper.state.spark_logs.offsets import offset_lines, parsed_lines

Offsets = Mapping[str, Mapping[str, int]]
"""Topic -> number of the Kafka partition -> offset of the next message: as Spark's `startingOffsets` takes it."""


@dataclass(frozen=True, kw_only=True)
class SourceOffsets:
    """Where a job continues in Kafka.

    Attributes:
        batch: the last committed batch; the offsets are those after it.
        sources: number of the source in the job, from 0 -> offsets; those that do not read from Kafka are left out.
    """

    batch: int
    sources: Mapping[int, Offsets]


def checkpoint_offsets(checkpoint: Location, *, s3: S3Options | None = None) -> SourceOffsets:
    """Return where the job of a checkpoint continues in Kafka, whether it runs or not.

    Args:
        checkpoint: the folder or URL that `start(checkpoint=...)` got.
        s3: how S3 is reached.

    Raises:
        SavepointError: no batch was committed there, or the job reads nothing from Kafka.
        CorruptState: Spark's offsets of the last committed batch are damaged.
    """
    folder = files_at(checkpoint, s3)
    batches = batch_numbers(folder, COMMITS_FOLDER) if folder is not None else []
    if folder is None or not batches:
        raise SavepointError(f"{checkpoint} holds no checkpoint with a committed batch; give the folder of one")
    return _found(offset_lines(folder, batches[-1]), batches[-1], str(checkpoint))


def savepoint_offsets(location: LocationOrArchive, name: str, *, s3: S3Options | None = None) -> SourceOffsets:
    """Return where a job that is restored from a savepoint continues in Kafka.

    Args:
        location: where the savepoint is.
        name: of the savepoint.
        s3: how S3 is reached.

    Raises:
        NoSuchSavepoint: there is none of this name.
        DamagedSavepoint: its manifest or its offsets are missing or altered.
        SavepointError: the job reads nothing from Kafka.
    """
    manifest = show(location, name, s3=s3)
    wanted = f"{OFFSETS_FOLDER}/{manifest.batch}"
    for file in manifest.files:
        if file.path == wanted:
            content = io.BytesIO()
            download(open_archive(location, s3), file, content)
            try:
                _, *lines = parsed_lines(content.getvalue())
            except ValueError:
                raise DamagedSavepoint(f"{wanted} of savepoint {name!r} is no log of Spark; use another one") from None
            return _found(lines, manifest.batch, f"savepoint {name!r}")
    raise DamagedSavepoint(f"savepoint {name!r} has no {wanted}; use another savepoint")


def _found(lines: Sequence[Any], batch: int, what: str) -> SourceOffsets:
    sources = {number: value for number, value in enumerate(lines[1:]) if _is_of_topics(value)}
    if not sources:
        raise SavepointError(f"the job of {what} reads nothing from Kafka: none of its sources has offsets of a topic")
    return SourceOffsets(batch=batch, sources=sources)


def _is_of_topics(value: Any) -> bool:
    """Say whether this is `{topic: {partition: offset}}`; no other source of Spark's writes offsets in that form."""
    return (
        isinstance(value, dict)
        and bool(value)
        and all(
            isinstance(partitions, dict)
            and all(number.isdecimal() and isinstance(offset, int) for number, offset in partitions.items())
            for partitions in value.values()
        )
    )
