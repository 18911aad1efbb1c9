"""Remakes the BP5 folders of `bp5/`, and the values that they must give: `python -m tests.golden.bp5_sets`.

The values are those that went in, as they are written down here, not what a reader once found; only what zfp loses is
taken from the library that wrote it. `bp5_bytes` makes what the `adios2` wheel cannot write.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from tests.bp5.made import Joined, Local, Maker, PerWriter
from tests.bp5.values import spelled
from tests.golden import bp5_bytes

FOLDER = Path(__file__).parent / "bp5"
SMALL = {"StripeSize": "64"}

Values: TypeAlias = dict[str, Any]
KINDS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "c8", "c16")


def assembled(value: Any) -> Any:
    """The values that a reader must give for the written ones."""
    if isinstance(value, tuple):
        shape, blocks = value
        whole = np.zeros(shape, blocks[0][1].dtype)
        for start, block in blocks:
            whole[tuple(slice(a, a + n) for a, n in zip(start, block.shape, strict=True))] = block
        return shown(whole)
    if isinstance(value, Local):
        return [shown(np.asarray(block)) for block in value.blocks]
    if isinstance(value, Joined):
        return shown(np.concatenate(value.blocks))
    return [shown(value.value)] if isinstance(value, PerWriter) else shown(value)


def shown(value: Any) -> Any:
    """A value in the spelling of the JSON files."""
    if isinstance(value, np.ndarray) and value.ndim:
        return [shown(one) for one in value]
    value = value.item() if isinstance(value, np.generic | np.ndarray) else value
    return [spelled(value.real), spelled(value.imag)] if isinstance(value, complex) else spelled(value)


def write(path: Path, steps: list[Values], attributes: Mapping[int, Values] | None = None, **more: Any) -> list[Values]:
    """Write steps, and give the rows that they are."""
    maker = Maker(path, **{**SMALL, **more})
    for number, step in enumerate(steps):
        maker.step(step, (attributes or {}).get(number))
    maker.close()
    return [{name: assembled(value) for name, value in step.items()} for step in steps]


def edges(kind: str) -> list[Any]:
    """Values of a type, the least and the greatest among them."""
    type_ = np.dtype(kind)
    if type_.kind in "iu":
        return [np.iinfo(type_).min, np.iinfo(type_).max, 1, 7]
    if type_.kind == "f":
        return [-0.0, float(np.finfo(type_).max), np.inf, np.nan]
    return [1 - 2j, complex(0, np.inf), 0j, 0.5 + 0.25j]


def scalars(path: Path) -> list[Values]:
    texts = ["", "plain", "Größe µ 粒子", "a" * 300]
    return write(
        path,
        [
            {**{kind: np.array(edges(kind)[step], kind) for kind in KINDS}, "text": texts[step], "word": f"{step}"}
            for step in range(4)
        ],
    )


def arrays(path: Path) -> list[Values]:
    flat = {f"{kind}_1": np.array(edges(kind), kind) for kind in KINDS}
    table = {f"{kind}_2": np.array(edges(kind), kind).reshape(2, 2) for kind in ("i2", "f8", "c16")}
    cube = {"cube": np.arange(24, dtype="f4").reshape(2, 3, 4), "one": np.array([5], "u2"), "none": np.zeros(0, "i4")}
    return write(
        path, [{**flat, **table, **cube}, {"cube": cube["cube"][:, :, :1] + 1, "none": np.arange(2, dtype="i4")}]
    )


def blocks(path: Path) -> list[Values]:
    """In any order; places that no block has; blocks over others; an empty one; the shape changes."""
    whole = np.arange(12, dtype="f8").reshape(4, 3)
    rows = [((at, 0), whole[at : at + 1]) for at in range(4)]
    boxes = [((0, 0), whole[:2, :2]), ((2, 1), whole[2:, 1:]), ((1, 1), whole[1:3, 1:2] * -1)]
    return write(
        path,
        [
            {"x": ((4, 3), rows[::-1]), "n": ((5,), [((3,), np.arange(2)), ((0,), np.arange(3) + 10)])},
            {"x": ((4, 3), boxes), "n": ((5,), [((1,), np.arange(3)), ((2,), np.array([-7]))])},
            {"x": ((6, 3), rows[1:]), "n": ((2,), [((0,), np.arange(2)), ((2,), np.zeros(0, "i8"))])},
        ],
    )


def absent(path: Path) -> list[Values]:
    x = np.arange(3.0)
    return write(path, [{"a": 1, "x": x}, {"b": 2.5}, {}, {"a": 3, "x": x + 1, "late": "text"}, {"b": 4.5, "late": ""}])


def many(path: Path) -> list[Values]:
    """More variables than one word of presence bits has."""
    return write(path, [{f"v{i:03}": i * 10 + step for i in range(130) if i % 3 != step} for step in range(3)])


def local(path: Path) -> list[Values]:
    def step(n: int) -> Values:
        parts = [np.arange(i + 1, dtype="i4") + n for i in range(n + 1)]
        stacked = [np.full((i + 1, 2), 10 * n + i, "f4") for i in range(2)]
        return {"own": PerWriter(n + 0.5), "parts": Local(parts), "stacked": Joined(stacked)}

    return write(path, [step(n) for n in range(3)])


ATTRIBUTES: dict[int, Values] = {
    0: {
        **{f"one {kind}": np.array(edges(kind)[1], kind) for kind in KINDS},
        **{f"list {kind}": np.array(edges(kind), kind) for kind in KINDS},
    },
    1: {"text": "Größe", "texts": ["a", "", "粒子"], "x/units": "m", "x/unitSI": 0.5, "single": np.array([3])},
    3: {"later": 1},
}
"""By step, those of the set `attributes`."""


def attributes(path: Path) -> list[Values]:
    return write(path, [{"x": np.arange(2.0) + n} for n in range(4)], ATTRIBUTES)


def flushed(path: Path) -> list[Values]:
    maker, rows = Maker(path, **SMALL), []
    for step in range(2):
        put = {name: np.arange(5.0 + i) + 10 * step for i, name in enumerate("abcd")}
        maker.engine.begin_step()
        for name, value in put.items():
            maker.put(name, value)
            if name in "ac":
                maker.flush()
        maker.engine.end_step()
        rows.append({name: shown(value) for name, value in put.items()})
    maker.close()
    return rows


def appended(path: Path) -> list[Values]:
    rows = []
    for run in range(3):
        steps: list[Values] = [
            {"t": 10 * run + n, f"run{run}": np.arange(2.0) + n, "x": np.arange(n)} for n in range(2)
        ]
        rows += write(path, steps, {0: {f"note{run}": "text"}}, append=run > 0)
    return rows


def flattened(path: Path) -> list[Values]:
    steps = [{"t": n, "x": ((4,), [((n,), np.array([n + 0.5]))])} for n in range(4)]
    write(path, steps, FlattenSteps="true")
    return [{"t": 3, "x": [0.5, 1.5, 2.5, 3.5]}]


def no_statistics(path: Path) -> list[Values]:
    return write(path, [{"x": np.arange(4.0) + n, "n": np.arange(2)} for n in range(2)], StatsLevel="0")


def names(path: Path) -> list[Values]:
    """Names with what Spark, paths, formats and E-code give a meaning."""
    odd = ("a b", "a.b", "`a`", "/data/0/x", "BPg_8", "x-1_2", "-", "per%", "ü", "粒子", 'q"q', "a\\b", "$1", "*", "a/")
    lists = {f"{name} list": np.arange(2) + i for i, name in enumerate(odd)}
    return write(path, [{**{name: i for i, name in enumerate(odd)}, **lists}])


def column_major(path: Path) -> list[Values]:
    """As a Fortran program writes: its (i, j) is (j, i) here."""
    theirs = [np.arange(6.0).reshape(2, 3) + n for n in range(2)]
    cube = np.arange(24, dtype="i4").reshape(2, 3, 4)

    def fortran(block: Any) -> Any:
        return np.ascontiguousarray(block.T).reshape(block.shape)

    steps = []
    for one in theirs:
        halves = [((0, 0), fortran(one[:, :1])), ((0, 1), fortran(one[:, 1:]))]
        steps.append({"x": ((2, 3), halves), "cube": fortran(cube), "n": np.arange(3)})
    write(path, steps)
    bp5_bytes.patch(path / "md.idx", 40, b"y")
    return [{"x": shown(one.T), "cube": shown(cube.T), "n": [0, 1, 2]} for one in theirs]


def writers(path: Path) -> list[Values]:
    """Three writers into two subfiles. The second step lacks a writer's part of everything."""
    parts, rows = [path.with_name(f"part{w}") for w in range(3)], list[Values]()
    for step in range(2):
        there = [w for w in range(3) if (step, w) != (1, 1)]
        rows.append(
            {
                "t": step,
                "own": [10 * step + w if w in there else None for w in range(3)],
                "x": [20.0 * step + w if w in there else 0.0 for w in range(3) for _ in range(2)],
                "parts": [[w] * (w + 1) for w in there],
                "stacked": [[w, step] for w in there],
                "alone": [7, 8],
            }
        )
    for w, part in enumerate(parts):
        steps: list[Values] = []
        for step in range(2):
            put: Values = {
                "t": step,
                "own": PerWriter(10 * step + w),
                "x": ((6,), [((2 * w,), np.full(2, 20.0 * step + w))]),
                "parts": Local([np.full(w + 1, w)]),
                "stacked": Joined([np.array([[w, step]])]),
            }
            steps.append({} if (step, w) == (1, 1) else {**put, **({"alone": np.array([7, 8])} if w == 2 else {})})
        write(part, steps, {0: {"by": w, "x/units": "m"}})
    bp5_bytes.join_writers(parts, path, [0, 1, 1])
    return rows


