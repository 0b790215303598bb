"""The containers of docker-compose.yml, by Docker Compose: the plugin, or Debian's `docker-compose`."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

ROOT = Path(__file__).resolve().parents[2]
_STORE = {"AWS_ACCESS_KEY_ID": "panekeeper", "AWS_SECRET_ACCESS_KEY": "only-for-this-machine"}


class StackError(Exception):
    """A service or a submitted program did not do its work; the message has what it printed."""


class Stack:
    """The services, from the first command to the last."""

    def __init__(self) -> None:
        self._compose = _compose_command()

    def up(self) -> None:
        """Start what is not running."""
        self.compose("up", "-d")

    def compose(self, *arguments: str) -> str:
        """Run a command of Docker Compose and return what it printed.

        Raises:
            StackError: it failed.
        """
        return _run([*self._compose, *arguments])

    def panekeeper(self, *arguments: str) -> str:
        """Run the command `panekeeper` in a container beside the services, and return what it printed."""
        return self.compose("run", "--rm", "-T", "--entrypoint", "panekeeper", "submit", *arguments)

    def submit(self, name: str, *arguments: str) -> "Submission":
        """Submit a program to the cluster, from a container of this name."""
        command = [*self._compose, "run", "--rm", "-T", "--name", name, "submit", *arguments]
        process = subprocess.Popen(
            command, cwd=ROOT, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        return Submission(name, process)

    def store(self) -> Any:
        """Return a boto3 client of the store, from outside; it tries again until the store has started."""
        return boto3.client(
            "s3",
            endpoint_url="http://127.0.0.1:7070",
            region_name="us-east-1",
            aws_access_key_id=_STORE["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=_STORE["AWS_SECRET_ACCESS_KEY"],
            config=Config(retries={"mode": "standard", "max_attempts": 10}),
        )

    def create_bucket(self, name: str) -> None:
        """Create a bucket of the store, unless it is there."""
        store = self.store()
        if name not in [one["Name"] for one in store.list_buckets()["Buckets"]]:
            store.create_bucket(Bucket=name)


def download(store: Any, bucket: str, prefix: str, to: Path) -> None:
    """Copy the objects under a prefix into a folder.

    Args:
        store: a boto3 client.
        bucket: the bucket.
        prefix: a folder in it, without a slash at its end.
        to: gets the content of that folder.
    """
    for page in store.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{prefix}/"):
        for one in page.get("Contents", ()):
            path = to / one["Key"].removeprefix(f"{prefix}/")
            if not one["Key"].endswith("/"):
                path.parent.mkdir(parents=True, exist_ok=True)
                store.download_file(bucket, one["Key"], str(path))


class Submission:
    """A program on the cluster, and what it has printed until now."""

    def __init__(self, name: str, process: "subprocess.Popen[str]") -> None:
        self._name = name
        self._process = process
        self.printed = ""

    def wait_for(self, wanted: Callable[[str], bool]) -> bool:
        """Read what the program prints until a line is wanted; return False if it ended before that."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.printed += line
            if wanted(line):
                return True
        return False

    def wait(self) -> str:
        """Wait until the program ends, and return what it printed.

        Raises:
            StackError: it failed.
        """
        assert self._process.stdout is not None
        self.printed += self._process.stdout.read()
        if self._process.wait():
            raise StackError(f"the program failed:\n{self.printed[-6000:]}")
        return self.printed

    def kill(self) -> None:
        """Kill the container with driver and Java, as a node that goes down does."""
        subprocess.run(["docker", "kill", self._name], check=False, capture_output=True)
        assert self._process.stdout is not None
        self.printed += self._process.stdout.read()  # what nobody reads would keep the process from ending
        self._process.wait()


def _compose_command() -> list[str]:
    plugin = ["docker", "compose"]
    if shutil.which("docker") and not subprocess.run([*plugin, "version"], check=False, capture_output=True).returncode:
        return plugin
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    raise StackError("there is no Docker Compose: install the plugin of Docker, or Debian's docker-compose")


def _run(command: list[str]) -> str:
    done = subprocess.run(command, check=False, cwd=ROOT, text=True, stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode:
        raise StackError(f"{' '.join(command)} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout
