"""Requests about indexes: their mappings, settings and aliases."""

import re
from collections.abc import Collection

import msgspec

from feedferry.pipelines.serve.cluster.cluster_error import (
    ClusterError,
    bad_argument,
    invalid,
    no_index,
    not_played,
)
from feedferry.pipelines.serve.cluster.cluster_indexes import IndexSettings, Mapping
from feedferry.pipelines.serve.cluster.cluster_request import (
    ClusterReply,
    ClusterRequest,
    Handlers,
)
from feedferry.pipelines.serve.cluster.cluster_store import ClusterStore
from feedferry.pipelines.serve.cluster.strict_mapping import check_mapping, with_fields

_ACKNOWLEDGED = {"acknowledged": True}
_SETTINGS = ("refresh_interval", "number_of_replicas", "number_of_shards")
_DEFAULTS = {"number_of_shards": "1", "number_of_replicas": "1"}
_INDEX_NAME = re.compile(r"[^_+\-\\/*?\"<>| ,#:][^\\/*?\"<>| ,#:]*")
_StatedSettings = dict[str, object]


class _NewIndex(msgspec.Struct, forbid_unknown_fields=True):
    mappings: Mapping = {}
    settings: _StatedSettings = {}
    aliases: dict[str, dict[str, object]] = {}


class _Alias(msgspec.Struct, forbid_unknown_fields=True):
    index: str
    alias: str
    must_exist: bool | None = None


class _Index(msgspec.Struct, forbid_unknown_fields=True):
    index: str


class _AliasAction(msgspec.Struct, forbid_unknown_fields=True):
    add: _Alias | None = None
    remove: _Alias | None = None
    remove_index: _Index | None = None


class _AliasActions(msgspec.Struct, forbid_unknown_fields=True):
    actions: list[_AliasAction] = []


