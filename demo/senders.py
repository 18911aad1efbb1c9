"""Three generations of one sender, as they grew over the years. Each wrote `MonitoringMsg` for its own machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from demo.sample import Sample
from pbio_spark import FLOAT32, FLOAT64, INT32, INT64, STRING, UINT32, Array, Field, Notes, Record, Ref, Struct, record

OLD_INTERFACE = Struct("Interface", (Field("name", STRING), Field("received_kb", UINT32), Field("sent_kb", UINT32)))
INTERFACE = Struct("Interface", (Field("name", STRING), Field("received", INT64), Field("sent", INT64)))


@dataclass(frozen=True, slots=True)
class Sender:
    """One generation: when it was new, the machine it ran on, what it sends and how it fills that from a sample.

    `back` is E-code that its format carries: the way of its records to readers of the generation before.
    """

    year: int
    machine: str
    description: str
    record: Record
    values: Callable[[Sample], dict[str, Any]]
    back: str | None = None


def _first(sample: Sample) -> dict[str, Any]:
    return {"seconds": int(sample.at), "load": sample.load[0], "free_kb": sample.memory_free}


def _second(sample: Sample) -> dict[str, Any]:
    interfaces = [
        {"name": i.name, "received_kb": i.received // 1024 % 2**32, "sent_kb": i.sent // 1024 % 2**32}
        for i in sample.interfaces
    ]
    return {
        **_first(sample),
        "host": sample.host,
        "total_kb": sample.memory_total,
        "interface_count": len(interfaces),
        "interfaces": interfaces or None,
    }


def _third(sample: Sample) -> dict[str, Any]:
    return {
        "at": int(sample.at * 1e6),
        **_second(sample),
        "interfaces": [{"name": i.name, "received": i.received, "sent": i.sent} for i in sample.interfaces] or None,
        "load_15": sample.load[2],
        "cpu_count": len(sample.busy),
        "busy_seconds": list(sample.busy) or None,
    }


TO_1998 = "{ old.seconds = new.seconds; old.load = new.load; old.free_kb = new.free_kb; }"
TO_2006 = """{
    int i;
    old.seconds = new.seconds;
    old.host = new.host;
    old.load = new.load;
    old.free_kb = new.free_kb;
    old.total_kb = new.total_kb;
    old.interface_count = new.interface_count;
    for (i = 0; i < new.interface_count; i++) {
        old.interfaces[i].name = new.interfaces[i].name;
        old.interfaces[i].received_kb = new.interfaces[i].received / 1024;
        old.interfaces[i].sent_kb = new.interfaces[i].sent / 1024;
    }
}"""

SENDERS = (
    Sender(
        1998,
        "sparc",
        "seconds, load and free memory",
        record("MonitoringMsg", [Field("seconds", INT32), Field("load", FLOAT32), Field("free_kb", UINT32)]),
        _first,
    ),
    Sender(
        2006,
        "i386",
        "adds the host, total memory and network counters in KiB",
        record(
            "MonitoringMsg",
            [
                Field("seconds", INT32),
                Field("host", STRING),
                Field("load", FLOAT32),
                Field("free_kb", UINT32),
                Field("total_kb", UINT32),
                Field("interface_count", INT32, Notes(hidden=True)),
                Field("interfaces", Array(Ref("Interface"), ("interface_count",))),
            ],
            [OLD_INTERFACE],
        ),
        _second,
        TO_1998,
    ),
    Sender(
        2024,
        "x86-64",
        "widens the numbers, counts bytes, adds exact time and processors",
        record(
            "MonitoringMsg",
            [
                Field("at", INT64, Notes(logical="timestamp", units="us")),
                Field("seconds", INT64),
                Field("host", STRING),
                Field("load", FLOAT64),
                Field("load_15", FLOAT64),
                Field("free_kb", INT64, Notes(units="KiB")),
                Field("total_kb", INT64, Notes(units="KiB")),
                Field("cpu_count", INT32, Notes(hidden=True)),
                Field("busy_seconds", Array(FLOAT64, ("cpu_count",))),
                Field("interface_count", INT32, Notes(hidden=True)),
                Field("interfaces", Array(Ref("Interface"), ("interface_count",))),
            ],
            [INTERFACE],
        ),
        _third,
        TO_2006,
    ),
)
