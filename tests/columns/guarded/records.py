"""`python -m tests.columns.guarded.records SEED RECORDS`: damaged records through decoding kernels, filters and
transforms in guarded memory (`tests.guarded.memory`), beside the plain-Python codec.

Slots and counts hold the numbers at which checks have their ends. What the codec refuses, decoding kernels refuse; what
it reads they read, and of every tenth batch the values are alike. Prints the number of each batch before it runs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

import ecode
from ecode.columns.batch import BatchProgram
from ecode.native.table import address_of
from ecode.types import (
    CHAR,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT8,
    UINT64,
    Array,
    Field,
    Pointer,
    Ref,
    Struct,
    record,
)
from pbio_spark.columns.decode.converter import Decoder, compile_plan
from pbio_spark.columns.decode.planner import format_to_plan
from pbio_spark.columns.programs.binding import WireBinding
from pbio_spark.errors import PbioError
from pbio_spark.formats import FieldLayout, Format, StructLayout
from pbio_spark.formats.arrow.mapping import ColumnSpec
from pbio_spark.formats.arrow.schema import Presentation, record_to_arrow
from pbio_spark.formats.layout import record_to_format
from pbio_spark.wire import decode, encode
from tests.columns.expected import NotPresentableError, record_to_row
from tests.columns.records import same
from tests.guarded.memory import Guards, guarded_kernels, with_ends

BATCH = 250
LIMITS = ecode.Limits(budget=10_000, output_bytes=1 << 14)
SHOWN = Presentation("binary", "decimal", "binary")
PAIR = Struct("pair", (Field("k", INT16), Field("s", STRING), Field("x", Array(INT64, ("k",)))))
RECORD = record(
    "r",
    [
        Field("n", INT32),
        Field("m", UINT64),
        Field("c", UINT8),
        Field("v", Array(INT32, ("n",))),
        Field("w", Array(FLOAT64, ("c", "m"))),
        Field("t", Array(CHAR, ("m",))),
        Field("p", Pointer(Ref("pair"))),
        Field("q", Pointer(INT64)),
        Field("a", Array(Ref("pair"), ("c",))),
        Field("s", STRING),
        Field("e", INT8),
    ],
    [PAIR],
)
OUT = record(
    "out",
    [
        Field("k", INT64),
        Field("n", INT64),
        Field("z", Array(INT32, ("n",))),
        Field("s", STRING),
        Field("o", Ref("pair")),
    ],
    [PAIR],
)
FILTER = """{
    if (input.p && input.p->k > 3) return 0;
    if (input.n > 1 && input.v[input.n - 1] == 7) return 0;
    if (input.m > 0 && input.c > 1) return input.w[input.c - 1][input.m - 1] < 1e9;
    if (input.e > 0 && input.v[input.m] > 2) return 0;
    return input.a[input.e].x[input.n] != 3 || input.s == "abc";
}"""
TRANSFORM = """{
    long i;
    output.n = input.n;
    for (i = 0; i < input.n; i++) { if (i > 50) break; output.z[i] = input.v[i] + input.e; }
    if (input.q) output.k = *input.q;
    if (input.p) output.o = *input.p;
    output.s = input.s;
    output.k += input.t[input.m - 1] + input.a[input.c - 1].k;
    return 1;
}"""
GRID_FILTER = """{
    if (input.n > 0 && input.m > 0 && input.v[input.n - 1][input.m - 1] == 7) return 0;
    return input.n != 2 || input.names[input.m] != "ab";
}"""
GRID_TRANSFORM = """{
    output.n = input.n;
    if (input.n > 0) output.z[input.n - 1] = input.m;
    output.k = input.rows[0][input.m - 1] + input.b[3][input.m];
    output.s = input.names[input.n - 1];
    return 1;
}"""


@dataclass
class Subject:
    """A format, sound records of it, and what is tried on damaged ones."""

    form: Format
    records: list[bytes]
    decoders: list[Decoder]
    programs: list[tuple[WireBinding, BatchProgram]]

    @property
    def minimum(self) -> int:
        return -(-self.form.structs[0].record_length // 8) * 8


def values(random: Random) -> dict[str, Any]:
    def pair() -> dict[str, Any]:
        k = random.choice((0, 1, 3))
        return {"k": k, "s": random.choice((None, b"", b"abc")), "x": [random.getrandbits(62) for _ in range(k)]}

    n, m, c = random.choice((0, 1, 4)), random.choice((0, 1, 3)), random.choice((0, 1, 2))
    return {
        "n": n, "m": m, "c": c,
        "v": [random.randrange(9) for _ in range(n)],
        "w": [[random.random() for _ in range(m)] for _ in range(c)],
        "t": [random.randrange(1, 128) for _ in range(m)],
        "p": random.choice((None, pair())), "q": random.choice((None, 5)),
        "a": [pair() for _ in range(c)], "s": random.choice((None, b"abc", b"a long text")),
        "e": random.choice((0, 1, 127, -128)),
    }  # fmt: skip


def subjects(random: Random) -> Iterator[Subject]:
    for machine in ("le64", "be32"):
        form = record_to_format(RECORD, machine)
        yield subject(form, [encode(form, values(random)) for _ in range(12)], (FILTER, TRANSFORM))
    fields = (
        FieldLayout("n", "integer", 4, 0),
        FieldLayout("m", "integer", 8, 8),
        FieldLayout("rows", "(integer[m])[n]", 2, 16),
        FieldLayout("v", "float[n][m]", 8, 24),
        FieldLayout("names", "string[n]", 8, 32),
        FieldLayout("b", "char[4][3]", 1, 40),
    )
    for column_major in (False, True):
        form = Format.from_structs([StructLayout("g", fields, 56)], column_major=column_major)
        sound = []
        for n, m in ((0, 0), (1, 2), (3, 2), (2, 0)):
            rows, cells = [[1] * m for _ in range(n)], [[2.0] * m for _ in range(n)]
            names: list[bytes | None] = [b"ab", None, b""]
            value = {"n": n, "m": m, "rows": rows, "v": cells, "names": names[:n], "b": [[1, 2, 3]] * 4}
            sound.append(encode(form, value))
        yield subject(form, sound, (GRID_FILTER, GRID_TRANSFORM))


def subject(form: Format, records: list[bytes], texts: tuple[str, ...]) -> Subject:
    plan = format_to_plan(form, ColumnSpec(record_to_arrow(form.record, SHOWN), SHOWN))
    decoders = [Decoder(compile_plan(plan, fused=True))]
    programs = []
    output = ecode.Param("output", OUT, ecode.Mode.OUT)
    for text in texts:
        others = [output] if "output" in text else []
        program = ecode.compile(text, [ecode.Param("input", form.record), *others], limits=LIMITS)
        binding = WireBinding(form, form.record)
        programs.append((binding, BatchProgram.in_row([program], binding)))
    return Subject(form, records, decoders, programs)


def main(seed: int, count: int) -> None:
    random, guards = Random(seed), Guards()
    known = list(subjects(random))
    refused = read = passed = ended = 0
    for number in range(-(-count // BATCH)):
        print(number, flush=True)
        one = known[number % len(known)]
        records = [
            with_ends(random.choice(one.records), one.form.header_size, one.minimum, one.form.byte_order, random)
            for _ in range(BATCH)
        ]
        memory = [guards.copied(r[one.form.header_size :], at_end=random.random() < 0.8) for r in records]
        starts = np.array([address_of(m) for m in memory], np.int64)
        ends = starts + np.array([len(m) for m in memory], np.int64)
        values_or_errors = [decoded_or_error(one.form, r) for r in records]
        with guarded_kernels(guards):
            for decoder in one.decoders:
                decoded = decoder.decode(starts, ends)
                rows = decoded.batch.to_pylist() if number % 10 == 0 else None
                for i, value in enumerate(values_or_errors):
                    check(one.form, records[i], value, int(decoded.status[i]), rows and rows[i])
            refused, read = refused + int((decoded.status != 0).sum()), read + int((decoded.status == 0).sum())
            for binding, program in one.programs:
                entries = {name: np.frombuffer(data, np.uint8) for name, data in binding.texts.items()}
                result = program.run({}, BATCH, memory={"starts": starts, "ends": ends, **entries})
                passed, ended = passed + int(result.passed.sum()), ended + len(result.traps)
        guards.take_back()
    print(f"{count} records: {refused} refused and {read} read; programs passed {passed} and ended {ended}")
    assert min(refused, read, passed, ended) > count // 20


def decoded_or_error(form: Format, data: bytes) -> dict[str, Any] | PbioError:
    try:
        return decode(form, data, text=None)
    except PbioError as error:
        return error


def check(
    form: Format, data: bytes, value: dict[str, Any] | PbioError, status: int, row: dict[str, Any] | None
) -> None:
    if isinstance(value, PbioError):
        assert status or value.code == "PBIO_RECORD_EXPANDS", (data.hex(), value)
        return
    try:
        expected = record_to_row(form, value, SHOWN)
    except NotPresentableError:
        assert status, data.hex()
        return
    assert not status, (data.hex(), value)
    assert row is None or same(row, expected), (data.hex(), row, expected)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
