"""BP5 folders that the `adios2` wheel does not write: several writers, operators that it lacks."""

from __future__ import annotations

import bz2
import json
import shutil
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pbio_spark.bp5.data.places import place_blocks
from pbio_spark.bp5.dataset import Dataset, open_dataset
from pbio_spark.bp5.folder import DatasetFolder
from pbio_spark.bp5.meta.blocks import read_blocks
from pbio_spark.bp5.meta.metadata import Located
from pbio_spark.bp5.meta.variables import NUMBERS
from pbio_spark.formats import Format
from pbio_spark.formats.layout import record_to_format
from pbio_spark.wire import decode, encode
from tests.bp5.values import spelled


def patch(file: Path, at: int, new: bytes) -> None:
    data = bytearray(file.read_bytes())
    data[at : at + len(new)] = new
    file.write_bytes(bytes(data))


@dataclass
class _Serial:
    """What a single writer wrote: of each step its metadata, its attributes and its data."""

    path: Path
    header: bytes
    steps: list[tuple[bytes, bytes, bytes]]


def _serial(path: Path) -> _Serial:
    index, meta, data = ((path / name).read_bytes() for name in ("md.idx", "md.0", "data.0"))
    at, found = 64, list[tuple[int, int, int]]()
    while at < len(index):
        kind, length = struct.unpack_from("<cQ", index, at)
        if kind == b"s":
            position, size, flushes, begin = struct.unpack_from("<4Q", index, at + 9)
            assert not flushes
            found.append((position, size, begin))
        at += 9 + length
    ends = [begin for _, _, begin in found[1:]] + [len(data)]
    steps = []
    for (position, _, begin), end in zip(found, ends, strict=True):
        _, first, second = struct.unpack_from("<3Q", meta, position)
        block = position + 24
        steps.append((meta[block : block + first], meta[block + first : block + first + second], data[begin:end]))
    return _Serial(path, index[:64], steps)


def join_writers(parts: Sequence[Path], path: Path, subfiles: Sequence[int]) -> None:
    """Folders of a single writer each -> the folder that they would have written together.

    Args:
        subfiles: of each writer the number of its subfile.
    """
    serials = [_serial(part) for part in parts]
    path.mkdir()
    (path / "mmd.0").write_bytes(b"".join((part / "mmd.0").read_bytes() for part in parts))
    count = len(parts)
    files = [b""] * (max(subfiles) + 1)
    index = serials[0].header
    index += struct.pack(f"<cQ3Q{count}Q", b"w", 8 * (3 + count), count, len(files), len(files), *subfiles)
    meta = b""
    for step in zip(*(serial.steps for serial in serials), strict=True):
        positions = []
        for number, (_, _, data) in zip(subfiles, step, strict=True):
            files[number] += bytes(-len(files[number]) % 64)
            positions.append(len(files[number]))
            files[number] += data
        blocks = [part[0] for part in step] + [part[1] for part in step]
        chunk = struct.pack(f"<{2 * count}Q", *map(len, blocks)) + b"".join(blocks)
        places = [word for position in positions for word in (position,)]
        index += struct.pack(f"<cQ3Q{count}Q", b"s", 8 * (3 + count), len(meta), 8 + len(chunk), 0, *places)
        meta += struct.pack("<Q", len(chunk)) + chunk
    for name, content in {"md.idx": index, "md.0": meta, **{f"data.{i}": f for i, f in enumerate(files)}}.items():
        (path / name).write_bytes(content)


def operate(path: Path, operator: Callable[[bytes], bytes]) -> None:
    """Rewrite the data of a folder with one writer and the operator `null` as another operator would write it."""
    with DatasetFolder(str(path)) as folder:
        dataset = open_dataset(folder)
        located = dataset.locate(folder, dataset.steps)
        meta, data, new = bytearray((path / "md.0").read_bytes()), (path / "data.0").read_bytes(), b""
        begins: dict[int, int] = {}
        for block in sorted(_blocks_of(dataset, located), key=lambda block: block.at):
            begin = begins.setdefault(block.step, len(new))
            assert data[block.at] == 127
            made = operator(data[block.at + 12 : block.at + block.size])
            struct.pack_into("<Q", meta, block.place_of_location, len(new) - begin)
            struct.pack_into("<Q", meta, block.place_of_size, len(made))
            new += made + bytes(-len(made) % 8)
    (path / "md.0").write_bytes(bytes(meta))
    (path / "data.0").write_bytes(new)
    index = bytearray((path / "md.idx").read_bytes())
    for at, number in _steps_of(index):
        struct.pack_into("<Q", index, at + 9 + 24, begins.get(number, 0))
    (path / "md.idx").write_bytes(bytes(index))


