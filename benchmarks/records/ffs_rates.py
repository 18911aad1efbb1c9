"""How fast the real FFS library decodes, encodes and reads: the other side of our benchmarks, in the same process.

    sample          records of one size and byte order, as one block of bytes
    decode_seconds  the library's time to decode them all
    encode_seconds  its time to encode as many of this machine's
    read_seconds    its time to read an FFS file of them

The loops around its calls are in C (`ffs_loops.c`), so a C compiler is needed. Conversions are interpreted unless
`code_generation` asks for generated machine code, which is right for this record and wrong for others
(ffs-wire-format 12, items 5 and 6).

    python -m benchmarks.records.ffs_rates      prints a table of all of it
"""

from __future__ import annotations

import ctypes
import functools
import subprocess
import tempfile
import time
from collections.abc import Callable
from ctypes import c_int, c_size_t, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pbio_spark.formats import FieldLayout, Format, StructLayout
from pbio_spark.wire.encode import encode
from tests.ffs.native import Arena, NativeStruct, natural, read_record, struct
from tests.ffs_library import DATA, Context, Item, description, library, write_file

SIZES = (100, 1_000, 10_000, 100_000)
STRUCTS = natural(
    [
        struct(
            "event",
            ("id", "integer", 4),
            ("n", "integer", 4),
            ("t", "float", 8),
            ("name", "string", 8),
            ("v", "float[n]", 8),
        )
    ]
)
FIXED = 64
"""Bytes of an encoded record apart from its array: header 24, base record 32, the string 8."""
PROTOTYPES = {
    "decode_each": (c_void_p, c_void_p, c_void_p, c_size_t, c_size_t, c_void_p),
    "decode_each_in_place": (c_void_p, c_void_p, c_void_p, c_size_t, c_size_t, c_void_p),
    "encode_each": (c_void_p, c_void_p, c_void_p, c_void_p, c_size_t),
    "read_each": (c_void_p, c_void_p, c_void_p, c_int, c_void_p),
}
DISTINCT = 16
"""So many different records are made and repeated."""


def event(number: int, size: int) -> dict[str, Any]:
    """The value of one record that takes about `size` bytes."""
    n = (size - FIXED) // 8
    return {
        "id": number,
        "n": n,
        "t": number / 8,
        "name": f"ev-{number % 1000:04}",
        "v": [number + i / 4 for i in range(n)],
    }


@dataclass(frozen=True, slots=True)
class Sample:
    """`count` encoded records of one format, each `stride` bytes after the one before."""

    format: Format
    data: bytes
    stride: int
    count: int
    size: int

    def record(self, index: int) -> bytes:
        """One encoded record."""
        return self.data[index * self.stride : (index + 1) * self.stride]


