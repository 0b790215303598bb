"""An endpoint that responds, and is no S3 store, or one that means harm: a console, a proxy, any web page."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from panekeeper.recovery.errors import ArchiveError, ArchiveUnreachable
from panekeeper.recovery.jobs.fleet import list_jobs
from panekeeper.recovery.jobs.status import status
from panekeeper.recovery.savepoint.catalog import prune, savepoints, show
from panekeeper.recovery.storage.locations import checkpoint_at
from panekeeper.recovery.storage.s3 import S3Options

LIST = "<ListBucketResult><Name>b</Name><IsTruncated>false</IsTruncated>{}</ListBucketResult>"
PAGES = {
    "a page": "<html><body>Console</body></html>",
    "nothing": "",
    "an object without a size": LIST.format("<Contents><Key>p/savepoints/one.json</Key></Contents>"),
    "an object without a name": LIST.format("<Contents><Size>1</Size></Contents>"),
    "a size that is no number": LIST.format("<Contents><Key>p/savepoints/one.json</Key><Size>x</Size></Contents>"),
}
COMMANDS: dict[str, Callable[[S3Options], object]] = {
    "savepoints": lambda s3: savepoints("s3://b/p", s3=s3),
    "show": lambda s3: show("s3://b/p", "one", s3=s3),
    "prune": lambda s3: prune("s3://b/p", keep=1, s3=s3),
    "jobs": lambda s3: list_jobs(["s3://b/p"], s3=s3),
    "status": lambda s3: status(checkpoint_at("s3://b/p", s3)),
}


class Store:
    """A web server that responds to every request in the same way."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.status, self.headers, self.body = 200, {"Content-Type": "text/html"}, b""
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIATEST")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        store = self

        class Handler(BaseHTTPRequestHandler):
            def respond(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self.send_response(store.status)
                for name, value in {"Content-Length": str(len(store.body)), **store.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(store.body)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = respond  # noqa: N815 -- names of the base class

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.options = S3Options(endpoint=f"http://127.0.0.1:{self.server.server_port}", attempts=1, retry_seconds=0)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """It responds with an empty page until a test sets another one."""
    one = Store(monkeypatch)
    yield one
    one.server.shutdown()
    one.server.server_close()


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_no_response_of_a_store_is_neither_damage_nor_an_empty_location(
    store: Store, command: str, page: str
) -> None:
    """Not `damaged; restore it from a savepoint`, nor `holds no savepoints`: the endpoint is wrong."""
    store.body = PAGES[page].encode()
    with pytest.raises(ArchiveUnreachable, match="responds, but not as an S3 store does; give the endpoint"):
        COMMANDS[command](store.options)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_status_without_a_code_and_a_redirect_to_nowhere_are_reported(store: Store, command: str) -> None:
    """Neither an empty word in the line, nor an error of Python."""
    store.status, store.body = 404, b"<html>no such page</html>"
    with pytest.raises(ArchiveError, match="S3 responds with HTTP status 404"):
        COMMANDS[command](store.options)
    store.status, store.headers = 301, {"Location": f"{store.options.endpoint}/elsewhere"}
    with pytest.raises(ArchiveUnreachable):
        COMMANDS[command](store.options)
