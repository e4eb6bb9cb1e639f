"""Chunks to an appliance: each datasource in order, each chunk accepted once, throttled.

What happened stands in receipts, each on the disk before the next request begins, so that a push
that ended anywhere goes on where it was. The one chunk whose answer was not seen is sent again, and
nothing else: records are idempotent by their url, and a full part is only ever sent while nothing
behind it was.
"""

import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Self

import msgspec
from msgspec.structs import replace

from schemas.account import Chunk
from schemas.errors import (
    BusyError,
    ConfigError,
    FatalError,
    FeedferryError,
    StoppedError,
    TargetError,
    TooManyRejectsError,
)
from schemas.feed import FULL
from schemas.record import Action
from transforms.formats import THUNDERSTONE
from transforms.sinks.push.chunk_sender import ChunkSender, Drained
from transforms.sinks.push.model import (
    ERASING,
    ApplianceProtocol,
    ApplianceResponse,
    ResponseMeaning,
    is_groups,
)
from transforms.sinks.push.outcome import (
    PARTLY,
    REFUSED,
    ChunkOutcome,
    PushAccount,
    count_of,
    outcomes_of,
)
from transforms.sinks.push.progress import PushProgress
from transforms.sinks.push.receipts import Receipts, read_receipts
from transforms.sinks.push.settings import GroupsMode, PushSettings
from transforms.sinks.push.splitter import whole
from transforms.sinks.push.throttle.backlog import BacklogThrottle, Count
from transforms.sinks.push.throttle.backoff import Waits
from transforms.sinks.push.throttle.gate import SendGate, StopSignal
from transforms.sinks.push.update_index import is_update, update_document, write_update
from transforms.sinks.push.wire import thunderstone_responses
from transforms.sinks.push.wire.client import ApplianceClient, check
from transforms.sinks.push.wire.gsa_responses import count
from transforms.storage.journal import DISK, Disk

DRAINED = "stopped behind the chunk that was under way; push again to go on"

UPDATE = "update-index.xml"
"""The document that has search indexes updated, where no run has made one."""

_LOOK_SECONDS = 0.2


class PushPaths(msgspec.Struct, frozen=True, kw_only=True):
    """Where a push has its files: chunks below `root`, all that it writes itself in `folder`."""

    root: Path
    folder: Path


