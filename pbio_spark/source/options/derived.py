"""Values that follow from several options."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import fields

from pbio_spark.errors import PbioError
from pbio_spark.formats.body.opt_info import Nulls
from pbio_spark.formats.machine import machine_named
from pbio_spark.source.options.options import Options

DEFAULT_NAME = "record"


def name_of(options: Options) -> str:
    """The name of the format to write. Raises PBIO_BAD_OPTION if there are several."""
    if len(options.format_name) > 1:
        raise PbioError(
            "PBIO_BAD_OPTION",
            f"option 'formatName' cannot be {','.join(options.format_name)!r} in writing",
            hint='give one name; if it contains commas, as a JSON list, ["a,b"]',
        )
    return options.format_name[0] if options.format_name else DEFAULT_NAME


def nulls_of(options: Options) -> Nulls:
    """How a record type made from columns represents nulls."""
    return options.nulls if options.nulls in ("pointer", "mask") else "none"


def machine_of(options: Options) -> str:
    """The name of the machine to write for."""
    if options.byte_order is None and options.pointer_size is None:
        return options.machine
    named = machine_named(options.machine)
    order = options.byte_order or named.byte_order
    return f"{order[0]}e{8 * int(options.pointer_size or named.pointer_size)}"


def options_to_key(options: Options) -> Hashable:
    """The values of all options, as the key of a cache."""
    values = (getattr(options, one.name) for one in fields(options))
    return tuple(tuple(value.items()) if isinstance(value, Mapping) else value for value in values)


def refuse_inference(schema_inference: bool) -> None:
    """Raise PBIO_NO_SCHEMA for a stream whose columns were taken from files, unless the user asked for that."""
    if not schema_inference:
        raise PbioError(
            "PBIO_NO_SCHEMA",
            "a stream needs its columns before the first file",
            hint="give them with .schema(...), or set schemaInference=true to take them from the existing files",
        )
