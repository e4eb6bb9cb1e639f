"""The endpoints of a receiver: posted feeds, groups and data, and the replies to GET.

An appliance answers Success before it reads a feed, and reports errors of records later; so does
this receiver. Thunderstone data is answered record by record, as the appliance does.

An untrusted address gets the appliance's words with status 200: clients of a GSA read the words,
CM3 only those with a status below 400, and the refusal for a full disk is documented with 200.
"""

import logging
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from importlib.resources import files
from tempfile import SpooledTemporaryFile
from threading import Lock
from urllib.parse import parse_qsl

import msgspec

from feedferry.pipelines.serve.cluster.bulk_actions import ItemFaults
from feedferry.pipelines.serve.cluster.rehearsal_cluster import MAX_BODY_BYTES, RehearsalCluster
from feedferry.pipelines.serve.http.forms import decompress, limit_size, read_form, too_large
from feedferry.pipelines.serve.http.server import (
    INTERNAL_ERROR,
    ConnectionDroppedError,
    RefusedError,
    Reply,
    Request,
)
from feedferry.pipelines.serve.http.trusted_addresses import ALL, Trust
from feedferry.pipelines.serve.rehearsal import page
from feedferry.pipelines.serve.rehearsal.delivery_table import SetAsideDelivery
from feedferry.pipelines.serve.rehearsal.index import Index
from feedferry.pipelines.serve.rehearsal.item_replies import ItemReplies
from feedferry.pipelines.serve.rehearsal.scenario import BACKLOG, BULK, CLUSTER, Behaviour
from feedferry.pipelines.serve.settings import LOOPBACK, ServeSettings
from feedferry.pipelines.serve.spool_writer import DiskFullError, IncomingFeed, SpoolWriter
from feedferry.schemas.delivery import Delivery
from feedferry.schemas.errors import FormatError
from feedferry.schemas.feed import (
    A_NAME,
    CLEANUP,
    DATASOURCE,
    FEEDTYPES,
    FULL,
    INCREMENTAL,
    REPLACE,
)
from feedferry.schemas.record import Record
from feedferry.transforms.formats import by_name
from feedferry.transforms.sinks.push.wire import replication_result
from feedferry.transforms.sinks.push.wire.feedergate import BACKLOG_PATH, XMLFEED, XMLGROUPS
from feedferry.transforms.sinks.push.wire.protocol import Endpoint
from feedferry.transforms.sinks.push.wire.recvdata import RECVDATA_PATH, RECVDATA_XML

# The words of an appliance, to the letter: clients compare them.
SUCCESS = "Success"
DISK_FULL = "Feed not accepted due to insufficient disk space. Contact Google for Work Support."
UNAUTHORIZED = "Error - Unauthorized Request"

DTD_PATHS = ("/getdtd", "/gsafeed.dtd")
MAX_PAGE = 1000
_POST_PATHS = {endpoint.path: endpoint for endpoint in (XMLFEED, XMLGROUPS)}
_GET_PATHS = (BACKLOG_PATH, *DTD_PATHS, "/documents", "/set-aside", "/")
_GROUPSOURCE_FIELDS = ("groupsource", CLEANUP, REPLACE)
_FIELDS = {
    XMLFEED.name: ("datasource", "feedtype"),
    XMLGROUPS.name: (*_GROUPSOURCE_FIELDS, "feedtype"),
    RECVDATA_XML.name: ("profile",),
}
_LIMIT = re.compile("[0-9]{1,9}", re.ASCII)
_MAX_AGENT = 200
_MEMORY_BYTES = 1 << 20
_log = logging.getLogger(__name__)
_LOOPBACK, _ANY = Trust(LOOPBACK), Trust((ALL,))
_UNSNIFFED = (("X-Content-Type-Options", "nosniff"), ("Cache-Control", "no-store"))
_TEXTS = {status.value: status.phrase for status in HTTPStatus} | {
    500: INTERNAL_ERROR,
    401: UNAUTHORIZED,
}


