# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
"""A server with the write routes of InfluxDB 1, 2 and 3, which answers as it is told."""

import gzip
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

ROUTES = ("/write", "/api/v2/write", "/api/v3/write_lp")


@dataclass(frozen=True)
class Request:
    """What one request asked for."""

    path: str
    query: dict[str, list[str]]
    authorization: str


class ScriptedInflux:
    """Use as a context manager. Keeps points by series and time, unless `status` refuses them."""

    def __init__(self, status: int = 204) -> None:
        self.status = status
        self.points: dict[str, str] = {}  # "series time": its fields
        self.requests: list[Request] = []
        self._lock = threading.Lock()

    def __enter__(self) -> "ScriptedInflux":
        """Starts the server."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = outer._take(
                    self.path, self.headers.get("Authorization", ""), gzip.decompress(body)
                )
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        """Ends it."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def _take(self, target: str, authorization: str, body: bytes) -> int:
        parts = urlsplit(target)
        with self._lock:
            self.requests.append(Request(parts.path, parse_qs(parts.query), authorization))
            if parts.path not in ROUTES:
                return 404
            if self.status == 204:
                for line in body.decode().splitlines():
                    point, fields = split_line(line)
                    self.points[point] = fields
            return self.status


def split_line(line: str) -> tuple[str, str]:
    """ "series time" and the fields of a line whose tags have no blanks."""
    series, fields, time = line.split(" ")
    return f"{series} {time}", fields
