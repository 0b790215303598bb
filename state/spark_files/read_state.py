"""What have the key groups stored, as of a batch?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from panekeeper.state.checkpoint.folder import CheckpointFolder
from panekeeper.state.key_groups import spark_hash
from panekeeper.state.spark_files.cursor import NotReadable
from panekeeper.state.spark_files.unsafe_rows import family_prefix, stored_body, stored_key
from panekeeper.state.spark_files.versions import Version, files_of, versions_of
from panekeeper.state.store import SEGMENTS

Segments = dict[tuple[str, int, int], bytes]
"""Kind, slot and number -> what is stored there, of one key group."""


@dataclass(frozen=True)
class StoredState:
    """The state of a job as of a batch, in the files of Spark's state store."""

    folder: CheckpointFolder
    versions: Sequence[Version]

    @classmethod
    def of(cls, folder: CheckpointFolder, batch: int) -> StoredState:
        """Return the state of the folder of an epoch as of a batch. Raises `NotReadable`."""
        return cls(folder, versions_of(folder, batch))

    def partition_of(self, group: int) -> Version:
        """Return the version of the partition that has a key group, by the id of this."""
        return self.versions[spark_hash(group) % len(self.versions)]

    def read(self, version: Version, kinds: Collection[str] | None = None, *, most: int) -> dict[int, Segments]:
        """Return key group -> what it has stored, of one partition: of these kinds, or all.

        Raises `NotReadable`, also for a partition of more bytes than `most`.
        """
        files = files_of(self.folder, version)
        if files.size > most:
            raise NotReadable(f"{version.folder} has {files.size} bytes, which is much for one process")
        family = files.snapshot.families.get(SEGMENTS)
        if family is None:
            raise NotReadable(f"{version.folder} has no map of ours")
        groups: dict[int, Segments] = defaultdict(dict)
        for key, (name, value) in files.entries(self.folder, family_prefix(family)).items():
            group, kind, slot, number = stored_key(key, name)
            if self.partition_of(group) != version:
                raise NotReadable(f"{name} has key group {group}, which is of another partition")
            if kinds is None or kind in kinds:
                groups[group][kind, slot, number] = stored_body(value, name)
        return dict(groups)
