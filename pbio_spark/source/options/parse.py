"""Options as Spark passes them -> `Options`.

Spark passes options as strings under lower-cased names. An unknown name or an invalid value is an error with a
suggestion, never ignored.

    >>> parse_options({"maxpartitionbytes": "64m", "mode": "permissive"}, Scope.READ).max_partition_bytes
    67108864
    >>> parse_options({"formatnam": "reading"}, Scope.READ)
    Traceback (most recent call last):
    pbio_spark.errors.PbioError: [PBIO_UNKNOWN_OPTION] unknown option 'formatnam' for read
      hint: did you mean 'formatName'?
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import Field, fields
from json import JSONDecodeError
from typing import Any

from ecode.json_text import DuplicateKeyError
from ecode.suggest import did_you_mean
from pbio_spark.errors import PbioError
from pbio_spark.kafka.address import is_kafka, parse_address
from pbio_spark.source.options.of_formats import KAFKA_PREFIX
from pbio_spark.source.options.options import Options
from pbio_spark.source.options.scopes import READS, WRITES, Scope, option_name
from pbio_spark.source.options.values import NotAValue

TOLERATED = frozenset(
    {"path", "paths", "checkpointlocation", "queryname", "outputmode"}
    | {"serialization.format", "location", "provider", "owner", "comment", "external", "collation"}
)
"""Options that Spark itself adds, in the second line when it creates a table."""

OF_CHANNELS = frozenset(
    {"starting_offsets", "starting_timestamp", "ending_offsets", "max_records_per_trigger"}
    | {"fail_on_data_loss", "subscriber", "producer", "producer_column", "sequence_column", "event_time_column"}
    | {"txn_app_id", "txn_version", "delivery", "sync_timeout", "services", "modulator", "parameters"}
)
OF_FILES = frozenset(
    {"format_store", "format_wait", "kafka", "path_glob_filter", "recursive_file_lookup"}
    | {"modified_before", "modified_after"}
    | {"ignore_missing_files", "ignore_corrupt_files", "resync", "truncated_tail", "scan_limit", "schema_inference"}
    | {"max_files_per_trigger", "max_file_age", "merge_schema"}
    | {"format_name", "max_records_per_file", "partition_columns", "partition_overwrite_mode", "index", "checksums"}
    | {"write_format"}
)
"""The options that apply only to channels, and those that apply only to files."""

OF_MATCHING = ("diff_threshold", "mismatch_threshold", "field_weights", "on_reject")
"""The options that say which formats reach a wanted type, and what happens to others."""

OF_KAFKA = {
    "subscribe": "channel",
    "assign": "channel",
    "topic": "channel",
    "subscribePattern": "channelPattern",
    "maxOffsetsPerTrigger": "maxRecordsPerTrigger",
}
"""Options of Spark's Kafka source and sink -> their names here."""

OF_PBIO = {"filter": "where"}
"""Options of the source "pbio" -> their names in the source "bp5"."""

WRONG = (ValueError, KeyError, OverflowError, RecursionError)
"""The errors of parsing an invalid value, including one that is too large or nested too deeply."""

MAY_BE_EMPTY = ("partition_columns",)
"""Options whose empty value has a meaning: no columns."""

TABLE_PROPERTY_PREFIX = "option."
"""The prefix under which Spark repeats the options of a table among its properties."""


def parse_options(given: Mapping[str, str], *scopes: Scope) -> Options:
    """The options as given, checked against the table; names in any case.

    Args:
        scopes: an option must apply to one of these.

    Raises PBIO_UNKNOWN_OPTION and PBIO_BAD_OPTION.
    """
    parsed = parse_table(Options, given, *scopes)
    _check_nulls(parsed)
    _check_store(parsed)
    if set(scopes) <= {*READS, *WRITES}:
        _check_place(parsed, is_read=set(scopes) <= set(READS))
    _check_needed(parsed)
    return Options(**parsed)  # type: ignore[arg-type]


def parse_table(table: type[Any], given: Mapping[str, str], *scopes: Scope) -> dict[str, object]:
    """The options as given, checked against a table of options, by attribute.

    Raises PBIO_UNKNOWN_OPTION and PBIO_BAD_OPTION.
    """
    parsed: dict[str, object] = {}
    for key, value in given.items():
        entry = _entry(table, key, scopes)
        if entry is None:
            continue
        if entry.name == "kafka" and key.lower().startswith(KAFKA_PREFIX):
            setting = key[len(KAFKA_PREFIX) :].lower()
            parsed[entry.name] = {**parsed.get(entry.name, {}), setting: value}  # type: ignore[dict-item]
            continue
        if not value.strip() and entry.name not in MAY_BE_EMPTY:
            hint = "leave it out for the default, and check for empty variables"
            raise PbioError("PBIO_BAD_OPTION", f"option {option_name(entry.name)!r} is empty", hint=hint)
        try:
            parsed[entry.name] = entry.metadata["parse"](value)
        except (*WRONG, PbioError) as error:
            raise _bad_value(option_name(entry.name), value, entry.metadata["parse"].__doc__, error) from None
        if parsed[entry.name] == () and entry.name not in (*MAY_BE_EMPTY, "transforms"):
            reason = f"option {option_name(entry.name)!r} names nothing: {value[:80]!r}"
            raise PbioError("PBIO_BAD_OPTION", reason, hint="leave it out for the default")
    return parsed


