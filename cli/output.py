"""What each command of `panekeeper` prints without `--json`, from the fields that `--json` prints, and its progress."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from panekeeper.framework.declarations.display import format_bytes
from panekeeper.recovery.storage.blobs import ProgressCallback, TransferProgress
from panekeeper.state.duration_text import duration_text

Fields = Mapping[str, Any]


def printable(text: str) -> str:
    r"""Return a text from a file in one line, without what a terminal would obey.

    >>> printable("a\x1b[2J\nb")
    'a\\x1b[2J\\nb'
    """
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def format_number(number: float | None) -> str:
    """Return a number; "none" if there is none.

    >>> format_number(1234567), format_number(None)
    ('1,234,567', 'none')
    """
    return "none" if number is None else f"{round(number, 1):,}"


def format_age(seconds: float | None) -> str:
    """Return how long ago something was; "none" if that is not known."""
    return "none" if seconds is None else duration_text(seconds)


def format_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return lines with columns of equal width, but for the last.

    >>> print(format_table(("a", "b"), [("12", "3")]))
    a   b
    12  3
    """
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    return "\n".join(
        "  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip()
        for row in (heads, *rows)
    )


def progress_line() -> ProgressCallback | None:
    """Return a callback that keeps one line of progress on stderr; None if stderr is not a terminal."""
    return _show_progress if sys.stderr.isatty() else None


def _show_progress(progress: TransferProgress) -> None:
    end = "\n" if progress.sent + progress.reused >= progress.total else ""
    sent, reused, total = map(format_bytes, (progress.sent, progress.reused, progress.total))
    sys.stderr.write(f"\r{f'{sent} transferred, {reused} reused of {total}':<70}{end}")
    sys.stderr.flush()


def status_lines(fields: Fields) -> str:
    """Return what `status` prints."""
    lines = [
        f"job {fields['job']!r} in {fields['checkpoint']}: {_running_text(fields)}",
        f"health: {fields['health']}, {fields['why']}",
        _last_batches(fields),
    ]
    if fields["watermark"] is not None:
        lines.append(f"watermark: {fields['watermark']}, {format_age(fields['watermark_lag'])} behind the present")
    now = {"rows/s": "rows_per_second", "rows behind": "rows_behind", "open panes": "open_panes"}
    lines += [counts] if (counts := _counts_text(fields, now)) else []
    known = {"rows": "rows", "late": "late", "too late": "dropped", "quarantined": "quarantined"}
    known |= {"missed panes": "missed_panes"} if fields["missed_panes"] else {}
    since = f"since its start at {fields['counted_since']}: " if fields["counted_since"] else ""
    lines += [f"{since}{counts}"] if (counts := _counts_text(fields, known)) else []
    if fields["errors"]:
        errors = [f"{reason} {count:,}" for reason, count in fields["errors"].items()]
        lines.append(f"{since}could not be computed: {', '.join(errors)}")
    saved = fields["last_savepoint"]
    if saved is not None:
        lines.append(
            f"last savepoint: {saved['name']} of batch {saved['batch']}, {saved['made_at']}, {saved['location']}"
        )
    return "\n".join([*lines, "resumable: " + ("yes" if fields["resumable"] else f"no, {fields['why_not']}")])


def _counts_text(fields: Fields, names: Mapping[str, str]) -> str:
    """Return those of some numbers that are known, by the text of each."""
    known = {text: fields[name] for text, name in names.items() if fields[name] is not None}
    return ", ".join(f"{text}: {format_number(number)}" for text, number in known.items())


def _running_text(fields: Fields) -> str:
    process = f"process {fields['pid']} on {fields['host']}"
    if fields["running"]:
        return f"running since {fields['since']}, {process}"
    if fields["state"] == "lost":
        return f"not running; {process} crashed, last heartbeat {fields['seen']}"
    return f"not running; {fields['state']} {fields['stopped'] or ''}".rstrip()


def _last_batches(fields: Fields) -> str:
    begun, committed = format_number(fields["last_offset"]), format_number(fields["last_commit"])
    return f"last batch begun: {begun}, committed: {committed}"


