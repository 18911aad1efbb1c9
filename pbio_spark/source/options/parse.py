"""Options as Spark hands them over -> `Options`.

Spark hands options over as texts under lower-cased names. A name or a value that the table does not know is an error
with a suggestion, never ignored.

    >>> parse_options({"maxpartitionbytes": "64m", "mode": "permissive"}, Scope.READ).max_partition_bytes
    67108864
    >>> parse_options({"formatnam": "reading"}, Scope.READ)
    Traceback (most recent call last):
    pbio_spark.errors.PbioError: [PBIO_UNKNOWN_OPTION] there is no option 'formatnam' for read
      hint: did you mean 'formatName'?
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from json import JSONDecodeError

from ecode.suggest import did_you_mean
from pbio_spark.errors import PbioError
from pbio_spark.source.options.options import READS, WRITES, Options, Scope, option_name
from pbio_spark.source.options.values import NotAValue

TOLERATED = frozenset(
    {"path", "paths", "checkpointlocation", "queryname", "outputmode"}
    | {"serialization.format", "location", "provider", "owner", "comment", "external", "collation"}
)
"""What Spark itself adds to the options of a source, in the second line when it makes a table."""

OF_CHANNELS = frozenset(
    {"starting_offsets", "starting_timestamp", "ending_offsets", "max_records_per_trigger"}
    | {"fail_on_data_loss", "subscriber", "producer", "producer_column", "sequence_column", "event_time_column"}
    | {"txn_app_id", "txn_version", "delivery", "sync_timeout"}
)
OF_FILES = frozenset(
    {"format_store", "path_glob_filter", "recursive_file_lookup", "modified_before", "modified_after"}
    | {"ignore_missing_files", "ignore_corrupt_files", "resync", "truncated_tail", "scan_limit", "schema_inference"}
    | {"max_files_per_trigger", "max_file_age", "merge_schema"}
    | {"format_name", "max_records_per_file", "partition_columns", "partition_overwrite_mode", "index", "checksums"}
    | {"write_format"}
)
"""The options that mean something only where channels are read or written, or only where files are."""

OF_KAFKA = {
    "subscribe": "channel",
    "assign": "channel",
    "topic": "channel",
    "subscribePattern": "channelPattern",
    "maxOffsetsPerTrigger": "maxRecordsPerTrigger",
}
"""Options of Spark's Kafka source and sink, and what they are called here."""

WRONG = (ValueError, KeyError, OverflowError, RecursionError)
"""What a text raises that is no value of its option: also one that is too large or too deep."""

OPTION_AGAIN = "option."
"""What stands before an option's name where Spark hands the properties of a table over beside the options."""


def parse_options(given: Mapping[str, str], *scopes: Scope) -> Options:
    """The options as given, checked against the table; names in any case.

    Args:
        scopes: an option must be understood in one of these.

    Raises PBIO_UNKNOWN_OPTION and PBIO_BAD_OPTION.
    """
    table = {option_name(f.name).lower(): f for f in fields(Options)}
    parsed: dict[str, object] = {}
    for key, value in given.items():
        entry = table.get(key.lower())
        if key.lower() in TOLERATED or key.lower().startswith(OPTION_AGAIN):
            continue
        if entry is None or not set(scopes) & set(entry.metadata["scopes"]):
            raise _unknown(key, scopes)
        try:
            parsed[entry.name] = entry.metadata["parse"](value)
        except (*WRONG, PbioError) as error:
            raise _bad_value(option_name(entry.name), value, entry.metadata["parse"].__doc__, error) from None
    _check_nulls(parsed)
    if set(scopes) <= {*READS, *WRITES}:
        _check_place(parsed, is_read=set(scopes) <= set(READS))
    return Options(**parsed)  # type: ignore[arg-type]


def _bad_value(name: str, value: str, what: str, error: Exception) -> PbioError:
    """The error of a value that is none: the most that is known of the reason, or else what the value should be."""
    reason, hint = f"option {name!r} cannot be {value[:200]!r}", f"give {what}"
    if isinstance(error, PbioError):
        reason, hint = f"{reason}: {error.reason}", error.hint or hint
        return PbioError("PBIO_BAD_OPTION", reason, file=error.file, field=error.field, hint=hint)
    if isinstance(error, JSONDecodeError):
        reason += f": {error.msg} at character {error.pos + 1}"
    elif isinstance(error, KeyError) and value.lstrip().startswith(("[", "{")):
        reason += f": {error.args[0]!r} is missing"
    elif isinstance(error, NotAValue) and str(error).startswith("did you mean"):
        hint = f"{error} {what} are possible"
    elif isinstance(error, NotAValue) and str(error):
        reason += f": {error}"
    return PbioError("PBIO_BAD_OPTION", reason, hint=hint)