def check_known(names: Iterable[str], *scopes: Scope) -> None:
    """Raise PBIO_UNKNOWN_OPTION for the name of an unknown option, whatever its value."""
    for name in names:
        _entry(Options, name, scopes)


def _entry(table: type[Any], key: str, scopes: tuple[Scope, ...]) -> Field[Any] | None:
    """The entry of an option in the table; None for options that Spark adds. Raises PBIO_UNKNOWN_OPTION."""
    name = key.lower()
    if name in TOLERATED or name.startswith(TABLE_PROPERTY_PREFIX):
        return None
    entries = {option_name(f.name).lower(): f for f in fields(table)}
    is_setting = name.startswith(KAFKA_PREFIX) and name != KAFKA_PREFIX
    entry = entries.get(KAFKA_PREFIX[:-1] if is_setting else name)
    if entry is None or not set(scopes) & set(entry.metadata["scopes"]):
        raise _unknown(table, key, scopes)
    return entry


def _bad_value(name: str, value: str, what: str, error: Exception) -> PbioError:
    """The error for an invalid value: with the reason if known, and with the valid values."""
    reason, hint = f"option {name!r} cannot be {value[:200]!r}", f"give {what}"
    if isinstance(error, PbioError):
        reason, hint = f"{reason}: {error.reason}", error.hint or hint
        return PbioError("PBIO_BAD_OPTION", reason, file=error.file, field=error.field, hint=hint)
    if isinstance(error, JSONDecodeError):
        reason += f": {error.msg} at character {error.pos + 1}"
    elif isinstance(error, DuplicateKeyError):
        reason, hint = f"{reason}: {error}", "leave one of them out"
    elif isinstance(error, KeyError) and value.lstrip().startswith(("[", "{")):
        reason += f": {error.args[0]!r} is missing"
    elif isinstance(error, NotAValue) and str(error).startswith("did you mean"):
        hint = f"{error} {what} are possible"
    elif isinstance(error, NotAValue) and str(error):
        reason += f": {error}"
    return PbioError("PBIO_BAD_OPTION", reason, hint=hint)


def _check_place(parsed: Mapping[str, object], *, is_read: bool) -> None:
    """Refuse several ways of naming channels, and options of channels mixed with those of files."""
    ways = [name for name in ("channel", "channels", "channel_pattern") if parsed.get(name)]
    starts = [name for name in ("starting_offsets", "starting_timestamp") if name in parsed]
    for given in (ways, starts):
        if len(given) > 1:
            raise PbioError(
                "PBIO_BAD_OPTION",
                f"options {' and '.join(map(option_name, given))} exclude each other",
                hint="leave one of them out",
            )
    is_channels = bool(ways or parsed.get("channel_column"))
    for name in parsed:
        if name in (OF_FILES if is_channels else OF_CHANNELS):
            hint = "name the channels to read with channel, channels or channelPattern"
            if not is_read:
                hint = "name the channel to publish to with channel, or for each row with channelColumn"
            raise PbioError(
                "PBIO_BAD_OPTION",
                f"option {option_name(name)!r} does not apply to " + ("channels" if is_channels else "files"),
                hint="leave it out; it is an option of files" if is_channels else hint,
            )
    if "modulator" in parsed and "channel" not in parsed:
        reason = f"option 'modulator' does not apply to {' or '.join(map(option_name, ways))}"
        raise PbioError("PBIO_BAD_OPTION", reason, hint="it makes events of one channel: name it with channel")
    if ("txn_app_id" in parsed) != ("txn_version" in parsed):
        raise PbioError("PBIO_BAD_OPTION", "txnAppId and txnVersion need each other", hint="give both, or neither")