def jobs_lines(fields: Fields) -> str:
    """Return what `jobs` prints: a table, and below it why a job is not healthy."""
    jobs = fields["jobs"]
    if not jobs:
        return "no jobs"
    rows = [
        {
            "job": printable(one["job"] or "?"),
            "state": one["state"],
            "health": one["health"],
            "batch": format_number(one["last_commit"]),
            "last batch": format_age(one["last_batch_age"]),
            "lag": format_age(one["watermark_lag"]),
            "behind": format_number(one["rows_behind"]),
            "rows/s": format_number(one["rows_per_second"]),
            "savepoint": format_age(one["last_savepoint"] and one["last_savepoint"]["age"]),
            "resumable": "yes" if one["resumable"] else "no",
            "checkpoint": printable(one["checkpoint"]),
        }
        for one in jobs
    ]
    notes = [printable(f"{one['checkpoint']}: {one['why']}") for one in jobs if one["health"] != "healthy"]
    return "\n".join([format_table([*rows[0]], [[*row.values()] for row in rows]), *notes])


def drain_lines(fields: Fields) -> str:
    """Return what `drain` prints; the open work of the job only as far as the job recorded it."""
    next_start = "the next start resumes there" if fields["resumable"] else "its windows are closed for good"
    lines = [
        f"job {fields['job']!r} in {fields['checkpoint']}: {fields['state']} after {duration_text(fields['seconds'])}",
        f"{_last_batches(fields)}; {next_start}",
    ]
    open_work = fields.get("open")
    if open_work is not None:
        listed = ", ".join(f"{name} {open_work[name]}" for name in ("panes", "rows") if open_work[name] is not None)
        lines.append(f"still open: {listed or 'not known'}")
        if open_work["next_due"] is not None:
            lines.append(f"next due: {open_work['next_due']}")
    return "\n".join(lines)


def panes_lines(fields: Fields) -> str:
    """Return what `panes` prints: a table, one row each."""
    own = ("pane_start", "pane_end", "rows", "state", "firings", "unfired", "next", *_WAITS_FOR, "watermark")

    def row(one: Fields) -> dict[str, Any]:
        keys = {name: value for name, value in one.items() if name not in own}
        return {
            **keys,
            "pane": f"{one['pane_start']}/{one['pane_end']}",
            **{name: one[name] for name in ("rows", "state", "firings")},
            "waits for": waits_text(one),
        }

    number, states = fields["open_panes"], fields.get("states")
    if not fields["rows"]:
        return "no open panes" if not states else f"none is {' or '.join(states)}; open panes: {format_number(number)}"
    lines = [_rows_lines([row(one) for one in fields["rows"]], "", fields)]
    if number is not None:
        lines.append(f"open panes: {number:,}, each once, whichever partitions have rows in it")
    return "\n".join(lines)


_WAITS_FOR = ("fires_at", "closes_at", "next_clock", "next_rows")


def waits_text(one: Fields) -> str:
    """Return what an open pane waits for.

    >>> times = {"fires_at": "11:00", "closes_at": "12:00", "next_clock": None}
    >>> waits_text({"state": "open", "next": "fire", "next_rows": 2, **times})
    'watermark 11:00 to fire, or 2 more rows'
    """
    at = f"watermark {one['closes_at'] if one['fires_at'] is None else one['fires_at']}"
    parts = [f"{'any greater watermark' if one['state'] == 'overdue' else at} to {one['next']}"]
    parts += [] if one["next_rows"] is None else [f"{one['next_rows']} more row{'s' if one['next_rows'] != 1 else ''}"]
    parts += [] if one["next_clock"] is None else [f"the wall clock at {one['next_clock']}"]
    return ", or ".join(parts)


def partitions_lines(fields: Fields) -> str:
    """Return what `partitions` prints: a table, one row each."""
    return _rows_lines(fields["rows"], "no live partitions", fields)


def diff_lines(fields: Fields) -> str:
    """Return what `diff` prints: tables of what is open and of results, with `before -> after` of what has changed."""
    parts = [_rows_lines(_changed_rows(fields["rows"]), "no differences in what is open", fields)]
    for found in fields["results"]:
        of = f" of {found['window']}" if found["window"] else ""
        if "why_not" in found:
            parts.append(f"results{of} are not shown: {found['why_not']}")
        else:
            lines = _rows_lines(_changed_rows(found["rows"]), "", found)
            parts.append(f"results{of}\n{lines}" if lines else f"no results{of}")
    return "\n\n".join(parts)


