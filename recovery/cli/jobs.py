"""The subcommands `status` and `drain`: a job looked after from another process. What they do is in `outside.py`."""

from __future__ import annotations

import argparse
from typing import Any

from recovery.cli.main import Command
from recovery.jobs.remote import checkpoint_folder, drain, status
from state.checkpoint.owner import show_time


def outside_commands() -> tuple[Command, ...]:
    """Both, in the order of `--help`."""
    return (
        Command(
            name="status",
            help="say whether a job runs on a checkpoint, who runs it, and whether it can go on from there",
            arguments=_takes_checkpoint,
            run=lambda options: status(checkpoint_folder(options.checkpoint)),
            words=status_words,
        ),
        Command(
            name="drain",
            help="ask the job that runs on a checkpoint to end with nothing half done, and wait until it has",
            arguments=_takes_timeout,
            run=lambda options: drain(checkpoint_folder(options.checkpoint), timeout=options.timeout),
            words=drain_words,
        ),
    )


def status_words(told: dict[str, Any]) -> str:
    """Return what `status` found, in lines to read."""
    return "\n".join(
        [
            f"job {told['job']!r} in {told['checkpoint']}: {_standing(told)}",
            f"last batch begun: {_number(told['last_offset'])}, finished: {_number(told['last_commit'])}",
            "resumable: " + ("yes" if told["resumable"] else f"no, {told['why_not']}"),
        ]
    )


def drain_words(told: dict[str, Any]) -> str:
    """Return what `drain` found, in lines to read; of what the job left only what it said."""
    lines = [
        f"job {told['job']!r} in {told['checkpoint']}: {told['state']} after {told['seconds']:g} s",
        f"last batch begun: {_number(told['last_offset'])}, finished: {_number(told['last_commit'])}; "
        + ("the next start goes on there" if told["resumable"] else "its windows are closed for good"),
    ]
    left = told.get("open")
    if left is not None:
        counts = ", ".join(f"{name} {left[name]}" for name in ("panes", "tuples") if left.get(name) is not None)
        lines.append(f"still open: {counts or 'nothing'}")
        if left.get("next_due") is not None:
            lines.append(f"next due: {show_time(left['next_due'])}")
    return "\n".join(lines)


def _standing(told: dict[str, Any]) -> str:
    who = f"process {told['pid']} on {told['host']}"
    if told["running"]:
        return f"running since {show_time(told['since_us'])}, {who}"
    if told["state"] == "lost":
        return f"not running; {who} vanished, last seen {show_time(told['seen_us'])}"
    if told["stopped_us"] is None:
        return f"not running; {told['state']}"
    return f"not running; {told['state']} {show_time(told['stopped_us'])}"


def _number(batch: int | None) -> str:
    return "none" if batch is None else str(batch)


def _takes_checkpoint(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", help="the folder or URL given to start(checkpoint=...)")


def _takes_timeout(parser: argparse.ArgumentParser) -> None:
    _takes_checkpoint(parser)
    parser.add_argument(
        "--timeout", type=_seconds, default=300.0, metavar="SECONDS", help="how long to wait for the job (300)"
    )


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds above 0")
    return seconds