def _check_place(parsed: Mapping[str, object], *, is_read: bool) -> None:
    """Channels are named in one way, and options of channels and of files do not go together."""
    ways = [name for name in ("channel", "channels", "channel_pattern") if parsed.get(name)]
    starts = [name for name in ("starting_offsets", "starting_timestamp") if name in parsed]
    for given in (ways, starts):
        if len(given) > 1:
            raise PbioError("PBIO_BAD_OPTION", f"of the options {' and '.join(map(option_name, given))}, one is enough")
    is_channels = bool(ways or parsed.get("channel_column"))
    for name in parsed:
        if name in (OF_FILES if is_channels else OF_CHANNELS):
            hint = "name what to read of a channel space with channel, channels or channelPattern"
            if not is_read:
                hint = "name where to publish with channel, or for each row with channelColumn"
            raise PbioError(
                "PBIO_BAD_OPTION",
                f"option {option_name(name)!r} means nothing " + ("to channels" if is_channels else "to files"),
                hint="" if is_channels else hint,
            )
    if ("txn_app_id" in parsed) != ("txn_version" in parsed):
        raise PbioError("PBIO_BAD_OPTION", "txnAppId and txnVersion name a write together", hint="give both, or none")


def _check_nulls(parsed: Mapping[str, object]) -> None:
    """A null stays one, or becomes something else."""
    said = parsed.get("nulls")
    if said == "value" and "null_value" not in parsed:
        reason, hint = "nulls=value without a value", "say which with nullValue, or keep nulls with nulls=mask"
        raise PbioError("PBIO_BAD_OPTION", reason, hint=hint)
    if said not in (None, "value") and "null_value" in parsed:
        raise PbioError(
            "PBIO_BAD_OPTION",
            f"option 'nullValue' means nothing to nulls={said}",
            hint="leave one of them out: nullValue alone is nulls=value",
        )


def _unknown(key: str, scopes: tuple[Scope, ...]) -> PbioError:
    """The error of an option that the table lacks, or has elsewhere. Spark has lower-cased its name."""
    table = {option_name(f.name): f.metadata["scopes"] for f in fields(Options)}
    places = {name: " and ".join(its) for name, its in table.items()}
    spelling = {name.lower(): name for name in (*OF_KAFKA, *table)}
    name, place = spelling.get(key.lower(), key), " or ".join(scopes)
    if name in table:
        reason, hint = f"option {name!r} means nothing to {place}", f"it is an option of {places[name]}"
        return PbioError("PBIO_UNKNOWN_OPTION", reason, hint=hint)
    known = [name for name, its in table.items() if set(scopes) & set(its)]
    hint = did_you_mean(key, known) or f"the options are {', '.join(known)}"
    if name in OF_KAFKA:
        own = OF_KAFKA[name]
        hint = f"here it is called {own!r}" + ("" if own in known else f", an option of {places[own]}")
    return PbioError("PBIO_UNKNOWN_OPTION", f"there is no option {name!r} for {place}", hint=hint)


def paths_of(given: Mapping[str, str]) -> tuple[str, ...]:
    """The paths that Spark was told to load or save. Raises PBIO_NO_PATH if there are none."""
    folded = {key.lower(): value for key, value in given.items()}
    paths = (folded["path"],) if "path" in folded else tuple(json.loads(folded.get("paths", "[]")))
    if not paths:
        raise PbioError(
            "PBIO_NO_PATH",
            "no path was given",
            hint="give one to load() or save(); a table made with CREATE TABLE ... USING pbio loses its path and "
            "options in Spark: use CREATE TEMPORARY VIEW, SELECT * FROM t WITH (path = '...'), or INSERT INTO t WITH "
            "(path = '...') SELECT ...",
        )
    return paths


def space_of(given: Mapping[str, str]) -> str:
    """The root of the channel space that Spark was told to load. Raises PBIO_NO_PATH; PBIO_BAD_OPTION for several."""
    paths = paths_of(given)
    if len(paths) > 1:
        raise PbioError("PBIO_BAD_OPTION", f"channels are read from one space, not from {len(paths)}")
    return paths[0]
