"""Whether a job as it is declared now can resume from a savepoint, or a checkpoint. Nothing is started or changed.

What a difference means is decided in `state/compatibility.py`, as for a start. The report has more than a
start would check: watermarks, tables, settings that the checkpoint pins, packages. What a restore would change is
another question: `recovery/restore/checks.py`.
"""

from __future__ import annotations

import io
import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from panekeeper.framework.declarations.display import Result, printable
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.engine.job.start import port_delay
from panekeeper.recovery.jobs.checkpoint import current_folder
from panekeeper.recovery.savepoint.catalog import show_trusted
from panekeeper.recovery.savepoint.checkpoint_copy import temporary_copy
from panekeeper.recovery.savepoint.checkpoint_snapshot import CheckpointSnapshot, read_checkpoint
from panekeeper.recovery.savepoint.manifest import Manifest
from panekeeper.recovery.savepoint.state_reader import stored_handlers
from panekeeper.recovery.storage.archive import Archive
from panekeeper.recovery.storage.blobs import download
from panekeeper.recovery.storage.locations import LocationOrArchive, checkpoint_at, open_archive
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.recovery.upgrade.rescale import PARTITIONS
from panekeeper.state.checkpoint.folder import FLUSHED_FILE, PORTS_FILE
from panekeeper.state.checkpoint.job_record import (
    PortDelay,
    installed_versions,
    is_flushed,
    read_ports,
    version_problem,
)
from panekeeper.state.compatibility import (
    FLUSH,
    Change,
    Compatibility,
    Difference,
    as_recorded,
    compare_declarations,
    flush_change,
    name_change,
)
from panekeeper.state.compatibility import compare as differences_of
from panekeeper.state.duration_text import us_text
from panekeeper.state.errors import StateVersionError
from panekeeper.state.handler import require_readable
from panekeeper.state.history import in_force, upgraded
from panekeeper.state.log import progress
from panekeeper.state.prepared import as_computed
from panekeeper.state.table_roles import has_results, window_of

if TYPE_CHECKING:
    from panekeeper.framework.builder.outputs import DeltaJob
    from panekeeper.framework.core.job_spec import JobSpec

_BY_SEVERITY = list(Compatibility)


@dataclass(frozen=True, kw_only=True)
class UpgradeReport(Result):
    """What a resume with another declaration would mean for each part of a job, an item each: what is changed first.

    `savepoint` is its name; empty for the last batch of the checkpoint. `tried` is what a trial of the declaration has
    found, or why it could not be tried; None if nothing was tried.
    """

    savepoint: str
    checkpoint: str
    job: str
    new_job: str
    items: tuple[Change, ...]
    tried: Result | str | None = None

    @property
    def verdict(self) -> Compatibility:
        """The worst one of the items."""
        return max((item.compatibility for item in self.items), key=_BY_SEVERITY.index)

    def fields(self) -> dict[str, Any]:
        """Return the report as JSON-able fields, as `panekeeper plan --json` prints them."""
        items = [
            {
                "item": item.item,
                "verdict": item.compatibility.value,
                "changed": is_changed(item),
                "why": item.why,
                "advice": item.advice,
                "differences": [str(difference) for difference in item.differences],
            }
            for item in self.items
        ]
        names = {name: getattr(self, name) for name in ("savepoint", "checkpoint", "job", "new_job")}
        report = {**names, "verdict": self.verdict.value, "items": items}
        if self.tried is not None:
            report["tried"] = {"problem": self.tried} if isinstance(self.tried, str) else self.tried.fields()
        return report

    def _described(self) -> Iterator[str]:
        of = f"savepoint {self.savepoint}" if self.savepoint else f"checkpoint {self.checkpoint}"
        yield f"{of} of job {self.job} and {self.new_job}: {self.verdict.value}"
        for item in filter(is_changed, self.items):
            yield f"  {item.item}: {item.compatibility.value} ({item.why})"
            yield from (f"      {line}" for line in map(str, (*item.differences, item.advice)) if line)
        if same := [item.item for item in self.items if not is_changed(item)]:
            yield f"  unchanged: {', '.join(same)}"
        if isinstance(self.tried, str):
            yield f"not tried: {printable(self.tried)}"
        elif self.tried is not None:
            yield f"tried: {self.tried}"


def is_changed(item: Change) -> bool:
    """Return whether a part of the job is not as it was, or stands against a resume."""
    return bool(item.differences) or item.compatibility is not Compatibility.COMPATIBLE or item.is_news


