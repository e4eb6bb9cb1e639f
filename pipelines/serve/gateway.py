"""What a receiver takes, converted and pushed to another appliance as it comes.

Each datasource, groupsource and profile has a lane of its own, strictly in the order of arrival.
What cannot be forwarded now is tried again, and holds back what is behind it in its lane; the
others go on. The backlog that the receiver reports is what is not forwarded, so that clients slow
down by themselves.
"""

import logging
import math
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Self

from msgspec.structs import replace

from pipelines.cli.convert_options import ConvertOptions
from pipelines.serve.delivery_conversion import Conversion
from pipelines.serve.forward_journal import FORWARDED, Forwarded, Ledger, State
from pipelines.serve.forwarder import FORWARD, Forwarder, Voice, name
from pipelines.serve.rehearsal.set_aside import By, SetAside, again, superseding
from schemas.delivery import JOURNAL, Delivery, Door
from schemas.errors import ConfigError, FeedferryError, StoppedError
from transforms.sinks.push.model import ApplianceProtocol
from transforms.sinks.push.progress import PushProgress
from transforms.sinks.push.pusher import Pusher
from transforms.sinks.push.settings import Keep, PushSettings
from transforms.sinks.push.throttle.gate import StopSignal
from transforms.sources.spool import name_of, read_deliveries

FIRST_PAUSE_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 300.0
DRAIN_SECONDS = 30.0
"""How long a delivery that is under way may take when the gateway stops."""

UPDATE_SECONDS = 60.0
"""Thunderstone's search indexes are updated no more often."""

_LOOK_SECONDS = 1.0
_MOST_SET_ASIDE = 1000
_log = logging.getLogger(__name__)


@dataclass
class _Lane:
    """What waits of one datasource, and until when it is held back, by the monotonic clock."""

    waiting: deque[Delivery] = field(default_factory=deque)
    failed: int = 0
    until: float = 0.0


