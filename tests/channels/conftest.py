from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import fsspec.config
import pytest

from pbio_spark.channels import ChannelSpace
from tests.channels.clock import Clock
from tests.conftest import ROOT

KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}
FAILURES = 50
"""Of 10,000 requests to the S3 server."""


@pytest.fixture
def space(tmp_path: Path) -> ChannelSpace:
    return ChannelSpace.create(str(tmp_path / "space"))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    """The URL of an S3 server with the bucket `bucket`, in a process of its own."""
    command = [sys.executable, "-m", "tests.channels.s3_server", str(FAILURES)]
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    environment = {**os.environ, **KEYS}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, stderr=nowhere, text=True
    ) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.kill()


@pytest.fixture
def bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The root of a space to be in a bucket. Processes that are started find the server too."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    settings = {"endpoint_url": endpoint}
    monkeypatch.setenv("FSSPEC_S3", json.dumps(settings))
    monkeypatch.setitem(fsspec.config.conf, "s3", settings)  # which has read the environment already
    return f"s3://bucket/{uuid.uuid4().hex}"
