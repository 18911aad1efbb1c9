"""A Kafka broker in a process of its own, which ends with its parent.

`python -m tests.kafka.broker FOLDER` starts one, prints its addresses, and ends it when its standard input ends.
"""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.conftest import ROOT
from tests.kafka.maven import BROKER, jars, java

FEW_THREADS = ("-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""For tests, which are over before a better compiler pays."""

SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{other}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{other},SASL://127.0.0.1:{guarded}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.sasl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
    user_ann="a secret";
log.dirs={folder}/logs
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
num.partitions=1
num.network.threads=2
num.io.threads=4
message.max.bytes=20000000
replica.fetch.max.bytes=20000000
log.cleaner.dedupe.buffer.size=4194304
log.cleaner.backoff.ms=100
"""


class Broker:
    """A broker that can be stopped and started again on the same port and data."""

    def __init__(self, folder: Path, options: tuple[str, ...] = FEW_THREADS) -> None:
        self._port, other, guarded = _free_ports(3)
        self.address = f"127.0.0.1:{self._port}"
        self.guarded = f"127.0.0.1:{guarded}"
        self._config = folder / "server.properties"
        self._log = folder / "broker.log"
        self._config.write_text(SETTINGS.format(port=self._port, other=other, guarded=guarded, folder=folder), "utf-8")
        self._java = [java(), *options, "-cp", os.pathsep.join(jars(BROKER, transitive=True))]
        # The tool takes a name that begins with "-" for an option: one in 64 would.
        name = "a" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]
        self._run_once("kafka.tools.StorageTool", "format", "-t", name, "-c", str(self._config))
        self._process: subprocess.Popen[bytes] | None = None

    def _run_once(self, *command: str) -> None:
        ran = subprocess.run([*self._java, *command], capture_output=True, text=True, check=False)
        if ran.returncode:
            raise RuntimeError(f"{command[0]} has failed: {(ran.stdout + ran.stderr)[-1000:]}")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen([*self._java, "kafka.Kafka", str(self._config)], stdout=log, stderr=log)
        while True:
            if self._process.poll() is not None:
                raise RuntimeError(f"the broker has ended: {self._log.read_text('utf-8')[-1000:]}")
            with socket.socket() as client:
                if client.connect_ex(("127.0.0.1", self._port)) == 0:
                    return
            time.sleep(0.05)

    def stop(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def running(folder: Path, options: tuple[str, ...] = FEW_THREADS) -> Iterator[tuple[str, str]]:
    """The address of a broker in a process that ends it even if this one is killed, and the one that wants a login."""
    command = [sys.executable, "-m", "tests.kafka.broker", str(folder), *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as keeper:
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        address, _, guarded = keeper.stdout.readline().strip().partition(" ")
        if not address:
            raise RuntimeError("the broker does not start")
        try:
            yield address, guarded
        finally:
            keeper.stdin.close()
            keeper.wait()


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def main() -> None:
    options = tuple(sys.argv[2:]) or FEW_THREADS
    broker = Broker(Path(sys.argv[1]), options)
    try:
        broker.start()
        print(broker.address, broker.guarded, flush=True)
        sys.stdin.read()
    finally:
        broker.stop()


if __name__ == "__main__":
    main()
