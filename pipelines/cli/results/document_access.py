"""Print the filter of a search for a user, who sees a document, or the changes by a run."""

import json
from collections.abc import Mapping

import click
import msgspec

from feedferry.pipelines.access.explain_document import UserSearch, explain_document
from feedferry.pipelines.access.explanation_text import text_lines
from feedferry.pipelines.access.run_history import RunHistory, find_history
from feedferry.pipelines.access.target_documents import target_decisions, target_groups
from feedferry.pipelines.inspect.acl_changes import change_lines, change_rows
from feedferry.pipelines.inspect.user_access import find_members
from feedferry.schemas.acl import Scope
from feedferry.schemas.errors import FINDINGS_EXIT, ConfigError
from feedferry.schemas.membership import Member
from feedferry.transforms.access.index_fields import search_filter, security_role, tokens_of
from feedferry.transforms.access.solr_filter import solr_filter


class AccessOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command."""

    names: tuple[str, ...] = ()
    groups: str | None = None
    namespace: str | None = None
    groups_feeds: tuple[str, ...] = ()
    groups_index: str | None = None
    dls: str | None = None
    solr: bool = False
    document: str | None = None
    changes: str | None = None
    state: str | None = None
    datasource: str | None = None
    as_of: str | None = None
    target: str | None = None
    auth: str | None = None
    ca_file: str | None = None
    as_json: bool = False


def print_access(words: Mapping[str, object]) -> int:
    """Print the requested output; return the exit code."""
    options = msgspec.convert(words, AccessOptions)
    if options.solr and (options.document or options.changes) is not None:
        raise ConfigError("--solr: only for the filter of a search")
    if options.document is not None:
        return _print_explanation(options, words)
    for name in ("state", "datasource", "as_of", "target"):
        if getattr(options, name) is not None:
            raise ConfigError(f"--{name.replace('_', '-')}: only with --document")
    return _print_filter(options, words) if options.changes is None else _print_changes(options)


def _print_changes(options: AccessOptions) -> int:
    """Print the documents that some users gain or lose by a run."""
    if options.names or options.dls is not None:
        raise ConfigError("--changes: for all users; expected neither USER nor --dls")
    for line in (change_lines if options.as_json else change_rows)(options.changes or ""):
        click.echo(line)
    return 0


def _print_filter(options: AccessOptions, words: Mapping[str, object]) -> int:
    """Print the filter of a search for a user, or a role with it."""
    if not options.names:
        raise ConfigError("no USER; expected a user, --document URL, or --changes RUN")
    tokens = tokens_of(_members(options, words))
    if options.solr and options.dls is not None:
        raise ConfigError("--dls: not with --solr")
    if options.solr:
        click.echo(json.dumps(solr_filter(tokens)))
    elif options.dls is None:
        click.echo(json.dumps(search_filter(tokens)))
    else:
        role = security_role(options.dls)
        click.echo(json.dumps({"role": role, "backend_roles": tokens}, indent=2))
    return 0


def _print_explanation(options: AccessOptions, words: Mapping[str, object]) -> int:
    """Print who sees a document; return the exit code."""
    url = (options.document or "").strip()
    for name in ("dls", "changes"):
        if getattr(options, name) is not None:
            raise ConfigError(f"--{name}: not with --document")
    if options.state is None and options.target is None:
        raise ConfigError("--document: expected --state with the job, or --target with the index")
    if options.state is None and options.as_of is not None:
        raise ConfigError("--as-of: expected --state with the job")
    search = _search_of(options, words)
    history = RunHistory() if options.state is None else find_history(options.state, options.as_of)
    found = explain_document(url, options.datasource, history, search)
    if options.target is not None:
        found = target_decisions(options.target, words, found, search)
    if options.as_json:
        values = {"version": 1, **msgspec.to_builtins(found)}
        click.echo(json.dumps(values, indent=2, ensure_ascii=False))
    else:
        for line in text_lines(found):
            click.echo(line)
    if found.is_empty:
        click.echo(f"feedferry: nothing is known of {url}", err=True)
    return FINDINGS_EXIT if found.is_empty else 0


def _search_of(options: AccessOptions, words: Mapping[str, object]) -> UserSearch | None:
    if not options.names:
        if options.groups is not None or options.groups_feeds or options.groups_index:
            raise ConfigError("--groups: expected USER, too")
        return None
    members = _members(options, words)
    groups = [member.name for member in members if member.scope is Scope.GROUP]
    user = ", ".join(options.names)
    text = f"{user} of {', '.join(groups)}" if groups else user
    return UserSearch(user=text, tokens=tokens_of(members))


def _members(options: AccessOptions, words: Mapping[str, object]) -> tuple[Member, ...]:
    stated = [name for name in (options.groups or "").split(",") if name.strip()]
    members = find_members(
        options.names,
        groups=stated,
        namespace=options.namespace,
        groups_feeds=options.groups_feeds,
    )
    if options.groups_index is None:
        return members
    return tuple(dict.fromkeys((*members, *target_groups(options.groups_index, words, members))))