@dataclass(frozen=True)
class _Block:
    """A block with an operator: where it is in data.0, and where md.0 says so."""

    step: int
    at: int
    size: int
    place_of_location: int
    place_of_size: int


def _blocks_of(dataset: Dataset, located: Located) -> Iterator[_Block]:
    for group in located.groups:
        for name, place in group.form.places.items():
            blocks = read_blocks(located, name, None, column_major=False) if place.array is not None else None
            if blocks is None or not blocks.has_operator.any():
                continue
            assert place.array is not None
            lists = [place.array.lists[key].pointer for key in ("DataBlockLocation", "DataBlockSize")]
            places, sizes = (group.start + group.pointers(pointer) for pointer in lists)
            for i in range(len(blocks)):
                step = dataset.steps[int(blocks.step[i])]
                row, word = int(np.flatnonzero(group.step == blocks.step[i])[0]), 8 * int(blocks.number[i])
                at = int(step.pieces[0, -1] + blocks.location[i])
                yield _Block(step.number, at, int(blocks.stored[i]), int(places[row]) + word, int(sizes[row]) + word)


def _steps_of(index: bytearray) -> Iterator[tuple[int, int]]:
    at, number = 64, 0
    while at < len(index):
        kind, length = struct.unpack_from("<cQ", index, at)
        if kind == b"s":
            yield at, number
            number += 1
        at += 9 + length


def bzip2(plain: bytes) -> bytes:
    """In two batches, as a block of more than the library's batch size has."""
    half = len(plain) // 2
    parts = [plain[:half], plain[half:]]
    packed = [bz2.compress(part) for part in parts]
    head = struct.pack("<BBHQQ", 1, 1, 0, len(plain), len(parts))
    at = len(head) + 16 * len(parts)
    offsets = [at, at + len(packed[0])]
    for part, begin, offset, one in zip(parts, (0, half), offsets, packed, strict=True):
        head += struct.pack("<4I", begin, len(part), offset, len(one))
    return head + b"".join(packed)


def old_blosc2(plain: bytes) -> bytes:
    """The layout before there were chunks."""
    import blosc2

    return struct.pack("<BBHQ3B", 0, 1, 0, len(plain), 1, 0, 0) + blosc2.compress2(plain, typesize=8)


def openpmd(path: Path, operator: str, parameters: dict[str, str]) -> list[dict[str, Any]]:
    """A run that openpmd-api writes, whose wheel has more operators; and the values that it reads back."""
    import openpmd_api as api

    made = {
        "E": np.add.outer(np.arange(12.0) / 16, np.arange(8.0) / 8),
        "rho": (np.arange(60, dtype="f4").reshape(5, 4, 3) % 7) / 2,
        "id": np.arange(80, dtype="i8") * 1000,
        "count": np.arange(40, dtype="i4") // 5,
        "wave": np.arange(10) * (0.5 - 2j),
    }
    datasets = {"operators": [{"type": operator, "parameters": parameters}]}
    engine = {"type": "bp5", "parameters": {"StripeSize": "64"}}
    config = json.dumps({"backend": "adios2", "adios2": {"engine": engine, "dataset": datasets}})
    own = path.with_name("%T.bp5")
    found = {}
    for access in (api.Access.create, api.Access.read_only):
        series = api.Series(str(own), access, config)
        iteration = series.iterations[0]
        for name, values in made.items():
            record = iteration.meshes[name][api.Mesh_Record_Component.SCALAR]
            if access == api.Access.create:
                record.reset_dataset(api.Dataset(values.dtype, values.shape))
                record.store_chunk(values)
            else:
                found[f"/data/0/meshes/{name}"] = record.load_chunk()
                series.flush()
        iteration.close()
        series.close()
    shutil.move(own.with_name("0.bp5"), path)
    return [{name: _shown(value) for name, value in found.items()}]


