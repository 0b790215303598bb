"""The subcommand `doctor`: can this cluster run jobs (`recovery/doctor.py`)?"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from panekeeper.recovery.cli.printing import format_table
from panekeeper.recovery.cli.schema import Schema, object_schema
from panekeeper.recovery.cli.subcommand import Subcommand, done_if


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "places", metavar="PLACE", nargs="*", help="where checkpoints or tables are to be: a folder or URL, tried out"
    )
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        type=_setting,
        help="a setting of Spark, such as spark.master=spark://host:7077; may be repeated",
    )
    parser.add_argument("--s3", action="store_true", help="with access to S3, as session(s3=True)")
    parser.add_argument("--kafka", action="store_true", help="with Kafka, as session(kafka=True)")


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def _run(options: argparse.Namespace) -> dict[str, Any]:
    from panekeeper.framework.engine.session.s3_settings import is_s3
    from panekeeper.framework.engine.session.session import session
    from panekeeper.recovery.doctor import examine

    s3 = options.s3 or any(map(is_s3, options.places))
    spark = session("panekeeper-doctor", s3=s3, kafka=options.kafka, **dict(options.conf))
    try:
        found = examine(spark, options.places)
    finally:
        spark.stop()
    return {**asdict(found), "can_run": found.can_run}


def _format(fields: dict[str, Any]) -> str:
    lines = [f"Spark {fields['spark']} on Java {fields['java']}, {fields['master']}, {fields['cores']} cores"]
    machines = [("driver", fields["driver"]), *(("executor", one) for one in fields["executors"])]
    rows = [
        (role, one["host"], one["python"], ", ".join(f"{name} {v}" for name, v in one["packages"].items()))
        for role, one in machines
    ]
    lines += [format_table(("role", "host", "Python", "packages"), rows)]
    lines += [f"{one['level']}: {one['where']}: {one['problem']}" for one in fields["findings"]]
    return "\n".join([*lines, "jobs can run" if fields["can_run"] else "jobs cannot run"])


def _schema() -> Schema:
    from panekeeper.recovery.doctor import Examination

    return object_schema(Examination, can_run=bool)


DOCTOR = Subcommand(
    name="doctor",
    help="check whether a Spark cluster can run jobs, and say what is missing where",
    arguments=_arguments,
    run=_run,
    format=_format,
    schema=_schema,
    exit_code=lambda _, fields: done_if(fields["can_run"]),
)
