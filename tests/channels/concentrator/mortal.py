"""A concentrator that dies, or is stopped, at a chosen moment.

Moments are `taken`, when a publication has come in; `trying`, when its writer has been told that it is about to be
committed; `linking`, just before the file of the commit appears; `committed`, when it has; and `never`. It says when it
listens. One that is stopped goes on when it is told to.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

from pbio_spark.channels import ChannelSpace, Concentrator
from pbio_spark.channels.concentrator import server
from pbio_spark.channels.concentrator.visitor import Visitor
from pbio_spark.channels.log.files import Folder
from pbio_spark.channels.log.history import History


def main(root: str, moment: str, by: int = signal.SIGKILL) -> None:
    """
    Args:
        by: the signal that it sends itself, at the first such moment.
    """
    moments = [moment]

    def at(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, and before it the end."""

        def called(*arguments: Any, **named: Any) -> Any:
            if name in moments:
                moments.clear()
                os.kill(os.getpid(), by)
                time.sleep(0.1)  # a thread continues for a moment
            return function(*arguments, **named)

        return called

    tell = Visitor.tell
    tell_done = at("committed", tell)

    def tell_at(self: Visitor, said: dict[str, Any] | bytes) -> Any:
        is_done = isinstance(said, dict) and said["kind"] == "done"
        return (tell_done if is_done else tell)(self, said)

    space = ChannelSpace.open(root, concentrator="off")
    space.history.catch_up()
    server.publish_each = at("taken", server.publish_each)
    History.append = at("trying", History.append)  # type: ignore[method-assign]
    Folder.create = at("linking", Folder.create)  # type: ignore[method-assign]
    Visitor.tell = tell_at  # type: ignore[method-assign]
    with Concentrator(space):
        print("listening", flush=True)
        signal.pause()