@dataclass(frozen=True, kw_only=True)
class Before:
    """A job as it ran last: in a savepoint, or as of the last batch of a checkpoint.

    `tables` are their paths by their roles; `delays` those of its ports at the last start, none if not recorded.
    """

    savepoint: str = ""
    checkpoint: str
    job: str
    state_version: int
    declaration: Mapping[str, Any]
    batch: int
    unfinished: int | None
    flushed: bool
    settings: Mapping[str, str]
    versions: Mapping[str, str]
    tables: Mapping[str, str]
    delays: Sequence[PortDelay] = ()

    @classmethod
    def of_savepoint(cls, manifest: Manifest, delays: Sequence[PortDelay] = ()) -> Before:
        """Return the job of a savepoint."""
        return cls(
            savepoint=manifest.name,
            checkpoint=manifest.checkpoint,
            job=manifest.job,
            state_version=manifest.state_version,
            declaration=manifest.declaration,
            batch=manifest.batch,
            unfinished=manifest.unfinished,
            flushed=any(file.path == FLUSHED_FILE for file in manifest.files),
            settings=manifest.settings,
            versions=manifest.versions,
            tables=manifest.paths,
            delays=delays,
        )

    @classmethod
    def of_checkpoint(cls, snapshot: CheckpointSnapshot, checkpoint: str) -> Before:
        """Return the job of a checkpoint."""
        return cls(
            checkpoint=checkpoint,
            job=snapshot.record.name,
            state_version=snapshot.record.state_version,
            declaration=as_computed(snapshot.folder, snapshot.record).declaration,
            batch=snapshot.batch,
            unfinished=snapshot.unfinished,
            flushed=is_flushed(snapshot.folder),
            settings=snapshot.settings,
            versions=snapshot.record.versions,
            tables=snapshot.tables,
            delays=read_ports(snapshot.folder),
        )


@dataclass(frozen=True, kw_only=True)
class DeclaredJob:
    """A job as it is declared now.

    `settings` are those that the checkpoint pins, with their values in the session, as far as it was given any;
    `columns` how those of a table that is there differ from the results; `handlers` why one cannot read its stored
    state, None if it can; `delays` those of the ports with event time, None for one without.
    """

    name: str
    declaration: Mapping[str, Any]
    settings: Mapping[str, str | None]
    versions: Mapping[str, str]
    tables: Mapping[str, str | None]
    columns: Mapping[str, list[str]]
    handlers: Mapping[str, str | None] = field(default_factory=dict)
    delays: Sequence[PortDelay | None] = ()


def check_upgrade(
    location: LocationOrArchive, name: str | None, job: DeltaJob, *, s3: S3Options | None = None
) -> UpgradeReport:
    """Compare a savepoint, or a checkpoint as of its last batch, with a job as it is declared now.

    Args:
        location: where the savepoint is; or the checkpoint.
        name: of the savepoint; None for a checkpoint.
        job: the declared job, as `to_delta` returns it.
        s3: how S3 is reached.

    Raises:
        SavepointError: the savepoint is not there, or cannot be read; or no batch of the checkpoint was committed yet.
        CheckpointError: it is no checkpoint.
    """
    handlers: dict[str, str | None] = {}
    if name is None:
        if not isinstance(location, str | os.PathLike):
            raise DeclarationError("name is missing; an archive has savepoints, so give the name of one")
        root = checkpoint_at(location, s3)
        snapshot = read_checkpoint(current_folder(root))
        before = Before.of_checkpoint(snapshot, root.root)
        if _may_have_handlers(job, before):
            handlers = _handlers(job, snapshot.folder.place)
    else:
        archive = open_archive(location, s3)
        manifest = show_trusted(archive, name)
        before = Before.of_savepoint(manifest, saved_delays(archive, manifest))
        if _may_have_handlers(job, before):
            with temporary_copy(archive, manifest) as folder:
                handlers = _handlers(job, folder)
    progress.info("comparing the job with %s", before.savepoint or before.checkpoint)
    spark, ports = job.pipeline.intake.df.sparkSession, job.pipeline.ports
    given = spark.conf.getAll
    declared_job = DeclaredJob(
        name=job.pipeline.intake.name,
        declaration=_declaration(job, before),
        settings={name: given.get(name) for name in before.settings},
        versions=installed_versions(),
        tables=job.tables.by_role,
        columns=_columns(job, before),
        handlers=handlers,
        delays=[port_delay(port.intake) if port.spec.uses_event_time else None for port in ports],
    )
    return compare(before, declared_job)