def _compressible() -> list[Values]:
    x = np.repeat(np.arange(8.0), 40)
    return [
        {"x": ((320,), [((0,), x[:160] + n), ((160,), x[160:] + n)]), "n": np.arange(6, dtype="i2"), "t": n}
        for n in range(2)
    ]


def null(path: Path) -> list[Values]:
    return write(path, _compressible(), operator="null")


def bzip2(path: Path) -> list[Values]:
    rows = write(path, _compressible(), operator="null")
    bp5_bytes.operate(path, bp5_bytes.bzip2)
    return rows


def old_blosc2(path: Path) -> list[Values]:
    rows = write(path, _compressible(), operator="null")
    bp5_bytes.operate(path, bp5_bytes.old_blosc2)
    return rows


def refused(path: Path) -> list[Values]:
    """Blocks that say they are made by SZ."""
    rows = write(path, _compressible(), operator="null")
    bp5_bytes.operate(path, lambda plain: b"\x06\x01\0\0" + plain[:20])
    return [{"t": row["t"]} for row in rows]


def blosc2(path: Path) -> list[Values]:
    return bp5_bytes.openpmd(path, "blosc", {"clevel": "5", "compressor": "zstd", "doshuffle": "BLOSC_BITSHUFFLE"})


def zfp(path: Path) -> list[Values]:
    return bp5_bytes.openpmd(path, "zfp", {"accuracy": "0.01"})


def zfp_rate(path: Path) -> list[Values]:
    return bp5_bytes.openpmd(path, "zfp", {"rate": "12"})


SETS: tuple[Callable[[Path], list[Values]], ...] = (
    *(scalars, arrays, blocks, absent, many, local, attributes, flushed, appended, flattened, no_statistics, names),
    *(column_major, writers, null, bzip2, old_blosc2, refused, blosc2, zfp, zfp_rate),
)


def main() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    for make in SETS:
        name = make.__name__
        with tempfile.TemporaryDirectory() as scratch:
            rows = make(Path(scratch) / "set.bp")
            (FOLDER / f"{name}.bp").mkdir()
            for file in sorted((Path(scratch) / "set.bp").iterdir()):
                if file.name != "profiling.json":
                    shutil.copy(file, FOLDER / f"{name}.bp" / file.name)
        said: Values = {"rows": rows}
        if make is attributes:
            said["attributes"] = {
                step: {
                    key: assembled(value) if not isinstance(value, list) else value for key, value in defined.items()
                }
                for step, defined in ATTRIBUTES.items()
            }
        text = json.dumps(said, ensure_ascii=False, indent=1)
        (FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
