"""The parameter `filter_path`: which parts of a reply are sent."""

from fnmatch import fnmatchcase
from typing import Any

Paths = list[list[str]]


def parse_paths(text: str) -> Paths:
    """Return the names of each path.

    >>> parse_paths("errors,items.*.status")
    [['errors'], ['items', '*', 'status']]
    """
    return [path.split(".") for path in text.split(",") if path]


def keep(value: Any, paths: Paths) -> Any:
    """Return the parts of a value that a path names; objects and lists without parts are empty.

    >>> keep({"took": 1, "hits": [{"_id": "a", "_index": "b"}]}, [["hits", "_id"]])
    {'hits': [{'_id': 'a'}]}
    """
    if not paths or [] in paths:
        return value
    if isinstance(value, list):
        return [part for item in value if (part := keep(item, paths)) != {}]
    if not isinstance(value, dict):
        return {}
    kept = {}
    for name, part in value.items():
        below = [path[1:] for path in paths if fnmatchcase(name, path[0])]
        if below and ((found := keep(part, below)) not in ({}, []) or [] in below):
            kept[name] = found
    return kept