class Pusher:
    """Pushes to one appliance, run after run: they share its throttle, window and rate.

    The first run that is ended before all is settled drains `stop`, and is the last one. `disk`
    does what makes receipts durable.
    """

    def __init__(
        self, settings: PushSettings, *, stop: StopSignal, watch: PushProgress, disk: Disk = DISK
    ) -> None:
        self._settings = settings
        self._disk = disk
        self._stop = stop
        self._watch = watch
        self.wire = ApplianceClient(settings.appliance)
        self._first: ApplianceResponse | None = None
        self._is_reached = False
        self._pace = _pace(settings, self._count, stop, watch.tell)

    def __enter__(self) -> Self:
        self.wire.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self.wire.__exit__(*exc)

    def push(self, chunks: Sequence[Chunk], places: PushPaths) -> PushAccount:
        """Push all chunks that are not settled yet; return the account of the whole.

        Raises ConfigError before anything is sent, SourceError where a file is not there, and
        BusyError where another push has the folder. What ends the push later is told in the
        account: it can be done again, and goes on.
        """
        settings, begun = self._settings, time.monotonic()
        chunks = restated(chunks, settings.groups_mode)
        check_chunks(chunks, settings)
        _check_files(chunks, places, settings)
        with _receipts(chunks, places, settings, self._disk) as receipts:
            chunks = _with_update(chunks, places, settings)
            known = tuple(outcomes_of(chunks, read_receipts(places.folder)))
            self._watch.begin(known)
            lanes = ChunkSender(
                settings=settings,
                wire=self.wire,
                pace=self._pace,
                receipts=receipts,
                root=places.root,
                watch=self._watch,
            )
            left = [fate.chunk for fate in known if not fate.allows_next]
            ended = self._too_many(known, left) or self._unreached(left)
            ended = ended or self._run(left, lanes, last=chunks[-1:])
            found = tuple(outcomes_of(chunks, read_receipts(places.folder)))
            is_settled = not ended and all(fate.allows_next for fate in found)
            if is_settled:
                receipts.finish(datetime.now(UTC).isoformat(timespec="seconds"))
        end = _gravest(ended)
        return PushAccount(
            target=_target(settings),
            outcomes=found,
            earlier_chunks=len(known) - len(left),
            earlier_bytes=sum(fate.bytes for fate in known),
            notices=dict(lanes.notices),
            stopped=None if is_settled else _why(end),
            exit_code=_exit_code(end, found),
            waited_seconds=self._pace.waited_seconds,
            seconds=time.monotonic() - begun,
        )

    def update_index(self, folder: Path) -> None:
        """Have Thunderstone's search indexes updated; raise TargetError if it does not say so.

        That is for runs without end: one that ends has it done behind all else.
        """
        update = write_update(folder / UPDATE)
        verdict = thunderstone_responses.judge(
            self.wire.send(whole(update, folder), feedtype=None), sent=1
        )
        if verdict.meaning is not ResponseMeaning.ACCEPTED or verdict.refused:
            raise TargetError(verdict.message)

    def _too_many(self, known: Sequence[ChunkOutcome], left: Sequence[Chunk]) -> list[Exception]:
        """Return what says that earlier pushes ended because too many records were refused."""
        refused, limit = sum(fate.refused for fate in known), self._settings.max_rejects
        if not left or limit is None or refused <= limit:
            return []
        return [
            TooManyRejectsError(
                f"{refused} records were refused before; this is more than the {limit} that"
                " --max-rejects allows: allow more to go on"
            )
        ]

    def _unreached(self, left: Sequence[Chunk]) -> list[Exception]:
        """Ask for the backlog until a connection is made; return what says that none can be.

        A wrong address is told within minutes so, where a backlog is waited for by the hour.
        """
        if (
            not left
            or self._is_reached
            or self._settings.appliance.protocol is not ApplianceProtocol.FEEDERGATE
        ):
            return []
        pauses = Waits(self._settings.backoff)
        while (answer := self.wire.backlog()).status is None and answer.is_unsent:
            pause = None if answer.is_final else pauses(answer)
            if pause is None:
                return [TargetError(answer.fault)]
            try:
                self._watch.tell(f"{answer.fault}; tried again in {pause:.0f} s")
                if not self._pace.pause(pause):
                    return [Drained()]
            except BusyError as exc:
                return [exc]
        self._first, self._is_reached = answer, True
        return []

    def _count(self) -> Count:
        first, self._first = self._first, None
        return count(first or self.wire.backlog())

    def _run(
        self, chunks: Sequence[Chunk], lanes: ChunkSender, *, last: Sequence[Chunk]
    ) -> list[Exception]:
        """Push the lanes side by side, then the update of search indexes that is the last chunk."""
        ended = _run(_lanes(chunks), lanes, self._stop, jobs=self._settings.jobs)
        updates = [chunk for chunk in chunks if is_update(chunk)]
        behind = [[chunk] for chunk in updates if chunk in last]
        ended = ended or _run(behind, lanes, self._stop, jobs=1)
        if not ended and not self._stop.is_drained:
            for chunk in updates:
                if chunk not in last:
                    lanes.forgo(chunk)
        return ended


def push(
    chunks: Sequence[Chunk],
    places: PushPaths,
    settings: PushSettings,
    *,
    stop: StopSignal,
    watch: PushProgress,
) -> PushAccount:
    """Push chunks to an appliance once: what `Pusher.push` does, and raises."""
    with Pusher(settings, stop=stop, watch=watch) as pusher:
        return pusher.push(chunks, places)


