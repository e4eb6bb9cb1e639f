"""What an appliance does before and after the chunks of a run: each step once, with a receipt.

A step has a receipt before it begins, and one when it is done, which are on the disk before the
push continues. So a push that is continued does the steps that are not done; an appliance makes
steps that may be begun twice. If the receipts of the chunks are removed, so are those of the steps.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from feedferry.schemas.account import Chunk
from feedferry.schemas.errors import TargetError
from feedferry.schemas.receipt import StepReceipt
from feedferry.schemas.setting import in_flags
from feedferry.schemas.share_limit import ShareLimit
from feedferry.transforms.net.retry import RetryPauses
from feedferry.transforms.sinks.push.model import (
    MAX_REPLY_LETTERS,
    ApplianceResponse,
    ResponseMeaning,
    open_chunk_file,
)
from feedferry.transforms.sinks.push.outcome import PushProgress
from feedferry.transforms.sinks.push.settings import PushSettings
from feedferry.transforms.sinks.push.throttle.gate import SendGate
from feedferry.transforms.sinks.push.wire.body import RequestBody
from feedferry.transforms.sinks.push.wire.client import ApplianceClient
from feedferry.transforms.sinks.push.wire.protocol import Appliance
from feedferry.transforms.sinks.push.wire.reader import TargetReader
from feedferry.transforms.sinks.push.wire.responses import judge_response, retry_after_seconds

_UNLIMITED = (ResponseMeaning.FULL_DISK, ResponseMeaning.UNFINISHED)
"""What is waited for until the push has to end."""


class PushInterrupted(Exception):  # noqa: N818 - no error: the operator asked for it
    """The push was asked to end after the current chunk."""

    def __str__(self) -> str:
        return "stopped after the current chunk; push again to continue"


def send_until_accepted(
    client: ApplianceClient,
    gate: SendGate,
    settings: PushSettings,
    request: tuple[str, str, RequestBody | None],
    *,
    is_below_address: bool = True,
) -> str:
    """Send a request, a method, a path and a body, until it is accepted; return the words of it.

    Raise TargetError if it is refused, or if the attempts are used up, and PushInterrupted if the
    push is asked to end.
    """
    pauses = RetryPauses(settings.retry)
    while True:
        response = client.request(*request, is_below_address=is_below_address)
        verdict = judge_response(settings.appliance.protocol, response, None)
        if verdict.meaning is ResponseMeaning.ACCEPTED and not verdict.refused:
            return verdict.message
        seconds = None
        if verdict.meaning is ResponseMeaning.RETRY or verdict.meaning in _UNLIMITED:
            seconds = pauses.next_seconds(
                at_least=retry_after_seconds(response),
                is_limited=verdict.meaning not in _UNLIMITED,
            )
        if seconds is None:
            words = (refusal.words for refusal in verdict.refused)
            raise TargetError(": ".join([verdict.message, *words][:2]))
        gate.notify(f"{verdict.message}; next attempt in {seconds:.0f} s")
        if not gate.pause(seconds):
            raise PushInterrupted


class RunSteps:
    """The steps of one push or replay of a run; its folder is locked.

    `last` has the last receipt of each step, and `add` stores another one. `claim` is called before
    each step that is not done. It raises ConfigError or BusyError if the run must not change the
    appliance.
    """

    def __init__(
        self,
        last: Mapping[str, StepReceipt],
        add: Callable[[StepReceipt], object],
        *,
        claim: Callable[[], object] = lambda: None,
    ) -> None:
        self._last, self._add, self._claim = last, add, claim

    @property
    def done(self) -> dict[str, str]:
        """The replies to the steps that are done, in their order."""
        return {name: last.reply for name, last in self._last.items() if last.is_done}

    def run(self, name: str, action: Callable[[], str]) -> str:
        """Return the reply to a step, which is done if no earlier push has done it."""
        last = self._last.get(name)
        if last is not None and last.is_done:
            return last.reply
        self._claim()
        self._add(StepReceipt(step=name, at=_now()))
        reply = in_flags(action())[:MAX_REPLY_LETTERS]
        self._add(StepReceipt(step=name, is_done=True, reply=reply, at=_now()))
        return reply


class PushSession:
    """A run at an appliance, as the appliance sees it before and after its chunks.

    `chunks` are those of the run, whose paths are relative to `root`; `folder` is that of the push,
    with its receipts. When all of them are settled,
    `refused` is the number of records that were refused, and `accepted_refusals` how many of them
    the operator has accepted. `earlier` is what the run before it has begun with (see
    `RunSession`).
    """

    chunks: Sequence[Chunk] = ()
    earlier: object = None
    root = folder = Path()
    refused = accepted_refusals = 0

    def __init__(
        self,
        settings: PushSettings,
        client: ApplianceClient,
        gate: SendGate,
        *,
        steps: RunSteps,
        progress: PushProgress | None = None,
    ) -> None:
        self._settings, self._client, self._gate, self._steps = settings, client, gate, steps
        self._progress = progress

    @property
    def appliance(self) -> Appliance:
        return self._settings.appliance

    @property
    def max_widened(self) -> ShareLimit | None:
        """The most documents that may become visible to more users."""
        return self._settings.max_widened

    def open(self, chunk: Chunk) -> AbstractContextManager[IO[bytes]]:
        """Open the file of a chunk; raise SourceError if it cannot be read."""
        return open_chunk_file(self.root / chunk.path)

    def step(self, name: str, action: Callable[[], str]) -> str:
        """Do a step, unless an earlier push has done it; return its reply."""
        try:
            return self._steps.run(name, action)
        finally:
            self.show("")

    def show(self, progress: str) -> None:
        """Show the progress of a step, until the step ends."""
        if self._progress is not None:
            self._progress.step = progress

    def send(
        self,
        path: str,
        body: RequestBody | None,
        *,
        method: str = "POST",
        is_below_address: bool = True,
    ) -> str:
        """Send a request until it is accepted; return the words of the appliance.

        Raise TargetError if it is refused, or if the attempts are used up, and PushInterrupted if
        the push is asked to end.
        """
        return send_until_accepted(
            self._client,
            self._gate,
            self._settings,
            (method, path, body),
            is_below_address=is_below_address,
        )

    def request(
        self,
        path: str,
        body: RequestBody | None = None,
        *,
        method: str = "GET",
        is_below_address: bool = True,
    ) -> ApplianceResponse:
        """Return a response of any status; raise TargetError if there is none."""
        reader = TargetReader(self.appliance, self._client)
        return reader.request(path, body, method=method, is_below_address=is_below_address)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
