"""The services of docker-compose.yml, started by testcontainers: what is tested is what a user starts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from examples.stack import services

ROOT = Path(__file__).resolve().parents[2]
os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")  # its image cannot be built here; the fixture cleans up
_SUBMIT_S = 1200  # half a minute on an idle machine; a busy one must not fail the test


@dataclass(frozen=True, kw_only=True)
class Stack:
    """A cluster and a store that run."""

    compose: dict[str, Any]
    network: Any
    endpoint: str

    def submit(self, *arguments: str) -> str:
        """Run a program on the cluster as `docker compose run submit` does, and return what it and Spark printed."""
        from testcontainers.core.container import DockerContainer

        service = self.compose["services"]["submit"]
        container = DockerContainer(service["image"], entrypoint=service["entrypoint"], network=self.network)
        container.with_command(list(arguments))
        for name, value in service["environment"].items():
            container.with_env(name, value)
        with container:
            ended = container.get_wrapped_container().wait(timeout=_SUBMIT_S)
            printed = b"\n".join(container.get_logs()).decode()
        assert ended["StatusCode"] == 0, printed[-6000:]
        return printed

    @property
    def credentials(self) -> dict[str, str]:
        """The variables by which boto3 is let into the store."""
        store = self.compose["services"]["submit"]["environment"]
        return {name: str(value) for name, value in store.items() if name.startswith("AWS_") and "URL" not in name}

    @property
    def secret(self) -> str:
        """The key that must not be seen anywhere."""
        return self.credentials["AWS_SECRET_ACCESS_KEY"]

    def client(self) -> Any:
        """Return a boto3 client of the store, from outside."""
        import boto3

        store = self.credentials
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=store["AWS_DEFAULT_REGION"],
            aws_access_key_id=store["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=store["AWS_SECRET_ACCESS_KEY"],
        )

    def download(self, bucket: str, prefix: str, to: Path) -> Path:
        """Copy the files under a prefix into a folder and return it."""
        services.download(self.client(), bucket, prefix, to / prefix)
        return to / prefix


@pytest.fixture
def stack() -> Iterator[Stack]:
    """The cluster and the store, in a network of their own; they end with the test, so that others have the machine."""
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    wanted = {name: one for name, one in compose["services"].items() if "profiles" not in one and name != "kafka"}
    _require_docker({service["image"] for service in wanted.values()})
    from testcontainers.core.network import Network

    with ExitStack() as running:
        network = running.enter_context(Network())
        started = {name: running.enter_context(_container(name, one, network)) for name, one in wanted.items()}
        s3 = started["s3"]
        endpoint = f"http://{s3.get_container_host_ip()}:{s3.get_exposed_port(7070)}"
        yield Stack(compose=compose, network=network, endpoint=endpoint)


@pytest.fixture
def composed() -> Iterator[services.Stack]:
    """Docker Compose with the images of all services; what was started is removed, with its data."""
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    _require_docker({service["image"] for service in compose["services"].values()})
    try:
        made = services.Stack()
    except services.StackError as error:
        pytest.skip(str(error))
    yield made
    made.compose("down", "--volumes")


def _container(name: str, service: dict[str, Any], network: Any) -> Any:
    from testcontainers.core.container import DockerContainer

    container = DockerContainer(service["image"], network=network, network_aliases=[name])
    if "command" in service:
        container.with_command(service["command"])
    for variable, value in service.get("environment", {}).items():
        container.with_env(variable, value)
    for port in service.get("ports", ()):
        container.with_exposed_ports(int(port.rpartition(":")[2]))
    return container


def _require_docker(images: set[str]) -> None:
    """Skip, with one line that says what to do, where there is no Docker engine or the images were not built."""
    import docker

    try:
        client = docker.from_env()
    except docker.errors.DockerException:
        pytest.skip("no Docker engine responds: start one to test the stack")
    for image in images:
        try:
            client.images.get(image)
        except docker.errors.ImageNotFound:
            pytest.skip(f"there is no image {image}: run `make images`")
