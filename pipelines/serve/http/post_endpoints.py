"""What clients post, checked as an appliance checks it, and kept in the spool.

An appliance does not look into a feed before it says Success, and reports what is wrong with its
records later. So does this one. Thunderstone data is answered record by record, as there.
"""

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from threading import Lock
from typing import IO
from xml.sax.saxutils import escape

import msgspec

from pipelines.serve.appliance_replies import AT_CAPACITY, DISK_FULL, SUCCESS
from pipelines.serve.http import forms
from pipelines.serve.http.exchange import RefusedError, Reply, Request
from pipelines.serve.rehearsal import thunderstone_result
from pipelines.serve.rehearsal.digest import Interrupted
from pipelines.serve.rehearsal.groups import CAPACITY_BYTES
from pipelines.serve.rehearsal.index import Index
from pipelines.serve.rehearsal.set_aside import DEFAULT_LIMIT, TimeLimit
from pipelines.serve.spool_writer import FullError, Intake, Spool
from schemas.delivery import Delivery, Door
from schemas.errors import FormatError
from schemas.feed import CLEANUP, FEEDTYPES, FULL, INCREMENTAL, REPLACE
from transforms.formats.base import ReadOptions

_GROUPSOURCES = ("groupsource", CLEANUP, REPLACE)
_FIELDS = {
    Door.FEED: ("datasource", "feedtype"),
    Door.GROUPS: (*_GROUPSOURCES, "feedtype"),
    Door.DATA: ("profile",),
}
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,249}", re.ASCII)
_A_NAME = "expected a letter or _, then letters, digits, _ and -, at most 250"
_KEPT_AGENT = 200
_LOOK_BYTES = 1 << 20
_log = logging.getLogger(__name__)


class Posted(msgspec.Struct, frozen=True, kw_only=True):
    """A form as it came: its small fields, and its feed in a file."""

    fields: dict[str, str]
    intake: Intake
    refused_urls: frozenset[str]
    delivery: Delivery


class Posts:
    """Takes forms into a spool; safe from several threads.

    `arrived` is told after each. `profiles` are those that exist; none named: any. Data that is not
    read within its limit is refused, and nothing of it kept.
    """

    def __init__(  # noqa: PLR0913 - where data is kept, whom it is told, and its bounds
        self,
        spool: Spool,
        index: Index,
        *,
        arrived: Callable[[], object],
        profiles: tuple[str, ...] = (),
        reading: ReadOptions = ReadOptions(),
        limit: TimeLimit = DEFAULT_LIMIT,
    ) -> None:
        self._options = reading
        self._limit = limit
        self._spool = spool
        self._index = index
        self._arrived = arrived
        self._profiles = profiles
        self._reading = Lock()  # one document in memory, whatever the number of connections
        self._take = {
            Door.FEED: self._take_feed,
            Door.GROUPS: self._take_groups,
            Door.DATA: self._take_data,
        }

    def take(
        self,
        door: Door,
        request: Request,
        blocks: Iterator[bytes],
        *,
        refused_urls: frozenset[str] = frozenset(),
    ) -> Reply:
        """Return what is answered, once what is kept is durable; raise RefusedError."""
        try:
            self._spool.check_room(request.length or 0)
            with self._spool.open_intake() as intake:
                kind = request.header("content-type")
                fields = forms.read(blocks, kind, known=_FIELDS[door], write=intake.write)
                posted = Posted(
                    fields=fields,
                    intake=intake,
                    refused_urls=refused_urls,
                    delivery=_delivery(door, request),
                )
                return self._take[door](posted)
        except FullError:
            return (
                _data_refusal(thunderstone_result.FAIL)
                if door is Door.DATA
                else Reply(body=DISK_FULL.encode())
            )

    def _take_feed(self, posted: Posted) -> Reply:
        datasource = _name("datasource", posted.fields)
        feedtype = posted.fields.get("feedtype", "")
        _check_feedtype(feedtype, FEEDTYPES)
        _check_content(posted)
        self._keep(posted, datasource=datasource, feedtype=feedtype)
        return Reply(body=SUCCESS.encode())

    def _take_groups(self, posted: Posted) -> Reply:
        """Deployed clients name the groupsource in a field that says what becomes of it."""
        given = [field for field in _GROUPSOURCES if field in posted.fields]
        if len(given) != 1:
            named = " and ".join(given) or "no groupsource"
            raise RefusedError(400, f"{named}; expected one of {', '.join(_GROUPSOURCES)}")
        groupsource = _name(given[0], posted.fields)
        if given[0] == CLEANUP:
            return self._clean_up(posted, groupsource)
        # The guide's own client sends no feedtype.
        feedtype = posted.fields.get("feedtype") or INCREMENTAL
        _check_feedtype(feedtype, (FULL, INCREMENTAL))
        _check_content(posted)
        if self._index.groups_bytes() + posted.intake.bytes > CAPACITY_BYTES:
            return Reply(body=AT_CAPACITY.encode())
        feedtype = REPLACE if given[0] == REPLACE else feedtype
        self._keep(posted, datasource=groupsource, feedtype=feedtype)
        return Reply(body=SUCCESS.encode())

    def _clean_up(self, posted: Posted, groupsource: str) -> Reply:
        if posted.intake.bytes:
            raise RefusedError(400, "cleanup and data; expected one of them")
        delivery = msgspec.structs.replace(
            posted.delivery, datasource=groupsource, feedtype=CLEANUP
        )
        self._spool.commit(delivery)
        self._arrived()
        return Reply(body=SUCCESS.encode())

    def _take_data(self, posted: Posted) -> Reply:
        profile = posted.fields.get("profile", "")
        if not profile or (self._profiles and profile not in self._profiles):
            return _data_refusal(thunderstone_result.NO_PROFILE)
        try:
            result = self._result(posted, profile)
        except FormatError:
            return _data_refusal(thunderstone_result.NO_DATA)
        except Interrupted:
            limit = self._limit.of(posted.intake.bytes)
            _log.error(
                "data of %r, %s bytes: not read after %.0f seconds; answered %s, nothing of it is"
                " kept", profile, posted.intake.bytes, limit, thunderstone_result.FAIL,
            )  # fmt: skip
            return _data_refusal(thunderstone_result.FAIL)
        with ExitStack() as opened:
            opened.enter_context(result)
            self._keep(posted, profile=profile, refused=tuple(sorted(posted.refused_urls)))
            opened.pop_all()
        return Reply(body=result, content_type="text/xml")

    def _result(self, posted: Posted, profile: str) -> IO[bytes]:
        with self._reading, posted.intake.open() as stream:
            end = time.monotonic() + self._limit.of(posted.intake.bytes)
            return thunderstone_result.result(
                stream,
                is_over=lambda: time.monotonic() > end,
                refused_urls=posted.refused_urls,
                is_held=partial(self._index.holds, profile=profile),
                count_fitting=partial(self._index.count_fitting, profile=profile),
                options=self._options,
            )

    def _keep(self, posted: Posted, **fields: object) -> None:
        self._spool.commit(msgspec.structs.replace(posted.delivery, **fields), posted.intake)
        self._arrived()


