"""What this machine is doing right now: load, memory, network counters. Linux tells all of it, other systems less."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Interface:
    """The counters of a network interface since the machine started, in bytes."""

    name: str
    received: int
    sent: int


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at the machine.

    Attributes:
        at: seconds since 1970.
        load: averages over 1, 5 and 15 minutes.
        memory_total, memory_free: in KiB; 0 where the system does not say.
        busy: of each processor, the time it has been busy since the machine started, in seconds.
        interfaces: those that have received anything.
    """

    at: float
    host: str
    load: tuple[float, float, float]
    memory_total: int
    memory_free: int
    busy: tuple[float, ...] = ()
    interfaces: tuple[Interface, ...] = ()


def take_sample() -> Sample:
    """Look at the machine once."""
    total, free = _memory()
    return Sample(time.time(), socket.gethostname(), os.getloadavg(), total, free, tuple(_busy()), tuple(_interfaces()))


def _lines(name: str) -> list[str]:
    path = PROC / name
    return path.read_text().splitlines() if path.exists() else []


def _memory() -> tuple[int, int]:
    sizes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in _lines("meminfo"))}
    if "MemTotal" in sizes:
        return sizes["MemTotal"], sizes.get("MemAvailable", sizes.get("MemFree", 0))
    pages = {name: os.sysconf(name) for name in ("SC_PHYS_PAGES", "SC_AVPHYS_PAGES") if name in os.sysconf_names}
    page = os.sysconf("SC_PAGE_SIZE") // 1024
    return pages.get("SC_PHYS_PAGES", 0) * page, pages.get("SC_AVPHYS_PAGES", 0) * page


def _busy() -> Iterator[float]:
    ticks = os.sysconf("SC_CLK_TCK")
    for words in map(str.split, _lines("stat")):
        if words[0].startswith("cpu") and words[0] != "cpu":
            user, nice, system = map(int, words[1:4])
            yield (user + nice + system) / ticks


def _interfaces() -> Iterator[Interface]:
    for line in _lines("net/dev")[2:]:
        name, _, counters = line.partition(":")
        words = counters.split()
        if int(words[0]):
            yield Interface(name.strip(), int(words[0]), int(words[8]))
