"""The subcommand `offsets`, and how `restore` compares them with a broker's."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from panekeeper.recovery.cli.schema import Schema, object_schema, schema_of
from panekeeper.recovery.cli.subcommand import Subcommand, add_s3_arguments, done_if, s3_options

if TYPE_CHECKING:
    from panekeeper.recovery.kafka import SourceOffsets


def add_broker_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare how the broker is reached whose earliest offsets are compared."""
    group = parser.add_argument_group("Kafka", "to say which messages are gone; needs the extra: panekeeper[kafka]")
    group.add_argument("--bootstrap-servers", metavar="HOST:PORT", help="the brokers, several with commas")
    group.add_argument("--kafka-config", type=Path, metavar="FILE", help="more settings of the client, name=value")


def deleted_messages_of(options: argparse.Namespace, offsets: SourceOffsets) -> list[dict[str, Any]]:
    """Return what the broker of `add_broker_arguments` no longer has."""
    from panekeeper.recovery.kafka import deleted_messages, read_config

    config = {} if options.kafka_config is None else read_config(options.kafka_config)
    return [asdict(one) for one in deleted_messages(offsets, options.bootstrap_servers, config=config)]


def format_deleted(deleted: list[dict[str, Any]]) -> list[str]:
    """Return a line for each range of messages that is gone."""
    return [
        f"topic {one['topic']}, partition {one['partition']}: "
        + (
            f"the broker has nothing from {one['first']} on: it was deleted or created anew"
            if one["last"] is None
            else f"messages {one['first']} to {one['last']} are gone"
        )
        for one in deleted
    ]


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("place", metavar="CHECKPOINT|LOCATION", help="a checkpoint, or where savepoints are")
    parser.add_argument("name", metavar="NAME", nargs="?", help="the name of a savepoint in LOCATION")
    add_s3_arguments(parser)
    add_broker_arguments(parser)


def _run(options: argparse.Namespace) -> dict[str, Any]:
    from panekeeper.recovery.kafka import checkpoint_offsets, savepoint_offsets

    s3 = s3_options(options)
    if options.name is None:
        found = checkpoint_offsets(options.place, s3=s3)
    else:
        found = savepoint_offsets(options.place, options.name, s3=s3)
    sources = [{"source": number, "starting_offsets": offsets} for number, offsets in sorted(found.sources.items())]
    deleted = None if options.bootstrap_servers is None else deleted_messages_of(options, found)
    return {"batch": found.batch, "sources": sources, "deleted": deleted}


def _format(fields: dict[str, Any]) -> str:
    several = len(fields["sources"]) > 1
    lines = [
        f"{one['source']}\t{json.dumps(one['starting_offsets'])}" if several else json.dumps(one["starting_offsets"])
        for one in fields["sources"]
    ]
    return "\n".join([*lines, *format_deleted(fields["deleted"] or [])])


def deleted_schema() -> Schema:
    """Return the schema of `deleted_messages_of`; null if no broker is given."""
    from panekeeper.recovery.kafka import DeletedMessages

    return schema_of(list[DeletedMessages] | None)


def _schema() -> Schema:
    source = object_schema(source=int, starting_offsets=dict[str, dict[str, int]])
    sources = {"type": "array", "items": source}
    return object_schema(batch=int, sources=sources, deleted=deleted_schema())


OFFSETS = Subcommand(
    name="offsets",
    help="print where a checkpoint or a savepoint continues in Kafka, as `startingOffsets`",
    arguments=_arguments,
    run=_run,
    format=_format,
    schema=_schema,
    exit_code=lambda _, fields: done_if(not fields["deleted"]),
)