def _changed_rows(rows: Sequence[Fields]) -> list[Fields]:
    ending = "_before"

    def row(one: Fields) -> dict[str, Any]:
        shown = {}
        for name, value in one.items():
            if name.endswith(ending) and name.removesuffix(ending) in one:
                continue
            before = one.get(f"{name}{ending}", value)
            there = before if one["change"] == "went" else value
            shown[name] = f"{before} -> {value}" if one["change"] == "changed" and before != value else there
        return shown

    return [row(one) for one in rows]


def why_lines(fields: Fields) -> str:
    """Return what `why` prints: the verdict, and below it each reason."""
    return "\n".join([fields["verdict"], *(f"  {one}" for one in fields["reasons"])])


def _rows_lines(rows: Sequence[Fields], none: str, fields: Fields) -> str:
    if not rows:
        return none
    texts = [["-" if value is None else printable(str(value)) for value in row.values()] for row in rows]
    more = ["and more; --limit N prints them"] if fields["more"] else []
    return "\n".join([format_table([*rows[0]], texts), *more])


def savepoint_lines(fields: Fields) -> str:
    """Return what `savepoint` prints."""
    sent, reused = format_bytes(fields["bytes_sent"]), format_bytes(fields["bytes_reused"])
    what = f"savepoint {fields['name']} of job {fields['job']} as of batch {fields['batch']} is in {fields['location']}"
    lines = [f"{what}: {fields['files']} files, {sent} sent, {reused} reused{_decoded(fields)}"]
    if fields["unfinished"] is not None:
        lines.append(f"batch {fields['unfinished']} was begun and not committed; it is not in the savepoint")
    if not fields["tables"]:
        lines.append("this checkpoint names no Delta tables, so a restore will leave all tables as they are")
    return "\n".join(lines)


def savepoints_lines(fields: Fields) -> str:
    """Return what `savepoints` prints."""
    return "\n".join(
        f"{one['name']}: {one['problem']}"
        if "problem" in one
        else f"{one['name']}: {one['made_at']}, job {one['job']}, batch {one['batch']}, {format_bytes(one['bytes'])}"
        for one in fields["savepoints"]
    )


def show_lines(fields: Fields) -> str:
    """Return what `show` prints."""
    first = ("name", "made_at", "job", "job_id", "epoch", "checkpoint", "batch", "unfinished", "state_version")
    lines = [f"{name}: {fields[name]}" for name in first]
    lines += [
        f"table {role}: {table['path']} at version {table['version']}" for role, table in fields["tables"].items()
    ]
    for group in ("versions", "declaration", "settings"):
        lines += [f"{group} {name}: {value}" for name, value in fields[group].items()]
    return "\n".join([*lines, f"files: {len(fields['files'])}, {format_bytes(fields['bytes'])}"])


def verify_lines(fields: Fields) -> str:
    """Return what `verify` prints."""
    size = f"{fields['files']} files, {format_bytes(fields['bytes'])}"
    return f"savepoint {fields['name']} is intact: {size}{_decoded(fields)}"


def _decoded(fields: Fields) -> str:
    return "" if fields["values"] is None else f"; {fields['values']} stored values decoded"


def prune_lines(fields: Fields) -> str:
    """Return what `prune` prints, of a location of savepoints or of a checkpoint."""
    removed, size = ", ".join(map(str, fields["removed"])) or "none", format_bytes(fields["bytes"])
    if "current" in fields:
        return f"former epochs removed: {removed}; {size}; epoch {fields['current']} is current"
    if fields["being_made"]:
        removed += "; a savepoint is being made there, so files are kept until the next prune"
    return f"removed: {removed}; {fields['blobs']} files, {size}; {len(fields['kept'])} savepoints are kept"


