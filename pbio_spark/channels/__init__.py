"""Channels: named, typed streams of events, durable in one folder, for any number of writers and readers.

    space      `ChannelSpace`: create, open, list, drop, derive, publish
    channel    `Channel`: submit, subscribe
    named      a channel as callers name it: by name, or as an open object
    position   the position of an event in a space
    commits    the contents of one commit
    log        commits in order, the state that they add up to, and the layout on disk
    publish    a producer's events -> one commit
    derive     one channel's events -> another's, where events are published
    concentrator
               one committer for the processes of a machine
    footers    what data files record about the values of their events
    subscribe  commits -> the events that a subscriber wants
    presence   the current subscribers
    upkeep     what may be removed, and what is damaged

    >>> import tempfile
    >>> from pbio_spark.channels import ChannelSpace
    >>> from ecode.types import INT32, Field, record
    >>> space = ChannelSpace.create(tempfile.mkdtemp() + "/space")
    >>> counts = space.create_channel("counts", record("count", [Field("n", INT32)]))
    >>> counts.submit([{"n": 1}, {"n": 2}], producer="p", sequence=0).events
    2
    >>> counts.submit([{"n": 1}, {"n": 2}, {"n": 3}], producer="p", sequence=0).events
    1
    >>> [(str(event.position), event.values) for event in counts.subscribe(start="earliest").events()]
    [('2.0.0', {'n': 1}), ('2.0.1', {'n': 2}), ('3.0.2', {'n': 3})]

Nothing here knows Spark. Other packages use only the names that this module exports, each imported at first use: first
those for programs, then those that `pbio_spark.source` and the command line are built on.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ecode.suggest import no_attribute

if TYPE_CHECKING:
    from pbio_spark.channels.channel import Channel
    from pbio_spark.channels.commits.checked import PUT_BACK, check_name
    from pbio_spark.channels.commits.commit import Data
    from pbio_spark.channels.concentrator.server import Concentrator, ConcentratorLimits
    from pbio_spark.channels.derive.deriver import Deriver
    from pbio_spark.channels.derive.modulator import Modulator
    from pbio_spark.channels.derive.reports import DerivationReport, DerivationVersion, derivations_to_arrow
    from pbio_spark.channels.derive.source import SERVICES, Source
    from pbio_spark.channels.footers.skipping import Footers
    from pbio_spark.channels.log.files import Folder
    from pbio_spark.channels.log.state import ChannelInfo, State
    from pbio_spark.channels.position import Position
    from pbio_spark.channels.presence.subscribers import ANONYMOUS, Subscriber
    from pbio_spark.channels.publish.batch import Published
    from pbio_spark.channels.publish.delivery import NotDeliveredError, seconds_to_wait, wait_for_subscribers
    from pbio_spark.channels.publish.gather import Gatherer
    from pbio_spark.channels.publish.packed import Packed, Store, contents_of_all, pack
    from pbio_spark.channels.publish.prepare import Prepared, Preparer
    from pbio_spark.channels.publish.publisher import Publisher
    from pbio_spark.channels.publish.records import RecordPreparer, Records
    from pbio_spark.channels.publish.straight import StraightWriter, is_straight
    from pbio_spark.channels.publish.submission import Columns, Submission, channel_format, stored_format, to_datetime
    from pbio_spark.channels.space import ChannelSpace
    from pbio_spark.channels.subscribe.data_files import DataFiles
    from pbio_spark.channels.subscribe.delivered import Delivery, Event
    from pbio_spark.channels.subscribe.eager import EagerSubscription
    from pbio_spark.channels.subscribe.follower import LogFollower
    from pbio_spark.channels.subscribe.offset import LogOffset, json_to_offset, offset_to_json
    from pbio_spark.channels.subscribe.options import Start
    from pbio_spark.channels.subscribe.reading import EVENT_TYPE, Piece, Stretch
    from pbio_spark.channels.subscribe.streams.eager_stream import OF_BATCHES, EagerStream
    from pbio_spark.channels.subscribe.streams.stream_subscriber import StreamSubscriber
    from pbio_spark.channels.subscribe.subscription import Subscription
    from pbio_spark.channels.upkeep.check import leftovers, problems
    from pbio_spark.channels.upkeep.expiry import expired

__all__ = [
    "ChannelSpace",
    "Channel",
    "Modulator",
    "Source",
    "SERVICES",
    "DerivationReport",
    "DerivationVersion",
    "derivations_to_arrow",
    "Submission",
    "Columns",
    "Published",
    "NotDeliveredError",
    "Subscriber",
    "Subscription",
    "EagerSubscription",
    "Start",
    "Delivery",
    "Event",
    "Position",
    "Data",
    "ChannelInfo",
    "Folder",
    "Footers",
    "State",
    "seconds_to_wait",
    "wait_for_subscribers",
    "Deriver",
    "Packed",
    "contents_of_all",
    "pack",
    "Store",
    "Gatherer",
    "StraightWriter",
    "is_straight",
    "Prepared",
    "Preparer",
    "Publisher",
    "RecordPreparer",
    "Records",
    "channel_format",
    "stored_format",
    "to_datetime",
    "DataFiles",
    "EagerStream",
    "OF_BATCHES",
    "ANONYMOUS",
    "LogFollower",
    "LogOffset",
    "json_to_offset",
    "offset_to_json",
    "EVENT_TYPE",
    "PUT_BACK",
    "Piece",
    "Stretch",
    "StreamSubscriber",
    "Concentrator",
    "ConcentratorLimits",
    "leftovers",
    "problems",
    "expired",
    "check_name",
]

_HOMES = {
    "channel": ("Channel",),
    "commits.checked": ("PUT_BACK", "check_name"),
    "commits.commit": ("Data",),
    "footers.skipping": ("Footers",),
    "log.files": ("Folder",),
    "log.state": ("ChannelInfo", "State"),
    "position": ("Position",),
    "publish.batch": ("Published",),
    "publish.delivery": ("NotDeliveredError", "seconds_to_wait", "wait_for_subscribers"),
    "concentrator.server": ("Concentrator", "ConcentratorLimits"),
    "derive.deriver": ("Deriver",),
    "derive.modulator": ("Modulator",),
    "derive.reports": ("DerivationReport", "DerivationVersion", "derivations_to_arrow"),
    "derive.source": ("SERVICES", "Source"),
    "publish.gather": ("Gatherer",),
    "publish.packed": ("Packed", "Store", "contents_of_all", "pack"),
    "publish.prepare": ("Prepared", "Preparer"),
    "publish.publisher": ("Publisher",),
    "publish.records": ("RecordPreparer", "Records"),
    "publish.straight": ("StraightWriter", "is_straight"),
    "publish.submission": ("Columns", "Submission", "channel_format", "stored_format", "to_datetime"),
    "space": ("ChannelSpace",),
    "subscribe.data_files": ("DataFiles",),
    "subscribe.delivered": ("Delivery", "Event"),
    "subscribe.eager": ("EagerSubscription",),
    "subscribe.streams.eager_stream": ("EagerStream", "OF_BATCHES"),
    "subscribe.follower": ("LogFollower",),
    "subscribe.offset": ("LogOffset", "json_to_offset", "offset_to_json"),
    "subscribe.reading": ("EVENT_TYPE", "Piece", "Stretch"),
    "subscribe.streams.stream_subscriber": ("StreamSubscriber",),
    "presence.subscribers": ("ANONYMOUS", "Subscriber"),
    "subscribe.options": ("Start",),
    "subscribe.subscription": ("Subscription",),
    "upkeep.check": ("leftovers", "problems"),
    "upkeep.expiry": ("expired",),
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"pbio_spark.channels.{home}"), name)
    raise no_attribute(__name__, name, __all__)