def compare(before: Before, declared_job: DeclaredJob) -> UpgradeReport:
    """Compare a job as it ran last with the properties of one as it is declared now."""
    declared = compare_declarations(in_force(before.declaration, before.batch), declared_job.declaration)
    items = (
        *_state_changes(before, declared_job.handlers, changed=any(change.differences for change in declared)),
        name_change(before.job, declared_job.name),
        flush_change(flushed=before.flushed),
        *declared,
        *_watermark_changes(before.delays, declared_job.delays),
        *_table_changes(
            before.tables,
            declared_job,
            same=all(change.compatibility is Compatibility.COMPATIBLE for change in declared),
        ),
        *_setting_changes(before, declared_job.settings),
        *_package_changes(before, declared_job.versions),
    )
    by_weight = sorted(items, key=lambda change: (-_BY_SEVERITY.index(change.compatibility), not is_changed(change)))
    return UpgradeReport(
        savepoint=before.savepoint,
        checkpoint=before.checkpoint,
        job=before.job,
        new_job=declared_job.name,
        items=tuple(by_weight),
    )


def saved_delays(archive: Archive, manifest: Manifest) -> list[PortDelay]:
    """Return the delays of the ports that a savepoint has recorded; none if it has not."""
    for file in manifest.files:
        if file.path == PORTS_FILE:
            content = io.BytesIO()
            download(archive, file, content)
            return [PortDelay(**port) for port in json.loads(content.getvalue())["ports"]]
    return []


def _fits(item: str, why: str, *, advice: str = "", differences: tuple[Difference, ...] = ()) -> Change:
    return Change(item=item, compatibility=Compatibility.COMPATIBLE, why=why, advice=advice, differences=differences)


def _cannot_be_read(item: str, problem: str) -> Change:
    why, _, advice = problem.partition("; ")
    return Change(item=item, compatibility=Compatibility.IMPOSSIBLE, why=why, advice=advice)


def _state_changes(before: Before, handlers: Mapping[str, str | None], *, changed: bool) -> Iterator[Change]:
    problem, version = version_problem(before.state_version), before.state_version
    if problem is None:
        yield _fits("state", f"stored state has version {version}, which this version reads")
    else:
        yield _cannot_be_read("state", problem)
    if before.unfinished is not None and changed:
        why = "it was begun and not committed: a start completes it as it is recorded, or else with the new declaration"
        if before.savepoint:
            why = "it was not finished, and is not in the savepoint: the declaration changes before it"
        yield replace(_fits(f"batch {before.unfinished}", why), is_news=True)
    for name, wrong in handlers.items():
        item = f"state of handler {name}"
        yield _fits(item, "it reads the stored version") if wrong is None else _cannot_be_read(item, wrong)


def _watermark_changes(before: Sequence[PortDelay], now: Sequence[PortDelay | None]) -> Iterator[Change]:
    """A start takes another delay, and the watermark never goes back (docs/semantics.md section 6.5)."""
    for number, (was, new) in enumerate(zip(before, now, strict=False)):
        if new is None:
            continue
        item = "watermark" if len(now) == 1 else f"port_{number} watermark"
        by = abs(new.watermark_us - was.watermark_us)
        if new.watermark_us > was.watermark_us:
            why = (
                f"from the next batch on: the watermark stands until event time is {us_text(by)} further, so panes "
                f"fire and close that much later, and rows up to {us_text(new.watermark_us)} behind are in time"
            )
        elif by:
            why = (
                f"from the next batch on: the watermark is {us_text(by)} further, so the panes that it passes fire, or "
                f"close, at once, and rows more than {us_text(new.watermark_us)} behind are late"
            )
        elif new.idle_after_us != was.idle_after_us:
            why = "from the next batch on: after that long without a row the watermark goes on without a source"
        else:
            yield _fits(item, "unchanged")
            continue
        yield _fits(item, why, differences=tuple(differences_of(asdict(was), asdict(new))))


def _table_changes(saved: Mapping[str, str], declared_job: DeclaredJob, *, same: bool) -> Iterator[Change]:
    for role in dict.fromkeys([*declared_job.tables, *saved]):
        item, path, before = f"table {role}", declared_job.tables.get(role), saved.get(role)
        moved = (Difference(field="path", old=before, new=path),)
        if path is None:
            if before is not None:
                yield _fits(item, "no longer written: it stays as it is", differences=moved)
        elif wrong := declared_job.columns.get(role):
            verdict = Compatibility.IMPOSSIBLE if same else Compatibility.NEEDS_FLUSH
            advice = "choose another folder for it" if same else FLUSH
            yield Change(item=item, compatibility=verdict, why="; ".join(wrong), advice=advice)
        elif before is None:
            yield _fits(item, f"a new table, {path}: its first rows are those of the next batch", differences=moved)
        elif before != path:
            yield _fits(item, f"new rows go to {path}; the rows in {before} stay there", differences=moved)
        else:
            yield _fits(item, "unchanged")


