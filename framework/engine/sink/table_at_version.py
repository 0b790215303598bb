"""A Delta table at one version: what its log says of it, whoever has read that.

Three read a log: `delta_log.py` its files, wherever these are reached; the library that of a table which it opens
(`library_rules.py`); Spark that of a table wherever it is, whatever features it has (`spark_table.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from panekeeper.state.checkpoint.job_record import OWNER


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """What a program must be able to do with a table: versions of Delta's protocol, and the features by their names."""

    reader: int
    writer: int
    reader_features: frozenset[str] = frozenset()
    writer_features: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class TableAtVersion:
    """A Delta table at one version.

    Attributes:
        path: its path or URL, as it was read by.
        version: the newest version of that time; -1 if there was none.
        id: what tells it from any other table that is put in its place; empty where the log does not say it.
        columns: its columns in JSON, as its log has them.
        properties: its properties, of Delta and of others.
        partition_columns: the names of the columns by which Delta partitions it.
        protocol: what a program must be able to do with it; its versions are 0 where the log does not say it.
        last_transaction: returns the last version that it has of a transaction id; -1 if there is none. Transactions
            are read when they are asked for, if that costs more than all else.
    """

    path: str
    version: int
    id: str
    columns: str
    properties: Mapping[str, str]
    partition_columns: Sequence[str]
    protocol: Protocol
    last_transaction: Callable[[str], int] = field(repr=False, compare=False)

    @staticmethod
    def of_actions(
        path: str,
        version: int,
        metadata: Mapping[str, Any],
        protocol: Mapping[str, Any],
        last_transaction: Callable[[str], int],
    ) -> TableAtVersion:
        """Return a table by the actions of its log that say what it is; one that is empty was not found."""
        return TableAtVersion(
            path=path,
            version=version,
            id=str(metadata.get("id", "")),
            columns=str(metadata.get("schemaString", "")),
            properties=dict(metadata.get("configuration") or ()),
            partition_columns=tuple(metadata.get("partitionColumns") or ()),
            protocol=Protocol(
                reader=int(protocol.get("minReaderVersion", 0)),
                writer=int(protocol.get("minWriterVersion", 0)),
                reader_features=frozenset(protocol.get("readerFeatures") or ()),
                writer_features=frozenset(protocol.get("writerFeatures") or ()),
            ),
            last_transaction=last_transaction,
        )

    @property
    def owner(self) -> str | None:
        """The id of the checkpoint that the table belongs to; None if it does not say."""
        return checkpoint_id(self.last_transaction(OWNER))


def checkpoint_id(owner: int) -> str | None:
    """Return the id of the checkpoint for which a version of `OWNER` stands; None for -1, which is no version."""
    return None if owner < 0 else f"{owner:012x}"
