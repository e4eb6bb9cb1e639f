"""The settings of a push."""

import enum

import msgspec

from feedferry.schemas.share_limit import ShareLimit
from feedferry.transforms.net.retry import RetryPolicy
from feedferry.transforms.sinks.push.throttle.backlog import BacklogLimits
from feedferry.transforms.sinks.push.throttle.window import SendWindow
from feedferry.transforms.sinks.push.wire.protocol import Appliance, Hide


class OnRefusal(enum.Enum):
    """What to do with a chunk that the appliance refuses."""

    BISECT = "bisect"
    """Halve it until the refused records are alone; stop if the response does not allow that."""

    STOP = "stop"
    SKIP = "skip"
    """Set the chunk aside and continue."""


class Keep(enum.Enum):
    """Which chunk files stay after the push."""

    ALL = "all"
    REFUSED = "refused"


class SeveralFull(enum.Enum):
    """What to do with several full feeds of one datasource; each deletes the one before it."""

    REFUSE = "refuse"
    FIRST = "first"
    """They are one feed in several files: all but the first are sent as incremental."""

    EACH = "each"
    """They are sent as they are."""


class PushSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How chunks are pushed.

    Up to `jobs` datasources are pushed in parallel. No chunk is begun after `deadline`, in seconds
    since the epoch. `max_wait_seconds` limits all waiting for the appliance together. Without
    `finish`, the caller does what ends a run.
    `allow_empty_full` allows a full feed without records, which empties its datasource. With
    `replay`, the chunks of a finished push are sent again. `groups_mode` is the feedtype of the
    first groups feed of each groupsource, `replace` or `cleanup`; without it, feedtypes are as
    stated. `accepted_rejects` is the path of a list of known rejects. With `allow_older`, a run is
    pushed although a newer one was. With `withhold`, an appliance that can do so shows the earlier
    versions of refused documents to no user. `max_widened` limits how many documents of a search
    server become visible to more users.
    """

    appliance: Appliance
    on_refusal: OnRefusal = OnRefusal.BISECT
    jobs: int = 1
    backlog: BacklogLimits = BacklogLimits()
    retry: RetryPolicy = RetryPolicy()
    window: SendWindow | None = None
    deadline: float | None = None
    max_wait_seconds: float | None = 24 * 3600.0
    max_rejects: int | None = None
    keep: Keep = Keep.ALL
    finish: bool = True
    allow_empty_full: bool = False
    replay: bool = False
    groups_mode: str | None = None
    accepted_rejects: str | None = None
    allow_older: bool = False
    withhold: bool = True
    max_widened: ShareLimit | None = None

    @property
    def hide(self) -> Hide | None:
        """Return what makes a request that hides documents, None if refused ones stay visible."""
        return self.appliance.protocol.hide if self.withhold else None
