"""What a receiver takes, converted and pushed to another appliance as it comes.

Each delivery is a small run of its own in `SPOOL/forward/`, converted as `convert` does and pushed
as `push` does, strictly in the order of arrival. What cannot be forwarded now is tried again, and
holds back all behind it: the backlog that the receiver reports grows with it, so that clients slow
down by themselves.
"""

import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from pipelines.options import ConvertOptions
from pipelines.publish import publish
from pipelines.push import folder_of, read_manifest, settle
from pipelines.settings import check_account, settings_of
from schemas.account import Chunk, merge
from schemas.delivery import Delivery, Door
from schemas.errors import FeedferryError, TargetError
from schemas.feed import FULL
from transforms.convert import convert
from transforms.sinks.files import whole_file
from transforms.sinks.push import replies_gsa
from transforms.sinks.push.model import Kind, Meaning
from transforms.sinks.push.pace import Stop
from transforms.sinks.push.push import Places, Pusher
from transforms.sinks.push.settings import Keep, PushSettings
from transforms.sinks.push.watch import Watch
from transforms.sources.files import cut_file
from transforms.sources.spool import CLEANUP, REPLACE, Selection, read_deliveries, spans_of

FORWARD = "forward"
"""Folder of a spool where what is forwarded stands, a run for each delivery."""

FORWARDED = "forwarded"
"""Its file that holds the ordinal of the last delivery that needs nothing more."""

FIRST_PAUSE_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 300.0

_LOOK_SECONDS = 1.0
_TO = {
    Kind.FEEDERGATE: {Door.FEED: "gsa-feed", Door.GROUPS: "gsa-groups", Door.DATA: "gsa-feed"},
    Kind.RECVDATA: {Door.FEED: "thunderstone", Door.DATA: "thunderstone"},
}


class Gateway:
    """Forwards the deliveries of a spool from a thread of its own while its block runs.

    `options` are those of each conversion. Safe from several threads.
    """

    def __init__(
        self,
        spool: Path,
        options: ConvertOptions,
        settings: PushSettings,
        *,
        tell: Callable[[str], None],
    ) -> None:
        self._spool = spool
        self._folder = spool / FORWARD
        self._options = options
        self._settings = replace(settings, keep=Keep.REFUSED, max_wait_seconds=None)
        self._tell = tell
        self._stop = Stop()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._work, name="gateway", daemon=True)
        self._lock = threading.Lock()
        self._waiting: deque[Delivery] = deque()
        self._last = self._read_last()
        self._seen = self._last

    def __enter__(self) -> "Gateway":
        self._folder.mkdir(parents=True, exist_ok=True)
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ending.set()
        self._stop.drain()
        self._thread.join()

    def backlog(self) -> int:
        """How many deliveries are not forwarded yet."""
        with self._lock:
            for delivery in read_deliveries(self._spool, after=self._seen):
                self._waiting.append(delivery)
                self._seen = delivery.ordinal
            return len(self._waiting)

    def _work(self) -> None:
        failed = 0
        while not self._ending.is_set():
            begun = self._last
            try:
                with Pusher(self._settings, stop=self._stop, watch=Watch(self._tell)) as pusher:
                    self._follow(pusher)
            except (FeedferryError, OSError) as exc:
                failed = 0 if self._last > begun else failed + 1
                pause = min(FIRST_PAUSE_SECONDS * 2 ** min(failed, 10), LONGEST_PAUSE_SECONDS)
                self._tell(f"not forwarded: {exc}; tried again in {pause:.0f} s")
                self._ending.wait(pause)
                self._stop = Stop()

    def _follow(self, pusher: Pusher) -> None:
        """Forward what there is and what comes, until it is told to end."""
        while not self._ending.wait(0 if self.backlog() else _LOOK_SECONDS):
            if self._waiting:
                delivery = self._waiting[0]
                self._forward(delivery, pusher)
                self._note(delivery.ordinal)

    def _forward(self, delivery: Delivery, pusher: Pusher) -> None:
        to_format = _TO[self._settings.appliance.kind].get(delivery.door)
        if to_format is None:
            self._tell(f"{_name(delivery)}: groups, which Thunderstone has no place for; left out")
        elif delivery.feedtype == CLEANUP:
            self._clean_up(delivery, pusher)
        else:
            self._push(delivery, self._convert(delivery, to_format), pusher)

    def _clean_up(self, delivery: Delivery, pusher: Pusher) -> None:
        verdict = replies_gsa.judge(pusher.wire.cleanup(delivery.datasource))
        if verdict.meaning is not Meaning.ACCEPTED:
            raise TargetError(f"{_name(delivery)}: {verdict.message}")

    def _convert(self, delivery: Delivery, to_format: str) -> Path:
        """Make a run of a delivery, unless it stands; return its folder."""
        output = self._folder / f"{delivery.ordinal:012d}"
        if (output / "report.json").exists():
            return output
        work = output / ".work"
        work.mkdir(parents=True, exist_ok=True)
        options = replace(self._options, output=str(output), to_format=to_format)
        if delivery.door is Door.DATA and to_format == "gsa-feed":
            options = replace(options, datasource=delivery.profile)
        settings = settings_of(options, (), work, {})
        [span] = spans_of(
            Selection(deliveries=(delivery,)), source=str(self._spool), root=str(self._spool)
        )
        parts = cut_file(span, span_bytes=options.span_bytes)
        account = merge(convert(part, settings) for part in parts)
        check_account(account)
        report = publish(account, settings, output=output, spans=[span])
        if report.exit_code:
            self._tell(f"{_name(delivery)}: {report.account.rejected} rejected, in {output}")
        return output

    def _push(self, delivery: Delivery, root: Path, pusher: Pusher) -> None:
        chunks = [_restated(chunk, delivery) for chunk in read_manifest(root)]
        folder = folder_of(root, self._settings)
        pushed = pusher.push(chunks, Places(root=root, folder=folder))
        settle(root, pushed, self._settings)
        if pushed.stopped is not None:
            raise TargetError(f"{_name(delivery)}: {pushed.stopped}")
        refused = sum(fate.refused for fate in pushed.fates)
        if refused:
            self._tell(f"{_name(delivery)}: {refused} records refused, in {root}/rejects/")

    def _read_last(self) -> int:
        path = self._folder / FORWARDED
        return int(path.read_text()) if path.exists() else 0

    def _note(self, ordinal: int) -> None:
        with whole_file(self._folder / FORWARDED) as stream:
            stream.write(b"%d\n" % ordinal)
        self._last = ordinal
        with self._lock:
            self._waiting.popleft()


def _restated(chunk: Chunk, delivery: Delivery) -> Chunk:
    """Groups that replace those of their source, and no others, are sent so again."""
    is_replaced = delivery.feedtype == REPLACE and chunk.feedtype == FULL
    return replace(chunk, feedtype=REPLACE) if is_replaced else chunk


def _name(delivery: Delivery) -> str:
    return f"delivery {delivery.ordinal} of {delivery.datasource or delivery.profile!r}"
