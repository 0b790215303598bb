"""Do small files of a checkpoint on a local disk agree with the checksums that Hadoop has written beside them?

Hadoop writes one for each file, `.NAME.crc`, and refuses a file that does not agree. A power cut may take a part of
either. Without a checksum Hadoop reads the file as it is.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import PurePosixPath

from recovery.repair.finding import Finding, unrepairable
from recovery.storage.files import Files
from state.spark_logs.startup import files_of_start

_MAGIC = b"crc\0"
_HEADER = len(_MAGIC) + 4
"""Then comes how many bytes each sum is of. Hadoop ignores a shorter file."""
_CUT_SHORT = "it is a checksum of Hadoop that was cut short: what is left of it agrees with the file, which is whole"
_ALTERED = "it does not agree with the checksum beside it, so it is not what was written"


def checksum_findings(folder: Files) -> Iterator[Finding]:
    """Yield what a start could not read for its checksum.

    Args:
        folder: the checkpoint of a stopped job; on an object store there are no such files.
    """
    for name in files_of_start(folder) if "://" not in folder.root else ():
        path = PurePosixPath(name)
        checksum = str(path.with_name(f".{path.name}.crc"))
        try:
            content, stored = folder.read(name), folder.read(checksum)
        except FileNotFoundError:
            continue
        if len(stored) < _HEADER or not stored.startswith(_MAGIC):
            continue
        sums, right = stored[_HEADER:], _sums(content, int.from_bytes(stored[len(_MAGIC) : _HEADER]))
        if right.startswith(sums) and sums != right:
            yield Finding(file=checksum, action="set aside", why=_CUT_SHORT)
        elif not sums.startswith(right):
            yield unrepairable(folder.root, name, _ALTERED)


def _sums(content: bytes, size: int) -> bytes:
    """Return the sum of each part of a file, of so many bytes."""
    parts = (content[at : at + size] for at in range(0, len(content), max(size, 1)))
    return b"".join(zlib.crc32(part).to_bytes(4) for part in parts)
