"""The text of one event as a kernel: the loop over events, and what a host needs to call it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ecode.native import loads
from ecode.outcome import Keep
from ecode.typed_to_numba.emitter import DROPPED, FIRST_TRAP, TrapSite
from ecode.typed_to_numba.prelude import helpers
from ecode.typed_to_numba.state.statics import Static
from ecode.typed_to_numba.state.undo import fails_after_writing
from ecode.types import Basic

if TYPE_CHECKING:
    from ecode.typed_to_numba.event import ProgramWriter

# The int64 words of `progress`: the next event, the next row, how many events trapped.
PROGRESS = ("event", "row", "trapped")


@dataclass(frozen=True, slots=True)
class EventKernel:
    """The text of a kernel, and what a host needs to call it. A plain value: it pickles.

    Attributes:
        source: defines `kernel(count, table)`.
        entries: what the table holds, in order; entry 0 is `progress`.
        growable: names of memory blocks by their (negative) status.
        sites: where events can trap; `traps` holds the event and the site's number for each trap, in order.
        literals: the bytes of string literals.
        frame_bytes: the size of the memory block `frame`.
        statics: the static variables in the block `statics`, and its size.
        functions: the names of logged functions, by their number in the log.
        samples: the types of sampled functions, in the order of the block `samples`, which has eight bytes for each.
    """

    source: str
    entries: tuple[str, ...]
    growable: Mapping[str, int]
    sites: tuple[TrapSite, ...]
    literals: bytes
    frame_bytes: int
    statics: tuple[Static, ...]
    statics_bytes: int
    functions: tuple[str, ...]
    samples: Mapping[str, Basic]


def assembled(event: ProgramWriter) -> EventKernel:
    """The kernel: the text of an event, and the loop around it."""
    emitter = event.emitter
    body = emitter.text()
    event.statics.is_saved = fails_after_writing(body, "statics")
    start = []
    if "heap_used" in body:
        start.append("    heap_used = 0")
    if "bytes_left" in body:
        start.append(f"    bytes_left = {event.limits.output_bytes}")
    if "budget" in body:
        start.append(f"    budget = {emitter.entry('budget_given')}")
    if "log_used" in body:
        start.append(f"    log_used = load_int64({emitter.entry('log_used_at')})")
    if "frame" in body:
        emitter.entry("frame")
    passed = list(emitter.entries)
    kernel = _lines(event, passed)
    one_event = [f"def one_event({', '.join(['event', 'row', *passed])}):", *start, body]
    text = "\n".join([*one_event, "", "", *kernel, ""])
    source = helpers(text) + "@within\n" + text
    entries = ("progress", *_entries(event), *passed)
    return EventKernel(
        source,
        entries,
        dict(emitter.growable),
        tuple(emitter.sites),
        bytes(event.code.literals.data),
        event.frame.size,
        tuple(event.statics.layout),
        event.statics.block.size,
        tuple(emitter.functions),
        dict(emitter.samples),
    )


def _entries(event: ProgramWriter) -> list[str]:
    entries = ["passed"]
    if event.emitter.sites:
        entries.append("traps")
    entries += [name for name in event.statics.entries if name not in event.emitter.entries]
    return entries


def _lines(event: ProgramWriter, passed: Sequence[str]) -> list[str]:
    entries = ["progress", *_entries(event), *passed]
    lines = ["def kernel(count, table):"]
    lines += loads(entries).splitlines()
    lines += [f"    {word} = load_int64(progress + {8 * i})" for i, word in enumerate(PROGRESS)]
    lines += ["    while event < count:"]
    lines += [f"        {line}" for line in event.statics.save()]
    lines += [f"        status = one_event({', '.join(['event', 'row', *passed])})"]
    progress = [f"store_int64(progress + {8 * i}, {word})" for i, word in enumerate(PROGRESS)]
    if event.emitter.growable:
        lines += ["        if status < 0:"]
        lines += [f"            {line}" for line in (*event.statics.restore(), *progress, "return status")]
    if event.emitter.sites:
        lines += [f"        if status >= {FIRST_TRAP}:"]
        lines += [f"            {line}" for line in event.statics.restore()]
        lines += [
            "            store_int64(traps + 16 * trapped, event)",
            f"            store_int64(traps + 16 * trapped + 8, status - {FIRST_TRAP})",
            "            trapped += 1",
            f"            store_uint8(passed + event, {DROPPED})",
            "        else:",
            "            store_uint8(passed + event, status)",
        ]
        row_indent = "            "
    else:
        lines += ["        store_uint8(passed + event, status)"]
        row_indent = "        "
    if event.to.sinks or event.to.results is not None:
        lines += [f"{row_indent}row += {'1' if event.to.keep is Keep.ALL else 'status'}"]
    lines += ["        event += 1"]
    lines += [f"    {line}" for line in progress]
    lines += ["    return 0"]
    return lines
