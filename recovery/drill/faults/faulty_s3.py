"""An S3 that lives in this process, behind a door that can be shut for a while, or stick."""

from __future__ import annotations

import importlib.util
import logging
import threading
import time
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from recovery.drill.faults.damage import CannotDrill

BUCKET = "drill"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "drill",
    "AWS_SECRET_ACCESS_KEY": "drill",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""What the programs of a drill find in their environment; the server takes anybody."""

_HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "server", "date"}
_FIRST_ANSWERS = 5
_SLOW_SECONDS = 0.25


class FaultyStore:
    """An S3 with one bucket; `mood` says how it behaves."""

    def __init__(self) -> None:
        if importlib.util.find_spec("moto") is None or importlib.util.find_spec("boto3") is None:
            raise CannotDrill(
                "this scenario needs boto3 and moto's S3 server, which are not installed: "
                "pip install 'panekeeper[drill]'"
            )
        from moto.server import ThreadedMotoServer

        logging.getLogger("werkzeug").setLevel(logging.ERROR)  # it would tell each request on stderr
        self._moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._moto.start()
        self._behind = self._moto.get_host_and_port()
        self._lock = threading.Lock()
        self._answered = 0
        self._shut_until = 0.0
        self.refused = 0
        self._fails_for = 0.0
        self._slow = False
        self._door = ThreadingHTTPServer(("127.0.0.1", 0), _door_of(self))
        threading.Thread(target=self._door.serve_forever, daemon=True).start()
        self._forward("PUT", f"/{BUCKET}", b"", {})

    @property
    def endpoint(self) -> str:
        """Its URL."""
        return f"http://127.0.0.1:{self._door.server_address[1]}"

    def behave(self, mood: Literal["well", "fails", "slow"], seconds: float = 10.0) -> None:
        """From now on: well; or shut for so many seconds after some more answers; or slow in each answer."""
        with self._lock:
            self._answered = self.refused = 0
            self._shut_until = 0.0
            self._fails_for = seconds if mood == "fails" else 0.0
            self._slow = mood == "slow"

    def answer(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        """Answer one request, in the present mood."""
        with self._lock:
            self._answered += 1
            if self._fails_for and self._answered > _FIRST_ANSWERS and not self._shut_until:
                self._shut_until = time.monotonic() + self._fails_for
            shut = time.monotonic() < self._shut_until
            self.refused += shut
        if shut:
            return 503, {}, b""
        if self._slow:
            time.sleep(_SLOW_SECONDS)  # what is drilled is slowness itself
        return self._forward(method, path, body, headers)

    def _forward(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        host, port = self._behind
        line = HTTPConnection(host, port, timeout=60)
        line.request(method, path, body=body, headers=headers)
        said = line.getresponse()
        answer = said.read()
        kept = {name: value for name, value in said.getheaders() if name.lower() not in _HOP_BY_HOP}
        if method == "HEAD" and (length := said.getheader("content-length")):
            kept["Content-Length"] = length
        line.close()
        return said.status, kept, answer

    def close(self) -> None:
        """Shut both servers down."""
        self._door.shutdown()
        self._door.server_close()
        self._moto.stop()


def _door_of(store: FaultyStore) -> type[BaseHTTPRequestHandler]:
    class Door(BaseHTTPRequestHandler):
        """Passes each request on, or does not."""

        protocol_version = "HTTP/1.1"

        def _pass(self) -> None:
            body = self._body()
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _NOT_PASSED}
            status, kept, answer = store.answer(self.command, self.path, body, headers)
            self.send_response_only(status)
            for name, value in kept.items():
                self.send_header(name, value)
            if "Content-Length" not in kept:
                self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer)

        def _body(self) -> bytes:
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the name in the base class
            """Say nothing."""

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass  # noqa: N815 -- names of the base class

    return Door


_NOT_PASSED = {"expect", "connection", "content-length", "transfer-encoding"}