class Gateway:
    """Forwards the deliveries of a spool from a thread of its own while its block runs.

    `options` are those of each conversion. `conversion` is closed at the end. Safe from several
    threads.
    """

    def __init__(
        self,
        spool: Path,
        options: ConvertOptions,
        settings: PushSettings,
        voice: Voice,
        conversion: Conversion | None = None,
    ) -> None:
        self._spool = spool
        self._settings = replace(
            settings,
            keep=Keep.REFUSED,
            max_wait_seconds=None,
            can_empty=True,
            update_index=False,
        )
        self._options = options
        self._conversion = conversion or Conversion()
        self._voice = voice
        self._tell, self._remark = voice
        self._stop = StopSignal()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._work, name="gateway", daemon=True)
        self._lock = threading.Lock()
        self._lanes: dict[tuple[Door, str], _Lane] = {}
        self._seen = 0
        self._is_stale = False
        self._updated = -math.inf
        self._retries: deque[int] = deque()

    def __enter__(self) -> Self:
        with self._lock:
            self._check_order()
            self._forwarder.sweep()
            self._is_stale = self._ledger.settled > 0  # it may have ended before it was updated
            if self._ledger.set_aside:
                self._remark(f"{self._ledger.set_aside} deliveries are set aside so far")
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ending.set()
        self._stop.drain()
        self._thread.join(DRAIN_SECONDS)
        self._conversion.stop()
        self._thread.join(_LOOK_SECONDS)
        if self._thread.is_alive():  # as if killed: receipts say what is to be sent again
            self._tell("what is under way has no answer yet; it is sent again at the next start")
        else:
            self._ledger.close()
        self._conversion.close()

    def retry(self, ordinal: int) -> None:
        """Forward again a delivery that is set aside, and what came after it of its name."""
        with self._lock:
            self._retries.append(ordinal)

    def set_aside(self) -> list[SetAside]:
        """Return what is set aside, in order of arrival, at most as much as a page shows."""
        with self._lock:
            aside = sorted(self._ledger.aside.values(), key=lambda one: one.ordinal)
        return [describe(self._spool, one) for one in aside[:_MOST_SET_ASIDE]]

    def backlog(self) -> int:
        """How many deliveries are not forwarded yet."""
        with self._lock:
            self._look()
            return sum(len(lane.waiting) for lane in self._lanes.values())

    @cached_property
    def _ledger(self) -> Ledger:
        """Opened when the receiver has the spool, so that no other gateway writes it."""
        ledger = Ledger(self._spool / FORWARD / FORWARDED)
        self._seen = ledger.open_after
        return ledger

    @cached_property
    def _forwarder(self) -> Forwarder:
        return Forwarder(
            self._spool,
            self._options,
            self._settings,
            self._voice,
            self._ledger,
            conversion=self._conversion,
        )

    def _check_order(self) -> None:
        """Raise ConfigError for a journal that ends before what is settled: numbers come again."""
        last = self._ledger.last
        if last and not any(True for _ in read_deliveries(self._spool, after=last - 1)):
            raise ConfigError(
                f"{self._spool / FORWARD / FORWARDED}: tells of delivery {last}, and {JOURNAL} ends"
                " before that; expected its line there: bring it back, as what comes next would"
                " have its number, and count as forwarded"
            )

    def _look(self) -> None:
        """Put what has come into its lane."""
        ledger = self._ledger
        for delivery in read_deliveries(self._spool, after=self._seen):
            if not ledger.is_settled(delivery.ordinal):
                lane = self._lanes.setdefault((delivery.door, name_of(delivery)), _Lane())
                lane.waiting.append(replace(delivery, client="", user_agent=""))
            self._seen = delivery.ordinal

    def _reopen(self, ordinal: int) -> None:
        """Put a delivery that is set aside, and all after it of its name, into its lane again.

        The later ones are forwarded again too: older records must not overwrite newer ones.
        """
        ledger = self._ledger
        if ordinal not in ledger.aside:
            return
        repeated = again(read_deliveries(self._spool, after=ordinal - 1), ordinal)
        done = [one for one in repeated if ledger.is_settled(one.ordinal)]
        if not done:
            return
        forwarded = [one for one in done[1:] if one.ordinal not in ledger.aside]
        later = superseding((*done[:1], *forwarded))
        if later is not None:
            self._drop(done[0], f"superseded by delivery {later.ordinal}")
            return
        for delivery in done:
            ledger.note(
                Forwarded(ordinal=delivery.ordinal, state=State.RETRIED, settled=0, at=_now())
            )
            self._forwarder.forget(delivery.ordinal)
        lane = self._lanes.setdefault((done[0].door, name_of(done[0])), _Lane())
        lane.waiting.extendleft(replace(one, client="", user_agent="") for one in reversed(done))
        lane.until = 0.0

    def _drop(self, delivery: Delivery, reason: str) -> None:
        """Note that a delivery that was set aside is of no more use."""
        ordinal, state = delivery.ordinal, State.LEFT_OUT
        self._ledger.note(
            Forwarded(ordinal=ordinal, state=state, settled=0, reason=reason, at=_now())
        )
        self._remark(f"{name(delivery)}: {reason}; not forwarded")

    def _work(self) -> None:
        while not self._ending.is_set():
            try:
                with Pusher(
                    self._settings, stop=self._stop, watch=PushProgress(self._remark)
                ) as pusher:
                    self._follow(pusher)
            except (FeedferryError, OSError) as exc:
                pause = FIRST_PAUSE_SECONDS
                self._tell(f"nothing is forwarded: {exc}; tried again in {pause:.0f} s")
                self._ending.wait(pause)
            self._stop = StopSignal()

    def _follow(self, pusher: Pusher) -> None:
        """Forward what there is and what comes, until it is told to end or a push was ended."""
        while not (self._ending.is_set() or self._stop.is_drained):
            lane = self._next()
            if lane is None:
                self._update_index(pusher)
                self._ending.wait(_LOOK_SECONDS)
            else:
                self._forward(lane, pusher)

    def _update_index(self, pusher: Pusher) -> None:
        """Let what Thunderstone got be found: when nothing waits, and not too often."""
        is_due = time.monotonic() >= self._updated + UPDATE_SECONDS
        if (
            self._is_stale
            and is_due
            and self._settings.appliance.protocol is ApplianceProtocol.RECVDATA
        ):
            pusher.update_index(self._spool / FORWARD)
            self._is_stale, self._updated = False, time.monotonic()

    def _next(self) -> _Lane | None:
        """Return the lane of what came first, of those that are not held back."""
        with self._lock:
            self._look()
            while self._retries:
                self._reopen(self._retries[0])
                self._retries.popleft()
            now = time.monotonic()
            free = [lane for lane in self._lanes.values() if lane.until <= now]
        in_order = sorted(free, key=lambda lane: lane.waiting[0].ordinal)
        is_ready = self._forwarder.is_ready
        return next((lane for lane in in_order if is_ready(lane.waiting[0])), None)

    def _forward(self, lane: _Lane, pusher: Pusher) -> None:
        delivery = lane.waiting[0]
        try:
            forwarded = self._forwarder.forward(delivery, pusher)
            self._settle(lane, delivery, forwarded)
        except Exception as exc:  # whatever it is, the other lanes are to go on
            self._hold(lane, delivery, exc)
        else:
            self._forwarder.clear(delivery.ordinal)

    def _settle(self, lane: _Lane, delivery: Delivery, forwarded: Forwarded) -> None:
        with self._lock:
            lane.waiting.popleft()
            first = min(
                (one.waiting[0].ordinal for one in self._lanes.values() if one.waiting),
                default=self._seen + 1,
            )
            try:
                self._ledger.note(replace(forwarded, settled=first - 1, at=_now()))
            except OSError:
                lane.waiting.appendleft(delivery)
                raise
            lane.failed = 0
            self._is_stale = True
            if not lane.waiting:
                del self._lanes[delivery.door, name_of(delivery)]

    def _hold(self, lane: _Lane, delivery: Delivery, exc: Exception) -> None:
        """Leave a lane alone for a while, or until somebody has said what is to be."""
        if self._ending.is_set():
            return
        found = str(exc)
        if not isinstance(exc, (FeedferryError, OSError)):
            _log.exception("delivery %s cannot be forwarded", delivery.ordinal)
            found = repr(exc)
        pause = min(FIRST_PAUSE_SECONDS * 2 ** min(lane.failed, 10), LONGEST_PAUSE_SECONDS)
        again = f"tried again in {pause:.0f} s"
        if isinstance(exc, (StoppedError, ConfigError)):
            pause, again = math.inf, "tried again when the gateway is started again"
        lane.failed += 1
        lane.until = time.monotonic() + pause
        self._tell(f"{name(delivery)}: {found}; held back, with all of it that is behind; {again}")


def describe(spool: Path, aside: Forwarded) -> SetAside:
    """Return what is told of a delivery that a gateway has set aside."""
    found = SetAside(
        ordinal=aside.ordinal, by=By.GATEWAY, reason=aside.reason, set_aside_at=aside.at
    )
    delivery = next(read_deliveries(spool, after=aside.ordinal - 1), None)
    if delivery is None or delivery.ordinal != aside.ordinal:
        return found
    return replace(
        found,
        door=delivery.door,
        name=name_of(delivery),
        feedtype=delivery.feedtype,
        bytes=delivery.bytes,
        at=delivery.at,
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
