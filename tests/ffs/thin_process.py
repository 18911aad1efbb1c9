"""A process in which the real EVPath library listens for thin streams, and prints the events of a stone as JSON lines.

    python -m tests.ffs.thin_process STRUCTS EVENTS

STRUCTS is JSON: [[name, [[field, type, size], ...]], ...], what the stone expects. The first line says where it
listens: `{"host": ..., "port": ..., "stone": ...}`. After so many events it prints them, and ends. It is a process
because the library trusts what it is sent.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import sys
from ctypes import POINTER, byref, c_char_p, c_int, c_void_p
from pathlib import Path
from typing import Any

from tests.ffs.native import natural, read_record, struct
from tests.ffs_library import description, library

HANDLER = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_void_p)
PROTOTYPES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "CManager_create": (c_void_p, ()),
    "EValloc_stone": (c_int, (c_void_p,)),
    "EVassoc_terminal_action": (c_int, (c_void_p, c_int, c_void_p, HANDLER, c_void_p)),
    "EVthin_socket_listen": (c_int, (c_void_p, POINTER(c_char_p), POINTER(c_int))),
    "CMusleep": (None, (c_void_p, c_int)),
}


def evpath() -> Any:
    """The library, which finds those that it needs once they are loaded."""
    library()
    wheel = importlib.util.find_spec("adios2")
    assert wheel is not None
    assert wheel.origin is not None
    calls = ctypes.CDLL(str(Path(wheel.origin).parent / "libadios2_evpath.so"))
    for name, (result, arguments) in PROTOTYPES.items():
        function = getattr(calls, name)
        function.restype, function.argtypes = result, arguments
    return calls


def main(structs: str, events: str) -> None:
    os.environ.setdefault("ADIOS2_PORT_RANGE", "26100:26200")  # without it the library reports no port
    with os.fdopen(os.dup(1), "w") as out:
        os.dup2(2, 1)  # what the library prints is not an event

        def say(value: Any) -> None:
            print(json.dumps(value), file=out, flush=True)

        calls = evpath()
        expected = natural([struct(name, *map(tuple, fields)) for name, fields in json.loads(structs)])
        received: list[Any] = []

        def event(_: int, message: int, __: int, ___: int) -> int:
            received.append(read_record(expected, message))
            return 1

        handler = HANDLER(event)
        manager = calls.CManager_create()
        stone = calls.EValloc_stone(manager)
        calls.EVassoc_terminal_action(manager, stone, description(expected), handler, None)
        host, port = c_char_p(), c_int()
        if not calls.EVthin_socket_listen(manager, byref(host), byref(port)) or host.value is None or port.value < 0:
            raise OSError("the library does not listen")
        say({"host": host.value.decode(), "port": port.value, "stone": stone})
        while len(received) < int(events):
            calls.CMusleep(manager, 10_000)
        for one in received:
            say(one)
        out.flush()
        os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
