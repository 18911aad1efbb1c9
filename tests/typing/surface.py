"""What mypy says of the public surface; `tests/typing/test_typing.py` compares each line with its comment."""

from __future__ import annotations

from typing import reveal_type

import pbio_spark as pbio

record = pbio.parse_record({"Load": {"load": "float64"}})
form = pbio.Format.of(record, machine=pbio.MACHINES["sparc"])
reveal_type(record)  # ecode.types.Record
reveal_type(form)  # pbio_spark.formats.format.Format
reveal_type(pbio.evolve(form, form, ""))  # pbio_spark.formats.format.Format
reveal_type(pbio.encode(form, {"load": 1.0}))  # bytes
reveal_type(pbio.decode(form, b""))  # dict[str, bool | int | float | str | bytes | list[...] | dict[str, ...] | None]
reveal_type(pbio.read("loads"))  # typing.Iterator[dict[str, Any]]
reveal_type(pbio.read_formats(["loads"]))  # list[pbio_spark.formats.format.Format]
reveal_type(pbio.open_writer("a.ffs", record))  # pbio_spark.tables.RecordWriter
reveal_type(pbio.ChannelSpace.open("space"))  # pbio_spark.channels.space.ChannelSpace
reveal_type(pbio.ChannelSpace.open("space").channel("loads"))  # pbio_spark.channels.channel.Channel
plain = pbio.ChannelSpace.open("space").channel("loads").subscribe(print, start="earliest")
eager = pbio.ChannelSpace.open("space").channel("loads").subscribe(modulator=pbio.Modulator(filter=""))
reveal_type(plain)  # pbio_spark.channels.subscribe.subscription.Subscription
reveal_type(eager)  # pbio_spark.channels.subscribe.eager.EagerSubscription
reveal_type(pbio.ChannelSpace.open("space").derivations())  # list[pbio_spark.channels.derive.reports.DerivationReport]
reveal_type(pbio.PbioError("PBIO_BAD_VALUE", "x").hint)  # str | None
reveal_type(pbio.FLOAT64)  # ecode.types.Basic
