"""The verb about who finds a document: `access`."""

import json
from typing import TypedDict, Unpack

import click


class UserWords(TypedDict):
    """The groups of a user, as click passes them."""

    groups: str | None
    namespace: str | None
    groups_feeds: tuple[str, ...]


@click.command("access", short_help="Print the filter of a search for a user.")
@click.argument("names", nargs=-1, metavar="USER...")
@click.option("--groups", metavar="NAME,…", help="Groups of the user, separated by commas.")
@click.option("--namespace", metavar="NAME", help="Namespace of the user and of --groups.")
@click.option(
    "--groups-feed",
    "groups_feeds",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="Add the groups of a groups feed or table that have the user as a member, at any depth.",
)
@click.option(
    "--dls", metavar="INDEX", help="Print a role of OpenSearch Security, and the backend roles."
)
@click.option(
    "--changes",
    metavar="RUN",
    help="List who gains and who loses documents by a pushed run.",
)
@click.option(
    "--format",
    "report_format",
    type=click.Choice(["text", "json"]),
    default="text",
    help="Format of these lines.",
)
def access(
    names: tuple[str, ...],
    dls: str | None,
    changes: str | None,
    report_format: str,
    **user: Unpack[UserWords],
) -> int:
    """Print the filter with which USER searches OpenSearch or Elasticsearch, as JSON.

    A search with this filter finds the documents that their ACLs permit to USER. Give all names of
    the user, such as bob and bob@example.com.

    With --changes, list the documents that some users gain (+) or lose (-) by a run, or by the
    newest run of a job.

    \b
    Examples:
      feedferry access bob --groups staff,hr
      feedferry access bob --groups-feed groups.xml
      feedferry access bob --groups staff --dls intranet
      feedferry access --changes nightly.yaml

    \b
    Exit codes:
      0  done
      2  an option or a groups feed cannot be used
      4  a groups feed cannot be read
    """
    if changes is not None:
        from feedferry.pipelines.inspect.acl_changes import change_lines, change_rows

        for line in (change_rows if report_format == "text" else change_lines)(changes):
            click.echo(line)
        return 0
    if not names:
        raise click.UsageError("Missing argument 'USER...'.")
    from feedferry.pipelines.inspect.user_access import find_members
    from feedferry.transforms.access.index_fields import search_filter, security_role, tokens_of

    stated = [name for name in (user["groups"] or "").split(",") if name.strip()]
    members = find_members(
        names, groups=stated, namespace=user["namespace"], groups_feeds=user["groups_feeds"]
    )
    tokens = tokens_of(members)
    if dls is None:
        click.echo(json.dumps(search_filter(tokens)))
    else:
        role = security_role(dls)
        click.echo(json.dumps({"role": role, "backend_roles": tokens}, indent=2))
    return 0


COMMANDS: tuple[click.Command, ...] = (access,)