def _delivery(door: Door, request: Request) -> Delivery:
    return Delivery(
        ordinal=0,
        door=door,
        path=None,
        bytes=0,
        at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        client=request.client,
        user_agent=request.header("user-agent")[:_KEPT_AGENT],
    )


def _name(field: str, fields: Mapping[str, str]) -> str:
    if field not in fields:
        raise RefusedError(400, f"{field}: not given; {_A_NAME}")
    if not _NAME.fullmatch(fields[field]):
        raise RefusedError(400, f"{field}: {fields[field]!r}; {_A_NAME}")
    return fields[field]


def _check_feedtype(feedtype: str, among: tuple[str, ...]) -> None:
    if feedtype not in among:
        raise RefusedError(400, f"feedtype: {feedtype!r}; expected {' or '.join(among)}")


def _check_content(posted: Posted) -> None:
    """Refuse what is empty, and what a scenario wants to be refused."""
    if not posted.intake.bytes:
        raise RefusedError(400, "data: nothing; expected a feed")
    url = _first_held(posted.intake, posted.refused_urls) if posted.refused_urls else None
    if url is not None:
        raise RefusedError(400, f"malformed feed: {url!r}; expected a feed without it")


def _first_held(intake: Intake, urls: frozenset[str]) -> str | None:
    """Return the first of the urls that stands in the feed as a whole value."""
    spelt = {escape(url, {'"': "&quot;"}).encode(): url for url in urls}
    pattern = re.compile(rb"[\"'>]\s*(" + b"|".join(map(re.escape, sorted(spelt))) + rb")\s*[\"'<]")
    kept = max(map(len, spelt)) + 2
    tail = b""
    with intake.open() as stream:
        while block := stream.read(_LOOK_BYTES):
            if match := pattern.search(tail + block):
                return spelt[match[1]]
            tail = (tail + block)[-kept:]
    return None


def _data_refusal(status: str) -> Reply:
    return Reply(body=thunderstone_result.refusal(status), content_type="text/xml")