class Callbacks(msgspec.Struct, frozen=True, kw_only=True):
    """The functions of a receiver that its endpoints call.

    `arrived` is called after each delivery. `behave` returns the behaviour for the next request at
    an endpoint. `wait` waits some seconds, fewer when the receiver stops.
    `backlog` returns the number of deliveries that wait, `set_aside` those that are set aside,
    `render_page` the page.
    """

    arrived: Callable[[], object]
    behave: Callable[[str], Behaviour]
    wait: Callable[[float], object]
    backlog: Callable[[], int]
    set_aside: Callable[[], list[SetAsideDelivery]]
    render_page: Callable[[], bytes]


class PostedForm(msgspec.Struct, frozen=True, kw_only=True):
    """A posted form: its small fields, and its feed in a file."""

    fields: dict[str, str]
    intake: IncomingFeed
    refused_urls: frozenset[str]
    delivery: Delivery


class Endpoints:
    """Answers requests; safe from several threads."""

    def __init__(
        self,
        settings: ServeSettings,
        spool: SpoolWriter,
        index: Index,
        cluster: RehearsalCluster,
        callbacks: Callbacks,
    ) -> None:
        self._settings = settings
        self._trust = Trust(settings.trusted)
        self._is_local = settings.host == "localhost" or _LOOPBACK.allows(settings.host)
        self._spool = spool
        self._index = index
        self._cluster = cluster
        self._callbacks = callbacks
        self._reading = Lock()  # one document in memory, for any number of connections
        self._take = {
            XMLFEED.name: self._take_feed,
            XMLGROUPS.name: self._take_groups,
            RECVDATA_XML.name: self._take_data,
        }

    def answer(self, request: Request) -> Reply:
        """Return the reply; raise RefusedError, or ConnectionDroppedError for no reply."""
        path = request.path
        is_recvdata = path.endswith(RECVDATA_PATH)
        endpoint = RECVDATA_XML if is_recvdata else _POST_PATHS.get(path)
        if endpoint is not None:
            if request.method == "POST":
                return self._post(endpoint, request)
            return self._get_data(request) if is_recvdata else _only("POST")
        if path not in _GET_PATHS and self._cluster.plays(request.method, path):
            return self._answer_cluster(request)
        if path not in _GET_PATHS:
            known = ", ".join((*_POST_PATHS, *_GET_PATHS))
            raise RefusedError(404, f"{path!r}; expected {known} or ...{RECVDATA_PATH}")
        return self._get(request) if request.method in {"GET", "HEAD"} else _only("GET, HEAD")

    def _answer_cluster(self, request: Request) -> Reply:
        """Answer a request to the cluster; its body is complete before it changes anything."""
        self._check_reader(request)
        behaviour = self._meet(BULK if request.path.endswith("/_bulk") else CLUSTER, request)
        with ExitStack() as opened:
            body = opened.enter_context(SpooledTemporaryFile(_MEMORY_BYTES))
            if request.length != 0:
                limit = min(self._settings.max_request_bytes, MAX_BODY_BYTES)
                self._spool.check_room(request.length or 0)
                for block in self._read_body(request, behaviour, limit=limit):
                    body.write(block)
            reply = None if behaviour.disk_full else _scripted_reply(behaviour)
            if reply is None:
                body.seek(0)
                faults = ItemFaults(
                    refused_ids=frozenset(behaviour.refuse_urls or ()),
                    is_throttled=bool(behaviour.throttle),
                    is_full=bool(behaviour.disk_full),
                )
                with self._reading:
                    found = self._cluster.answer(
                        request.method, request.path, request.query, body, faults
                    )
                kind = "application/json; charset=UTF-8"
                reply = Reply(status=found.status, body=found.body, content_type=kind)
        _log.info("%r: %d", f"{request.client} {request.path[:_MAX_AGENT]}", reply.status)
        return self._finish(reply, behaviour)

    def _check_reader(self, request: Request) -> None:
        if not self._trust.allows(request.client):
            raise RefusedError(403, f"{request.client}; expected a trusted address")
        if self._is_local:
            _check_host(request.header("host"))

    def _post(self, endpoint: Endpoint, request: Request) -> Reply:
        """Answer a delivery, and log it in one line."""
        begun, facts, outcome = time.monotonic(), dict[str, object](), "no reply"
        try:
            reply = self._take_post(endpoint, request, facts)
            outcome = f"{reply.status} {_words_of(reply)}"
        except RefusedError as exc:
            outcome = f"{exc.status} {exc.words}"
            raise
        finally:
            known = [f"{name}={value}" for name, value in facts.items()]
            place = repr(" ".join([request.client, request.path[:_MAX_AGENT], *known]))[1:-1]
            _log.info("%s: %s, %.3f s", place, outcome.strip(), time.monotonic() - begun)
        return reply

    def _take_post(self, endpoint: Endpoint, request: Request, facts: dict[str, object]) -> Reply:
        """Return the reply; store the known facts of the delivery in `facts`."""
        if not self._is_trusted(endpoint, request):
            if endpoint is RECVDATA_XML:
                return _refuse_data(replication_result.NOT_ALLOWED)
            return _text(UNAUTHORIZED)
        behaviour = self._meet(endpoint.name, request)
        blocks = self._read_body(request, behaviour, limit=self._settings.max_request_bytes)
        reply = _scripted_reply(behaviour)
        if reply is None:
            refused_urls = frozenset(behaviour.refuse_urls or ())
            reply = self._receive(endpoint, request, blocks, refused_urls, facts)
        else:
            deque(blocks, maxlen=0)
        return self._finish(reply, behaviour)

    def _get_data(self, request: Request) -> Reply:
        """Return the result of a request without data, which has no profile either."""
        is_trusted = self._is_trusted(RECVDATA_XML, request)
        status = replication_result.NO_PROFILE if is_trusted else replication_result.NOT_ALLOWED
        return _refuse_data(status)

    def _get(self, request: Request) -> Reply:
        path = request.path
        is_trusted = self._trust.allows(request.client)
        if path in {BACKLOG_PATH, *DTD_PATHS}:
            if not is_trusted:
                return _text(UNAUTHORIZED)
            if path == BACKLOG_PATH:
                return self._count(request)
            return Reply(body=files("feedferry.schemas").joinpath("gsafeed-7.dtd").read_bytes())
        self._check_reader(request)
        if path == "/documents":
            return self._list_documents(request)
        if path == "/set-aside":
            _parse_query(request)
            return _json({"set_aside": self._callbacks.set_aside()})
        return Reply(
            body=self._callbacks.render_page(),
            content_type="text/html; charset=utf-8",
            headers=(*_UNSNIFFED, ("Content-Security-Policy", page.CONTENT_SECURITY_POLICY)),
        )

    def _count(self, request: Request) -> Reply:
        behaviour = self._meet(BACKLOG, request)
        reply = _scripted_reply(behaviour)
        if reply is None:
            is_real = behaviour.backlog is None
            reply = _text(str(self._callbacks.backlog() if is_real else behaviour.backlog))
        return self._finish(reply, behaviour)

    def _list_documents(self, request: Request) -> Reply:
        query = _parse_query(request, "datasource", "after", "limit")
        text = query.get("limit", str(MAX_PAGE))
        if not _LIMIT.fullmatch(text) or not 1 <= int(text) <= MAX_PAGE:
            raise RefusedError(400, f"limit: {text!r}; expected 1 to {MAX_PAGE}")
        documents = self._index.documents(
            datasource=query.get("datasource"),
            after=query.get("after"),
            limit=int(text),
        )
        return _json(
            {
                "documents": documents,
                "next": documents[-1].url if len(documents) >= int(text) else None,
                "backlog": self._callbacks.backlog(),
                "failed": self._index.deliveries.failed_count(),
                "set_aside": len(self._callbacks.set_aside()),
            }
        )

    def _meet(self, endpoint: str, request: Request) -> Behaviour:
        """Return the behaviour; reset the connection at once, also if there is no body."""
        behaviour = self._callbacks.behave(endpoint)
        if behaviour.reset == "at-once" or (behaviour.reset == "in-body" and request.length == 0):
            raise _reset_connection()
        return behaviour

    def _finish(self, reply: Reply, behaviour: Behaviour) -> Reply:
        if behaviour.delay:
            self._callbacks.wait(behaviour.delay)
        if behaviour.reset == "before-reply":
            raise _reset_connection()
        return reply

    def _is_trusted(self, endpoint: Endpoint, request: Request) -> bool:
        """A Thunderstone appliance also requires trust in all proxies of the request."""
        chains = [value for name, value in request.headers if name == "x-forwarded-for"]
        if endpoint is RECVDATA_XML and not all(map(self._trust.allows_all, chains)):
            return False
        return self._trust.allows(request.client)

    def _read_body(self, request: Request, behaviour: Behaviour, *, limit: int) -> Iterator[bytes]:
        """Return the decoded body; refuse one that is too large, before and after decoding."""
        if request.length is not None and request.length >= limit:
            raise too_large(request.length, limit=limit)
        if request.length == 0 and not request.header("content-length"):
            raise RefusedError(411, "no Content-Length; expected it, or chunks")
        blocks = _reset_in_body(request) if behaviour.reset == "in-body" else request.blocks
        blocks = limit_size(blocks, limit=limit)
        return limit_size(decompress(blocks, request.header("content-encoding")), limit=limit)

    def _receive(
        self,
        endpoint: Endpoint,
        request: Request,
        blocks: Iterator[bytes],
        refused_urls: frozenset[str],
        facts: dict[str, object],
    ) -> Reply:
        """Return the reply once the delivery is durable; raise RefusedError."""
        delivery = Delivery(
            ordinal=0,
            endpoint=endpoint.name,
            format=endpoint.formats[0],
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
                known = _FIELDS[endpoint.name]
                fields = read_form(blocks, kind, known=known, write=intake.write)
                facts.update({name: fields[name] for name in known if name in fields})
                facts["bytes"] = intake.bytes
                form = PostedForm(
                    fields=fields, intake=intake, refused_urls=refused_urls, delivery=delivery
                )
                return self._take[endpoint.name](form)
        except DiskFullError:
            is_recvdata = endpoint is RECVDATA_XML
            return _refuse_data(replication_result.FAIL) if is_recvdata else _text(DISK_FULL)

    def _take_feed(self, form: PostedForm) -> Reply:
        return self._store(form, "datasource", form.fields.get("feedtype", ""), FEEDTYPES)

    def _take_groups(self, form: PostedForm) -> Reply:
        """Deployed clients name the groupsource in the field for what to do with its groups."""
        given = [field for field in _GROUPSOURCE_FIELDS if field in form.fields]
        if len(given) != 1:
            names = " and ".join(given) or "no groupsource"
            raise RefusedError(400, f"{names}; expected one of {', '.join(_GROUPSOURCE_FIELDS)}")
        if given[0] == CLEANUP:
            groupsource = _name_in(CLEANUP, form.fields)
            if form.intake.bytes:
                raise RefusedError(400, "cleanup and data; expected one of them")
            self._commit(form, None, datasource=groupsource, feedtype=CLEANUP)
            return _text(SUCCESS)
        # The guide's own client sends no feedtype.
        feedtype = form.fields.get("feedtype") or INCREMENTAL
        return self._store(form, given[0], feedtype, (FULL, INCREMENTAL))

    def _store(self, form: PostedForm, field: str, feedtype: str, known: tuple[str, ...]) -> Reply:
        """Store a feed whose datasource or groupsource is in a field."""
        datasource = _name_in(field, form.fields)
        if feedtype not in known:
            raise RefusedError(400, f"feedtype: {feedtype!r}; expected {' or '.join(known)}")
        _check_content(form)
        feedtype = REPLACE if field == REPLACE else feedtype
        self._commit(form, form.intake, datasource=datasource, feedtype=feedtype)
        return _text(SUCCESS)

    def _take_data(self, form: PostedForm) -> Reply:
        profile = form.fields.get("profile", "")
        known = self._settings.profiles
        if not profile or (known and profile not in known):
            return _refuse_data(replication_result.NO_PROFILE)
        try:
            with self._reading, form.intake.open() as stream:
                replies = ItemReplies(
                    refused_urls=form.refused_urls,
                    has_document=partial(self._index.has_document, profile=profile),
                    count_matching=partial(self._index.count_matching, profile=profile),
                    options=self._index.reading,
                )
                result = replies.write(stream)
        except FormatError:
            return _refuse_data(replication_result.NO_DATA)
        with ExitStack() as opened:
            opened.enter_context(result)
            refused = tuple(sorted(form.refused_urls))
            self._commit(form, form.intake, profile=profile, refused=refused)
            opened.pop_all()
        return Reply(body=result, content_type="text/xml")

    def _commit(self, form: PostedForm, intake: IncomingFeed | None, **fields: object) -> None:
        self._spool.commit(msgspec.structs.replace(form.delivery, **fields), intake)
        self._callbacks.arrived()


def _text(words: str) -> Reply:
    return Reply(body=words.encode())


def _words_of(reply: Reply) -> str:
    """Return the first words of a reply; Thunderstone data is answered by a document."""
    body = reply.body if reply.content_type == "text/plain" else b""
    return body[:_MAX_AGENT].decode("utf-8", "replace") if isinstance(body, bytes) else ""


def _json(value: object) -> Reply:
    return Reply(
        body=msgspec.json.encode(value), content_type="application/json", headers=_UNSNIFFED
    )


def _refuse_data(status: str) -> Reply:
    return Reply(body=replication_result.refusal(status), content_type="text/xml")


def _only(methods: str) -> Reply:
    return Reply(status=405, body=f"expected {methods}".encode(), headers=(("Allow", methods),))


def _scripted_reply(behaviour: Behaviour) -> Reply | None:
    """Return the reply of a scenario, None if the request is answered normally."""
    if behaviour.disk_full:
        return _text(DISK_FULL)
    if behaviour.status is None and behaviour.text is None:
        return None
    status = behaviour.status or 200
    text = _TEXTS.get(status, "") if behaviour.text is None else behaviour.text
    return Reply(status=status, body=text.encode())


def _reset_in_body(request: Request) -> Iterator[bytes]:
    """Yield the first half of the body, and reset the connection."""
    received = 0
    for block in request.blocks:
        received += len(block)
        if 2 * received >= (request.length or 0):
            raise _reset_connection()
        yield block


def _reset_connection() -> ConnectionDroppedError:
    return ConnectionDroppedError("a reset of the scenario")


def _check_host(host: str) -> None:
    """Refuse a DNS name that a web site may have pointed at this machine, to read its pages.

    The operator's browser would then take both for one site. Every public name has a dot.
    """
    name = re.sub(r":[0-9]*$", "", host)
    if "." in name and not _ANY.allows(name):
        raise RefusedError(403, f"Host: {host!r}; expected an address, or localhost")


def _parse_query(request: Request, *known: str) -> Mapping[str, str]:
    try:
        pairs = parse_qsl(request.query, keep_blank_values=True, strict_parsing=bool(request.query))
    except ValueError as exc:
        raise RefusedError(400, f"?{request.query}; expected name=value pairs") from exc
    for name, _ in pairs:
        if name not in known:
            raise RefusedError(400, f"{name!r}; expected one of {', '.join(known)}")
    return {name: value for name, value in pairs if value}


def _name_in(field: str, fields: Mapping[str, str]) -> str:
    if field not in fields:
        raise RefusedError(400, f"{field}: not given; {A_NAME}")
    if not DATASOURCE.fullmatch(fields[field]):
        raise RefusedError(400, f"{field}: {fields[field]!r}; {A_NAME}")
    return fields[field]


def _check_content(form: PostedForm) -> None:
    """Refuse an empty feed, and a feed that a scenario refuses."""
    if not form.intake.bytes:
        raise RefusedError(400, "data: empty; expected a feed")
    if not form.refused_urls:
        return
    with suppress(FormatError), form.intake.open() as stream:
        for result in by_name(form.delivery.format).read(stream):
            if isinstance(result, Record) and result.url in form.refused_urls:
                words = f"malformed feed: {result.url!r}; expected a feed without it"
                raise RefusedError(400, words)
