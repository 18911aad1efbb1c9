"""Options as Python values -> options as Spark passes them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from ecode.suggest import did_you_mean
from ecode.types import Record
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.record_json import record_to_json
from pbio_spark.formats.store import FolderStore
from pbio_spark.source.options.options import Options
from pbio_spark.source.options.parse import check_known, parse_options
from pbio_spark.source.options.scopes import Scope


def options_of(options: Mapping[str, Any], scope: Scope, own: Iterable[str]) -> Options:
    """The options of a call that also has its own arguments, which may be misspelled."""
    try:
        check_known(options, scope)
        return parse_options(options_to_strings(options), scope)
    except PbioError as error:
        if error.code == "PBIO_UNKNOWN_OPTION" and "did you mean" not in (error.hint or ""):
            near = (did_you_mean(name, own) for name in options if repr(name).lower() in error.reason.lower())
            error.hint = next(filter(None, near), None) or error.hint
        raise


def options_to_strings(options: Mapping[str, Any]) -> dict[str, str]:
    """Options as Spark passes them; None counts as absent. Raises PBIO_BAD_OPTION."""
    given = {name: value for name, value in options.items() if value is not None}
    folded: dict[str, str] = {}
    for name in given:
        if folded.setdefault(name.lower(), name) != name:
            reason = f"options {folded[name.lower()]!r} and {name!r} are one option"
            raise PbioError("PBIO_BAD_OPTION", reason, hint="leave one of them out")
    return {name: _option_to_string(name, value) for name, value in given.items()}


def _option_to_string(name: str, value: Any) -> str:
    if name.lower() in ("filter", "transform", "where") and not isinstance(value, str):
        hint = "give its text: path.read_text()" if isinstance(value, os.PathLike) else ""
        raise PbioError(
            "PBIO_BAD_OPTION",
            f"option {name!r} cannot be of type {type(value).__name__}",
            hint=hint or "give the text of a program in E-code, such as { return input.x > 3; }",
        )
    match value:
        case str():
            return value
        case bool():
            return str(value).lower()
        case int() | float():
            return repr(value)
        case bytes():
            return value.hex()
        case datetime():
            return value.isoformat()
        case Record():
            return record_to_json(value)
        case Format():
            return value.id.hex() if name.lower() != "formatname" else value.name
        case FolderStore():
            return value.root
        case os.PathLike():
            return str(os.fspath(value))
        case Mapping() | list() | tuple():
            try:
                return json.dumps(value, default=lambda part: _option_to_string(name, part))
            except (TypeError, ValueError) as error:
                raise PbioError(
                    "PBIO_BAD_OPTION",
                    f"option {name!r} cannot be written as JSON: {error}",
                    hint="give it as a string of JSON",
                ) from None
    reason = f"option {name!r} cannot be of type {type(value).__name__}"
    raise PbioError("PBIO_BAD_OPTION", reason, hint="give a string as described in docs/reference/options.md")
