"""A concentrator that dies at a chosen moment.

Moments are `taken`, when a publication has come in; `trying`, when its writer has been told that it is about to be
committed; `committed`, when it is; and `never`. It says when it listens.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from pbio_spark.channels import ChannelSpace, Concentrator
from pbio_spark.channels.concentrator import server
from pbio_spark.channels.concentrator.visitor import Visitor
from pbio_spark.channels.log.history import History


def die(*_: object, **__: object) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def main(root: str, moment: str) -> None:
    tell = Visitor.tell

    def tell_or_die(self: Visitor, said: dict[str, Any] | bytes) -> bool:
        if moment == "committed" and isinstance(said, dict) and said["kind"] == "done":
            die()
        return tell(self, said)

    space = ChannelSpace.open(root, concentrator="off")
    space.history.catch_up()
    if moment == "taken":
        server.publish_each = die  # type: ignore[assignment]
    if moment == "trying":
        History.append = die  # type: ignore[method-assign]
    Visitor.tell = tell_or_die  # type: ignore[method-assign]
    with Concentrator(space):
        print("listening", flush=True)
        signal.pause()
