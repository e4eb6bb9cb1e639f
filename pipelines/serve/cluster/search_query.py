"""Queries of a search: bool, term, terms, ids, range, match and match_all, for one document.

A match finds a document with one of the words, as letters and digits in any case. Nothing has a
score.
"""

import re
from collections.abc import Callable
from typing import Any

from feedferry.pipelines.serve.cluster.cluster_error import not_played

Decides = Callable[[dict[str, Any]], bool]
"""Returns whether a query finds a document, which has its id as `_id`."""

_WORD = re.compile(r"\w+")
_BOOL = ("filter", "must", "should", "must_not", "minimum_should_match")
_TERM_TYPES = ("keyword", "long")


def parse_query(query: object, properties: dict[str, Any]) -> Decides:
    """Return the decision of a query; raise ClusterError for one that is not played."""
    if not isinstance(query, dict) or len(query) != 1:
        raise not_played(f"the query {query!r}", "an object with one key")
    ((kind, stated),) = query.items()
    if kind == "match_all":
        return lambda document: True
    if kind == "bool":
        return _parse_bool(stated, properties)
    if kind == "ids":
        ids = frozenset(stated.get("values", ()))
        return lambda document: document["_id"] in ids
    if kind not in ("term", "terms", "range", "match"):
        known = "bool, term, terms, ids, range, match or match_all"
        raise not_played(f"the query {kind!r}", known)
    if len(stated) != 1:
        raise not_played(f"the query {kind!r} of {len(stated)} fields", "one field")
    ((field, wanted),) = stated.items()
    held = properties.get(field, {}).get("type")
    if kind == "range":
        return _parse_range(field, wanted)
    if kind == "match":
        return _parse_match(field, wanted)
    if held is not None and held not in _TERM_TYPES:
        raise not_played(f"{kind} of the field {field!r} of type {held}", "a keyword or a long")
    if isinstance(wanted, dict):
        wanted = wanted.get("value")
    values = frozenset(map(str, wanted if kind == "terms" else [wanted]))
    return lambda document: not values.isdisjoint(map(str, _values(document, field)))


def _parse_bool(stated: dict[str, Any], properties: dict[str, Any]) -> Decides:
    for name in stated:
        if name not in _BOOL:
            raise not_played(f"{name!r} of a bool query", ", ".join(_BOOL))

    def parts(*names: str) -> list[Decides]:
        clauses = (stated.get(name, []) for name in names)
        lists = (clause if isinstance(clause, list) else [clause] for clause in clauses)
        return [parse_query(clause, properties) for clauses_ in lists for clause in clauses_]

    required, ways, denials = parts("filter", "must"), parts("should"), parts("must_not")
    least = int(stated.get("minimum_should_match", 0 if required or not ways else 1))
    return lambda document: (
        all(decides(document) for decides in required)
        and not any(decides(document) for decides in denials)
        and sum(decides(document) for decides in ways) >= least
    )


def _parse_range(field: str, wanted: dict[str, Any]) -> Decides:
    if [*wanted] != ["gte"] or not isinstance(wanted["gte"], int):
        raise not_played(f"the range {wanted!r}", "gte and a number")
    least = wanted["gte"]
    return lambda document: any(value >= least for value in _values(document, field))


def _parse_match(field: str, wanted: object) -> Decides:
    needs_all = False
    if isinstance(wanted, dict):
        needs_all = str(wanted.get("operator", "or")).lower() == "and"
        wanted = wanted.get("query")
    words = _words(wanted)

    def decides(document: dict[str, Any]) -> bool:
        held = frozenset[str]().union(*map(_words, _values(document, field)))
        return words <= held if needs_all else not words.isdisjoint(held)

    return decides


def _words(value: object) -> frozenset[str]:
    return frozenset(_WORD.findall(str(value).lower()))


def _values(document: dict[str, Any], field: str) -> list[Any]:
    value = document.get(field)
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
