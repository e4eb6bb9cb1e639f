"""Posted feeds, groups and data: checked as an appliance checks them, and stored in the spool.

An appliance answers Success before it reads a feed, and reports errors of records later; so does
this receiver. Thunderstone data is answered record by record, as the appliance does.
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

from pipelines.serve.http import forms
from pipelines.serve.http.exchange import RefusedError, Reply, Request
from pipelines.serve.rehearsal import thunderstone_result
from pipelines.serve.rehearsal.groups import CAPACITY_BYTES
from pipelines.serve.rehearsal.index import Index
from pipelines.serve.rehearsal.thunderstone_result import DataTimeLimitError, ItemReplies
from pipelines.serve.spool_writer import DiskFullError, IncomingFeed, SpoolWriter
from pipelines.serve.worker_process import DEFAULT_LIMIT, TimeLimit
from schemas.delivery import Delivery, Door
from schemas.errors import FormatError
from schemas.feed import CLEANUP, FEEDTYPES, FULL, INCREMENTAL, REPLACE

# The words of an appliance, to the letter: clients compare them.
SUCCESS = "Success"
DISK_FULL = "Feed not accepted due to insufficient disk space. Contact Google for Work Support."
AT_CAPACITY = "error: group db at capacity."

_GROUPSOURCE_FIELDS = ("groupsource", CLEANUP, REPLACE)
_FIELDS = {
    Door.FEED: ("datasource", "feedtype"),
    Door.GROUPS: (*_GROUPSOURCE_FIELDS, "feedtype"),
    Door.DATA: ("profile",),
}
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,249}", re.ASCII)
_A_NAME = "expected a letter or _, then letters, digits, _ and -, at most 250"
_MAX_AGENT = 200
_BLOCK_BYTES = 1 << 20
_log = logging.getLogger(__name__)


class PostedForm(msgspec.Struct, frozen=True, kw_only=True):
    """A posted form: its small fields, and its feed in a file."""

    fields: dict[str, str]
    intake: IncomingFeed
    refused_urls: frozenset[str]
    delivery: Delivery


class PostEndpoints:
    """Stores posted forms in a spool; safe from several threads.

    `arrived` is called after each. `profiles` are the existing profiles; if it is empty, any
    profile exists. Data that is not read within its time limit is refused and not kept.
    """

    def __init__(
        self,
        spool: SpoolWriter,
        index: Index,
        *,
        arrived: Callable[[], object],
        profiles: tuple[str, ...] = (),
        limit: TimeLimit = DEFAULT_LIMIT,
    ) -> None:
        self._limit = limit
        self._spool = spool
        self._index = index
        self._arrived = arrived
        self._profiles = profiles
        self._reading = Lock()  # one document in memory, for any number of connections
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
        """Return the reply once the delivery is durable; raise RefusedError."""
        delivery = Delivery(
            ordinal=0,
            door=door,
            path=None,
            bytes=0,
            at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            client=request.client,
            user_agent=request.header("user-agent")[:_MAX_AGENT],
        )
        try:
            self._spool.check_room(request.length or 0)
            with self._spool.open_intake() as intake:
                kind = request.header("content-type")
                fields = forms.read_form(blocks, kind, known=_FIELDS[door], write=intake.write)
                form = PostedForm(
                    fields=fields, intake=intake, refused_urls=refused_urls, delivery=delivery
                )
                return self._take[door](form)
        except DiskFullError:
            if door is Door.DATA:
                return _refuse_data(thunderstone_result.FAIL)
            return Reply(body=DISK_FULL.encode())

    def _take_feed(self, form: PostedForm) -> Reply:
        datasource = _name_in("datasource", form.fields)
        feedtype = form.fields.get("feedtype", "")
        _check_feedtype(feedtype, FEEDTYPES)
        _check_content(form)
        self._commit(form, form.intake, datasource=datasource, feedtype=feedtype)
        return Reply(body=SUCCESS.encode())

    def _take_groups(self, form: PostedForm) -> Reply:
        """Deployed clients name the groupsource in the field for what to do with its groups."""
        given = [field for field in _GROUPSOURCE_FIELDS if field in form.fields]
        if len(given) != 1:
            names = " and ".join(given) or "no groupsource"
            raise RefusedError(400, f"{names}; expected one of {', '.join(_GROUPSOURCE_FIELDS)}")
        groupsource = _name_in(given[0], form.fields)
        if given[0] == CLEANUP:
            if form.intake.bytes:
                raise RefusedError(400, "cleanup and data; expected one of them")
            self._commit(form, None, datasource=groupsource, feedtype=CLEANUP)
            return Reply(body=SUCCESS.encode())
        # The guide's own client sends no feedtype.
        feedtype = form.fields.get("feedtype") or INCREMENTAL
        _check_feedtype(feedtype, (FULL, INCREMENTAL))
        _check_content(form)
        if self._index.groups_bytes() + form.intake.bytes > CAPACITY_BYTES:
            return Reply(body=AT_CAPACITY.encode())
        feedtype = REPLACE if given[0] == REPLACE else feedtype
        self._commit(form, form.intake, datasource=groupsource, feedtype=feedtype)
        return Reply(body=SUCCESS.encode())

    def _take_data(self, form: PostedForm) -> Reply:
        profile = form.fields.get("profile", "")
        if not profile or (self._profiles and profile not in self._profiles):
            return _refuse_data(thunderstone_result.NO_PROFILE)
        try:
            result = self._reply_to_items(form, profile)
        except FormatError:
            return _refuse_data(thunderstone_result.NO_DATA)
        except DataTimeLimitError:
            _log.error(
                "data of %r, %s bytes: not read after %.0f seconds; answered %s, and not stored",
                profile,
                form.intake.bytes,
                self._limit.of(form.intake.bytes),
                thunderstone_result.FAIL,
            )
            return _refuse_data(thunderstone_result.FAIL)
        with ExitStack() as opened:
            opened.enter_context(result)
            refused = tuple(sorted(form.refused_urls))
            self._commit(form, form.intake, profile=profile, refused=refused)
            opened.pop_all()
        return Reply(body=result, content_type="text/xml")

    def _reply_to_items(self, form: PostedForm, profile: str) -> IO[bytes]:
        with self._reading, form.intake.open() as stream:
            end = time.monotonic() + self._limit.of(form.intake.bytes)
            replies = ItemReplies(
                refused_urls=form.refused_urls,
                has_document=partial(self._index.has_document, profile=profile),
                count_matching=partial(self._index.count_matching, profile=profile),
                options=self._index.reading,
                is_over=lambda: time.monotonic() > end,
            )
            return replies.write(stream)

    def _commit(self, form: PostedForm, intake: IncomingFeed | None, **fields: object) -> None:
        self._spool.commit(msgspec.structs.replace(form.delivery, **fields), intake)
        self._arrived()


def _name_in(field: str, fields: Mapping[str, str]) -> str:
    if field not in fields:
        raise RefusedError(400, f"{field}: not given; {_A_NAME}")
    if not _NAME.fullmatch(fields[field]):
        raise RefusedError(400, f"{field}: {fields[field]!r}; {_A_NAME}")
    return fields[field]


def _check_feedtype(feedtype: str, known: tuple[str, ...]) -> None:
    if feedtype not in known:
        raise RefusedError(400, f"feedtype: {feedtype!r}; expected {' or '.join(known)}")


def _check_content(form: PostedForm) -> None:
    """Refuse an empty feed, and a feed that a scenario refuses."""
    if not form.intake.bytes:
        raise RefusedError(400, "data: empty; expected a feed")
    url = _find_url(form.intake, form.refused_urls) if form.refused_urls else None
    if url is not None:
        raise RefusedError(400, f"malformed feed: {url!r}; expected a feed without it")


def _find_url(intake: IncomingFeed, urls: frozenset[str]) -> str | None:
    """Return the first of the URLs that the feed has as a whole value."""
    escaped = {escape(url, {'"': "&quot;"}).encode(): url for url in urls}
    alternatives = b"|".join(map(re.escape, sorted(escaped)))
    pattern = re.compile(rb"[\"'>]\s*(" + alternatives + rb")\s*[\"'<]")
    overlap = max(map(len, escaped)) + 2
    tail = b""
    with intake.open() as stream:
        while block := stream.read(_BLOCK_BYTES):
            if match := pattern.search(tail + block):
                return escaped[match[1]]
            tail = (tail + block)[-overlap:]
    return None


def _refuse_data(status: str) -> Reply:
    return Reply(body=thunderstone_result.refusal(status), content_type="text/xml")