def restated(chunks: Sequence[Chunk], mode: GroupsMode) -> list[Chunk]:
    """Return the chunks as they are sent: in a mode, the first groups of each source begin anew.

    So does each full groups feed. Raises ConfigError for a mode where there are no groups feeds.
    """
    if mode is GroupsMode.AS_STATED:
        return list(chunks)
    seen: set[str | None] = set()
    found = []
    for chunk in sorted(chunks, key=lambda chunk: chunk.ordinal):  # Beam brings them in any order
        is_first = chunk.feedtype == FULL or chunk.datasource not in seen
        begins = is_groups(chunk) and is_first
        seen |= {chunk.datasource} if begins else set()
        found.append(replace(chunk, feedtype=mode.value) if begins else chunk)
    if not seen:
        raise ConfigError(
            f"--groups-mode {mode.value}: no groups feed among what is pushed; expected one"
        )
    return found


def check_chunks(chunks: Sequence[Chunk], settings: PushSettings) -> None:
    """Raise ConfigError for what the appliance cannot take, or what nobody can mean."""
    for chunk in chunks:
        check(chunk, settings.appliance)
        is_empty = chunk.feedtype in ERASING and not count_of(chunk)
        if is_empty and not settings.can_empty:
            raise ConfigError(
                f"{chunk.path}: a full feed without records, which empties {chunk.datasource!r};"
                " expected records, or --allow-empty-full"
            )


def check_receipts(chunks: Sequence[Chunk], places: PushPaths, settings: PushSettings) -> None:
    """Raise ConfigError if earlier receipts refuse the push of a run; no file is made."""
    _receipts(chunks, places, settings, DISK).check()


def planned(chunks: Sequence[Chunk], folder: Path, settings: PushSettings) -> list[Chunk]:
    """Return the chunks that a push would send now, in order; no file is made.

    The update of Thunderstone's search indexes that the push adds is among them.
    """
    ordered = sorted(chunks, key=lambda chunk: chunk.ordinal)
    if _adds_update(ordered, settings):
        size = len(update_document())
        ordered.append(
            Chunk(
                ordinal=_last_ordinal(chunks) + 1,
                path=UPDATE,
                bytes=size,
                sha256="",
                records={Action.UPDATE_INDEX.value: 1},
                first_url="",
                last_url="",
                source="",
                span=0,
                format=THUNDERSTONE.name,
            )
        )
    return unsettled(ordered, folder, replay=settings.replay)


def unsettled(chunks: Sequence[Chunk], folder: Path, *, replay: bool) -> list[Chunk]:
    """Return the chunks that have no final receipt in a folder; all of them for a replay."""
    known = outcomes_of(chunks, read_receipts(folder))
    left = [fate.chunk for fate in known if not fate.allows_next]
    return list(chunks) if replay and not left else left


def _check_files(chunks: Sequence[Chunk], places: PushPaths, settings: PushSettings) -> None:
    """Raise SourceError before anything is sent: a full part erases what the others would bring."""
    for chunk in unsettled(chunks, places.folder, replay=settings.replay):
        whole(chunk, places.root)


def _receipts(
    chunks: Sequence[Chunk], places: PushPaths, settings: PushSettings, disk: Disk
) -> Receipts:
    ordered = sorted(chunks, key=lambda chunk: chunk.ordinal)  # Beam brings them in any order
    named = [(chunk.sha256, chunk.datasource, chunk.feedtype) for chunk in ordered]
    digest = hashlib.sha256(msgspec.json.encode(named))
    return Receipts(
        places.folder,
        target=_target(settings),
        run=digest.hexdigest()[:16],
        replay=settings.replay,
        disk=disk,
    )


def _target(settings: PushSettings) -> str:
    appliance = settings.appliance
    return f"{appliance.url} {appliance.profile}".strip()


