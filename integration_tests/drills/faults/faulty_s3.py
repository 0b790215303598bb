"""An S3 store in this process, behind a proxy that fails for a while or responds slowly."""

from __future__ import annotations

import logging
import threading
import time
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from panekeeper.state.checkpoint.clock import Deadline

BUCKET = "drill"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "drill",
    "AWS_SECRET_ACCESS_KEY": "drill",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""Environment variables of the programs that use the store; the server accepts any credentials."""

_HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "server", "date"}
_RESPONSES_BEFORE_OUTAGE = 5
_SLOW_SECONDS = 0.25


class FaultyStore:
    """An S3 store with one bucket. It works until `set_mode` is called.

    Attributes:
        refused: number of requests refused since the last call of `set_mode` or `refuse`.
    """

    def __init__(self) -> None:
        from moto.server import ThreadedMotoServer

        logging.getLogger("werkzeug").setLevel(logging.ERROR)  # it logs each request to stderr
        self._moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._moto.start()
        self._backend = self._moto.get_host_and_port()
        self._lock = threading.Lock()
        self._responses = 0
        self._outage: Deadline | None = None
        self.refused = 0
        self._to_refuse = self._fails_for = 0.0
        self._slow = False
        self._proxy = ThreadingHTTPServer(("127.0.0.1", 0), _proxy_handler(self))
        threading.Thread(target=self._proxy.serve_forever, daemon=True).start()
        self._forward("PUT", f"/{BUCKET}", b"", {})

    @property
    def endpoint(self) -> str:
        """URL of the proxy."""
        return f"http://127.0.0.1:{self._proxy.server_address[1]}"

    def set_mode(self, mode: Literal["works", "fails", "slow"], seconds: float = 10.0) -> None:
        """Change the responses to requests from now on.

        Args:
            mode: all succeed; all are refused for a while, after the first five; or each response is 0.25 s late.
            seconds: how long requests are refused.
        """
        with self._lock:
            self._responses = self.refused = 0
            self._outage = None
            self._to_refuse = 0.0
            self._fails_for = seconds if mode == "fails" else 0.0
            self._slow = mode == "slow"

    def refuse(self, requests: float) -> None:
        """Refuse requests from now on: an outage of any length, without waiting for it.

        Args:
            requests: how many; `math.inf` until `set_mode` is called.
        """
        self.set_mode("works")
        with self._lock:
            self._to_refuse = requests

    def respond(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body for one request. Called by the proxy, in a thread for each connection."""
        with self._lock:
            self._responses += 1
            if self._fails_for and self._responses > _RESPONSES_BEFORE_OUTAGE and self._outage is None:
                self._outage = Deadline(self._fails_for)
            unavailable = self._to_refuse > 0 or (self._outage is not None and not self._outage.has_passed())
            self._to_refuse = max(self._to_refuse - 1, 0.0)
            self.refused += unavailable
        if unavailable:
            return 503, {}, b""
        if self._slow:
            time.sleep(_SLOW_SECONDS)  # the fault is a slow response
        return self._forward(method, path, body, headers)

    def _forward(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        host, port = self._backend
        connection = HTTPConnection(host, port, timeout=60)
        connection.request(method, path, body=body, headers=headers)
        response = connection.getresponse()
        content = response.read()
        kept = {name: value for name, value in response.getheaders() if name.lower() not in _HOP_BY_HOP}
        if method == "HEAD" and (length := response.getheader("content-length")):
            kept["Content-Length"] = length
        connection.close()
        return response.status, kept, content

    def close(self) -> None:
        """Stop both servers."""
        self._proxy.shutdown()
        self._proxy.server_close()
        self._moto.stop()


def _proxy_handler(store: FaultyStore) -> type[BaseHTTPRequestHandler]:
    class ProxyHandler(BaseHTTPRequestHandler):
        """Passes each request to the store and sends back its response."""

        protocol_version = "HTTP/1.1"

        def _pass(self) -> None:
            body = self._body()
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _NOT_PASSED}
            status, kept, content = store.respond(self.command, self.path, body, headers)
            self.send_response_only(status)
            for name, value in kept.items():
                self.send_header(name, value)
            if "Content-Length" not in kept:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def _body(self) -> bytes:
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the name in the base class
            """Log nothing."""

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass  # noqa: N815 -- names of the base class

    return ProxyHandler


_NOT_PASSED = {"expect", "connection", "content-length", "transfer-encoding"}