def sample(size: int, machine: str, count: int) -> Sample:
    """Records of about `size` bytes as the machine (`le64`, `be64`) would have sent them."""
    (native,) = STRUCTS
    fields = tuple(FieldLayout(f.name, f.type, f.size, f.offset) for f in native.fields)
    made = Format.from_structs([StructLayout(native.name, fields, native.size)], machine)
    records = [encode(made, event(number, size)) for number in range(DISTINCT)]
    stride = len(records[0])
    if stride % 8 or any(len(record) != stride for record in records):
        raise ValueError(f"records of about {size} bytes do not stand in line")
    repeated = b"".join(records) * -(-count // DISTINCT)
    return Sample(made, repeated[: count * stride], stride, count, size)


def decode_seconds(of: Sample, how: str = "buffer", code_generation: bool = False, repeats: int = 3) -> float:
    """Seconds to decode all records of a sample, the best of `repeats`.

    Args:
        how: `buffer` is FFSdecode_to_buffer, every record into the same memory; `place` is FFSdecode_in_place, which
            has next to nothing to do for records of this machine's own order and layout.

    FFSdecode is left out: it keeps memory for each record's strings and arrays that nothing frees, so it would
    measure page faults. What comes out of the last record is compared with what went in.
    """
    context = Context(library(code_generation))
    context.load(of.format.id, of.format.body)
    structs = context.prepare(of.record(0))
    calls, loops = context.calls, _loops()
    times = []
    for _ in range(repeats):
        block = _block(of.data)
        destination = _block(bytes(calls.FFS_est_decode_length(context.context, block, of.stride)))
        result = c_void_p(ctypes.addressof(destination))
        if how == "buffer":
            run = functools.partial(loops.decode_each, _address(calls.FFSdecode_to_buffer), context.context, block)
        else:
            run = functools.partial(
                loops.decode_each_in_place, _address(calls.FFSdecode_in_place), context.context, block
            )
        last = destination if how == "buffer" else ctypes.byref(result)
        times.append(_timed(functools.partial(run, of.stride, of.count, last), of.count))
        _check(structs, result.value or 0, of)
    return min(times)


def encode_seconds(size: int, count: int, repeats: int = 3) -> float:
    """Seconds to encode `count` records of this machine of about `size` bytes, the best of `repeats`."""
    context = Context()
    made = context.register(STRUCTS)
    arena = Arena(STRUCTS)
    record = arena.record(event(0, size))
    buffer = context.calls.create_FFSBuffer()
    run = functools.partial(_loops().encode_each, _address(context.calls.FFSencode), buffer, made.handle, record, count)
    best = min(_timed(run, count) for _ in range(repeats))
    context.calls.free_FFSBuffer(buffer)
    return best


def read_seconds(path: Path, count: int, code_generation: bool = False, repeats: int = 3) -> float:
    """Seconds to open an FFS file of `count` sample records and read and decode them all, the best of `repeats`.

    The library asks the operating system for each record on its own, and keeps memory as FFSdecode does.
    """
    calls, loops = library(code_generation).calls, _loops()
    destination = _block(bytes(STRUCTS[0].size))

    def run() -> int:
        file = calls.open_FFSfile(str(path).encode(), b"r")
        calls.FFSset_visible(file, DATA)
        calls.FFSset_fixed_target(calls.FFSContext_of_file(file), description(STRUCTS))
        done: int = loops.read_each(
            _address(calls.FFSnext_record_type), _address(calls.FFSread), file, DATA, destination
        )
        calls.close_FFSfile(file)
        return done

    return min(_timed(run, count) for _ in range(repeats))


def _check(structs: tuple[NativeStruct, ...], address: int, of: Sample) -> None:
    found, expected = read_record(structs, address), event((of.count - 1) % DISTINCT, of.size)
    if found != expected:
        raise ValueError(f"the library decoded {str(found)[:200]}, not {str(expected)[:200]}")


def _timed(run: Callable[[], int], expected: int) -> float:
    start = time.perf_counter()
    done = run()
    seconds = time.perf_counter() - start
    if done != expected:
        raise ValueError(f"the library handled {done} records of {expected}")
    return seconds


def _block(data: bytes) -> Any:
    """A copy of the bytes, aligned for any type."""
    block = (ctypes.c_uint64 * (len(data) // 8 + 1))()
    ctypes.memmove(block, data, len(data))
    return block


@functools.cache
def _loops() -> Any:
    """The compiled loops. Raises FileNotFoundError without a C compiler."""
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "ffs_loops.so"
        source = Path(__file__).with_name("ffs_loops.c")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(built), str(source)], check=True)
        loops = ctypes.CDLL(str(built))
    for name, arguments in PROTOTYPES.items():
        getattr(loops, name).restype, getattr(loops, name).argtypes = c_size_t, arguments
    return loops


def _address(function: Any) -> int | None:
    return ctypes.cast(function, c_void_p).value


def main() -> None:
    """Print rates for every size, order and way."""
    print(f"{'bytes':>7} {'order':5} {'generated':9} {'how':6} {'ns/record':>10} {'GB/s':>6}")
    for size in SIZES:
        count = max(64, min(100_000, 20_000_000 // size))
        for machine in ("le64", "be64"):
            records = sample(size, machine, count)
            for code_generation in (False, True):
                for how in ("buffer", "place"):
                    _row(records, machine, code_generation, how, decode_seconds(records, how, code_generation))
            if machine == "le64":
                _row(records, machine, False, "encode", encode_seconds(size, count))
                with tempfile.TemporaryDirectory() as folder:
                    path = Path(folder) / "records.ffs"
                    write_file(path, (Item(STRUCTS, event(number, size)) for number in range(count)))
                    for code_generation in (False, True):
                        _row(records, machine, code_generation, "file", read_seconds(path, count, code_generation))


def _row(of: Sample, machine: str, code_generation: bool, how: str, seconds: float) -> None:
    rate = f"{seconds / of.count * 1e9:10.0f} {of.count * of.stride / seconds / 1e9:6.2f}"
    print(f"{of.stride:7} {machine:5} {code_generation!s:9} {how:6} {rate}")


if __name__ == "__main__":
    main()
