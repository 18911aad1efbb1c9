"""Channels: typed streams of events with names, durable in one folder, for any number of writers and readers.

    space      `ChannelSpace`: create, open, list, drop, derive, publish
    channel    `Channel`: submit, subscribe
    position   where an event stands in a space
    commits    what one commit says
    log        commits in order, and what they add up to
    publish    a producer's events -> one commit
    subscribe  commits -> the events that a subscriber wants
    upkeep     what need not be kept, and what is wrong

    >>> import tempfile
    >>> from ecode.types import INT32, Field, record
    >>> space = ChannelSpace.create(tempfile.mkdtemp() + "/space")
    >>> counts = space.create_channel("counts", record("count", [Field("n", INT32)]))
    >>> counts.submit([{"n": 1}, {"n": 2}], producer="p", sequence=0).events
    2
    >>> counts.submit([{"n": 1}, {"n": 2}, {"n": 3}], producer="p", sequence=0).events
    1
    >>> [(str(event.position), event.values) for event in counts.subscribe(start="earliest").events()]
    [('2.0.0', {'n': 1}), ('2.0.1', {'n': 2}), ('3.0.2', {'n': 3})]

Nothing here knows Spark.
"""

from pbio_spark.channels.channel import Channel
from pbio_spark.channels.position import Position
from pbio_spark.channels.publish.delivery import NotDeliveredError
from pbio_spark.channels.publish.submission import Columns, Submission
from pbio_spark.channels.space import ChannelSpace
from pbio_spark.channels.subscribe.delivered import Delivery, Event
from pbio_spark.channels.subscribe.subscribers import Subscriber
from pbio_spark.channels.subscribe.subscription import Subscription

__all__ = [
    "ChannelSpace",
    "Channel",
    "Submission",
    "Columns",
    "Subscriber",
    "Subscription",
    "Delivery",
    "Event",
    "Position",
    "NotDeliveredError",
]
