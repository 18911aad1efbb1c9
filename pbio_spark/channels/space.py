"""`ChannelSpace`: a folder of channels, as programs use it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Literal, Self

from ecode.limits import SOURCE_WORK
from pbio_spark.channels.channel import Channel
from pbio_spark.channels.commits.checked import check_name, check_transaction, keep_to_value
from pbio_spark.channels.commits.commit import Change, Create, Data, Derivation, Drop
from pbio_spark.channels.log.files import Folder
from pbio_spark.channels.log.history import History
from pbio_spark.channels.log.log import FolderLog
from pbio_spark.channels.log.root import make_root, no_space_to_error, read_id
from pbio_spark.channels.log.state import ChannelInfo, State
from pbio_spark.channels.position import Position
from pbio_spark.channels.publish.delivery import SYNC_TIMEOUT, seconds_to_wait, wait_for_subscribers
from pbio_spark.channels.publish.derivation import Deriver, check_parameters
from pbio_spark.channels.publish.prepare import Find, Preparer
from pbio_spark.channels.publish.publisher import Published, Publisher
from pbio_spark.channels.publish.submission import AnyType, Submission, type_to_format
from pbio_spark.channels.subscribe import subscribers
from pbio_spark.channels.subscribe.subscribers import Subscriber
from pbio_spark.channels.upkeep.retention import Removed, compact, vacuum
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.store import FolderStore


class ChannelSpace:
    """A folder of channels: their names, their types and their events. Threads may share one.

    Attributes:
        root: as it was opened.
        id: unlike that of any other space.
        formats: the bodies of all formats in it.
        folder: where its files are.
        history: its log.
    """

    def __init__(self, folder: Folder, space: str, formats: FolderStore) -> None:
        """Use `create` or `open`."""
        self.root = folder.root
        self.id = space
        self.formats = formats
        self.folder = folder
        self.history = History(FolderLog(folder), space)
        self._preparer = Preparer(formats)
        self._deriver = Deriver(formats)
        self._publisher = Publisher(folder, self.history, formats, self._deriver)

    @classmethod
    def create(cls, root: str, *, exist_ok: bool = False, **storage_options: Any) -> Self:
        """Make a folder a channel space; `storage_options` go to fsspec.

        Raises PBIO_CHANNEL_SPACE if it is inside of one, or is one already, unless `exist_ok` says that it is to be
        opened then; PBIO_NOT_EMPTY if it holds other files; PBIO_CANNOT_CREATE if the file system cannot hold one.
        """
        folder = Folder(root, **storage_options)
        space = make_root(folder)
        if space is None:
            if exist_ok:
                return cls.open(root, **storage_options)
            reason, hint = "the folder is a channel space already", "`ChannelSpace.open(path)` opens it"
            raise PbioError("PBIO_CHANNEL_SPACE", reason, file=root, hint=hint)
        return cls(folder, space, FolderStore(root, **storage_options))

    @classmethod
    def open(cls, root: str, **storage_options: Any) -> Self:
        """Open a channel space. Raises PBIO_NO_SPACE, PBIO_CANNOT_CREATE, and PBIO_BAD_LOG if it is damaged."""
        folder = Folder(root, **storage_options)
        space = read_id(folder)
        if space is None:
            raise no_space_to_error(folder)
        return cls(folder, space, FolderStore(root, **storage_options))

    @property
    def is_there(self) -> bool:
        """Whether the folder is still this space; it may have been removed, and another one made in its place."""
        return read_id(self.folder) == self.id

    def create_channel(
        self,
        name: str,
        type: AnyType,  # noqa: A002
        *,
        keep: Literal["always", "subscribed"] | timedelta = "always",
        exist_ok: bool = False,
    ) -> Channel:
        """Begin a channel of events that have at least the fields of a type.

        Args:
            keep: which events `vacuum` may remove: none; those that every named subscriber has acknowledged, once there
                is one; those that were published so long ago.
            exist_ok: open the channel if there is one of this name and type; its own `keep` stays.

        Raises:
            PbioError: PBIO_CHANNEL_EXISTS, with `exist_ok` only if it is of another type, or derived;
                PBIO_BAD_OPTION for a name that cannot be one; what `type_to_format` raises for the type.
        """
        return self._create(name, type_to_format(type), None, keep, exist_ok)

    def derive_channel(
        self,
        name: str,
        parent: str,
        *,
        filter: str | None = None,  # noqa: A002
        transform: str | None = None,
        type: AnyType | None = None,  # noqa: A002
        parameters: Mapping[str, int | float] | None = None,
        keep: Literal["always", "subscribed"] | timedelta = "always",
        max_cost: int = SOURCE_WORK,
        exist_ok: bool = False,
    ) -> Channel:
        """Begin a channel whose events are derived from another's, by the writers that publish those.

        Args:
            name: of the channel.
            parent: the name of the other channel; it may be derived itself.
            filter: E-code that says of which events; it sees `input` and `param`.
            transform: E-code that fills `output`, of `type`, from `input` and `param`; what it returns 0 for is left
                out. Without one, events stay as they are.
            type: of the channel's events; needed with `transform`, and only then.
            parameters: the fields of `param`, and what they are until `set_parameters`: whole numbers and doubles.
            keep: as for `create_channel`.
            max_cost: units of work (about one operation each) that the E-code may take for an event, at the expense
                of the writer. Code that always takes more is refused; where it depends on the event, such as on the
                length of an array, an event beyond the limit is left out.
            exist_ok: open the channel if there is one of this name, parent, type, code and parameters; what these are
                set to, its `keep` and its `max_cost` stay.

        Raises:
            PbioError: PBIO_BAD_PROGRAM with all mistakes of a program, or with what it costs; PBIO_CHANNEL_EXISTS,
                with `exist_ok` only if it is of another type or derived in another way; PBIO_UNKNOWN_CHANNEL,
                PBIO_BAD_OPTION.
        """
        source = self.channel(parent)
        if (transform is None) != (type is None):
            raise PbioError(
                "PBIO_BAD_OPTION", "transform= and type= need each other: a transform makes events of a type"
            )
        form = source.format if type is None else type_to_format(type)
        if isinstance(max_cost, bool) or not isinstance(max_cost, int) or not 0 < max_cost < 1 << 62:
            raise PbioError(
                "PBIO_BAD_OPTION",
                f"max_cost cannot be {str(max_cost)[:80]!r}",
                hint="a positive number of units of work",
            )
        derivation = Derivation(source.info.id, filter, transform, check_parameters(parameters or {}), max_cost)
        self._deriver.check(source.format, form, derivation)
        return self._create(name, form, derivation, keep, exist_ok)

    def _create(
        self,
        name: str,
        form: Format,
        derivation: Derivation | None,
        keep: Literal["always", "subscribed"] | timedelta,
        exist_ok: bool = False,
    ) -> Channel:
        kept = keep_to_value(keep)
        check_name(name, "channel")
        if not form.record.fields:
            raise PbioError("PBIO_BAD_OPTION", f"the type of the channel {name!r} has no fields")
        self.formats.put(form)

        def create(state: State) -> Create | None:
            if derivation is not None and derivation.parent not in state.channels:
                raise PbioError("PBIO_UNKNOWN_CHANNEL", "the parent has been dropped", file=self.root)
            if name in state.names:
                known = state.named(name)
                if exist_ok and known.format == form.id.hex() and _making(known.derivation) == _making(derivation):
                    return None
                raise self._exists(known, exist_ok)
            return Create(name, form.id.hex(), derivation, kept)

        self.history.commit(create)
        return self.channel(name)

    def _exists(self, info: ChannelInfo, is_other: bool) -> PbioError:
        """PBIO_CHANNEL_EXISTS; with `is_other`, for a channel that cannot stand for the one that was to be created."""
        reason, hint = (
            f"a channel {info.name!r} exists already",
            "`ChannelSpace.channel` opens it, and so does exist_ok=True",
        )
        if is_other:
            reason, hint = (
                f"{reason}, of another type or derived in another way",
                "choose another name, or drop that channel",
            )
        return PbioError("PBIO_CHANNEL_EXISTS", reason, file=self.root, format=info.format, hint=hint)

    def channel(self, name: str) -> Channel:
        """Open a channel. Raises PBIO_UNKNOWN_CHANNEL."""
        with self.history.lock:
            return Channel(self, self._info(name, self.history.catch_up()))

    def _info(self, name: str, state: State) -> ChannelInfo:
        try:
            return state.named(name)
        except PbioError as error:
            raise error.at(file=self.root) from None

    def channels(self) -> list[ChannelInfo]:
        """All channels, by name."""
        with self.history.lock:
            return sorted(self.history.catch_up().channels.values(), key=lambda info: info.name)

    def drop_channel(self, name: str) -> None:
        """End a channel: nothing can be published to it any more, and its name is free.

        Raises PBIO_UNKNOWN_CHANNEL, and PBIO_BAD_OPTION while channels are derived from it.
        """

        def drop(state: State) -> Drop:
            info = self._info(name, state)
            derived = [child.name for child in state.children(info.id)]
            if derived:
                raise PbioError(
                    "PBIO_BAD_OPTION", f"cannot drop {name!r} before the channels derived from it: {', '.join(derived)}"
                )
            return Drop(info.id)

        self.history.commit(drop)

    def set_parameters(self, name: str, values: Mapping[str, int | float]) -> None:
        """Give parameters of a derived channel other values, for all events from the next commit on.

        Raises PBIO_UNKNOWN_CHANNEL; PBIO_BAD_OPTION if the channel has no such parameter, or of another type.
        """

        def change(state: State) -> Change:
            info = self._info(name, state)
            if info.derivation is None:
                raise PbioError("PBIO_BAD_OPTION", f"the channel {name!r} is not derived, and has no parameters")
            return Change(info.id, check_parameters(values, info.derivation.parameters))

        self.history.commit(change)

    def publish(
        self,
        submissions: Iterable[Submission],
        *,
        transaction: tuple[str, int] | None = None,
        delivery: Literal["async", "sync"] = "async",
        sync_timeout: float | timedelta = SYNC_TIMEOUT,
    ) -> Published:
        """Publish events to any number of channels: all of them in one commit, or none.

        Args:
            transaction: an application's name and the number of its batch, a whole number from 0. If the number is not
                above the last one published, the batch is known, and nothing is published.
            delivery: `async` returns when the events are durable; `sync` when every named subscriber of a channel that
                has some of them, derived channels too, has acknowledged them.
            sync_timeout: how long `sync` waits for that; a number is one of seconds.

        Raises what `Channel.submit` raises, and PBIO_OTHER_BATCH if that number was published with other events.
        """
        return self.publish_to(submissions, self.find, transaction, delivery, sync_timeout)

    def publish_to(
        self,
        submissions: Iterable[Submission],
        find: Find,
        transaction: tuple[str, int] | None = None,
        delivery: Literal["async", "sync"] = "async",
        sync_timeout: float | timedelta = SYNC_TIMEOUT,
    ) -> Published:
        """The same, to the channels that `find` finds."""
        seconds = seconds_to_wait(delivery, sync_timeout)
        if not isinstance(submissions, Iterable):
            reason = f"expected a list of submissions, not {type(submissions).__name__}"
            raise PbioError("PBIO_BAD_OPTION", reason, hint="publish([Submission(channel, events)])")
        if transaction is not None:
            check_transaction(*transaction)
        self.history.catch_up()
        prepared = [one for submission in submissions for one in self._preparer.prepare(submission, find)]
        channels_of = [one.groups.rows["channel"] for one in prepared]
        if all((channels == channels[0]).all() for channels in channels_of):
            # A channel's events lie together. Where a submission has several channels, order comes before that.
            prepared.sort(key=lambda one: int(one.groups.rows["channel"][0]))
        published = self._publisher.publish([prepared], transaction)
        if seconds is not None:
            channels = {channel for one in prepared for channel in one.groups.rows["channel"].tolist()}
            wait_for_subscribers(self.folder, self.history, channels, published.version, seconds)
        return published

    def find(self, name: str) -> ChannelInfo:
        """What is known of a channel, without a look at the log. Raises PBIO_UNKNOWN_CHANNEL."""
        with self.history.lock:
            return self._info(name, self.history.state)

    def vacuum(self, *, grace: timedelta = timedelta(days=1), linger: timedelta = timedelta(days=1)) -> Removed:
        """Remove what the `keep` of channels allows, and files that nothing needs; see `retention.vacuum`."""
        return vacuum(self.history, self.folder, grace, linger)

    def compact(self, *, small: int = 1 << 20, target: int = 64 << 20) -> int:
        """Put small data files together; how many were. See `retention.compact`."""
        return compact(self.history, self.folder, small, target)

    def subscribers(self) -> list[Subscriber]:
        """The named subscribers, by channel and name. Raises PBIO_BAD_LOG."""
        return subscribers.read_all(self.folder)

    def backlog(self, subscriber: Subscriber) -> tuple[int, int]:
        """What a subscriber has not acknowledged: how many commits with events for it, and how many events.

        It reads every commit since.
        """
        with self.history.lock:
            info = self.history.catch_up().channels.get(subscriber.channel)
        commits = events = 0
        first, end = (0, 0) if info is None else (max(info.first, subscriber.position.version), info.last + 1)
        for version in range(first, end):
            entry = self.history.entry(version)
            if entry is None or not isinstance(entry.change, Data):
                continue
            left = 0
            for group in self.history.groups(entry.change, {subscriber.channel}):
                place = max(Position(version, group.file, group.ordinal), subscriber.position)
                left += max(0, group.ordinal + group.count - place.ordinal) if place.file == group.file else 0
            commits += left > 0
            events += left
        return commits, events


def _making(derivation: Derivation | None) -> object:
    """How events are made, whatever the parameters have been set to."""
    if derivation is None:
        return None
    parameters = [(name, type(value)) for name, value in derivation.parameters]
    return derivation.parent, derivation.filter, derivation.transform, parameters