class IndexRequests:
    """Answers the requests about indexes, in a transaction of the store."""

    def __init__(self, store: ClusterStore) -> None:
        self._store = store
        self._indexes = store.indexes
        self.handlers: Handlers = {
            ("PUT", ""): self._make,
            ("DELETE", ""): self._remove,
            ("HEAD", ""): self._find,
            ("GET", "_alias"): self._aliases_of,
            ("HEAD", "_alias"): self._aliases_of,
            ("GET", "_mapping"): self._mappings,
            ("HEAD", "_mapping"): self._mappings,
            ("PUT", "_mapping"): self._add_fields,
            ("GET", "_settings"): self._settings,
            ("PUT", "_settings"): self._set_settings,
            ("POST", "_aliases"): self._change_aliases,
        }

    def _make(self, request: ClusterRequest) -> object:
        name, wanted = request.name, request.read(_NewIndex)
        self._check_name(name)
        check_mapping(wanted.mappings)
        self._indexes.make(name, wanted.mappings, _changed(_DEFAULTS, wanted.settings))
        for alias in wanted.aliases:
            self._add_alias(name, alias)
        return _ACKNOWLEDGED | {"shards_acknowledged": True, "index": name}

    def _check_name(self, name: str) -> None:
        if (held := self._indexes.index(name)) is not None:
            raise ClusterError(
                400,
                "resource_already_exists_exception",
                f"index [{name}/{held.uuid}] already exists",
                index=name,
                index_uuid=held.uuid,
            )
        reason = ""
        if self._indexes.is_alias(name):
            reason = "already exists as alias"
        elif name != name.lower():
            reason = "must be lowercase"
        elif not _INDEX_NAME.fullmatch(name):
            reason = 'must not contain the following characters [ , ", *, \\, <, |, ,, >, /, ?]'
        if reason:
            kind = "invalid_index_name_exception"
            words = f"Invalid index name [{name}], {reason}"
            raise ClusterError(400, kind, words, index=name, index_uuid="_na_")

    def _remove(self, request: ClusterRequest) -> object:
        if "*" in request.name or request.name == "_all":
            raise not_played("the removal of several indexes by a pattern", "names of indexes")
        for name in request.name.split(","):
            if self._indexes.index(name) is None and self._indexes.is_alias(name):
                raise bad_argument(
                    f"The provided expression [{name}] matches an alias, specify the corresponding"
                    " concrete indices instead."
                )
            for index in self._indexes.named(name):
                self._store.remove_index(index.name)
        return _ACKNOWLEDGED

    def _find(self, request: ClusterRequest) -> object:
        self._indexes.named(request.name)
        return ClusterReply()

    def _aliases_of(self, request: ClusterRequest) -> object:
        names = [index.name for index in self._indexes.named(request.names)]
        held = {name: self._indexes.aliases_of(name) for name in names}
        if request.below:
            held = {name: [request.below] for name in held if request.below in held[name]}
            if not held:
                body = {"error": f"alias [{request.below}] missing", "status": 404}
                return ClusterReply(status=404, body=msgspec.json.encode(body))
        return {
            name: {"aliases": {alias: {} for alias in aliases}} for name, aliases in held.items()
        }

    def _mappings(self, request: ClusterRequest) -> object:
        indexes = self._indexes.named(request.names)
        return {index.name: {"mappings": index.mapping} for index in indexes}

    def _add_fields(self, request: ClusterRequest) -> object:
        added = request.read_object()
        for index in self._indexes.named(request.name):
            self._indexes.set_mapping(index.name, with_fields(index.mapping, added))
        return _ACKNOWLEDGED

    def _settings(self, request: ClusterRequest) -> object:
        indexes = self._indexes.named(request.names)
        return {index.name: {"settings": {"index": index.settings}} for index in indexes}

    def _set_settings(self, request: ClusterRequest) -> object:
        wanted = request.read_object()
        if not _below_index(wanted):
            raise invalid("no settings to update")
        for index in self._indexes.named(request.name):
            self._indexes.set_settings(index.name, _changed(index.settings, wanted))
        return _ACKNOWLEDGED

    def _change_aliases(self, request: ClusterRequest) -> object:
        """Do all actions, or none."""
        actions = request.read(_AliasActions).actions
        if not actions:
            raise bad_argument("No action specified")
        removed = [action.remove_index.index for action in actions if action.remove_index]
        for action in actions:
            if action.add is not None:
                for index in self._indexes.named(action.add.index):
                    self._add_alias(index.name, action.add.alias, going=removed)
            if action.remove is not None:
                self._remove_alias(action.remove, is_only=len(actions) == 1)
        for name in removed:
            if self._indexes.index(name) is None:
                raise no_index(name)
            self._store.remove_index(name)
        return _ACKNOWLEDGED

    def _remove_alias(self, removed: _Alias, *, is_only: bool) -> None:
        """Raise ClusterError for a missing alias that must exist, or that is the only action."""
        indexes = self._indexes.named(removed.index)
        had_it = [self._indexes.remove_alias(index.name, removed.alias) for index in indexes]
        if not any(had_it) and (removed.must_exist or is_only):
            raise ClusterError(
                404,
                "aliases_not_found_exception",
                f"aliases [{removed.alias}] missing",
                **{"resource.id": removed.alias, "resource.type": "aliases"},
            )

    def _add_alias(self, name: str, alias: str, going: Collection[str] = ()) -> None:
        held = self._indexes.index(alias)
        if held is not None and alias not in going:
            raise ClusterError(
                400,
                "invalid_alias_name_exception",
                f"Invalid alias name [{alias}], an index exists with the same name as the alias",
                index=alias,
                index_uuid=held.uuid,
            )
        self._indexes.add_alias(name, alias)


def _changed(held: IndexSettings, wanted: _StatedSettings) -> IndexSettings:
    """Return settings after a change; null is the default."""
    settings = dict(held)
    for stated, value in _below_index(wanted).items():
        name = stated.removeprefix("index.")
        if name not in _SETTINGS:
            raise not_played(f"the setting {name!r}", ", ".join(_SETTINGS))
        settings.pop(name, None)
        if value is not None:
            settings[name] = str(value)
        elif name in _DEFAULTS:
            settings[name] = _DEFAULTS[name]
    return settings


def _below_index(wanted: _StatedSettings) -> _StatedSettings:
    """Return settings that may be below the key `index`."""
    below = wanted.get("index", wanted)
    if not isinstance(below, dict):
        raise not_played(f"the settings {below!r}", "an object")
    return below