def restore_lines(fields: Fields) -> str:
    """Return what `restore` prints."""
    was, are = ("would be", "would be") if fields["dry_run"] else ("was", "are")
    changed = f"{fields['checkpoint']} {was} {'taken back' if fields['replaces'] else 'created'}"
    size = f"{fields['files']} files, {format_bytes(fields['bytes'])}"
    lines = [f"{changed}: {size}; the job resumes after batch {fields['batch']}, epoch {fields['epoch']}"]
    if fields["forgotten"] is not None:
        first, last = fields["forgotten"]
        lines.append(f"batches {first} to {last} {are} discarded")
    lines += [
        f"table {role}: {table['path']} from version {table['old']} to {table['new']}"
        for role, table in fields["tables"].items()
    ]
    filled = fields["filled"]
    lines += [
        f"table {role}: {path} is gone; the next start makes it {'from the log' if role in filled else 'empty'}"
        for role, path in fields["remade"].items()
    ]
    return "\n".join(lines)


def clone_lines(fields: Fields) -> str:
    """Return what `clone` prints."""
    lines = [f"table {role}: {path}" for role, path in fields["tables"].items()]
    return "\n".join([f"savepoint {fields['name']} was cloned: checkpoint {fields['checkpoint']}", *lines])


def offsets_lines(fields: Fields) -> str:
    """Return what `offsets` prints: a line that can be passed on as it is, for each source."""
    several = len(fields["sources"]) > 1
    lines = [
        f"{one['source']}\t{json.dumps(one['starting_offsets'])}" if several else json.dumps(one["starting_offsets"])
        for one in fields["sources"]
    ]
    return "\n".join([*lines, *deleted_lines(fields["deleted"] or [])])


def deleted_lines(deleted: Sequence[Fields]) -> list[str]:
    """Return a line for each range of messages that the broker no longer has."""
    return [
        f"topic {one['topic']}, partition {one['partition']}: "
        + (
            f"the broker has nothing from {one['first']} on: it was deleted or created anew"
            if one["last"] is None
            else f"messages {one['first']} to {one['last']} are gone"
        )
        for one in deleted
    ]


def maintain_lines(fields: Fields) -> str:
    """Return what `maintain` prints."""
    lines = [f"tables of job {fields['job']} ({fields['checkpoint']}); {fields['savepoints']} savepoints have them"]
    done = "would be" if fields["dry_run"] else "were"
    for table in fields["tables"]:
        small = "small files" if table["compacted"] is None else f"{table['compacted']} small files"
        into = "" if fields["dry_run"] else f" into {table['added']}"
        parts = [f"{small} {done} compacted{into}"]
        if table["retained_hours"] is not None:
            parts.append(f"{table['removed']} unused files {done} removed ({format_bytes(table['bytes'])})")
        if table["kept"]:
            parts.append(f"{table['kept']} are kept for savepoints")
        lines.append(f"{table['role']}: {', '.join(parts)}")
        lines += [f"    {line}" for line in filter(None, (table["problem"], *table["notes"]))]
    return "\n".join(lines)


def replay_lines(fields: Fields) -> str:
    """Return what `replay` prints: the steps of a partition, then whether what came out is what is recorded."""
    counts = ", ".join(f"{name} {number:,}" for name, number in fields["counts"].items() if number) or "no rows"
    key = "".join(f" {name}={value}" for name, value in (fields["key"] or {}).items())
    whose = f"{key}; its key group" if key else ""
    lines = [f"batch {fields['batch']} of job {fields['job']}{whose}: {counts}"]
    lines += [line for step in fields["steps"] for line in step.splitlines()]
    lines.append(f"equal: {', '.join(fields['compared'])}" if fields["equal"] else "differs from what is recorded")
    lines += [f"  {one}" for one in fields["differences"]]
    lines += [f"not compared: {one}" for one in fields["not_compared"]]
    return "\n".join(map(printable, lines))


def plan_lines(fields: Fields) -> str:
    """Return what `plan` prints."""
    of = f"savepoint {fields['savepoint']}" if fields["savepoint"] else f"checkpoint {fields['checkpoint']}"
    lines = [f"{of} of job {fields['job']} and {fields['new_job']}: {fields['verdict']}"]
    for item in fields["items"]:
        if not item["changed"]:
            continue
        lines.append(f"  {item['item']}: {item['verdict']} ({item['why']})")
        lines += [f"      {difference}" for difference in item["differences"]]
        if item["advice"]:
            lines.append(f"      {item['advice']}")
    same = [item["item"] for item in fields["items"] if not item["changed"]]
    lines += [f"  unchanged: {', '.join(same)}"] if same else []
    tried = fields.get("tried")
    if tried is not None:
        lines.append(
            f"not tried: {printable(tried['problem'])}" if "problem" in tried else f"tried: {try_lines(tried)}"
        )
    return "\n".join(lines)