def _shown(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return [_shown(one) for one in value]
    value = value.item()
    return [spelled(value.real), spelled(value.imag)] if isinstance(value, complex) else spelled(value)


def on_another_machine(path: Path, target: Path, machine: str) -> None:
    """The folder that a program on another machine would have written, from one of a single writer on this one.

    Args:
        machine: a name in `MACHINES`, such as `be32`.
    """
    order = ">" if machine.startswith("be") else "<"
    target.mkdir()
    with DatasetFolder(str(path)) as folder:
        dataset = open_dataset(folder)
        forms = {id_: record_to_format(dataset.formats.get(id_).record, machine) for id_ in dataset.formats.bodies}
        described = [(form.id, form.body) for form in forms.values()]
        heads = b"".join(struct.pack(f"{order}QQ", len(i), len(body)) + i + body for i, body in described)
        (target / "mmd.0").write_bytes(heads)
        data = bytearray((path / "data.0").read_bytes())
        index = bytearray((path / "md.idx").read_bytes()[:64])
        index[36] = order == ">"
        index += struct.pack(f"{order}cQ4Q", b"w", 32, 1, 1, 1, 0)
        meta, old = b"", (path / "md.0").read_bytes()
        for step in dataset.steps:
            _, first, second = struct.unpack_from("<3Q", old, step.position)
            begin = step.position + 24
            blocks = [
                _turned(old[a : a + n], dataset, forms, order) for a, n in ((begin, first), (begin + first, second))
            ]
            chunk = struct.pack(f"{order}2Q", *map(len, blocks)) + b"".join(blocks)
            words = [len(meta), 8 + len(chunk), step.pieces.shape[1] // 2, *step.pieces[0].tolist()]
            index += struct.pack(f"{order}cQ{len(words)}Q", b"s", 8 * len(words), *words)
            meta += struct.pack(f"{order}Q", len(chunk)) + chunk
        (target / "md.0").write_bytes(meta)
        (target / "md.idx").write_bytes(bytes(index))
        located = dataset.locate(folder, dataset.steps)
        ways = dataset.formats.variables if order == ">" else {}
        for name in [name for name, (way, *_) in ways.items() if way.is_array]:
            blocks_of = read_blocks(located, name, None, column_major=False)
            assert blocks_of is not None
            places = place_blocks(blocks_of, located.steps, str(path))
            for at, size in zip(places.position.tolist(), blocks_of.stored.tolist(), strict=True):
                data[at : at + size] = _swapped(bytes(data[at : at + size]), blocks_of.variable.type)
        (target / "data.0").write_bytes(bytes(data))


def _turned(block: bytes, dataset: Dataset, forms: dict[bytes, Format], order: str) -> bytes:
    """A metadata or attribute block in another machine's layout."""
    if not block:
        return block
    form = dataset.formats.get(block[:12])
    (length,) = struct.unpack_from("<Q", block, 12)
    values: Any = decode(form, block[: 24 + length], text=None)
    if order == ">":
        for name, value in values.items():
            if isinstance(value, dict) and value.get("MinMax") is not None:
                kind = int(name.split("_")[2])
                value["MinMax"] = _list_swapped(value["MinMax"], kind)
        for one in values.get("PrimAttrs") or []:
            code = one["name"][0] - 48
            one["Values"] = _list_swapped(one["Values"], code - 18 * (code > 18))
    encoded = encode(forms[block[:12]], values)
    return encoded + bytes(-len(encoded) % 8)


def _list_swapped(values: Any, code: int) -> Any:
    """Characters, in a list or in lists of lists, that hold numbers."""
    listed = np.array(values, np.uint8)
    return np.frombuffer(_swapped(listed.tobytes(), code), np.uint8).reshape(listed.shape).tolist()


def _swapped(raw: bytes, code: int) -> bytes:
    kind = np.dtype(NUMBERS[code])
    width = kind.itemsize // 2 if kind.kind == "c" else kind.itemsize
    return np.frombuffer(raw, np.uint8).reshape(-1, width)[:, ::-1].tobytes()
