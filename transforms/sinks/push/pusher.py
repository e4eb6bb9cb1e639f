"""Push chunks to an appliance: each datasource in order, each chunk accepted once, throttled.

Every attempt to send a chunk or a part of one has a receipt, which is on the disk before the next
request for that datasource begins. So a push that ended anywhere can be continued. What is accepted
or refused is not sent again. What failed is sent again, and so are chunks whose response was not
seen, at most one for each of the `jobs` threads. That does no harm: records are identified by their
URLs, and the full part of a feed is only sent while nothing after it was accepted. The request that
removes groups before a `cleanup` chunk has no receipt of its own; it is repeated with its chunk.
"""

import hashlib
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Self

import msgspec

from schemas.account import Chunk
from schemas.errors import FatalError, FeedferryError, TargetError, TooManyRejectsError
from schemas.receipt import ChunkState
from transforms.retry import RetryPauses
from transforms.sinks.push.chunk_parts import whole_chunk
from transforms.sinks.push.chunk_sender import ChunkSender, PushInterrupted
from transforms.sinks.push.model import ResponseMeaning
from transforms.sinks.push.outcome import ChunkOutcome, PushAccount, PushProgress, outcomes_of
from transforms.sinks.push.push_plan import (
    UPDATE_FILE,
    is_update,
    plan_chunks,
    write_update,
)
from transforms.sinks.push.receipts import Receipts
from transforms.sinks.push.settings import PushSettings
from transforms.sinks.push.throttle.backlog import BacklogThrottle
from transforms.sinks.push.throttle.gate import SendGate, StopSignal
from transforms.sinks.push.wire.client import ApplianceClient
from transforms.sinks.push.wire.responses import judge_response
from transforms.storage.journal import DISK, Disk

_JOIN_SECONDS = 1.0
INTERRUPTED = "stopped after the current chunk; push again to continue"


