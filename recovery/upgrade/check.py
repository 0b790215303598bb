"""Whether a job as it is declared now can resume from a savepoint. Nothing is started, and nothing is changed.

What a difference means is decided in `state/compatibility.py`, as for a start. The report has more than a
start would check: tables, settings that the checkpoint pins, packages. What a restore would change is another question:
`recovery/restore/checks.py`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from panekeeper.recovery.savepoint.catalog import show_trusted
from panekeeper.recovery.savepoint.checkpoint_files import temporary_copy
from panekeeper.recovery.savepoint.manifest import Manifest
from panekeeper.recovery.savepoint.state_reader import stored_handlers
from panekeeper.recovery.storage.archive import Archive
from panekeeper.recovery.storage.delta_tables import SavedTable
from panekeeper.recovery.storage.locations import LocationOrArchive, open_archive
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.recovery.upgrade.rescale import PARTITIONS
from panekeeper.state.checkpoint.folder import FLUSHED_FILE
from panekeeper.state.checkpoint.job_record import installed_versions, version_problem
from panekeeper.state.compatibility import (
    FLUSH,
    Change,
    Compatibility,
    Difference,
    as_recorded,
    compare,
    compare_declarations,
    flush_change,
    name_change,
)
from panekeeper.state.errors import StateVersionError
from panekeeper.state.handler import require_readable
from panekeeper.state.history import in_force, upgraded
from panekeeper.state.table_roles import has_results, window_of

if TYPE_CHECKING:
    from panekeeper.framework.builder.outputs import DeltaJob
    from panekeeper.framework.core.job_spec import JobSpec

_BY_SEVERITY = list(Compatibility)


@dataclass(frozen=True, kw_only=True)
class UpgradeReport:
    """What a resume from a savepoint with another declaration would mean for each part of a job, an item each."""

    savepoint: str
    job: str
    new_job: str
    items: tuple[Change, ...]

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
                "why": item.why,
                "advice": item.advice,
                "differences": [str(difference) for difference in item.differences],
            }
            for item in self.items
        ]
        names = {"savepoint": self.savepoint, "job": self.job, "new_job": self.new_job}
        return {**names, "verdict": self.verdict.value, "items": items}


@dataclass(frozen=True, kw_only=True)
class DeclaredJob:
    """A job as it is declared now.

    `settings` are those that the savepoint pins, with their values in the session; `columns` how those of a table that
    is there differ from the results; `handlers` why one cannot read its stored state, None if it can.
    """

    name: str
    declaration: Mapping[str, Any]
    settings: Mapping[str, str | None]
    versions: Mapping[str, str]
    tables: Mapping[str, str | None]
    columns: Mapping[str, list[str]]
    handlers: Mapping[str, str | None] = field(default_factory=dict)


def check_upgrade(
    location: LocationOrArchive, name: str, job: DeltaJob, *, s3: S3Options | None = None
) -> UpgradeReport:
    """Compare a savepoint with a job as it is declared now.

    Args:
        location: where the savepoint is.
        name: of the savepoint.
        job: the declared job, as `to_delta` returns it.
        s3: how S3 is reached.

    Raises:
        SavepointError: the savepoint is not there, or cannot be read.
    """
    archive = open_archive(location, s3)
    manifest = show_trusted(archive, name)
    spark = job.pipeline.intake.df.sparkSession
    declared_job = DeclaredJob(
        name=job.pipeline.intake.name,
        declaration=_declaration(job, manifest),
        settings={name: spark.conf.get(name, None) for name in manifest.settings},
        versions=installed_versions(),
        tables=job.tables.by_role,
        columns=_columns(job, manifest),
        handlers=_handlers(job, archive, manifest),
    )
    return compare_savepoint(manifest, declared_job)


def compare_savepoint(manifest: Manifest, declared_job: DeclaredJob) -> UpgradeReport:
    """Compare a savepoint with the properties of a job as it is declared now."""
    declared = compare_declarations(in_force(manifest.declaration, manifest.batch), declared_job.declaration)
    items = (
        *_state_changes(manifest, declared_job.handlers, changed=any(one.differences for one in declared)),
        name_change(manifest.job, declared_job.name),
        flush_change(flushed=any(file.path == FLUSHED_FILE for file in manifest.files)),
        *declared,
        *_table_changes(
            manifest.tables, declared_job, same=all(one.compatibility is Compatibility.COMPATIBLE for one in declared)
        ),
        *_setting_changes(manifest, declared_job.settings),
        *_package_changes(manifest, declared_job.versions),
    )
    return UpgradeReport(savepoint=manifest.name, job=manifest.job, new_job=declared_job.name, items=items)


def _fits(item: str, why: str, *, advice: str = "", differences: tuple[Difference, ...] = ()) -> Change:
    return Change(item=item, compatibility=Compatibility.COMPATIBLE, why=why, advice=advice, differences=differences)


def _cannot_be_read(item: str, problem: str) -> Change:
    why, _, advice = problem.partition("; ")
    return Change(item=item, compatibility=Compatibility.IMPOSSIBLE, why=why, advice=advice)


def _state_changes(manifest: Manifest, handlers: Mapping[str, str | None], *, changed: bool) -> Iterator[Change]:
    problem, version = version_problem(manifest.state_version), manifest.state_version
    if problem is None:
        yield _fits("state", f"stored state has version {version}, which this version reads")
    else:
        yield _cannot_be_read("state", problem)
    if manifest.unfinished is not None and changed:
        why = "it was not finished, and is not in the savepoint: the declaration changes before it"
        yield _fits(f"batch {manifest.unfinished}", why)
    for name, wrong in handlers.items():
        item = f"state of handler {name}"
        yield _fits(item, "it reads the stored version") if wrong is None else _cannot_be_read(item, wrong)


def _table_changes(saved: Mapping[str, SavedTable], declared_job: DeclaredJob, *, same: bool) -> Iterator[Change]:
    for role in dict.fromkeys([*declared_job.tables, *saved]):
        item, path, before = f"table {role}", declared_job.tables.get(role), saved.get(role)
        if path is None:
            if before is not None:
                yield _fits(item, "no longer written: it stays as it is")
        elif wrong := declared_job.columns.get(role):
            verdict = Compatibility.IMPOSSIBLE if same else Compatibility.NEEDS_FLUSH
            advice = "choose another folder for it" if same else FLUSH
            yield Change(item=item, compatibility=verdict, why="; ".join(wrong), advice=advice)
        elif before is None:
            yield _fits(item, f"a new table, {path}: its first rows are those of the next batch")
        elif before.path != path:
            yield _fits(item, f"new rows go to {path}; the rows in {before.path} stay there")
        else:
            yield _fits(item, "unchanged")


def _setting_changes(manifest: Manifest, now: Mapping[str, str | None]) -> Iterator[Change]:
    """A query resumes with the settings of its checkpoint, whatever the session has."""
    differing = compare(manifest.settings, {name: now.get(name) for name in manifest.settings})
    if not differing:
        yield _fits("settings", "those that the checkpoint pins are unchanged")
    for one in differing:
        why = "the checkpoint pins it: the job resumes with the value in the checkpoint"
        partitions = one.new
        command = f"panekeeper rescale {shlex.quote(manifest.checkpoint)} --partitions {partitions} --to LOCATION"
        advice = f"to change it, rescale the stopped job: {command}" if one.field == PARTITIONS and partitions else ""
        yield _fits(f"setting {one.field}", why, advice=advice, differences=(one,))


def _package_changes(manifest: Manifest, now: Mapping[str, str]) -> Iterator[Change]:
    differing = {difference.field: difference for difference in compare(manifest.versions, now)}
    for name in now:
        if name not in differing:
            yield _fits(f"package {name}", "unchanged")
            continue
        why = "the stored state has a version of its own and does not depend on it"
        advice = f"try it on a clone first: panekeeper clone LOCATION {shlex.quote(manifest.name)} --into FOLDER"
        yield _fits(f"package {name}", why, advice=advice, differences=(differing[name],))


def _columns(job: DeltaJob, manifest: Manifest) -> dict[str, list[str]]:
    from delta.tables import DeltaTable

    from panekeeper.framework.engine.sink.tables import column_differences, without_missing

    spark = job.pipeline.intake.df.sparkSession
    spec = _spec_with_history(job, manifest)
    schemas = job.tables.schemas(spec)
    found: dict[str, list[str]] = {}
    for role, path in job.tables.by_role.items():
        if path is None:
            continue
        if DeltaTable.isDeltaTable(spark, path):
            columns = DeltaTable.forPath(spark, path).toDF().schema
            of = spec.parts[window_of(role)] if has_results(role) else spec
            found[role] = column_differences(columns, without_missing(schemas[path], columns, of))
        elif role in manifest.tables and manifest.tables[role].path == path:
            found[role] = [f"there is no table {path} any more"]
    return found


def _declaration(job: DeltaJob, manifest: Manifest) -> dict[str, Any]:
    pipeline = job.pipeline
    return as_recorded(pipeline.declaration(), pipeline.intake.key_groups or manifest.declaration["key_groups"])


def _spec_with_history(job: DeltaJob, manifest: Manifest) -> JobSpec:
    """Return what the job computes, with what the declaration in the savepoint leaves, if its state fits."""
    pipeline, declaration = job.pipeline, _declaration(job, manifest)
    changes = compare_declarations(in_force(manifest.declaration, manifest.batch), declaration)
    if any(one.compatibility is not Compatibility.COMPATIBLE for one in changes):
        return pipeline.spec
    after = upgraded(manifest.declaration, declaration, committed=manifest.batch, watermark_us=None)
    return pipeline.spec.with_history(after)


def _handlers(job: DeltaJob, archive: Archive, manifest: Manifest) -> dict[str, str | None]:
    """Return which handlers cannot read their stored state; a copy of the savepoint is read only if there are any."""
    handlers = {type(one).__qualname__: one for one in job.pipeline.spec.handlers}
    if not handlers or version_problem(manifest.state_version) is not None:
        return {}
    problems: dict[str, str | None] = {}
    with temporary_copy(archive, manifest) as folder:
        for state in stored_handlers(job.pipeline.intake.df.sparkSession, folder).values():
            if state.name in handlers:
                try:
                    require_readable(handlers[state.name], state)
                    problems.setdefault(state.name, None)
                except StateVersionError as error:
                    problems[state.name] = str(error)
    return problems
