"""Evolution: records of a newer format read as an older type, by the transforms that they carry.

Without evolution as many columns of the same types are decoded; the transform copies the array element by element.
`evolved_text` compares with JSON and XML in Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from benchmarks import Row, side_by_side
from benchmarks.spark.readings import reading, readings
from ecode.columns import BatchProgram, Column
from ecode.columns.column import ITEMS
from ecode.types import Record
from morph import Rejection, compile_transform
from pbio_spark.columns.encode.encoder import format_to_encoder
from pbio_spark.columns.files.compile import compile_converter, plan_read
from pbio_spark.columns.files.plan import Selection
from pbio_spark.columns.programs.converter import AnyConverter
from pbio_spark.columns.programs.output import ProgramOutput
from pbio_spark.columns.programs.routes import Request
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.mapping import ColumnSpec
from pbio_spark.formats.arrow.schema import record_to_arrow
from pbio_spark.formats.evolve import evolve
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.store import MemoryStore
from pbio_spark.wire import decode

SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
BYTES = 48 << 20
BATCH = 32768
HOPS = 10

OLD = reading("id", "at", "host", "n", "v")
NEW = reading("number", "time", "machine", "count", "values")
TO_OLD = """{
    int i;
    old.id = new.number;
    old.at = new.time;
    old.host = new.machine;
    old.n = new.count;
    for (i = 0; i < new.count; i++) old.v[i] = new.values[i];
}"""


def rows() -> Iterator[Row]:
    old = record_to_format(OLD)
    new = evolve(old, record_to_format(NEW), TO_OLD)
    for size in SIZES:
        records = Records(new, readings(NEW, size, BYTES // size))
        evolved, plain = converter((old, new), OLD), converter((new,), NEW)
        fast, slow = decoding(evolved, records), decoding(plain, records)
        what = f"{size:,} B"
        yield Row(what, "without evolution", *side_by_side(fast, slow), records.count, goal=1 / 1.2)
        yield Row(what, "decoding, then E-code", *side_by_side(fast, unfused(plain, records), 3), records.count)
        if size == SIZES[0]:
            yield interpreted(fast, records)
    for size in SIZES[:3]:
        yield chain(size)


class Records:
    """Encoded records in memory: where each starts after its header, and where it ends."""

    def __init__(self, form: Format, batch: pa.RecordBatch) -> None:
        encoded = format_to_encoder(form, batch.schema).encode(batch)
        self.buffer = encoded.buffer
        self.form = form
        self.count = batch.num_rows
        self.offsets = encoded.offsets
        self.starts = encoded.buffer.address + encoded.offsets[:-1] + form.header_size
        self.ends = encoded.buffer.address + encoded.offsets[1:]

    def steps(self) -> Iterator[slice]:
        """The records in batches as the reader makes them."""
        return (slice(first, first + BATCH) for first in range(0, self.count, BATCH))


def converter(formats: tuple[Format, ...], target: Record) -> AnyConverter:
    """From the last of the formats to a type."""
    selection = Selection(record_to_arrow(target), request=Request((("target", target),)))
    plan = plan_read(selection, store=MemoryStore(formats))
    made = compile_converter(plan, formats[-1], fused=True)
    if isinstance(made, Rejection):
        raise ValueError(made.explain())
    return made


def decoding(of: AnyConverter, records: Records) -> Callable[[], object]:
    """Decode all records."""
    decoder = of.decoder()

    def run() -> None:
        for part in records.steps():
            if decoder.decode(records.starts[part], records.ends[part]).status.any():
                raise ValueError("a record is bad")

    return run


def unfused(of: AnyConverter, records: Records) -> Callable[[], object]:
    """Decode all records as they are, and then run the transform over the columns."""
    decoder = of.decoder()
    program = BatchProgram.of(compile_transform(TO_OLD, NEW, OLD))
    made = ProgramOutput(OLD, ColumnSpec(record_to_arrow(OLD)))

    def run() -> None:
        for part in records.steps():
            batch = decoder.decode(records.starts[part], records.ends[part]).batch
            result = program.run({"new": batch_to_column(batch)}, batch.num_rows)
            made.to_batch(result.outputs["old"])

    return run


def batch_to_column(batch: pa.RecordBatch) -> Column:
    """Readings as E-code takes them."""
    children = {}
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_list(array.type):
            items = Column(len(array.values), array.values.to_numpy())
            children[name] = Column(len(array), offsets=array.offsets.to_numpy(), children={ITEMS: items})
        elif pa.types.is_string(array.type):
            _, offsets, data = array.buffers()
            ends = np.frombuffer(offsets, np.int32, len(array) + 1)
            children[name] = Column(len(array), np.frombuffer(data, np.uint8), ends)
        else:
            children[name] = Column(len(array), array.to_numpy())
    return Column(batch.num_rows, children=children)


def interpreted(fused: Callable[[], object], records: Records) -> Row:
    """The same by the slow twins, on fewer records."""
    few = 1000
    program = compile_transform(TO_OLD, NEW, OLD)

    def run() -> None:
        for first, last in zip(records.offsets[:few], records.offsets[1:], strict=False):
            program.run({"new": decode(records.form, records.buffer[first:last].to_pybytes())})

    ours, theirs = side_by_side(fused, run, 3)
    return Row(f"{SIZES[0]} B", "codec and interpreter", ours, theirs * records.count / few, records.count)


def chain(size: int) -> Row:
    """Ten transforms in a row against one that does the same."""
    types = [reading(*(f"{name}{rev}" for name in ("id", "at", "host", "n", "v"))) for rev in range(HOPS + 1)]
    formats = [record_to_format(types[0])]
    for rev, type_ in enumerate(types[1:], 1):
        formats.append(evolve(formats[-1], record_to_format(type_), step(rev, rev - 1)))
    by_hand = evolve(formats[0], record_to_format(types[-1]), step(HOPS, 0))
    batch = readings(types[-1], size, BYTES // size)
    ours = decoding(converter(tuple(formats), types[0]), Records(formats[-1], batch))
    theirs = decoding(converter((formats[0], by_hand), types[0]), Records(by_hand, batch))
    what = f"{size:,} B, {HOPS} transforms in a row"
    return Row(what, "one transform", *side_by_side(ours, theirs), batch.num_rows, goal=1 / 1.2)


def step(new: int, old: int) -> str:
    """A transform from one revision to an older one, which adds 1 for each revision between them."""
    return f"""{{
        int i;
        old.id{old} = new.id{new} + {new - old};
        old.at{old} = new.at{new} + {new - old};
        old.host{old} = new.host{new};
        old.n{old} = new.n{new};
        for (i = 0; i < new.n{new}; i++) old.v{old}[i] = new.v{new}[i] + {new - old};
    }}"""