def _pace(
    settings: PushSettings, ask: Callable[[], Count], stop: StopSignal, tell: Callable[[str], None]
) -> SendGate:
    throttle = None
    if settings.appliance.protocol is ApplianceProtocol.FEEDERGATE:
        throttle = BacklogThrottle(ask, settings.backlog, clock=time.monotonic, tell=tell)
    left = settings.deadline and settings.deadline - time.time()
    return SendGate(
        stop=stop,
        clock=time.monotonic,
        now=lambda: datetime.now().astimezone(),
        tell=tell,
        throttle=throttle,
        window=settings.window,
        rate=settings.rate,
        deadline=left and time.monotonic() + left,
        max_wait_seconds=settings.max_wait_seconds,
    )


def _with_update(chunks: Sequence[Chunk], places: PushPaths, settings: PushSettings) -> list[Chunk]:
    """Return the chunks in order; for Thunderstone, an update of its indexes is the last."""
    ordered = sorted(chunks, key=lambda chunk: chunk.ordinal)
    if not settings.update_index:
        return [chunk for chunk in ordered if not is_update(chunk)]
    if not _adds_update(ordered, settings):
        return ordered
    path = places.folder / UPDATE
    ordinal = _last_ordinal(chunks) + 1
    return [*ordered, replace(write_update(path), path=str(path.absolute()), ordinal=ordinal)]


def _adds_update(ordered: Sequence[Chunk], settings: PushSettings) -> bool:
    """Whether a push ends with an update of search indexes that its chunks do not have."""
    is_thunderstone = (
        settings.update_index and settings.appliance.protocol is ApplianceProtocol.RECVDATA
    )
    return is_thunderstone and not any(map(is_update, ordered[-1:]))


def _last_ordinal(chunks: Sequence[Chunk]) -> int:
    return max((chunk.ordinal for chunk in chunks), default=0)


def _lanes(chunks: Sequence[Chunk]) -> list[list[Chunk]]:
    """Return the lanes that may run side by side."""
    lanes: dict[tuple[str | None, str | None], list[Chunk]] = {}
    for chunk in chunks:
        if not is_update(chunk):
            lanes.setdefault((chunk.format, chunk.datasource), []).append(chunk)
    return list(lanes.values())


def _run(
    found: list[list[Chunk]], lanes: ChunkSender, stop: StopSignal, *, jobs: int
) -> list[Exception]:
    """Push all of these lanes, as many at a time as there are jobs; return what ended them.

    The first that is ended ends the others, each behind the chunk that it has under way.
    """
    waiting = SimpleQueue[list[Chunk]]()
    for lane in found:
        waiting.put(lane)
    ended: list[Exception] = []

    def work() -> None:
        try:
            while not stop.is_drained:
                lanes.run(waiting.get_nowait())
        except Empty:
            return
        except Exception as exc:  # told, or raised again, when all lanes have ended
            ended.append(exc)
            stop.drain()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(jobs, len(found)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(_LOOK_SECONDS)  # a signal is only heard between two looks
    return ended


def _why(end: Exception | None) -> str:
    return DRAINED if end is None or isinstance(end, Drained) else str(end)


def _gravest(ended: list[Exception]) -> Exception | None:
    """What ended a push: something fatal, else a threshold, else what is only too early."""
    exc = min(ended, key=_gravity, default=None)
    if exc is not None and not isinstance(exc, (FeedferryError, Drained, OSError)):
        raise exc
    return exc


def _gravity(exc: Exception) -> int:
    """Lowest first; what was never expected comes before all others."""
    order = (Drained, BusyError, StoppedError, FatalError, OSError)
    found = [isinstance(exc, kind) for kind in order]
    return -found.index(True) if any(found) else -len(order)


def _exit_code(end: Exception | None, found: Sequence[ChunkOutcome]) -> int:
    match end:
        case FeedferryError():
            return end.exit_code
        case OSError():
            return FatalError.exit_code
    return 1 if any(fate.state in (PARTLY, REFUSED) for fate in found) else 0
