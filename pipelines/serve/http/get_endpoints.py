"""Replies to GET: the backlog, the DTD, documents and set-aside deliveries as JSON, the page."""

import re
from collections.abc import Callable, Mapping
from importlib.resources import files
from urllib.parse import parse_qsl

import msgspec

from pipelines.serve.http.exchange import RefusedError, Reply, Request
from pipelines.serve.rehearsal import page
from pipelines.serve.rehearsal.index import Index
from pipelines.serve.set_aside import SetAsideDelivery

BACKLOG_PATH = "/getbacklogcount"
DTD_PATH = "/getdtd"
MAX_PAGE = 1000
_LIMIT = re.compile("[0-9]{1,9}", re.ASCII)
_UNSNIFFED = (("X-Content-Type-Options", "nosniff"), ("Cache-Control", "no-store"))


class GetEndpoints:
    """Answers GET requests.

    `backlog` returns the number of deliveries that wait, `set_aside` those that are set aside,
    `render_page` the page.
    """

    def __init__(
        self,
        index: Index,
        *,
        backlog: Callable[[], int],
        render_page: Callable[[], bytes],
        set_aside: Callable[[], list[SetAsideDelivery]] = list,
    ) -> None:
        self._index = index
        self._backlog = backlog
        self._set_aside = set_aside
        self._render_page = render_page
        self._answers: dict[str, Callable[[Request], Reply]] = {
            BACKLOG_PATH: self._count,
            DTD_PATH: self.dtd,
            "/documents": self._documents,
            "/set-aside": self._list_set_aside,
            "/feeds": self._page,
            "/": self._page,
        }

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(self._answers)

    def answer(self, request: Request) -> Reply:
        """Return the reply at one of `paths`; raise RefusedError for an unknown query."""
        return self._answers[request.path](request)

    def dtd(self, request: Request) -> Reply:
        return Reply(body=files("schemas").joinpath("gsafeed-7.dtd").read_bytes())

    def _count(self, request: Request) -> Reply:
        return Reply(body=str(self._backlog()).encode())

    def _documents(self, request: Request) -> Reply:
        query = _parse_query(request, "datasource", "prefix", "after", "limit")
        limit = _parse_limit(query)
        documents = self._index.documents(
            datasource=query.get("datasource"),
            prefix=query.get("prefix"),
            after=query.get("after"),
            limit=limit,
        )
        return _json(
            {
                "documents": documents,
                "next": documents[-1].url if len(documents) >= limit else None,
                "backlog": self._backlog(),
                "set_aside": len(self._set_aside()),
            }
        )

    def _list_set_aside(self, request: Request) -> Reply:
        _parse_query(request)
        return _json({"set_aside": self._set_aside()})

    def _page(self, request: Request) -> Reply:
        policy = ("Content-Security-Policy", page.CONTENT_SECURITY_POLICY)
        return Reply(
            body=self._render_page(),
            content_type="text/html; charset=utf-8",
            headers=(*_UNSNIFFED, policy),
        )


def _parse_query(request: Request, *known: str) -> Mapping[str, str]:
    try:
        pairs = parse_qsl(request.query, keep_blank_values=True, strict_parsing=bool(request.query))
    except ValueError as exc:
        raise RefusedError(400, f"?{request.query}; expected name=value pairs") from exc
    for name, _ in pairs:
        if name not in known:
            raise RefusedError(400, f"{name!r}; expected one of {', '.join(known)}")
    return {name: value for name, value in pairs if value}


def _parse_limit(query: Mapping[str, str]) -> int:
    text = query.get("limit", str(MAX_PAGE))
    if not _LIMIT.fullmatch(text) or not 1 <= int(text) <= MAX_PAGE:
        raise RefusedError(400, f"limit: {text!r}; expected 1 to {MAX_PAGE}")
    return int(text)


def _json(value: object) -> Reply:
    return Reply(
        body=msgspec.json.encode(value), content_type="application/json", headers=_UNSNIFFED
    )
