"""Errors show their facts, keep them on the way between processes, and have codes that the table explains."""

from __future__ import annotations

import pickle
import re
import traceback
from pathlib import Path

import pytest

from ecode.errors import Category, CompileError, EcodeError, NotCompilable, ParameterError, diagnostic
from morph.errors import MorphError, Problem
from pbio_spark.channels.concentrator.place import FOLDER
from pbio_spark.errors import CODES, PbioError
from pbio_spark.wire import TruncatedError

SOURCES = sorted(Path(__file__).parents[1].glob("pbio_spark/**/*.py"))


def full_error() -> PbioError:
    return PbioError(
        "PBIO_BAD_BODY", "it is broken", file="a.ffs", offset=0, format="reading", field="$.a[3].b", hint="mend it"
    )


def test_the_text_begins_with_the_code_and_holds_every_fact() -> None:
    assert str(full_error()) == (
        "[PBIO_BAD_BODY] it is broken\n  at: a.ffs, offset 0, format reading, field $.a[3].b\n  hint: mend it"
    )
    assert "at: a.ffs, record 7, offset 0," in str(full_error().at(record=7))
    assert "at: a.ffs, after record 7, offset 0," in str(full_error().at(record="after record 7").at(record=9))


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
        for code in re.findall(r"""["'](PBIO_[A-Z0-9_]+)["']""", path.read_text(encoding="utf-8"))
    }
    assert used - {FOLDER} == set(CODES)


NOT_UTF8 = b"gr\xf6\xdfe".decode("utf-8", "surrogateescape")


@pytest.mark.parametrize(
    "error",
    [
        PbioError("PBIO_BAD_BODY", NOT_UTF8, file=NOT_UTF8, format=NOT_UTF8, field=f"$.{NOT_UTF8}", hint=NOT_UTF8),
        PbioError("PBIO_BAD_BODY", "half of a pair: \ud800").at(file=NOT_UTF8),
        TruncatedError("PBIO_TRUNCATED", NOT_UTF8),
        MorphError("MORPH_BAD_POLICY", NOT_UTF8, NOT_UTF8, NOT_UTF8),
        Problem("MORPH_MISSING_BODY", NOT_UTF8, NOT_UTF8),
        EcodeError("ECODE_TYPE", NOT_UTF8, NOT_UTF8),
        ParameterError(NOT_UTF8),
        NotCompilable(NOT_UTF8, NOT_UTF8),
        CompileError([diagnostic(f"{{ return {NOT_UTF8}; }}", 9, Category.NAME, NOT_UTF8, NOT_UTF8)]),
    ],
)
def test_the_text_of_an_error_is_text_whatever_it_speaks_of(error: Exception | Problem) -> None:
    """Spark's workers cannot send any other, and the query waits for ever."""
    again = pickle.loads(pickle.dumps(error))
    for said in (error, again):
        lines = traceback.format_exception(said) if isinstance(said, Exception) else []
        text = "".join([str(said), *lines])
        assert text.encode()
        assert "\\xf6" in text
