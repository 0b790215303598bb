"""The log of a Delta table, read as what it is: JSON lines in numbered files, and checkpoints in place of old ones.

Only there stands which transactions a commit had, and no Java starts for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from panekeeper.framework.declarations.errors import SinkError
from panekeeper.framework.engine.sink.table_at_version import TableAtVersion
from panekeeper.state.checkpoint.folder import CheckpointFolder, parse_json
from panekeeper.state.checkpoint.job_record import SETTLEMENT, TRANSACTION

LOG = "_delta_log"
COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.(?:.*\.)?(?:parquet|json)")
_OF_A_TABLE = ("txn", "metaData", "protocol")
"""The actions that say what a table is; the others name its files."""

Action = Mapping[str, Any]
"""What one line of a commit says."""


@dataclass(frozen=True)
class Commit:
    """One version of a table, with the actions of its commit, as the log has them."""

    version: int
    actions: Sequence[Action]

    @cached_property
    def transactions(self) -> dict[str, int]:
        """Transaction id -> version, of those that the commit has."""
        return {
            str(transaction.get("appId")): int(transaction.get("version", -1)) for transaction in self.all_of("txn")
        }

    @property
    def operation(self) -> str | None:
        """What the commit was made by, as it says, such as MERGE; None if it does not say."""
        return self._info.get("operation")

    @property
    def restores(self) -> int | None:
        """To which version it has taken its table back; -1 if it does not say, None if it has not."""
        if self.operation != "RESTORE":
            return None
        version = str((self._info.get("operationParameters") or {}).get("version"))
        return int(version) if version.isdecimal() else -1

    @property
    def written_us(self) -> int | None:
        """When it was made, by the clock of the writer, us since the epoch; None if it does not say."""
        at = self._info.get("timestamp")
        return at * 1000 if isinstance(at, int) else None

    @property
    def added(self) -> list[str]:
        """The names of the files that it has added, within the folder of the table."""
        return [unquote(str(file["path"])) for file in self.all_of("add")]

    @property
    def rows_added(self) -> int | None:
        """How many rows are in the files that it has added; None if one of these does not say."""
        try:
            return sum(int(parse_json(file["stats"].encode())["numRecords"]) for file in self.all_of("add"))
        except (KeyError, TypeError, ValueError, AttributeError):  # a writer need not count, and may leave it null
            return None

    @property
    def is_settlement(self) -> bool:
        """Whether a settlement has made it: a fence has its transaction, too, and no rows."""
        return bool(self.added) and any(map(SETTLEMENT.fullmatch, self.transactions))

    @property
    def changes_table(self) -> bool:
        """Whether it changes rows or columns; OPTIMIZE writes the same rows to other files."""
        files = (action[kind] for action in self.actions for kind in ("add", "remove") if kind in action)
        return any("metaData" in action for action in self.actions) or any(
            (file or {}).get("dataChange", True) for file in files
        )

    @property
    def is_note(self) -> bool:
        """Whether it has transactions alone."""
        return all(action.keys() <= {"commitInfo", "txn"} for action in self.actions)

    def all_of(self, kind: str) -> list[Action]:
        """Return the actions of a kind, such as `metaData`."""
        return [action[kind] for action in self.actions if kind in action]

    @property
    def _info(self) -> Action:
        return next(iter(self.all_of("commitInfo")), {})


def newest_first(table: CheckpointFolder) -> Iterator[Commit]:
    """Yield the commits of a table, read one at a time: a caller may stop early in a long log."""
    for version in sorted(versions_in(table.names(LOG), COMMIT), reverse=True):
        name = commit_file(version)
        try:
            actions = _actions_of(table.read(name))
        except ValueError as error:
            raise SinkError(
                f"{name} in {table.root} is not a Delta commit ({error}); put a copy of the table back, or move its "
                "folder away and restore the job from a savepoint"
            ) from error
        yield Commit(version, actions)


def kept_commits(table: CheckpointFolder, version: int | None = None) -> Iterator[Commit]:
    """Yield as `newest_first`, without the commits that a restore has discarded; one to a time does not say which.

    `version` is the last one that counts; None: the newest.
    """
    for commit in newest_first(table):
        if version is None or commit.version <= version:
            yield commit
            if commit.restores is not None and commit.restores >= 0:
                version = commit.restores


def newest_version(table: CheckpointFolder) -> int:
    """Return a table's newest version; raises `SinkError` if there is no table."""
    versions = versions_in(table.names(LOG), COMMIT)
    if not versions:
        raise SinkError(
            f"{table.root} holds no Delta table ({LOG} has no commit), and the checkpoint names it as one; "
            "bring the table back, or restore the job from a savepoint"
        )
    return max(versions)


