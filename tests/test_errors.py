"""Errors say what they know, keep it on the way between processes, and have codes that the table explains."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

from pbio_spark.errors import CODES, PbioError

SOURCES = sorted(Path(__file__).parents[1].glob("pbio_spark/**/*.py"))


def full_error() -> PbioError:
    return PbioError(
        "PBIO_BAD_BODY", "it is broken", file="a.ffs", offset=0, format="reading", field="$.a[3].b", hint="mend it"
    )


def test_the_text_begins_with_the_code_and_holds_every_fact() -> None:
    assert str(full_error()) == (
        "[PBIO_BAD_BODY] it is broken\n  at: a.ffs, offset 0, format reading, field $.a[3].b\n  hint: mend it"
    )


def test_pickling_keeps_every_fact_and_note() -> None:
    error = full_error()
    error.add_note("seen on a Friday")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is PbioError
    assert vars(again) == vars(error)
    assert str(again) == str(error)
    assert again.args == error.args


def test_outer_layers_add_what_is_not_known() -> None:
    error = PbioError("PBIO_BAD_BODY", "broken", offset=0)
    assert error.at(file="a.ffs", offset=7, format="f", field="$.x") is error
    assert (error.file, error.offset, error.format, error.field) == ("a.ffs", 0, "f", "$.x")


def test_every_code_in_the_sources_is_declared_and_every_declared_code_is_used() -> None:
    table = Path(__file__).parents[1] / "pbio_spark" / "errors.py"
    used = {
        code
        for path in SOURCES
        if path != table
        for code in re.findall(r"""["'](PBIO_[A-Z_]+)["']""", path.read_text(encoding="utf-8"))
    }
    assert used == set(CODES)
