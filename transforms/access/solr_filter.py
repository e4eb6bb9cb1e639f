"""The filter of a search as queries of Solr, with the same meaning as that of `index_fields`."""

from collections.abc import Collection

from feedferry.transforms.access.index_fields import EVERYONE, PARTS_OF_FIELDS

WITHHELD_FIELD = "acl_withheld"
"""A document with a value is shown to no user; an ACL alone does not remove it."""

_TOKENS = "feedferry_tokens"


def solr_filter(tokens: Collection[str]) -> dict[str, object]:
    """Return the members `filter` and `params` of a JSON request for a search.

    `tokens` are those of `tokens_of`. No token has a comma, which separates them.

    >>> solr_filter(["*", "us:Default:bob"])["params"]
    {'feedferry_tokens': '*,us:Default:bob'}
    """
    queries = [f"+*:* -{WITHHELD_FIELD}:[* TO *]", *map(_part_query, PARTS_OF_FIELDS)]
    return {"filter": queries, "params": {_TOKENS: ",".join(tokens) or EVERYONE}}


def _part_query(layers: list[tuple[str, str]]) -> str:
    """Return the query of a part, with the same meaning for each default operator."""
    (deny, permit), *others = layers
    ways = [_terms(permit), *(f"({_part_query(others)})" for _ in others[:1])]
    return f"+*:* -{_terms(deny)} +({' OR '.join(ways)})"


def _terms(name: str) -> str:
    """Return the query of documents that have one of the tokens in a field."""
    return f"{{!terms f={name} v=${_TOKENS}}}"
