"""A server: access, stopping and logging, whatever protocols its halves speak."""

from __future__ import annotations

import asyncio
import logging
import resource
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pbio_spark.channels import ChannelSpace
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.gateways.config import Tls
from pbio_spark.gateways.evpath import ThinGateway, ThinSettings
from pbio_spark.gateways.limits import GatewayLimits
from pbio_spark.gateways.peer import Peer
from pbio_spark.gateways.server import Listener, Server
from pbio_spark.gateways.text import to_address
from tests.channels.spaces import COUNT, everything, values
from tests.conftest import ROOT
from tests.gateways.certificates import certificate
from tests.gateways.evpath.streams import COUNTS, thin_stream


class Half:
    """A half that does what it is told with each connection."""

    name = "test"

    def __init__(self, serve: Callable[[Peer], Coroutine[Any, Any, None]]) -> None:
        self._serve = serve
        self.stopped = 0

    async def start(self, address: str) -> None:
        self.address = address

    async def serve(self, peer: Peer) -> None:
        await self._serve(peer)

    async def stop(self) -> None:
        self.stopped += 1


async def echo(peer: Peer) -> None:
    while data := await peer.read(100):
        await peer.write(data)


async def said(server: Server, sent: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(*server.addresses["test"])
    writer.write(sent)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


def test_what_goes_wrong_with_one_connection_is_its_own_affair(caplog: pytest.LogCaptureFixture) -> None:
    async def serve(peer: Peer) -> None:
        match await peer.read(1):
            case b"1":
                raise PbioError("PBIO_BAD_STREAM", "\x1b[2J of a peer")
            case b"2":
                raise ZeroDivisionError("a mistake of ours")
            case b"3":
                raise ConnectionResetError("gone")
        await peer.write(b"well")

    async def run() -> None:
        async with Server([Listener(Half(serve), "127.0.0.1", 0)]) as server:
            assert [await said(server, text) for text in (b"1", b"2", b"3", b"4")] == [b"", b"", b"", b"well"]

    with caplog.at_level(logging.INFO, "pbio_spark.gateways"):
        asyncio.run(run())
    levels = {one.levelname: one.getMessage() for one in caplog.records if "127.0.0.1" in one.getMessage()}
    assert r"[PBIO_BAD_STREAM] \x1b[2J of a peer" in levels["WARNING"]
    assert "the gateway has a defect" in levels["ERROR"]
    assert "the connection broke: gone" in caplog.text


def test_a_peer_that_reads_nothing_is_let_go(caplog: pytest.LogCaptureFixture) -> None:
    async def serve(peer: Peer) -> None:
        while True:
            await peer.write(bytes(1 << 16))

    async def run() -> None:
        limits = GatewayLimits(unread=1 << 16, slow=0.2)
        async with Server([Listener(Half(serve), "127.0.0.1", 0)], limits) as server:
            _, writer = await asyncio.open_connection(*server.addresses["test"])
            while "[PBIO_LIMIT] the peer read nothing for 0.2 s" not in caplog.text:
                await asyncio.sleep(0.05)
            writer.close()

    asyncio.run(run())


def test_a_connection_that_does_not_end_is_ended_after_the_grace() -> None:
    begun = asyncio.Event()

    async def serve(peer: Peer) -> None:
        begun.set()
        await asyncio.sleep(3600)

    async def run() -> int:
        half = Half(serve)
        server = Server([Listener(half, "127.0.0.1", 0)], GatewayLimits(grace=0.2))
        await server.start()
        reader, writer = await asyncio.open_connection(*server.addresses["test"])
        await begun.wait()
        await server.stop()
        with suppress(ConnectionResetError):
            assert await reader.read(1) == b""
        writer.close()
        return half.stopped

    assert asyncio.run(run()) == 1


def test_a_port_that_is_taken_is_an_error_and_then_nothing_listens() -> None:
    async def run() -> tuple[str, int]:
        first = Half(echo)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            server = Server([Listener(first, "127.0.0.1", 0), Listener(Half(echo), "127.0.0.1", port)])
            with pytest.raises(PbioError, match="PBIO_NOT_LISTENING") as raised:
                await server.start()
        return raised.value.hint or "", first.stopped

    hint, stopped = asyncio.run(run())
    assert "another program listens there" in hint
    assert stopped == 1


def test_an_address_that_others_reach_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with Server([Listener(Half(echo), "0.0.0.0", 0)]):
            pass

    asyncio.run(run())
    assert "anyone who reaches 0.0.0.0:" in caplog.text


def test_only_clients_with_a_certificate_get_in_and_its_name_is_that_of_the_producer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = certificate(tmp_path, "authority")
    for name in ("gateway", "monitor 7"):
        certificate(tmp_path, name, authority)
    ours = str(tmp_path / "authority.pem")
    tls = Tls(str(tmp_path / "gateway.pem"), str(tmp_path / "gateway.key"), ours)
    space = ChannelSpace.create(str(tmp_path / "space"))
    channel = space.create_channel("counts", COUNT)

    def send(address: tuple[str, int], is_known: bool) -> None:
        context = ssl.create_default_context(cafile=ours)
        if is_known:
            context.load_cert_chain(str(tmp_path / "monitor 7.pem"), str(tmp_path / "monitor 7.key"))
        with (
            socket.create_connection(address) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as connection,
        ):
            connection.sendall(thin_stream(Format.of(COUNT), [{"n": int(is_known)}]))
            connection.unwrap()

    async def run() -> None:
        half = ThinGateway(space, ThinSettings(stones=COUNTS))
        async with Server([Listener(half, "127.0.0.1", 0)], tls=tls.context()) as server:
            address = server.addresses["evpath"]
            await asyncio.to_thread(send, address, True)
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.to_thread(send, address, False)

    asyncio.run(run())
    assert [(event.producer, event.values) for event in everything(channel)] == [("monitor 7", {"n": 1})]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_where_a_half_listens_is_an_address_to_connect_to(host: str) -> None:
    peers: list[str] = []

    async def note(peer: Peer) -> None:
        peers.append(peer.address)

    async def run() -> tuple[str, tuple[str, int]]:
        half = Half(note)
        async with Server([Listener(half, host, 0)]) as server:
            reader, writer = await asyncio.open_connection(*to_address(half.address))
            assert await reader.read() == b""
            writer.close()
            return half.address, server.addresses["test"]

    if host == "::1" and not has_ipv6():
        pytest.skip("this machine has no IPv6")
    address, bound = asyncio.run(run())
    assert to_address(address) == bound
    assert [to_address(one)[0] for one in peers] == [host]


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as one:
            one.bind(("::1", 0))
    except OSError:
        return False
    return True


def test_a_port_that_anyone_may_use_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    certificate(tmp_path, "gateway", certificate(tmp_path, "authority"))
    paths = [str(tmp_path / name) for name in ("gateway.pem", "gateway.key", "authority.pem")]

    async def listen(tls: Tls | None) -> None:
        async with Server([Listener(Half(nothing), "0.0.0.0", 0)], tls=None if tls is None else tls.context()):
            pass

    async def nothing(peer: Peer) -> None:
        await peer.close()

    for tls, is_open in ((None, True), (Tls(paths[0], paths[1]), True), (Tls(*paths), False)):
        caplog.clear()
        asyncio.run(listen(tls))
        assert ("anyone who reaches 0.0.0.0" in caplog.text) == is_open


def test_a_thousand_idle_connections_keep_no_other_from_sending(tmp_path: Path) -> None:
    """The gateway is a process of its own, as it is for people; it ends in order at SIGTERM."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    space = ChannelSpace.create(str(tmp_path / "space"))
    channel = space.create_channel("counts", COUNT)
    (tmp_path / "gateway.toml").write_text(
        "[limits]\nconnections = 1010\nper_peer = 1010\n[evpath.stones]\n3 = 'counts'\n"
    )
    command = [sys.executable, "-c", "from pbio_spark.cli import main; main()", "gateway", "serve", space.root]
    command += ["--evpath", "0", "--config", str(tmp_path / "gateway.toml")]
    idle: list[socket.socket] = []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            host, _, port = process.stdout.readline().removeprefix("evpath: ").rpartition(":")
            head = thin_stream(Format.of(COUNT), [])[:-3]
            for number in range(1000):
                idle.append(socket.create_connection((host, int(port))))
                idle[-1].sendall(head[: number % len(head)])
            with socket.create_connection((host, int(port))) as connection:
                connection.sendall(thin_stream(Format.of(COUNT), [{"n": n} for n in range(1000)]))
                connection.shutdown(socket.SHUT_WR)
                assert connection.recv(1) == b""
            assert values(channel) == [{"n": n} for n in range(1000)]
            memory = Path(f"/proc/{process.pid}/status")
            if memory.exists():
                lines = dict(line.split(":", 1) for line in memory.read_text().splitlines())
                assert int(lines["VmRSS"].split()[0]) < 1_000_000  # in kB
            process.send_signal(signal.SIGTERM)
            said_ = process.communicate()[1]
            assert process.returncode == 0, said_
            assert "stopped" in said_
        finally:
            process.kill()
            for one in idle:
                one.close()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("host", ["192.0.2.1", "no-host.invalid"])
def test_a_host_that_is_not_this_machine_is_an_error_with_a_hint(host: str) -> None:
    async def run() -> None:
        await Server([Listener(Half(echo), host, 0)]).start()

    with pytest.raises(PbioError, match="PBIO_NOT_LISTENING") as raised:
        asyncio.run(run())
    assert "an address of this machine" in (raised.value.hint or "")
