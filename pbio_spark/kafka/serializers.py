"""Dicts <-> records for programs that use Kafka's clients: callables as confluent-kafka and kafka-python take them.

>>> from ecode.types import INT32, Field, record
>>> from pbio_spark.formats.store import MemoryStore
>>> formats = MemoryStore()
>>> serialize = PbioSerializer(record("ping", [Field("n", INT32)]), formats)
>>> deserialize = PbioDeserializer(formats)
>>> deserialize(serialize({"n": 7}))
{'n': 7}
>>> deserialize(None) is serialize(None) is None
True
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from ecode.types import Record
from pbio_spark.columns import MODE_HINT, ErrorPolicy, Request, Selection, ValueReader, plan_read
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.arrow.python_rows import sound_rows
from pbio_spark.formats.arrow.schema import record_to_arrow
from pbio_spark.formats.arrow.values import Shown
from pbio_spark.formats.arrow.written import writable
from pbio_spark.formats.layout import record_to_format
from pbio_spark.formats.store import FormatStore
from pbio_spark.kafka.settings import NO_SETTINGS
from pbio_spark.kafka.stores import format_missing, to_store
from pbio_spark.keywords import suggesting_class
from pbio_spark.wire import decode, encode
from pbio_spark.wire.container import legible_id

AnyStore: TypeAlias = "FormatStore | str | os.PathLike[str]"
"""A store, or the address of one: a folder, or `kafka://host:port/topic`."""

MOST_FORMATS = 1000
"""How many compiled formats a deserialiser caches."""


@suggesting_class
class PbioSerializer:
    """Dicts of one type -> records, for `value.serializer` or `key.serializer` of a `SerializingProducer`.

    The constructor stores the format, so that no record arrives before its format.

    Attributes:
        format: of the records.

    Args:
        type: the format, or a record type, which gets this machine's layout.
        store: where readers find the format.
        beside: more formats for the store, such as old ones that the transforms of `type` lead to.
        settings: of the client, for a store in Kafka, as Spark names them without `kafka.`.

    Raises PBIO_BAD_TYPE, PBIO_FORMAT_CONFLICT, and what the store raises.
    """

    def __init__(
        self,
        type: Format | Record,  # noqa: A002 - as elsewhere
        store: AnyStore,
        *,
        beside: Iterable[Format] = (),
        settings: Mapping[str, str] = NO_SETTINGS,
    ) -> None:
        _check(type)
        self.format = record_to_format(writable(type)) if isinstance(type, Record) else type
        formats = to_store(store, settings)
        for form in (*beside, self.format):
            formats.put(form)
        self._shown = _shown(self.format)

    def __call__(self, value: Mapping[str, Any] | None, context: object = None) -> bytes | None:
        """The record of a dict, whose values are as tables show them; None for None.

        Raises PBIO_BAD_VALUE and what else `encode` raises.
        """
        if value is None:
            return None
        return encode(self.format, dict(value) if self._shown is None else self._shown.stored(value))


@suggesting_class
class PbioDeserializer:
    """Records of any format that a store has -> dicts, for `value.deserializer` of a `DeserializingConsumer`.

    Without a type, a record becomes what tables show of its own format. With a type, every record becomes that type,
    directly or by the transforms that its format carries, as MaxMatch decides; fields that it lacks are None.

    Args:
        store: where formats are found.
        type: the type that every record becomes.
        settings: of the client, for a store in Kafka.
        wait: seconds to wait for a format that the store lacks.

    Raises PBIO_BAD_TYPE, and what the store raises.
    """

    def __init__(
        self,
        store: AnyStore,
        type: Format | Record | None = None,  # noqa: A002
        *,
        settings: Mapping[str, str] = NO_SETTINGS,
        wait: float = 0.0,
    ) -> None:
        if type is not None:
            _check(type)
        self._formats = to_store(store, settings, wait)
        self._type = type.record if isinstance(type, Format) else type
        self._known: dict[bytes, tuple[Format, Shown | None]] = {}
        self._readers: dict[bytes, ValueReader] = {}

    def __call__(self, value: bytes | None, context: Any = None) -> dict[str, Any] | None:
        """The dict of a record; None for None.

        Args:
            context: what the client says about the message; errors name its topic.

        Raises PBIO_UNKNOWN_FORMAT, PBIO_BAD_VALUE for what is not bytes, PBIO_REJECTED if the record does not reach the
        type, PBIO_BAD_RECORD and the like.
        """
        if value is None:
            return None
        if not isinstance(value, bytes | bytearray | memoryview):
            reason, hint = f"a {type(value).__name__} is not a record", "give the bytes of a message, as they came"
            raise PbioError("PBIO_BAD_VALUE", reason, hint=hint)
        value = bytes(value)
        try:
            form, shown = self._format(value)
            if self._type is None:
                values = decode(form, value)
                return values if shown is None else shown.shown(values)
            found = self._reader(form, self._type).read(pa.array([value], pa.binary()))
            return next(sound_rows(pa.RecordBatch.from_struct_array(found)))
        except PbioError as error:
            if error.code == "PBIO_BAD_VALUE":
                error.record, error.hint = None, error.hint or "pbio_spark.decode gives the number that is stored"
            if error.hint == MODE_HINT:
                error.hint = None  # a deserialiser has no modes
            topic = getattr(context, "topic", None)
            if topic is not None and error.file in (None, "binary value 0 of its batch"):
                error.file = f"topic {topic}"
            raise

    def _format(self, value: bytes) -> tuple[Format, Shown | None]:
        format_id = legible_id(value[:12])
        known = self._known.get(format_id)
        if known is not None:
            return known
        found = self._formats.find([format_id]) if format_id else []
        if not found:
            if format_id:
                self._formats.get(format_id)  # raises the reason, if it knows one
            raise format_missing(value, self._formats)
        if len(self._known) >= MOST_FORMATS:
            self._known.clear()
            self._readers.clear()
        self._known[format_id] = known = found[0], _shown(found[0])
        return known

    def _reader(self, form: Format, type_: Record) -> ValueReader:
        reader = self._readers.get(form.id)
        if reader is None:
            request = Request(((type_.name, type_),))
            selection = Selection(record_to_arrow(type_), request=request)
            plan = plan_read(selection, (form,), coming=(form,), store=self._formats, errors=ErrorPolicy())
            reader = self._readers[form.id] = ValueReader(plan)
        return reader


def _shown(form: Format) -> Shown | None:
    """None for a format that tables cannot show, such as a list that leads to itself: `decode` gives its values."""
    try:
        return Shown(form)
    except PbioError:
        return None


def _check(type_: object) -> None:
    if not isinstance(type_, Format | Record):
        raise PbioError(
            "PBIO_BAD_TYPE",
            f"{str(type_)[:80]!r} is not a type of records",
            hint="give a Format, or a Record such as parse_record({'Load': {'load': 'float64'}}); "
            "the arguments are PbioSerializer(type, store) and PbioDeserializer(store, type)",
        )
