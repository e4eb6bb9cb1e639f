"""What a receiver shows to who asks with GET: the backlog, the DTD, and pages of what it holds."""

import re
from collections.abc import Callable, Mapping
from importlib.resources import files
from urllib.parse import parse_qsl

import msgspec

from pipelines.serve.http.exchange import RefusedError, Reply, Request
from pipelines.serve.rehearsal import page
from pipelines.serve.rehearsal.index import Index
from pipelines.serve.rehearsal.set_aside import SetAside

COUNT_PATH = "/getbacklogcount"
DTD_PATH = "/getdtd"
SET_ASIDE_PATH = "/set-aside"
MOST_OF_A_PAGE = 1000
_LIMIT = re.compile("[0-9]{1,9}")
_HTML = "text/html; charset=utf-8"
_UNSNIFFED = (("X-Content-Type-Options", "nosniff"), ("Cache-Control", "no-store"))
_OF_A_PAGE = (*_UNSNIFFED, ("Content-Security-Policy", page.CONTENT_SECURITY_POLICY))


class Lookups:
    """Answers at the paths that hold something to be read.

    `backlog` counts what is not digested yet, `set_aside` returns what is set aside, `show` makes
    the page.
    """

    def __init__(
        self,
        index: Index,
        *,
        backlog: Callable[[], int],
        show: Callable[[], bytes],
        set_aside: Callable[[], list[SetAside]] = list,
    ) -> None:
        self._index = index
        self._backlog = backlog
        self._set_aside = set_aside
        self._show = show
        self._answers: dict[str, Callable[[Request], Reply]] = {
            COUNT_PATH: self._count,
            DTD_PATH: _dtd,
            "/documents": self._documents,
            "/groups": self._groups,
            SET_ASIDE_PATH: self._list_set_aside,
            "/feeds": self._page,
            "/": self._page,
        }

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(self._answers)

    def answer(self, request: Request) -> Reply:
        """Return what stands at one of the paths; raise RefusedError for a query that is none."""
        return self._answers[request.path](request)

    def _count(self, request: Request) -> Reply:
        return Reply(body=str(self._backlog()).encode())

    def _documents(self, request: Request) -> Reply:
        asked = _query(request, "datasource", "prefix", "after", "limit")
        limit = _limit(asked)
        documents = self._index.documents(
            datasource=asked.get("datasource"),
            prefix=asked.get("prefix"),
            after=asked.get("after"),
            limit=limit,
        )
        following = documents[-1].url if len(documents) >= limit else None
        return _json(
            {
                "documents": documents,
                "next": following,
                "backlog": self._backlog(),
                "set_aside": len(self._set_aside()),
            }
        )

    def _groups(self, request: Request) -> Reply:
        asked = _query(request, "groupsource", "after", "limit")
        limit = _limit(asked)
        groups = self._index.groups(
            groupsource=asked.get("groupsource"), after=asked.get("after"), limit=limit
        )
        following = groups[-1].name if len(groups) >= limit else None
        return _json({"groups": groups, "next": following})

    def _list_set_aside(self, request: Request) -> Reply:
        _query(request)
        return _json({"set_aside": self._set_aside()})

    def _page(self, request: Request) -> Reply:
        return Reply(body=self._show(), content_type=_HTML, headers=_OF_A_PAGE)


def _dtd(request: Request) -> Reply:
    return Reply(body=files("schemas").joinpath("gsafeed-7.dtd").read_bytes())


def _query(request: Request, *known: str) -> Mapping[str, str]:
    try:
        asked = parse_qsl(request.query, keep_blank_values=True, strict_parsing=bool(request.query))
    except ValueError as exc:
        raise RefusedError(400, f"?{request.query}; expected name=value pairs") from exc
    for name, _ in asked:
        if name not in known:
            raise RefusedError(400, f"{name!r}; expected one of {', '.join(known)}")
    return {name: value for name, value in asked if value}


def _limit(asked: Mapping[str, str]) -> int:
    text = asked.get("limit", str(MOST_OF_A_PAGE))
    if not _LIMIT.fullmatch(text) or not 1 <= int(text) <= MOST_OF_A_PAGE:
        raise RefusedError(400, f"limit: {text!r}; expected 1 to {MOST_OF_A_PAGE}")
    return int(text)


def _json(answer: object) -> Reply:
    return Reply(
        body=msgspec.json.encode(answer), content_type="application/json", headers=_UNSNIFFED
    )
