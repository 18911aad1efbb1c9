"""An S3 server with one bucket, until it is killed: `python -m tests.channels.s3_server` prints its URL."""

from __future__ import annotations

import os
import time

import fsspec
from moto.server import ThreadedMotoServer


def main() -> None:
    """Start, make the bucket, tell, wait."""
    os.environ |= {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    fsspec.filesystem("s3", endpoint_url=url).mkdir("bucket")
    print(url, flush=True)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main()
