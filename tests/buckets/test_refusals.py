"""What S3's library raises becomes an error of ours, and a hint that says what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import fsspec
import fsspec.config
import pytest

import pbio_spark as pbio
from pbio_spark.channels import ChannelSpace
from pbio_spark.channels.log.files import Folder
from pbio_spark.errors import PbioError
from pbio_spark.formats.store import FolderStore
from tests.channels.conftest import KEYS

LOAD = pbio.Format.of(pbio.parse_record({"Load": {"n": "int32"}}))


@contextmanager
def refusing(code: str, status: int, *, region: str = "eu-central-1", to_itself: bool = False) -> Iterator[str]:
    """The URL of a store that answers every request with an error.

    Args:
        region: that a redirect names.
        to_itself: whether it redirects to the address that was asked.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            said = f"<Error><Code>{code}</Code><Message>said {code}</Message></Error>".encode()
            self.send_response(status)
            self.send_header("Content-Length", str(0 if self.command == "HEAD" else len(said)))
            if status == 301 and region:
                self.send_header("x-amz-bucket-region", region)
            if to_itself:
                self.send_header("Location", f"http://{self.headers['Host']}{self.path}")
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else said)

        do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = answer  # noqa: N815 - as the library calls them

        def log_message(self, *said: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """A function that says where the store is, and which variables the environment has."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", *KEYS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))

    def settle(endpoint: str, **environment: str) -> None:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        once = {"retries": {"max_attempts": 1}, "connect_timeout": 5}
        monkeypatch.setitem(fsspec.config.conf, "s3", {"endpoint_url": endpoint, "config_kwargs": once})
        fsspec.get_filesystem_class("s3").clear_instance_cache()

    return settle


def write() -> None:
    with pbio.open_writer("s3://bucket/x/a.ffs", LOAD) as writer:
        writer.write({"n": 1})


CALLS: tuple[Callable[[], object], ...] = (
    lambda: list(pbio.read("s3://bucket/x")),
    lambda: ChannelSpace.open("s3://bucket/space"),
    lambda: ChannelSpace.create("s3://bucket/space"),
    lambda: FolderStore("s3://bucket/store").put(LOAD),
    lambda: Folder("s3://bucket/space").replace("file", b"x"),
    write,
)


def check(codes: set[str], *hints: str) -> None:
    for call in CALLS:
        with pytest.raises(PbioError) as caught:
            call()
        assert caught.value.code in codes
        assert caught.value.file is not None
        assert any(hint in (caught.value.hint or "") for hint in hints), caught.value


NOWHERE = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("environment", "hint"),
    [
        ({}, "AWS_SECRET_ACCESS_KEY, a profile"),
        ({"AWS_ACCESS_KEY_ID": "a"}, "AWS_SECRET_ACCESS_KEY, a profile"),
        ({"AWS_PROFILE": "none"}, "check AWS_PROFILE"),
    ],
    ids=["none", "half", "profile"],
)
def test_without_credentials_nothing_is_asked(
    store: Callable[..., None], environment: dict[str, str], hint: str
) -> None:
    store(NOWHERE, **environment)
    check({"PBIO_NO_PERMISSION"}, hint)


@pytest.mark.parametrize(
    ("endpoint", "environment", "hint"),
    [
        (NOWHERE, {}, "check the network and the endpoint"),
        ("nonsense", {}, "a URL such as"),
        (NOWHERE, {"AWS_DEFAULT_REGION": "no region"}, "a region is a name"),
    ],
    ids=["nobody listens", "no URL", "no region"],
)
def test_an_endpoint_that_cannot_be_reached(
    store: Callable[..., None], endpoint: str, environment: dict[str, str], hint: str
) -> None:
    store(endpoint, **{**KEYS, **environment})
    check({"PBIO_FILE_SYSTEM", "PBIO_OUTCOME_UNKNOWN"}, hint)


def test_an_endpoint_that_speaks_no_https(store: Callable[..., None]) -> None:
    with refusing("Any", 400) as url:
        store(url.replace("http:", "https:"), **KEYS)
        check({"PBIO_FILE_SYSTEM", "PBIO_OUTCOME_UNKNOWN"}, "speaks https")


@pytest.mark.parametrize(
    ("code", "status", "hint"),
    [
        ("AccessDenied", 403, "s3:GetObject"),
        ("InvalidAccessKeyId", 403, "the access key and the secret"),
        ("SignatureDoesNotMatch", 403, "the access key and the secret"),
        ("RequestTimeTooSkewed", 403, "set the clock"),
    ],
)
def test_a_refusal_of_the_store(store: Callable[..., None], code: str, status: int, hint: str) -> None:
    with refusing(code, status) as url:
        store(url, **KEYS)
        check({"PBIO_NO_PERMISSION"}, hint, "s3:GetObject")  # the reply to HEAD says only 403


@pytest.mark.parametrize(
    ("code", "status", "hint"),
    [
        ("ExpiredToken", 400, "the credentials have expired"),
        ("PermanentRedirect", 301, "AWS_DEFAULT_REGION"),
        ("AuthorizationHeaderMalformed", 400, "AWS_DEFAULT_REGION"),
    ],
)
def test_a_reply_that_does_not_say_why(store: Callable[..., None], code: str, status: int, hint: str) -> None:
    with refusing(code, status) as url:
        store(url, **KEYS)
        check({"PBIO_NO_PERMISSION", "PBIO_FILE_SYSTEM", "PBIO_OUTCOME_UNKNOWN"}, hint)


@pytest.mark.parametrize(
    ("to_itself", "hint"), [(False, "AWS_DEFAULT_REGION"), (True, "check the network and the endpoint")]
)
def test_a_store_that_redirects_for_ever(store: Callable[..., None], to_itself: bool, hint: str) -> None:
    with refusing("PermanentRedirect", 301, region="", to_itself=to_itself) as url:
        store(url, **KEYS)
        check({"PBIO_FILE_SYSTEM", "PBIO_OUTCOME_UNKNOWN"}, hint)