def report_lines(fields: Fields) -> str:
    """Return what `report` prints."""
    shown = f"{fields['batches']:,} batches and {fields['panes']:,} panes"
    return "\n".join(
        [f"report of job {fields['job']!r}: {shown}, in {fields['file']} ({format_bytes(fields['bytes'])})"]
        + fields["notes"]
    )


def settle_lines(fields: Fields) -> str:
    """Return what `settle` prints: how many panes there are of each kind, and those with another result."""
    verb = "would be settled" if fields["dry_run"] else "were settled"
    words = {
        "settled": verb,
        "unchanged": "stay as they are",
        "open": "are open, and wait until they are closed",
        "ahead": "are left, as they have rows that were ahead of the clock",
        "no rows": "are left, as the source has no row of them",
    }
    counts = [f"{fields['counts'][name]} {what}" for name, what in words.items() if fields["counts"][name]]
    head = f"panes of job {fields['job']} with quarantined rows, as of batch {fields['batch']}"

    def row(one: Fields) -> dict[str, Any]:
        return {
            **({"window": one["window"]} if "window" in one else {}),
            **one["key"],
            "pane": f"{one['pane_start']}/{one['pane_end']}",
            "rows": one["rows"],
            "outcome": one["outcome"],
            "refinement": one["refinement"],
            "result": result_text(one["before"], one["after"]),
        }

    summary = f"{head}: {', '.join(counts) or 'none'}"
    return "\n".join([summary, *([_rows_lines([*map(row, fields["panes"])], "", fields)] if fields["panes"] else [])])


def result_text(before: Fields | None, after: Fields | None) -> str:
    """Return what a settlement changes in a result.

    >>> result_text({"n": 1, "worst": 7}, {"n": 2, "worst": 7}), result_text(None, {"n": 1})
    ('n: 1 -> 2', 'n: none -> 1')
    """
    if after is None:
        return "-"
    olds = {name: "none" if before is None else before[name] for name in after}
    return ", ".join(f"{name}: {olds[name]} -> {new}" for name, new in after.items() if olds[name] != new) or "-"


def try_lines(fields: Fields) -> str:
    """Return what `try` prints: what is declared otherwise, the figures side by side, and which results differ."""
    lines = [f"job {fields['job']}, batches {fields['first']} to {fields['last']}, from {fields['begins']}"]
    lines += [f"  {one}" for one in fields["changes"]] or ["  declared as recorded"]
    lines += _compared_lines(fields)
    for name, one in fields.get("windows", {}).items():
        lines += [f"window {name}", *_compared_lines(one)]
    return "\n".join(lines)


def _compared_lines(fields: Fields) -> list[str]:
    """Return the figures side by side, and which results differ."""
    names = {
        "rows": "rows",
        "quarantined": "quarantined",
        "refined_late": "late, in a refinement",
        "dropped_late": "late, dropped",
        "results": "results",
        "refinements": "refinements",
    }
    sides = fields["recorded"], fields["tried"]
    rows = [
        [text, *(format_number(one[name]) for one in sides)] for name, text in names.items() if name in fields["tried"]
    ]
    rows.append(["delay of results", *(_delay_text(one["delay"]) for one in sides)])
    lines = [format_table(("", "recorded", "tried"), rows)]
    counts = {
        "same": "the same",
        "changed": "changed",
        "only_before": "only recorded",
        "only_after": "only tried",
        "open_before": "not yet recorded",
        "open_after": "not yet tried",
    }
    listed = [f"{fields['results'][name]:,} {text}" for name, text in counts.items() if fields["results"][name]]
    lines.append(f"newest results: {', '.join(listed) or 'none'}")
    lines += [
        f"  column {name}: only {side}, not compared" for side, names in fields["columns"].items() for name in names
    ]
    shown = [f"  {_difference_text(one)}" for one in fields["differences"]]
    differ = sum(fields["results"][name] for name in ("changed", "only_before", "only_after"))
    more = differ > len(shown) and "windows" not in fields  # of several windows each has its own
    return [*lines, *map(printable, shown), *(["  and more; --limit N prints them"] if more else [])]


