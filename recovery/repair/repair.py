"""Repairs small files of a checkpoint that were cut short, where it is certain that no row is lost or doubled.

Nothing is removed: a file that is set aside is in `<checkpoint>.damaged/` under its name. Each file is repaired for
itself, so a repair that was killed is run again.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, replace

from panekeeper.recovery.errors import SavepointError
from panekeeper.recovery.jobs.lease import holding, require_stopped
from panekeeper.recovery.repair.checksums import checksum_findings
from panekeeper.recovery.repair.finding import Finding
from panekeeper.recovery.repair.logs import log_findings, recorded_commit
from panekeeper.recovery.repair.own_files import intent_finding, lease_findings, own_findings
from panekeeper.recovery.repair.prepared import prepared_findings
from panekeeper.recovery.restore.interrupted import require_no_interrupted_restore
from panekeeper.recovery.savepoint.restore_paths import RestorePaths
from panekeeper.recovery.storage.files import Files
from panekeeper.recovery.storage.locations import Location, checkpoint_at
from panekeeper.recovery.storage.s3_options import S3Options
from panekeeper.state.checkpoint.layout import COMMITS_FOLDER, JOB_FILE
from panekeeper.state.errors import CorruptState
from panekeeper.state.spark_logs.checksums import checksum_of

_SUFFIX = ".damaged"


@dataclass(frozen=True, kw_only=True)
class Repair:
    """What was found in a checkpoint, and what was done, or would be.

    Attributes:
        checkpoint: its full name.
        aside: full name of the folder for files that are set aside.
        findings: the damaged files; none if all that a start reads is intact.
    """

    checkpoint: str
    aside: str
    findings: tuple[Finding, ...]

    @property
    def is_complete(self) -> bool:
        """Return whether something is done about every damaged file."""
        return all(one.action != "none" for one in self.findings)


def repair(
    checkpoint: Location, *, dry_run: bool = False, no_sink: bool = False, s3: S3Options | None = None
) -> Repair:
    """Repair the small files of a stopped job's checkpoint, as after a power cut. The state itself is not read.

    Args:
        checkpoint: the job's checkpoint, a local folder or one on S3.
        dry_run: only return what would be done.
        no_sink: the job writes to no sink but its tables. Needed for the offsets of a batch that was not committed.
        s3: how S3 is reached.

    Raises:
        SavepointRefused: the job is running, or a restore was interrupted.
        CheckpointInUse: this was paused, and a job has taken over.
        SavepointError: there is no checkpoint of Panekeeper.
    """
    folder = checkpoint_at(checkpoint, s3)
    if not folder.exists(JOB_FILE):
        raise SavepointError(
            f"{folder.root} holds no checkpoint of Panekeeper ({JOB_FILE} is not there); give the folder of one, or "
            "restore a savepoint to it"
        )
    findings = _find(folder, no_sink=no_sink, s3=s3)
    aside = folder.parent().child(folder.name + _SUFFIX)
    if not dry_run and any(one.action != "none" for one in findings):
        with holding(folder, folder.name, "the repair of") as lease:
            again = _damaged_files(folder, no_sink=no_sink, s3=s3)  # a job may have run while this was paused
            findings = [one for one in findings if one in again]
            for one in findings:
                lease.require_held()  # a job may have begun while this was paused
                _apply(folder, aside, one)
    return Repair(checkpoint=folder.root, aside=aside.root, findings=tuple(findings))


def _find(folder: Files, *, no_sink: bool, s3: S3Options | None) -> list[Finding]:
    lease = [*lease_findings(folder)]
    if not lease:
        require_stopped(folder)
    try:
        require_no_interrupted_restore(folder)
    except CorruptState:
        lease.append(intent_finding(RestorePaths(checkpoint=folder)))
    found = _damaged_files(folder, no_sink=no_sink, s3=s3)
    return [*lease, *(replace(one, action="none") for one in found)] if lease else found


def _damaged_files(folder: Files, *, no_sink: bool, s3: S3Options | None) -> list[Finding]:
    found = [
        *own_findings(folder),
        *prepared_findings(folder, no_sink=no_sink),
        *log_findings(folder, no_sink=no_sink, s3=s3),
    ]
    named = {one.file for one in found}  # a file that was cut short does not agree with its checksum either
    return found + [one for one in checksum_findings(folder) if one.file not in named]


def _apply(folder: Files, aside: Files, finding: Finding) -> None:
    if finding.action == "none":
        return
    name = kept = finding.file
    content = _new_content(folder, name) if finding.action == "replace" else None
    while aside.exists(kept):
        kept = f"{kept}.earlier"
    if folder.exists(name):
        aside.put_bytes(kept, folder.read(name))
    if content is None:
        folder.remove(name)  # with Hadoop's checksum of it, which is there if the file itself is gone, too
    else:
        folder.put_bytes(name, content.encode())  # in its place: killed between a removal and this, no repair finds it
        folder.remove(checksum_of(name))


def _new_content(folder: Files, name: str) -> str | None:
    number = name.removeprefix(f"{COMMITS_FOLDER}/")
    return json.dumps({"id": str(uuid.uuid4())}) if number == name else recorded_commit(folder, int(number))
