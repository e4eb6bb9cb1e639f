"""The verb about who finds a document: `access`."""

import json

import click


@click.command("access", short_help="Print the filter of a search for a user.")
@click.argument("names", nargs=-1, required=True, metavar="USER...")
@click.option("--groups", metavar="NAME,…", help="Groups of the user, separated by commas.")
@click.option("--namespace", metavar="NAME", help="Namespace of the user and of --groups.")
@click.option(
    "--groups-feed",
    "groups_feeds",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="Add the groups of a groups feed, a table or the state.acls of a job that have the user as"
    " a member, at any depth.",
)
@click.option(
    "--dls", metavar="INDEX", help="Print a role of OpenSearch Security, and the backend roles."
)
def access(
    names: tuple[str, ...],
    groups: str | None,
    namespace: str | None,
    groups_feeds: tuple[str, ...],
    dls: str | None,
) -> int:
    """Print the filter with which USER searches OpenSearch or Elasticsearch, as JSON.

    A search with this filter finds the documents that their ACLs permit to USER. Give all names of
    the user, such as bob and bob@example.com. With --dls, print a role whose document-level
    security has the same filter, and the backend roles of the user.

    \b
    Examples:
      feedferry access bob --groups staff,hr
      feedferry access bob --groups-feed groups.xml
      feedferry access bob --groups-feed runs/nights/state.acls
      feedferry access bob --groups staff --dls intranet

    \b
    Exit codes:
      0  done
      2  an option or a groups feed cannot be used
      4  a groups feed cannot be read
    """
    from feedferry.pipelines.inspect.user_access import find_members
    from feedferry.transforms.access.index_fields import search_filter, security_role, tokens_of

    stated = [name for name in (groups or "").split(",") if name.strip()]
    members = find_members(names, groups=stated, namespace=namespace, groups_feeds=groups_feeds)
    tokens = tokens_of(members)
    if dls is None:
        click.echo(json.dumps(search_filter(tokens)))
    else:
        role = security_role(dls)
        click.echo(json.dumps({"role": role, "backend_roles": tokens}, indent=2))
    return 0


COMMANDS: tuple[click.Command, ...] = (access,)