class Pusher:
    """Pushes runs to one appliance, one after another; they share its throttle and window.

    The first run that ends before everything is settled sets `stop` and is the last one. `client`
    is the HTTP client; `disk` makes receipts durable.
    """

    def __init__(
        self,
        settings: PushSettings,
        *,
        stop: StopSignal,
        progress: PushProgress,
        client: ApplianceClient | None = None,
        disk: Disk = DISK,
    ) -> None:
        self._settings = settings
        self._disk = disk
        self._stop = stop
        self._progress = progress
        self.client = client or ApplianceClient(settings.appliance)
        self._is_reached = settings.appliance.protocol.read_backlog is None
        self._gate = self._make_gate()

    def __enter__(self) -> Self:
        self.client.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self.client.__exit__(*exc)

    def push(self, chunks: Sequence[Chunk], *, root: Path, folder: Path) -> PushAccount:
        """Push all chunks that are not settled yet; return the account of the whole run.

        Chunks are below `root`; the push writes its own files to `folder`. Raises ConfigError
        before anything is sent, SourceError if a file is missing, and BusyError if another push has
        the folder. Any later end of the push is stated in the account; a push that is started again
        continues.
        """
        settings, started = self._settings, time.monotonic()
        planned = plan_chunks(chunks, settings)
        with receipts_of(planned, folder, settings, disk=self._disk) as receipts:
            is_updated = settings.update_index
            chunks = [chunk for chunk in planned if is_updated or not is_update(chunk)]
            earlier = outcomes_of(chunks, receipts.all())
            remaining = [outcome.chunk for outcome in earlier if not outcome.allows_next]
            for chunk in remaining:  # a full part deletes what missing files could not bring back
                whole_chunk(chunk, root)
            self._progress.add_earlier(earlier)
            sender = ChunkSender(
                settings=settings,
                client=self.client,
                gate=self._gate,
                receipts=receipts,
                root=root,
                progress=self._progress,
            )
            error: Exception | None = None
            try:
                self._check_rejects(earlier, remaining)
                self._connect(remaining)
                self._send(remaining, sender)
            except (FeedferryError, PushInterrupted, OSError) as exc:
                error = exc
            outcomes = outcomes_of(chunks, receipts.all())
            is_settled = error is None and all(outcome.allows_next for outcome in outcomes)
            if is_settled:
                receipts.finish(datetime.now(UTC).isoformat(timespec="seconds"))
        return PushAccount(
            target=settings.appliance.target,
            outcomes=outcomes,
            earlier_chunks=len(earlier) - len(remaining),
            earlier_bytes=sum(outcome.bytes for outcome in earlier),
            notices=dict(sender.notices),
            stopped=None if is_settled else _stop_reason(error),
            exit_code=_exit_code(error, outcomes),
            waited_seconds=self._gate.waited_seconds,
            seconds=time.monotonic() - started,
        )

    def update_index(self, folder: Path) -> None:
        """Update Thunderstone's search indexes; raise TargetError unless it confirms that.

        This is for a gateway, which has no end; `push` updates them after all chunks. There is no
        receipt, because the caller repeats a request that failed.
        """
        update = write_update(folder / UPDATE_FILE)
        response = self.client.send(whole_chunk(update, folder), feedtype=None)
        verdict = judge_response(self._settings.appliance.protocol, response, 1)
        if verdict.meaning is not ResponseMeaning.ACCEPTED or verdict.refused:
            raise TargetError(verdict.message)

    def _make_gate(self) -> SendGate:
        settings, throttle = self._settings, None
        read_backlog = settings.appliance.protocol.read_backlog
        if read_backlog is not None:
            throttle = BacklogThrottle(
                lambda: read_backlog(self.client.backlog()),
                settings.backlog,
                clock=time.monotonic,
                notify=self._progress.notify,
            )
        left = settings.deadline and settings.deadline - time.time()
        return SendGate(
            stop=self._stop,
            clock=time.monotonic,
            now=lambda: datetime.now().astimezone(),
            notify=self._progress.notify,
            throttle=throttle,
            window=settings.window,
            deadline=left and time.monotonic() + left,
            max_wait_seconds=settings.max_wait_seconds,
        )

    def _check_rejects(self, earlier: Sequence[ChunkOutcome], remaining: Sequence[Chunk]) -> None:
        """Raise TooManyRejectsError if earlier pushes had more refused records than allowed."""
        limit = self._settings.max_rejects
        refused = sum(outcome.refused for outcome in earlier)
        if remaining and limit is not None and refused > limit:
            raise TooManyRejectsError(
                f"{refused} records were refused by earlier pushes; expected at most {limit}, the "
                "limit of --max-rejects: raise it to continue"
            )

    def _connect(self, remaining: Sequence[Chunk]) -> None:
        """Request the backlog until there is a connection; raise TargetError if there is none.

        A wrong address is so reported within minutes, while a backlog is waited for by the hour.
        """
        if not remaining or self._is_reached:
            return
        pauses = RetryPauses(self._settings.retry)
        while (response := self.client.backlog()).status is None and response.is_unsent:
            seconds = None if response.is_permanent else pauses.next_seconds()
            if seconds is None:
                raise TargetError(response.error)
            self._progress.notify(f"{response.error}; next attempt in {seconds:.0f} s")
            if not self._gate.pause(seconds):
                raise PushInterrupted
        self._is_reached = True

    def _send(self, chunks: Sequence[Chunk], sender: ChunkSender) -> None:
        """Send the datasources in parallel, at most `jobs` at a time; raise the first error.

        The first error ends the other datasources after their current chunk. Chunks without a
        datasource are sent one after another, so the last of them is sent after all others.
        """
        by_source: dict[tuple[str | None, str | None] | None, list[Chunk]] = {}
        for chunk in chunks:
            key = (chunk.format, chunk.datasource) if chunk.datasource else None
            by_source.setdefault(key, []).append(chunk)
        waiting = SimpleQueue[Sequence[Chunk]]()
        for of_source in by_source.values():
            waiting.put(of_source)
        errors: list[Exception] = []

        def work() -> None:
            try:
                while not self._stop.is_set:
                    for chunk in waiting.get_nowait():
                        sender.send(chunk)
            except Empty:
                return
            except Exception as exc:  # raised when all threads have ended
                errors.append(exc)
                self._stop.stop()

        count = min(self._settings.jobs, len(by_source))
        threads = [threading.Thread(target=work, daemon=True) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():  # a signal just before the wait is handled after it
                thread.join(_JOIN_SECONDS)
        if errors:
            raise errors[0]


def receipts_of(
    planned: Sequence[Chunk], folder: Path, settings: PushSettings, *, disk: Disk = DISK
) -> Receipts:
    """Return the receipts of the planned chunks of a run; they are opened by a `with` block."""
    identity = [(chunk.sha256, chunk.datasource, chunk.feedtype) for chunk in planned]
    return Receipts(
        folder,
        target=settings.appliance.target,
        run=hashlib.sha256(msgspec.json.encode(identity)).hexdigest()[:16],
        replay=settings.replay,
        disk=disk,
    )


def _stop_reason(error: Exception | None) -> str:
    return INTERRUPTED if error is None or isinstance(error, PushInterrupted) else str(error)


def _exit_code(error: Exception | None, outcomes: Sequence[ChunkOutcome]) -> int:
    if isinstance(error, FeedferryError):
        return error.exit_code
    if isinstance(error, OSError):
        return FatalError.exit_code
    has_refusals = any(
        outcome.state in (ChunkState.PARTLY_ACCEPTED, ChunkState.REFUSED) for outcome in outcomes
    )
    return 1 if has_refusals else 0