def _delay_text(delay: Fields) -> str:
    """Return the least, the median and the greatest delay.

    >>> _delay_text({"least": 60.0, "median": 90.0, "greatest": 7200.0})
    '1m, median 1m 30s, up to 2h'
    """
    if delay["median"] is None:
        return "none"
    least, median, greatest = (duration_text(delay[name]) for name in ("least", "median", "greatest"))
    return f"{least}, median {median}, up to {greatest}"


def _difference_text(one: Fields) -> str:
    own = ("pane_start", "pane_end")
    place = [f"{name}={value}" for name, value in one["place"].items() if name not in own]
    if "pane_start" in one["place"]:
        place.append("/".join(str(one["place"][name]) for name in own))
    before, after = one["recorded"], one["tried"]
    if before is None or after is None:
        values, side = (after, "only tried") if before is None else (before, "only recorded")
        text = ", ".join(f"{name} {value}" for name, value in (values or {}).items())
        return f"{' '.join([*place, side])}: {text}"
    return f"{' '.join(place)}: {', '.join(f'{name} {value} -> {after[name]}' for name, value in before.items())}"


def advise_lines(fields: Fields) -> str:
    """Return what `advise` prints: a table with a line for each delay, the one of the job first."""
    heads = ("watermark", "in time", "late", "tried", "refined", "dropped", "results", "delay of results")

    def row(one: Fields) -> list[str]:
        share = (fields["rows"] - one["late"]) / fields["rows"] if fields["rows"] else 1.0
        what = "now" if one["share"] is None else f"{one['share']} %"
        return [
            f"{one['watermark']} ({what})",
            f"{share:.4%}",
            format_number(one["late"]),
            "as recorded" if one["behind"] is None else format_number(one["behind"]),
            *(format_number(one[name]) for name in ("refined_late", "dropped_late", "results")),
            _delay_text(one["delay"]),
        ]

    head = f"job {fields['job']}, batches {fields['first']} to {fields['last']}, from {fields['begins']}"
    return "\n".join(
        [
            f"{head}: {fields['rows']:,} rows with an event time",
            format_table(heads, [row(one) for one in fields["delays"]]),
        ]
    )


def rescale_lines(fields: Fields) -> str:
    """Return what `rescale` prints."""
    before = f"before: {fields['old']}; {fields['values']} stored values were compared and are the same"
    lines = [
        f"{fields['checkpoint']} has {fields['new']} shuffle partitions now ({before})",
        f"to undo it: panekeeper restore {shlex.quote(fields['location'])} {shlex.quote(fields['savepoint'])}",
        f"at most {fields['busiest']} key groups share a shuffle partition",
    ]
    if fields["idle"]:
        lines.append(f"{fields['idle']} shuffle partitions have no key group and do nothing")
    return "\n".join(lines)


def drill_lines(fields: Fields) -> str:
    """Return what `drill` prints: a table of its results, and below it why one is not as it should be."""
    if "drills" in fields:
        return "\n".join(fields["drills"])
    heads = ("drill", "outcome", "rows", "missing", "extra", "seconds")
    rows = [[str(one[name]) for name in heads] for one in fields["results"]]
    whys = [f"{one['drill']}: {one['why']}" for one in fields["results"] if one["why"]]
    return "\n".join([format_table(heads, rows), *whys])


def doctor_lines(fields: Fields) -> str:
    """Return what `doctor` prints."""
    machines = [("driver", fields["driver"]), *(("executor", one) for one in fields["executors"])]
    rows = [
        (role, one["host"], one["python"], ", ".join(f"{name} {v}" for name, v in one["packages"].items()))
        for role, one in machines
    ]
    return "\n".join(
        [
            f"Spark {fields['spark']} on Java {fields['java']}, {fields['master']}, {fields['cores']} cores",
            format_table(("role", "host", "Python", "packages"), rows),
            *(f"{one['level']}: {one['where']}: {one['problem']}" for one in fields["findings"]),
            "jobs can run" if fields["can_run"] else "jobs cannot run",
        ]
    )
