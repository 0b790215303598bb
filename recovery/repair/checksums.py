"""Do small files of a checkpoint on a local disk agree with the checksums that Hadoop has written beside them?"""

from __future__ import annotations

from collections.abc import Iterator

from panekeeper.recovery.repair.finding import Finding, unrepairable
from panekeeper.recovery.storage.files import Files
from panekeeper.state.spark_logs.checksums import agreement, checksum_of
from panekeeper.state.spark_logs.startup import files_of_start

_CUT_SHORT = "it is a checksum of Hadoop that was cut short: what is left of it agrees with the file, which is whole"
_ALTERED = "it does not agree with the checksum beside it, so it is not what was written"


def checksum_findings(folder: Files) -> Iterator[Finding]:
    """Yield what a start could not read for its checksum.

    Args:
        folder: the checkpoint of a stopped job; on an object store there are no such files.
    """
    for name in files_of_start(folder) if "://" not in folder.root else ():
        checksum = checksum_of(name)
        try:
            content, stored = folder.read(name), folder.read(checksum)
        except FileNotFoundError:
            continue
        found = agreement(content, stored)
        if found == "checksum is cut short":
            yield Finding(file=checksum, action="set aside", why=_CUT_SHORT)
        elif found == "differs":
            yield unrepairable(folder.root, name, _ALTERED)
