"""Queries of a search: bool, ids, term, terms, range, match and match_all.

Each is decided for one document, whose fields have its id as `_id`. A match finds a document with
one of the words, as letters and digits in any case. Nothing has a score.
"""

import re
from collections.abc import Callable, Iterable

import msgspec

from feedferry.pipelines.serve.cluster.cluster_error import not_played, parse_body
from feedferry.pipelines.serve.cluster.strict_mapping import MappedFields

Decides = Callable[[dict[str, object]], bool]
"""Returns whether a query finds a document."""

_WORD = re.compile(r"\w+")
_TERM_TYPES = ("keyword", "long")
_Query = dict[str, object]
_Clauses = _Query | list[_Query]


class _Bool(msgspec.Struct, forbid_unknown_fields=True):
    filter: _Clauses = []
    must: _Clauses = []
    should: _Clauses = []
    must_not: _Clauses = []
    minimum_should_match: int | None = None


class _Match(msgspec.Struct, forbid_unknown_fields=True):
    query: object
    operator: str = "or"


class _Ids(msgspec.Struct, forbid_unknown_fields=True):
    values: list[str]


class _Range(msgspec.Struct, forbid_unknown_fields=True):
    gte: int


def parse_query(query: object, mapped: MappedFields) -> Decides:
    """Return the decision of a query; raise ClusterError for one that is not played."""
    kind, stated = _only_key(query, "the query")
    if kind == "match_all":
        return lambda document: True
    if kind == "bool":
        return _parse_bool(parse_body(stated, _Bool), mapped)
    if kind == "ids":
        return _finds("_id", parse_body(stated, _Ids).values)
    if kind not in ("term", "terms", "range", "match"):
        known = "bool, ids, term, terms, range, match or match_all"
        raise not_played(f"the query {kind!r}", known)
    field, wanted = _only_key(stated, f"the query {kind!r} of")
    if kind == "match":
        return _parse_match(field, wanted)
    if kind == "range":
        least = parse_body(wanted, _Range).gte
        return lambda document: any(
            isinstance(value, int) and value >= least for value in _values(document, field)
        )
    held = mapped.get(field)
    if held is not None and held.type not in _TERM_TYPES:
        found = f"{kind} of the field {field!r} of type {held.type}"
        raise not_played(found, "a keyword or a long")
    if isinstance(wanted, dict):
        wanted = wanted.get("value")
    return _finds(field, wanted if isinstance(wanted, list) else [wanted])


def _finds(field: str, wanted: Iterable[object]) -> Decides:
    values = frozenset(map(str, wanted))
    return lambda document: not values.isdisjoint(map(str, _values(document, field)))


def _only_key(value: object, what: str) -> tuple[str, object]:
    if not isinstance(value, dict) or len(value) != 1:
        raise not_played(f"{what} {value!r}", "an object with one key")
    ((name, stated),) = value.items()
    return name, stated


def _parse_bool(stated: _Bool, mapped: MappedFields) -> Decides:
    def parts(clauses: _Clauses) -> list[Decides]:
        listed = clauses if isinstance(clauses, list) else [clauses]
        return [parse_query(clause, mapped) for clause in listed]

    required, ways = parts(stated.filter) + parts(stated.must), parts(stated.should)
    denials, least = parts(stated.must_not), stated.minimum_should_match
    if least is None:
        least = 0 if required or not ways else 1
    return lambda document: (
        all(decides(document) for decides in required)
        and not any(decides(document) for decides in denials)
        and sum(decides(document) for decides in ways) >= least
    )


def _parse_match(field: str, wanted: object) -> Decides:
    match = parse_body(wanted if isinstance(wanted, dict) else {"query": wanted}, _Match)
    needs_all, words = match.operator.lower() == "and", _words(match.query)

    def decides(document: dict[str, object]) -> bool:
        held = frozenset[str]().union(*map(_words, _values(document, field)))
        return words <= held if needs_all else not words.isdisjoint(held)

    return decides


def _words(value: object) -> frozenset[str]:
    return frozenset(_WORD.findall(str(value).lower()))


def _values(document: dict[str, object], field: str) -> list[object]:
    value = document.get(field)
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
