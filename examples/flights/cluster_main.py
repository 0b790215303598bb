"""The flights on a cluster, with everything on S3: `spark-submit examples/flights/cluster_main.py s3a://bucket/folder`.

Puts the replay's files into the bucket, runs the job over them, and ends. Submitted again, after its end or a kill, it
resumes. The store and the credentials come from the environment variables that boto3 reads.
"""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import boto3
from botocore.exceptions import ClientError

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # spark-submit puts only this folder there

from examples.flights.data import Replay, around, raw_flights, write_input
from panekeeper import JobFinished, PanekeeperError, session


def main(arguments: list[str]) -> int:
    """Run the job over the first files of the replay, all of them by default, and flush it once it has read all."""
    options = _options(arguments)
    total = put_input(options.place, Replay(days=options.days), files=options.files)
    spark = session("panekeeper-flights", s3=True)
    try:
        from examples.flights.pipeline import files, start

        job = start(files(spark, f"{options.place}/input"), options.place)
        job.await_end()
        if options.files is None or options.files >= total:
            job.flush()
        status = job.status()
        print(f"{status.state.value} after batch {status.batch}: {status.rows:,} flights, {status.firings:,} results")
    except JobFinished:
        print(f"this replay is finished; its tables are in {options.place}")
    except PanekeeperError as error:
        print(f"the job cannot continue: {error}", file=sys.stderr)
        return 1
    finally:
        spark.stop()
    return 0


def put_input(place: str, replay: Replay, *, files: int | None) -> int:
    """Upload the first files of the replay that are not in the bucket yet, in order; return how many the replay has.

    The bucket is created if it does not exist.
    """
    bucket, _, prefix = place.removeprefix(f"{urlsplit(place).scheme}://").partition("/")
    store = boto3.client("s3")
    try:
        store.head_bucket(Bucket=bucket)
    except ClientError:
        store.create_bucket(Bucket=bucket)
    folder = f"{prefix}/input/".lstrip("/")
    there = {one["Key"] for one in store.list_objects_v2(Bucket=bucket, Prefix=folder).get("Contents", ())}
    with TemporaryDirectory() as scratch:
        given = write_input(Path(scratch), around(raw_flights(), replay.days), replay)
        for path in sorted(given.folder.glob("*.parquet"))[:files]:
            if folder + path.name not in there:
                store.upload_file(str(path), bucket, folder + path.name)
    return given.n_files


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="cluster_main.py", description=__doc__.splitlines()[0])
    parser.add_argument(
        "place", metavar="s3a://BUCKET/FOLDER", help="where the input, the checkpoint and the tables are"
    )
    parser.add_argument("--days", type=int, metavar="N", help="replay only N days around the worst one")
    parser.add_argument("--files", type=int, metavar="N", help="only the first N files of the replay, without a flush")
    options = parser.parse_args(arguments)
    options.place = options.place.rstrip("/")
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
