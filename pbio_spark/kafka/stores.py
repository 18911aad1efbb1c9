"""`open_store`: the format store of an address, a folder or a topic."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from pbio_spark.errors import PbioError
from pbio_spark.formats.format import Format
from pbio_spark.formats.store import FolderStore, FormatStore, missing_hint
from pbio_spark.kafka.address import Address, is_kafka, parse_address
from pbio_spark.kafka.settings import NO_SETTINGS
from pbio_spark.wire.foreign import unknown_format

MOST_IN_VAIN = 10_000
"""How many IDs are remembered that did not come while the store waited."""

_PAUSE = 0.2


def open_store(address: str, settings: Mapping[str, str] = NO_SETTINGS, wait: float = 0.0) -> FormatStore:
    """The store that an option `formatStore` names.

    Args:
        address: the root of a folder store, or `kafka://host:port/topic`.
        settings: for Kafka, see `KafkaStore`.
        wait: seconds that `find` waits for formats that the store lacks.

    Raises PBIO_BAD_OPTION, PBIO_BAD_PATH, and PBIO_MISSING_EXTRA for Kafka without its client.
    """
    store: FormatStore
    if is_kafka(address):
        # Imported here: the client is needed only where a topic is named.
        from pbio_spark.kafka.store import shared_store

        store = shared_store(address, settings)
    elif settings:
        reason = f"settings are for a format store in Kafka, and {address!r} is a folder"
        raise PbioError("PBIO_BAD_OPTION", reason, hint="leave them out, or name a topic: kafka://host:port/topic")
    else:
        store = FolderStore(address)
    return PatientStore(store, wait) if wait else store


def to_store(store: object, settings: Mapping[str, str] = NO_SETTINGS, wait: float = 0.0) -> FormatStore:
    """A store, or that of an address. Args and errors as for `open_store`; PBIO_BAD_TYPE for anything else."""
    is_time = isinstance(wait, int | float) and not isinstance(wait, bool) and 0 <= wait < math.inf
    if not is_time:
        hint = "give a number of seconds from 0"
        raise PbioError("PBIO_BAD_OPTION", f"wait cannot be {str(wait)[:80]!r}", hint=hint)
    if isinstance(store, str | os.PathLike):
        return open_store(os.fspath(store), settings, wait)
    if not all(callable(getattr(store, name, None)) for name in ("get", "find", "put")):
        hint = "give FolderStore(path), KafkaStore(address), MemoryStore(), or the address alone"
        raise PbioError("PBIO_BAD_TYPE", f"a {type(store).__name__} is not a store of formats", hint=hint)
    if settings:
        hint = "give them to the store, or its address instead of it"
        raise PbioError("PBIO_BAD_OPTION", "settings are for the store that an address names", hint=hint)
    made = cast("FormatStore", store)
    return PatientStore(made, wait) if wait else made


def put_with_priors(form: Format, source: FormatStore, target: FormatStore) -> None:
    """Put a format into a store, after the older ones that its transforms lead to, if another store has them.

    Raises what the stores raise.
    """
    waiting, met = [form], {form.id}
    for one in waiting:  # grows during the loop
        for transform in one.transforms:
            prior = None if transform.prior in met else source.get(transform.prior)
            met.add(transform.prior)
            waiting += [] if prior is None else [prior]
    for one in reversed(waiting):
        target.put(one)


def format_missing(record: bytes, store: FormatStore) -> PbioError:
    """PBIO_UNKNOWN_FORMAT for bytes that should be a record, after a search for the format in a store."""
    return unknown_format(record, missing_hint(store))


class PatientStore:
    """A store whose `find` waits for missing formats: once for each ID, and once for all IDs of a call.

    Pickling keeps the store and the wait.

    Attributes:
        asked: the store.
    """

    def __init__(self, store: FormatStore, wait: float) -> None:
        self.asked = store
        self._wait = wait
        self._in_vain: set[bytes] = set()

    def get(self, format_id: bytes) -> Format | None:
        return self.asked.get(format_id)

    def find(self, format_ids: Iterable[bytes]) -> list[Format]:
        wanted = list(format_ids)
        deadline = time.monotonic() + self._wait
        while True:
            found = self.asked.find(wanted)
            missing = set(wanted) - {form.id for form in found} - self._in_vain
            left = deadline - time.monotonic()
            if not missing or not left > 0:
                break
            time.sleep(min(_PAUSE, left))
        if len(self._in_vain) + len(missing) > MOST_IN_VAIN:
            self._in_vain.clear()
        self._in_vain |= missing
        return found

    def put(self, format: Format) -> None:  # noqa: A002
        self.asked.put(format)

    def __iter__(self) -> Iterator[Format]:
        return iter(self.asked)


def refuse_own(topic: Address, *kept: str) -> None:
    """Raise PBIO_BAD_OPTION if a topic for events is one that keeps formats or the positions of relays."""
    for address in kept:
        if is_kafka(address) and parse_address(address) == topic:
            raise PbioError(
                "PBIO_BAD_OPTION",
                f"the topic {topic.topic!r} keeps formats or the positions of relays, and cannot take events",
                file=str(topic),
                hint="name another topic, or another store by --formats",
            )
