"""An S3 server with one bucket: `python -m tests.channels.s3_server FAILURES` prints its URL.
Its environment has keys, whichever.

It is that of moto, with two differences. A conditional request is one step, as it is in S3: moto looks for the object,
then makes it, and another thread may come between. And of 10,000 requests so many fail: some before anything happens,
and some when all has happened, so that the client, which asks again, is told that its own object exists.

It serves until its standard input ends.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable
from threading import Lock, Thread
from typing import TYPE_CHECKING

import fsspec
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


class Server:
    """Hands requests to moto."""

    def __init__(self, app: WSGIApplication, failures: int) -> None:
        self._app = app
        self._failures = failures
        self._chance = random.Random(7)
        self._one_step = Lock()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        fails = self._chance.randrange(10_000) < self._failures
        if fails and self._chance.randrange(2):
            return self._fail(start_response)
        if environ["REQUEST_METHOD"] != "PUT":
            answer = self._app(environ, start_response)
        else:
            with self._one_step:
                answer = self._app(environ, (lambda *said: lambda data: None) if fails else start_response)
        return self._fail(start_response) if fails else answer

    def _fail(self, start_response: StartResponse) -> Iterable[bytes]:
        start_response("503 Service Unavailable", [("Content-Type", "application/xml"), ("Content-Length", "0")])
        return [b""]


def main(failures: int) -> None:
    """Start, make the bucket, tell, serve."""
    app = Server(DomainDispatcherApplication(create_backend_app), failures)
    server = make_server("127.0.0.1", 0, app, threaded=True)
    Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.port}"
    fsspec.filesystem("s3", endpoint_url=url).mkdir("bucket")
    print(url, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(int(sys.argv[1]))
