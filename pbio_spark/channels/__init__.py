"""Channels: typed streams of events with names, durable in one folder, for any number of writers and readers.

    files         whole files that appear once: what a log is made of, on any file system that can do it
    log           `Log`, the small interface; `FolderLog`, the embedded default
    checked       values of JSON that nobody trusts
    chain         each commit names the one before it
    entries       what a commit says, and its JSON
    groups        where the events of a commit lie, as columns
    state         what all commits up to one add up to; checkpoints of it
    folds         old commits in blocks, as files
    blocks        a fold -> where the events of its commits lie
    history       the log with its meaning: followed, and added to
    position      where an event stands in a space
    submission    a producer's events, as it hands them over
    rows          mappings and tables -> columns, and what does not fit refused
    contents      what a batch is made of, in a few bytes
    concentrate   rows of any channels and producers -> their groups
    wanted        a format and a request -> what reads its events
    prepare       submissions -> encoded events
    derivation    events of one channel -> those of channels derived from it
    publishing    encoded events -> data files and one commit, exactly once
    subscribers   who has a name: how far each one came
    expiry        which of them are still there
    delivery      a publication -> the moment when they have it
    reading       groups of a data file -> batches, with what the log says of each event
    ahead         many small groups, read in one go
    delivered     what subscribers are given
    subscription  commits -> events of the type that a subscriber wants
    folding       old commits -> folds
    retention     what need not be kept, and small files made into larger ones
    root          what makes a folder a channel space, and why another one is none
    channel       `Channel`: submit, subscribe
    space         `ChannelSpace`: create, open, list, drop, derive, publish
    check         all that is wrong with a space

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
from pbio_spark.channels.delivered import Delivery, Event
from pbio_spark.channels.delivery import NotDeliveredError
from pbio_spark.channels.position import Position
from pbio_spark.channels.space import ChannelSpace
from pbio_spark.channels.submission import Columns, Submission
from pbio_spark.channels.subscribers import Subscriber
from pbio_spark.channels.subscription import Subscription

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
