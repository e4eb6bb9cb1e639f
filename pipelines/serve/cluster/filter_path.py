"""The parameter `filter_path`: which parts of a reply are sent."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

Paths = list[list[str]]


def parse_paths(text: str) -> Paths:
    """Return the names of each path.

    >>> parse_paths("errors,items.*.status")
    [['errors'], ['items', '*', 'status']]
    """
    return [path.split(".") for path in text.split(",") if path]


def paths_below(paths: Paths, names: Iterable[str]) -> Paths | None:
    """Return the paths below nested fields, None if these fields are not sent.

    >>> paths_below([["hits", "hits", "_id"], ["took"]], ["hits", "hits"])
    [['_id']]
    """
    for name in names:
        if not paths or [] in paths:
            return []
        paths = [path[1:] for path in paths if fnmatchcase(name, path[0])]
        if not paths:
            return None
    return paths


def keep(value: object, paths: Paths) -> object:
    """Return the parts of a value that a path names; objects and lists without parts are empty.

    >>> keep({"took": 1, "hits": [{"_id": "a", "_index": "b"}]}, [["hits", "_id"]])
    {'hits': [{'_id': 'a'}]}
    """
    if isinstance(value, dict):
        return keep_fields(value, paths)
    if not paths or [] in paths:
        return value
    if isinstance(value, list):
        return [part for item in value if (part := keep(item, paths)) != {}]
    return {}


def keep_fields(fields: dict[str, object], paths: Paths) -> dict[str, object]:
    """Return the fields of an object that a path names, as `keep` does."""
    kept = {}
    for name, value in fields.items():
        below = paths_below(paths, [name])
        if below is None:
            continue
        part = keep(value, below)
        if part not in ({}, []) or below == [] or [] in below:
            kept[name] = part
    return kept