def _check_needed(parsed: Mapping[str, object]) -> None:
    """Refuse options that change nothing without another one."""
    if "parameters" in parsed and "modulator" not in parsed:
        raise PbioError(
            "PBIO_BAD_OPTION",
            "option 'parameters' needs modulator, the code that uses them",
            hint="parameters of a derived channel are changed with ChannelSpace.set_parameters, or `pbio space set`",
        )
    if "sync_timeout" in parsed and parsed.get("delivery") != "sync":
        hint = "without it a write does not wait for subscribers: add it, or leave syncTimeout out"
        raise PbioError("PBIO_BAD_OPTION", "option 'syncTimeout' needs delivery=sync", hint=hint)
    # The type of a channel is a wanted type.
    if not any(parsed.get(name) for name in ("reader_format", "channel", "channels", "channel_pattern")):
        for name in OF_MATCHING:
            if parsed.get(name, {}) != {}:
                reason = f"option {option_name(name)!r} needs readerFormat or a channel, which have the wanted type"
                hint = "without them every record is read: name a type with readerFormat, or leave the option out"
                raise PbioError("PBIO_BAD_OPTION", reason, hint=hint)


def _check_store(parsed: Mapping[str, object]) -> None:
    """Refuse options that make sense only with a format store."""
    store = parsed.get("format_store")
    if "kafka" in parsed and not (isinstance(store, str) and is_kafka(store)):
        name = f"kafka.{next(iter(parsed['kafka']))}"  # type: ignore[call-overload]
        reason = f"option {name!r} is for a format store in Kafka, but none is given"
        raise PbioError("PBIO_BAD_OPTION", reason, hint="formatStore=kafka://host:port/topic names one")
    if "format_wait" in parsed and store is None:
        hint = "it waits for formats that a store lacks: name the store, or leave it out"
        raise PbioError("PBIO_BAD_OPTION", "option 'formatWait' needs formatStore", hint=hint)
    if isinstance(store, str) and is_kafka(store):
        parse_address(store)


def _check_nulls(parsed: Mapping[str, object]) -> None:
    """Refuse `nulls` and `nullValue` that contradict each other."""
    said = parsed.get("nulls")
    if said == "value" and "null_value" not in parsed:
        reason, hint = "nulls=value needs nullValue", "give the value with nullValue, or keep nulls with nulls=mask"
        raise PbioError("PBIO_BAD_OPTION", reason, hint=hint)
    if said not in (None, "value") and "null_value" in parsed:
        raise PbioError(
            "PBIO_BAD_OPTION",
            f"option 'nullValue' does not apply to nulls={said}",
            hint="leave one of them out: nullValue alone is nulls=value",
        )


def _unknown(table_of: type[Any], key: str, scopes: tuple[Scope, ...]) -> PbioError:
    """The error for an option that is unknown or applies elsewhere. Spark has lower-cased its name."""
    table = {option_name(f.name): f.metadata["scopes"] for f in fields(table_of)}
    places = {name: " and ".join(its) for name, its in table.items()}
    elsewhere = OF_KAFKA if table_of is Options else OF_PBIO
    spelling = {name.lower(): name for name in (*elsewhere, *table)}
    name, place = spelling.get(key.lower(), key), " or ".join(scopes)
    if name in table:
        reason, hint = f"option {name!r} does not apply to {place}", f"it is an option of {places[name]}"
        return PbioError("PBIO_UNKNOWN_OPTION", reason, hint=hint)
    known = [name for name, its in table.items() if set(scopes) & set(its)]
    hint = did_you_mean(key, known) or f"the options are {', '.join(known)}"
    if name in elsewhere:
        own = elsewhere[name]
        hint = f"it is called {own!r} here" + ("" if own in known else f", an option of {places[own]}")
    return PbioError("PBIO_UNKNOWN_OPTION", f"unknown option {name!r} for {place}", hint=hint)


def paths_of(given: Mapping[str, str]) -> tuple[str, ...]:
    """The paths to load or save. Raises PBIO_NO_PATH if none is given."""
    folded = {key.lower(): value for key, value in given.items()}
    paths = (folded["path"],) if "path" in folded else tuple(json.loads(folded.get("paths", "[]")))
    if not paths:
        raise PbioError(
            "PBIO_NO_PATH",
            "the path is missing",
            hint="give one to load() or save(); a table made with CREATE TABLE ... USING pbio loses its path and "
            "options in Spark: use CREATE TEMPORARY VIEW, SELECT * FROM t WITH (path = '...'), or INSERT INTO t WITH "
            "(path = '...') SELECT ...; instead of CREATE TABLE ... AS SELECT, create the table with columns first, "
            "then INSERT INTO it so",
        )
    return paths


def space_of(given: Mapping[str, str]) -> str:
    """The root of the channel space to load. Raises PBIO_NO_PATH, and PBIO_BAD_OPTION for several."""
    paths = paths_of(given)
    if len(paths) > 1:
        raise PbioError(
            "PBIO_BAD_OPTION",
            f"channels are read from one space, not from {len(paths)}",
            hint="load each space separately, and use union on the DataFrames",
        )
    return paths[0]
