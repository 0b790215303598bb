"""An archive in a dictionary."""

from __future__ import annotations

from pathlib import Path
from threading import RLock

from panekeeper.recovery.storage.archive import Archive, ByteSink


class MemoryArchive(Archive):
    """Files in a dictionary; `puts` lists the names in the order in which they were stored."""

    def __init__(self, location: str = "memory://test") -> None:
        self._location = location
        self.files: dict[str, bytes] = {}
        self.puts: list[str] = []
        self._creating = RLock()

    @property
    def location(self) -> str:
        return self._location

    def put_file(self, name: str, path: Path) -> None:
        self.put_bytes(name, path.read_bytes())

    def put_bytes(self, name: str, data: bytes) -> None:
        self.puts.append(name)
        self.files[name] = data

    def put_new(self, name: str, data: bytes) -> None:
        with self._creating:
            if name in self.files:
                raise FileExistsError(name)
            self.put_bytes(name, data)

    def get(self, name: str, into: ByteSink) -> None:
        if name not in self.files:
            raise FileNotFoundError(name)
        into.write(self.files[name])

    def sizes(self, prefix: str = "") -> dict[str, int]:
        return {name: len(data) for name, data in sorted(self.files.items()) if name.startswith(prefix)}

    def exists(self, name: str) -> bool:
        return name in self.files

    def remove(self, name: str) -> None:
        self.files.pop(name, None)
