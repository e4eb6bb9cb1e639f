"""What a push is told."""

import enum

import msgspec

from transforms.sinks.push.model import REQUEST_BYTES_LIMIT, Appliance
from transforms.sinks.push.throttle.backlog import BacklogLimits
from transforms.sinks.push.throttle.backoff import Backoff
from transforms.sinks.push.throttle.schedule import Rate, SendWindow


class OnRefusal(enum.Enum):
    """What becomes of a chunk that the appliance refuses as it stands.

    BISECT halves it until the records that are refused stand alone, where the answer allows that,
    and stops where it does not; STOP ends the push there; SKIP sets the chunk aside, and goes on.
    """

    BISECT = "bisect"
    STOP = "stop"
    SKIP = "skip"


class Keep(enum.Enum):
    """Which chunk files stay when they were pushed: all, as an archive, or what was refused."""

    ALL = "all"
    REFUSED = "refused"


class GroupsMode(enum.Enum):
    """What becomes of the groups that an appliance has of a groupsource that is pushed.

    AS_STATED: what the feedtype of each groups feed says. REPLACE: they are replaced by the first
    feed. CLEANUP: a request removes them before the first feed. Groups of other sources stay.
    """

    AS_STATED = "as-stated"
    REPLACE = "replace"
    CLEANUP = "cleanup"


class PushSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How chunks are pushed, and how long it may take.

    `jobs` datasources are pushed side by side. `deadline` is a moment in seconds since the epoch
    behind which nothing is begun; `max_wait_seconds` bounds all waiting for a backlog or a disk
    together. A request is below `max_request_bytes`. `replay` sends again what was accepted.
    Thunderstone's search indexes are updated at the end, unless `update_index` is false.
    `can_empty` allows a full feed without records, which empties its datasource. `groups_mode` is
    of groups feeds only.
    """

    appliance: Appliance
    on_refusal: OnRefusal = OnRefusal.BISECT
    jobs: int = 1
    backlog: BacklogLimits = BacklogLimits()
    backoff: Backoff = Backoff()
    window: SendWindow | None = None
    rate: Rate | None = None
    deadline: float | None = None
    max_wait_seconds: float | None = 24 * 3600.0
    max_request_bytes: int = REQUEST_BYTES_LIMIT
    max_rejects: int | None = None
    keep: Keep = Keep.ALL
    replay: bool = False
    update_index: bool = True
    can_empty: bool = False
    groups_mode: GroupsMode = GroupsMode.AS_STATED