def _setting_changes(before: Before, now: Mapping[str, str | None]) -> Iterator[Change]:
    """A query resumes with the settings of its checkpoint, whatever the session has, or was not given."""
    given = {name: value for name, value in now.items() if value is not None and name in before.settings}
    differing = differences_of({name: before.settings[name] for name in given}, given)
    if not differing:
        yield _fits("settings", "those that the checkpoint pins are unchanged")
    for difference in differing:
        why = "the checkpoint pins it: the job resumes with the value in the checkpoint"
        partitions = difference.new
        command = f"panekeeper rescale {shlex.quote(before.checkpoint)} --partitions {partitions} --to LOCATION"
        advice = (
            f"to change it, rescale the stopped job: {command}" if difference.field == PARTITIONS and partitions else ""
        )
        yield _fits(f"setting {difference.field}", why, advice=advice, differences=(difference,))


def _package_changes(before: Before, now: Mapping[str, str]) -> Iterator[Change]:
    differing = {difference.field: difference for difference in differences_of(before.versions, now)}
    saved = before.savepoint or "NAME"
    for name in now:
        if name not in differing:
            yield _fits(f"package {name}", "unchanged")
            continue
        why = "the stored state has a version of its own and does not depend on it"
        advice = f"try it on a clone first: panekeeper clone LOCATION {shlex.quote(saved)} --into FOLDER"
        yield _fits(f"package {name}", why, advice=advice, differences=(differing[name],))


def _columns(job: DeltaJob, before: Before) -> dict[str, list[str]]:
    from delta.tables import DeltaTable

    from panekeeper.framework.engine.sink.tables import column_differences, without_later_metrics, without_missing

    spark = job.pipeline.intake.df.sparkSession
    spec = _spec_with_history(job, before)
    schemas = job.tables.schemas(spec)
    differences: dict[str, list[str]] = {}
    for role, path in job.tables.by_role.items():
        if path is None:
            continue
        if DeltaTable.isDeltaTable(spark, path):
            columns = DeltaTable.forPath(spark, path).toDF().schema
            if role == "metrics":
                wanted = without_later_metrics(schemas[path], columns)
            else:
                of = spec.parts[window_of(role)] if has_results(role) else spec
                wanted = without_missing(schemas[path], columns, of)
            differences[role] = column_differences(columns, wanted)
        elif before.tables.get(role) == path:
            differences[role] = [f"there is no table {path} any more"]
    return differences


def _declaration(job: DeltaJob, before: Before) -> dict[str, Any]:
    pipeline = job.pipeline
    return as_recorded(pipeline.declaration(), pipeline.intake.key_groups or before.declaration["key_groups"])


def _spec_with_history(job: DeltaJob, before: Before) -> JobSpec:
    """Return what the job computes, with what the declaration before leaves, if its state fits."""
    pipeline, declaration = job.pipeline, _declaration(job, before)
    changes = compare_declarations(in_force(before.declaration, before.batch), declaration)
    if any(change.compatibility is not Compatibility.COMPATIBLE for change in changes):
        return pipeline.spec
    after = upgraded(before.declaration, declaration, committed=before.batch, watermark_us=None)
    return pipeline.spec.with_history(after)


def _may_have_handlers(job: DeltaJob, before: Before) -> bool:
    """Return whether state of handlers is to be looked for: a savepoint is copied for that."""
    return bool(job.pipeline.spec.handlers) and version_problem(before.state_version) is None


def _handlers(job: DeltaJob, folder: str) -> dict[str, str | None]:
    """Return which handlers cannot read the state that they have in a folder."""
    handlers = {type(handler).__qualname__: handler for handler in job.pipeline.spec.handlers}
    problems: dict[str, str | None] = {}
    for state in stored_handlers(job.pipeline.intake.df.sparkSession, folder).values():
        if state.name in handlers:
            try:
                require_readable(handlers[state.name], state)
                problems.setdefault(state.name, None)
            except StateVersionError as error:
                problems[state.name] = str(error)
    return problems
