"""`ChannelSpace`: a folder of channels, as programs use it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Literal, Self, Unpack

from pbio_spark.channels.channel import Channel
from pbio_spark.channels.commits.checked import check_name, check_transaction, keep_to_value
from pbio_spark.channels.commits.commit import Create, Drop
from pbio_spark.channels.commits.derivation import Derivation
from pbio_spark.channels.concentrator.client import TIMEOUT
from pbio_spark.channels.concentrator.through import Through, Use
from pbio_spark.channels.derive.control import Control, current, making
from pbio_spark.channels.derive.deriver import Deriver
from pbio_spark.channels.derive.modulator import Modulator, ModulatorOptions, to_modulator
from pbio_spark.channels.derive.reports import DerivationReport, state_to_reports
from pbio_spark.channels.derive.source import Source
from pbio_spark.channels.log.files import Folder, Path
from pbio_spark.channels.log.history import History
from pbio_spark.channels.log.log import FolderLog
from pbio_spark.channels.log.root import look, make_root, no_space_to_error, read_id
from pbio_spark.channels.log.state import ChannelInfo, State
from pbio_spark.channels.named import AnyChannel
from pbio_spark.channels.presence import subscribers
from pbio_spark.channels.presence.subscribers import Subscriber
from pbio_spark.channels.publish.batch import Published
from pbio_spark.channels.publish.delivery import SYNC_TIMEOUT, seconds_to_wait, wait_for_subscribers
from pbio_spark.channels.publish.prepare import Find, Preparer
from pbio_spark.channels.publish.publisher import Publisher
from pbio_spark.channels.publish.submission import AnyType, Submission, type_to_format
from pbio_spark.channels.upkeep.retention import Removed, compact, vacuum
from pbio_spark.errors import PbioError
from pbio_spark.formats import Format
from pbio_spark.formats.store import FolderStore
from pbio_spark.keywords import suggesting


class ChannelSpace:
    """A folder of channels: their names, their types and their events. Threads may share one.

    Attributes:
        root: as it was opened.
        id: unlike that of any other space.
        formats: the bodies of all formats in it.
        folder: where its files are.
        history: its log.
        source: as what this program publishes, which says what the code of derived channels may use here.
        publisher: commits events.
    """

    def __init__(
        self,
        folder: Folder,
        space: str,
        formats: FolderStore,
        source: Source | None = None,
        concentrator: Use = "auto",
        concentrator_timeout: float | timedelta = TIMEOUT,
    ) -> None:
        """Use `create` or `open`."""
        self.root = folder.root
        self.id = space
        self.formats = formats
        self.folder = folder
        self.history = History(FolderLog(folder), space)
        self._preparer = Preparer(formats)
        self.source = source or Source()
        self._deriver = Deriver(formats, self.source)
        self._control = Control(self.history, formats, self._deriver, self._info)
        self.publisher = Publisher(folder, self.history, formats, self._deriver)
        self._through = Through(self.publisher, self._preparer, space, concentrator, concentrator_timeout)

    @classmethod
    def create(
        cls,
        root: Path,
        *,
        exist_ok: bool = False,
        source: Source | None = None,
        concentrator: Use = "auto",
        concentrator_timeout: float | timedelta = TIMEOUT,
        **storage_options: Any,
    ) -> Self:
        """Make a folder a channel space; the other arguments are as for `open`.

        Raises PBIO_CHANNEL_SPACE if it is inside of one, or is one already, unless `exist_ok` says that it is to be
        opened then; PBIO_NOT_EMPTY if it holds other files; PBIO_CANNOT_CREATE if the file system cannot hold one.
        """
        if make_root(folder := Folder(root, **storage_options)) is None and not exist_ok:
            reason, hint = "the folder is a channel space already", "`ChannelSpace.open(path)` opens it"
            raise PbioError("PBIO_CHANNEL_SPACE", reason, file=folder.root, hint=hint)
        said: Any = {"concentrator": concentrator, "concentrator_timeout": concentrator_timeout}
        return cls.open(root, source=source, **said, **storage_options)

    @classmethod
    def open(
        cls,
        root: Path,
        *,
        source: Source | None = None,
        concentrator: Use = "auto",
        concentrator_timeout: float | timedelta = TIMEOUT,
        **storage_options: Any,
    ) -> Self:
        """Open a channel space.

        Args:
            source: what this program is to the code of derived channels, and what it grants to it.
            concentrator: whether publications go by way of `pbio space concentrate`: if one is running on this machine
                for this user, never, or not without one. The result is the same.
            concentrator_timeout: how long one may say nothing before events go without it, on Linux; a number is one of
                seconds.
            storage_options: go to fsspec.

        Raises PBIO_NO_SPACE, PBIO_CANNOT_CREATE, PBIO_BAD_LOG if it is damaged, PBIO_BAD_OPTION, and PBIO_CONCENTRATOR.
        """
        folder = Folder(root, **storage_options)
        space = read_id(folder)
        if space is None:
            raise no_space_to_error(folder)
        return cls(folder, space, FolderStore(root, **storage_options), source, concentrator, concentrator_timeout)

    @property
    def is_there(self) -> bool:
        """Whether the folder is still this space; it may have been removed, and another one made in its place."""
        return read_id(self.folder) == self.id

    @suggesting
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
        check_name(name, "channel")  # before the type: the two may be swapped
        return self._create(name, type_to_format(type), None, keep, exist_ok)

    def derive_channel(
        self,
        name: str,
        parent: AnyChannel,
        modulator: Modulator | None = None,
        *,
        keep: Literal["always", "subscribed"] | timedelta = "always",
        exist_ok: bool = False,
        **options: Unpack[ModulatorOptions],
    ) -> Channel:
        """Begin a channel whose events are derived from another's, by the writers that publish those.

        Args:
            name: of the channel.
            parent: the other channel, or its name; it may be derived itself.
            modulator: the code; or its attributes as `options`, such as `filter=` and `parameters=`.
            keep: as for `create_channel`.
            exist_ok: open the channel if there is one of this name, parent, type, code and parameters; what these are
                set to, its `keep` and its `max_cost` stay.

        Raises:
            PbioError: PBIO_BAD_PROGRAM with all mistakes of a program, or with what it costs; PBIO_CHANNEL_EXISTS,
                with `exist_ok` only if it is of another type or derived in another way; PBIO_UNKNOWN_CHANNEL,
                PBIO_BAD_OPTION.
        """
        source = self.channel(parent)
        form, checked = self._control.derivation(source.info, to_modulator(modulator, options))
        return self._create(name, form, checked.derivation, keep, exist_ok)

    def replace_channel(
        self, name: AnyChannel, modulator: Modulator | None = None, **options: Unpack[ModulatorOptions]
    ) -> int:
        """Make the events of a derived channel in another way, from the next commit on.

        Each event is made by the old code or the new one. The state is kept if both declare the same. A change of the
        type is a new version of the channel's type: its subscribers get what they wanted, if the new events reach it.

        Args: as for `derive_channel`.

        Returns:
            The version of the commit that says so; events made by the new code have it as their `derivation`.

        Raises PBIO_BAD_PROGRAM, PBIO_UNKNOWN_CHANNEL, and PBIO_BAD_OPTION if the channel is not derived.
        """
        return self._control.replace(name, to_modulator(modulator, options))

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
            raise PbioError(
                "PBIO_BAD_OPTION",
                f"the type of the channel {name!r} has no fields",
                hint="give a record type of at least one field",
            )
        self.formats.put(form)

        def create(state: State) -> Create | None:
            if derivation is not None and derivation.parent not in state.channels:
                raise PbioError(
                    "PBIO_UNKNOWN_CHANNEL",
                    "the parent has been dropped",
                    file=self.root,
                    hint="channels() of the space lists those that exist",
                )
            if name in state.names:
                known = state.named(name)
                if exist_ok and known.format == form.id.hex() and making(known.derivation) == making(derivation):
                    return None
                raise self._exists(known, exist_ok)
            return Create(name, form.id.hex(), derivation and current(derivation, state), kept)

        self.history.commit(create)
        return self.channel(name)

    def _exists(self, info: ChannelInfo, is_other: bool) -> PbioError:
        """PBIO_CHANNEL_EXISTS; with `is_other`, for a channel that cannot stand for the one that was to be created."""
        reason = f"a channel {info.name!r} exists already"
        hint = "`ChannelSpace.channel` opens it, and so does exist_ok=True"
        if is_other:
            reason += ", of another type or derived in another way"
            hint = "choose another name, or drop that channel"
        return PbioError("PBIO_CHANNEL_EXISTS", reason, file=self.root, format=info.format, hint=hint)

    def channel(self, name: AnyChannel) -> Channel:
        """Open a channel. Raises PBIO_UNKNOWN_CHANNEL."""
        with self.history.lock:
            return Channel(self, self._info(name, self.history.catch_up()))

    def _info(self, name: AnyChannel, state: State) -> ChannelInfo:
        try:
            return state.named(name)
        except PbioError as error:
            raise error.at(file=self.root) from None

    def channels(self) -> list[ChannelInfo]:
        """All channels, by name. Raises PBIO_NO_SPACE if the space is gone."""
        with self.history.lock:
            return sorted(look(self.history, self.folder, self.id).channels.values(), key=lambda info: info.name)

    def drop_channel(self, name: AnyChannel) -> None:
        """End a channel: nothing can be published to it any more, and its name is free.

        Raises PBIO_UNKNOWN_CHANNEL, and PBIO_BAD_OPTION while channels are derived from it.
        """

        def drop(state: State) -> Drop:
            info = self._info(name, state)
            derived = [child.name for child in state.children(info.id)]
            if derived:
                reason = f"cannot drop {info.name!r} before the channels derived from it: {', '.join(derived)}"
                hint = "drop these first" + ("; one with ~ goes with its last subscriber" if "~" in reason else "")
                raise PbioError("PBIO_BAD_OPTION", reason, hint=hint)
            return Drop(info.id)

        self.history.commit(drop)

    def set_parameters(
        self, name: AnyChannel, values: Mapping[str, Any], *, lazy: timedelta | float | None = None
    ) -> int:
        """Give parameters of a derived channel, or of a block that channels share, other values.

        Args:
            name: of the channel or the block.
            values: by name; the others stay.
            lazy: for how long sources may go on with the values that they know, rather than derive again what they
                have made already; a number is one of seconds. None: they hold for all events from the next commit on.

        Returns:
            The version of the commit that says so; events made with these values have it as their `derivation`.

        Raises PBIO_UNKNOWN_CHANNEL; PBIO_BAD_OPTION if there is no such parameter, or of another type.
        """
        return self._control.set_parameters(name, values, lazy)

    def derived_format(self, parent: ChannelInfo, modulator: Modulator) -> Format:
        """The format of what code makes of a channel's events. Raises as `derive_channel` does."""
        return self._control.derivation(parent, modulator)[0]

    def attach(
        self, parent: ChannelInfo, modulator: Modulator, subscriber: str | None, expire_after: timedelta
    ) -> tuple[ChannelInfo, str, bool]:
        """The channel that sources derive for a subscriber, the name under which it is known to be there, and whether
        that is new; see `Channel.subscribe`."""
        return self._control.attach(self.folder, parent, modulator, subscriber, expire_after)

    def parameters(self, name: AnyChannel) -> dict[str, Any]:
        """The values of the parameters of a derived channel, or of a block that channels share."""
        return self._control.parameters(name)

    def create_parameters(self, name: str, values: Mapping[str, Any], *, exist_ok: bool = False) -> None:
        """Begin a block of parameters, for derivations to share: set once, seen by all from the same commit on.

        Args:
            exist_ok: leave one of this name and these types as it is.

        Raises PBIO_CHANNEL_EXISTS, PBIO_BAD_OPTION.
        """
        self._control.create_parameters(name, values, exist_ok=exist_ok)

    def drop_parameters(self, name: str) -> None:
        """End a block of parameters. Raises PBIO_BAD_OPTION if there is none, or channels use it."""
        self._control.drop_parameters(name)

    def derivations(self) -> list[DerivationReport]:
        """What sources report of derived channels: one row for each channel and source."""
        with self.history.lock:
            return state_to_reports(self.history.catch_up(), self._control.cost)

    @suggesting
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
            check_transaction(transaction)
        submissions = list(submissions)
        if transaction is None and seconds is None:
            published = self._through.publish(submissions, find)
            if published is not None:
                return published
        self.history.catch_up()
        prepared = self._preparer.prepare_all(submissions, find)
        published = self.publisher.publish([prepared], transaction)
        if seconds is not None:
            channels = {channel for one in prepared for channel in one.groups.rows["channel"].tolist()}
            wait_for_subscribers(self.folder, self.history, channels, published.version, seconds)
        return published

    def find(self, name: AnyChannel) -> ChannelInfo:
        """What is known of a channel, without a look at the log. Raises PBIO_UNKNOWN_CHANNEL."""
        with self.history.lock:
            return self._info(name, self.history.state)

    @suggesting
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
        """What a subscriber has not acknowledged; see `subscribers.backlog`."""
        return subscribers.backlog(self.history, subscriber)
