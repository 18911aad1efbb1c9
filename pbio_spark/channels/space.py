"""`ChannelSpace`: a folder of channels."""

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
from pbio_spark.channels.publish.grouping.types import Find
from pbio_spark.channels.publish.prepare import Preparer
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
        root: the path, as given when it was opened.
        id: unique among spaces.
        formats: the store of its formats.
        folder: where its files are.
        history: its log.
        source: what this program grants to the code of derived channels when it publishes.
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
        """Create a channel space in a folder; the other arguments are as for `open`.

        Raises PBIO_CHANNEL_SPACE if it is inside another space, or is already one, unless `exist_ok`, which then opens
        it; PBIO_NOT_EMPTY if it holds other files; PBIO_CANNOT_CREATE if the file system cannot hold a space.
        """
        if make_root(folder := Folder(root, **storage_options)) is None and not exist_ok:
            reason, hint = "the folder is already a channel space", "`ChannelSpace.open(path)` opens it"
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
            source: the name of this program for derived channels, and what it grants to their code.
            concentrator: whether to publish through `pbio space concentrate`: `auto` if one is running on this machine
                for this user, `off` never, `required` always. The result is the same.
            concentrator_timeout: how long a concentrator may be silent before events go without it, on Linux; a number
                means seconds.
            storage_options: arguments for fsspec.

        Raises PBIO_NO_SPACE, PBIO_CANNOT_CREATE, PBIO_BAD_LOG if it is damaged, PBIO_BAD_OPTION, and PBIO_CONCENTRATOR.
        """
        folder = Folder(root, **storage_options)
        space = read_id(folder)
        if space is None:
            raise no_space_to_error(folder)
        return cls(folder, space, FolderStore(root, **storage_options), source, concentrator, concentrator_timeout)

    @property
    def is_there(self) -> bool:
        """Whether the folder is still this space; it may have been removed or replaced."""
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
        """Create a channel for events that have at least the fields of a type.

        Args:
            keep: which events `vacuum` may remove: none (`always`); those that every named subscriber has acknowledged,
                once there is one (`subscribed`); those older than a timedelta.
            exist_ok: open an existing channel of this name and type; its own `keep` does not change.

        Raises:
            PbioError: PBIO_CHANNEL_EXISTS, with `exist_ok` only if it is of another type, or derived; PBIO_BAD_OPTION
                for an invalid name; what `type_to_format` raises for the type.
        """
        check_name(name, "channel")  # checked before the type, as the two may be swapped
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
        """Create a channel whose events are derived from another channel's, by the writers of that channel.

        Args:
            name: of the channel.
            parent: the other channel, or its name; it may be derived itself.
            modulator: the code; or its attributes as `options`, such as `filter=` and `parameters=`.
            keep: as for `create_channel`.
            exist_ok: open an existing channel of this name, parent, type, code and parameters; current parameter
                values, `keep` and `max_cost` do not change.

        Raises:
            PbioError: PBIO_BAD_PROGRAM with all mistakes of a program, or with its cost; PBIO_CHANNEL_EXISTS, with
                `exist_ok` only if type or derivation differ; PBIO_UNKNOWN_CHANNEL; PBIO_BAD_OPTION.
        """
        source = self.channel(parent)
        form, checked = self._control.derivation(source.info, to_modulator(modulator, options))
        return self._create(name, form, checked.derivation, keep, exist_ok)

    def replace_channel(
        self, name: AnyChannel, modulator: Modulator | None = None, **options: Unpack[ModulatorOptions]
    ) -> int:
        """Replace the code of a derived channel from the next commit on.

        Each event is made by either the old or the new code. State is kept if both declare the same state. A new type
        is a new version of the channel's type: its subscribers get what they asked for, if the new events reach it.

        Args: as for `derive_channel`.

        Returns:
            The version of the commit; events made by the new code have it as their `derivation`.

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
        """PBIO_CHANNEL_EXISTS; with `is_other`, for a channel that differs from the one to be created."""
        reason = f"a channel {info.name!r} already exists"
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
        """Drop a channel: nothing more can be published to it, and its name becomes free.

        Raises PBIO_UNKNOWN_CHANNEL, and PBIO_BAD_OPTION while channels are derived from it.
        """

        def drop(state: State) -> Drop:
            info = self._info(name, state)
            derived = [child.name for child in state.children(info.id)]
            if derived:
                reason = f"cannot drop {info.name!r} before the channels derived from it: {', '.join(derived)}"
                hint = "drop these first" + ("; ~ channels end with their last subscriber" if "~" in reason else "")
                raise PbioError("PBIO_BAD_OPTION", reason, hint=hint)
            return Drop(info.id)

        self.history.commit(drop)

    def set_parameters(
        self, name: AnyChannel, values: Mapping[str, Any], *, lazy: timedelta | float | None = None
    ) -> int:
        """Set parameters of a derived channel, or of a block that channels share.

        Args:
            name: of the channel or the block.
            values: by name; other parameters do not change.
            lazy: how long sources may continue with the old values, rather than derive again what they have already
                made; a number means seconds. None: the new values apply to all events from the next commit on.

        Returns:
            The version of the commit; events made with these values have it as their `derivation`.

        Raises PBIO_UNKNOWN_CHANNEL; PBIO_BAD_OPTION if there is no such parameter, or of another type.
        """
        return self._control.set_parameters(name, values, lazy)

    def derived_format(self, parent: ChannelInfo, modulator: Modulator) -> Format:
        """The format of the events that code derives from a channel. Raises as `derive_channel` does."""
        return self._control.derivation(parent, modulator)[0]

    def attach(
        self, parent: ChannelInfo, modulator: Modulator, subscriber: str | None, expire_after: timedelta
    ) -> tuple[ChannelInfo, str, bool]:
        """The channel that sources derive for a subscriber, the name that marks the subscriber as present, and whether
        that name is new; see `Channel.subscribe`."""
        return self._control.attach(self.folder, parent, modulator, subscriber, expire_after)

    def parameters(self, name: AnyChannel) -> dict[str, Any]:
        """The values of the parameters of a derived channel, or of a block that channels share."""
        return self._control.parameters(name)

    def create_parameters(self, name: str, values: Mapping[str, Any], *, exist_ok: bool = False) -> None:
        """Create a block of parameters that derivations share: all see a change from the same commit on.

        Args:
            exist_ok: leave an existing block of this name and these types unchanged.

        Raises PBIO_CHANNEL_EXISTS, PBIO_BAD_OPTION.
        """
        self._control.create_parameters(name, values, exist_ok=exist_ok)

    def drop_parameters(self, name: str) -> None:
        """Drop a block of parameters. Raises PBIO_BAD_OPTION if it does not exist, or channels use it."""
        self._control.drop_parameters(name)

    def derivations(self) -> list[DerivationReport]:
        """The reports of sources on derived channels: one row for each channel and source."""
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
        """Publish events to any number of channels: all in one commit, or none.

        Args:
            transaction: an application's name and the number of its batch, an integer from 0. A batch whose number is
                not above the last published one is known, and is not published again.
            delivery: `async` returns when the events are durable; `sync` when every named subscriber of the affected
                channels, derived ones included, has acknowledged them.
            sync_timeout: how long `sync` waits; a number means seconds.

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
        """Like `publish`, for the channels that `find` returns."""
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
        """The known state of a channel, without reading the log. Raises PBIO_UNKNOWN_CHANNEL."""
        with self.history.lock:
            return self._info(name, self.history.state)

    @suggesting
    def vacuum(self, *, grace: timedelta = timedelta(days=1), linger: timedelta = timedelta(days=1)) -> Removed:
        """Remove events beyond the `keep` of their channels, and files that nothing needs; see `retention.vacuum`."""
        return vacuum(self.history, self.folder, grace, linger)

    def compact(self, *, small: int = 1 << 20, target: int = 64 << 20) -> int:
        """Merge small data files; returns how many were merged. See `retention.compact`."""
        return compact(self.history, self.folder, small, target)

    def subscribers(self) -> list[Subscriber]:
        """The named subscribers, by channel and name. Raises PBIO_BAD_LOG."""
        return subscribers.read_all(self.folder)

    def backlog(self, subscriber: Subscriber) -> tuple[int, int]:
        """The numbers of commits and events that a subscriber has not acknowledged; see `subscribers.backlog`."""
        return subscribers.backlog(self.history, subscriber)