def has_version(table: CheckpointFolder, version: int) -> bool:
    """Return whether the log can still be read up to a version. The table's files may be gone nevertheless."""
    names = table.names(LOG)
    commits = versions_in(names, COMMIT)
    start = max((number for number in versions_in(names, _CHECKPOINT) if number <= version), default=-1)
    return version in commits and all(number in commits for number in range(start + 1, version + 1))


def read_table(table: CheckpointFolder, path: str | None = None) -> TableAtVersion:
    """Return a table as it is now, by its newest checkpoint and the commits after it.

    `path` is its name for messages; None: that of the folder. Raises `SinkError` for a commit that cannot be read.
    """
    version, said, transactions = _newest(table)
    return TableAtVersion.of_actions(
        table.root if path is None else path,
        version,
        said.get("metaData", {}),
        said.get("protocol", {}),
        lambda app_id: transactions.get(app_id, -1),
    )


def transactions_of(table: CheckpointFolder) -> dict[str, int]:
    """Return id -> last version of all transactions of a table. Raises as `read_table`."""
    return _newest(table)[2]


def jobs_since(table: CheckpointFolder, version: int) -> dict[str, str]:
    """Return id of a checkpoint -> name of its job, of the jobs whose rows a table would lose or get at a version.

    What came after the version is lost, unless a restore since has discarded it; what such a restore has discarded from
    before the version comes back. Changes that no job has made have the id `""`: rows of another program, a DELETE.
    """
    jobs: dict[str, str] = {}
    kept_now = kept_then = newest_version(table)  # up to which version commits are kept
    for commit in newest_first(table):
        now, then = commit.version <= kept_now, commit.version <= min(kept_then, version)
        if now and then:
            break  # from here on both keep the same
        if (to := commit.restores) is not None:
            kept_now = to if now and to >= 0 else kept_now
            kept_then = to if then and to >= 0 else kept_then
        elif now != then and commit.changes_table:
            ids = map(TRANSACTION.fullmatch, commit.transactions)
            jobs |= {match[2]: match[1] for match in ids if match} or {"": ""}
    return jobs


def commit_file(version: int) -> str:
    """Return the name of the file of a commit in a table's folder."""
    return f"{LOG}/{version:020d}.json"


def versions_in(names: Iterable[str], kind: re.Pattern[str]) -> set[int]:
    """Return the versions that files of a kind are of."""
    return {int(match[1]) for name in names if (match := kind.fullmatch(name))}


def _newest(table: CheckpointFolder) -> tuple[int, dict[str, Action], dict[str, int]]:
    """Return the newest version, `metaData` and `protocol` as of then, and the last version of each transaction."""
    newest, earlier = _checkpointed(table)
    said, transactions = dict[str, Action](), dict[str, int]()
    checkpoint = Commit(newest, earlier)
    for commit in (*takewhile(lambda newer: newer.version > checkpoint.version, newest_first(table)), checkpoint):
        newest = max(newest, commit.version)
        transactions = commit.transactions | transactions
        said = {kind: action for kind in ("metaData", "protocol") for action in commit.all_of(kind)} | said
    return newest, said, transactions


def _checkpointed(table: CheckpointFolder) -> tuple[int, list[Action]]:
    """Return the version of the newest checkpoint of the log, -1 for none, and what it says of the table.

    The commits that have said it may have been cleaned up.
    """
    names = [name for name in table.names(LOG) if _CHECKPOINT.fullmatch(name)]
    version, table_actions = max(versions_in(names, _CHECKPOINT), default=-1), list[Action]()
    for name in (name for name in names if int(name[:20]) == version):
        content = table.read(f"{LOG}/{name}")
        if name.endswith(".json"):
            actions = _actions_of(content)
            table_actions += [
                {kind: action[kind]} for action in actions for kind in _OF_A_TABLE if isinstance(action.get(kind), dict)
            ]
            continue
        try:
            file = pq.ParquetFile(pa.BufferReader(content))
            rows = file.read([kind for kind in _OF_A_TABLE if kind in file.schema_arrow.names])
        except pa.ArrowException:
            continue
        table_actions += [
            {kind: action} for kind in rows.column_names for action in rows.column(kind).drop_null().to_pylist()
        ]
    return version, table_actions


def _actions_of(content: bytes) -> list[Action]:
    """Return the actions of a commit. Raises `ValueError` if it is none."""
    actions = [parse_json(line) for line in content.splitlines() if line]
    if not all(isinstance(action, dict) for action in actions):
        raise ValueError("a line is no JSON object")
    return actions
