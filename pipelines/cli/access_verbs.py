"""The verb about who finds a document: `access`."""

import click


@click.command("access", short_help="Explain who sees a document; the filter of a search.")
@click.argument("names", nargs=-1, metavar="[USER]...")
@click.option("--user", "users", multiple=True, metavar="NAME", help="The same as USER.")
@click.option("--groups", metavar="NAME,…", help="Groups of the user, separated by commas.")
@click.option("--namespace", metavar="NAME", help="Namespace of the user and of --groups.")
@click.option(
    "--groups-feed",
    "groups_feeds",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="Add all groups of the user in a groups feed, a table, a spool or a job's state.acls.",
)
@click.option(
    "--groups-index",
    metavar="URL",
    help="Add all groups of the user in the index target.groups_index.",
)
@click.option(
    "--dls", metavar="INDEX", help="Print a role of OpenSearch Security, and the backend roles."
)
@click.option("--document", metavar="URL", help="Explain who sees this document.")
@click.option(
    "--changes",
    metavar="RUN",
    help="List who gains and who loses documents by a pushed run.",
)
@click.option(
    "--state",
    metavar="JOB",
    help="Job, run or output folder that has sent it, or the spool of a gateway.",
)
@click.option("--datasource", metavar="NAME", help="Datasource of the document.")
@click.option("--as-of", metavar="RUN|TIME", help="Explain it as of this run or time.")
@click.option("--target", metavar="URL", help="Print what this index has, too.")
@click.option("--auth", metavar="REF", help="Credentials of --target and --groups-index.")
@click.option("--ca-file", type=click.Path(), help="Certificates to trust.")
@click.option(
    "--format",
    "as_json",
    type=click.Choice(["text", "json"]),
    callback=lambda ctx, param, value: value == "json",
    default="text",
    help="Format for --document and --changes.",
    show_default=True,
)
def access(names: tuple[str, ...], users: tuple[str, ...], **words: object) -> int:
    """Print the filter with which USER searches OpenSearch or Elasticsearch, as JSON.

    The search finds the documents that ACLs permit to USER. Give all names of the user, such as bob
    and bob@example.com.

    With --changes, list the documents that some users gain (+) or lose (-) by a run, or by the
    newest run of a job.

    With --document, explain who sees a document: its ACLs, with the runs and feeds that brought
    them, the decision, and the layers that permit or deny USER.

    \b
    Examples:
      feedferry access bob --groups staff,hr
      feedferry access bob --groups-feed runs/nights/state.acls
      feedferry access bob --groups-index http://search.example.com:9200/intranet-groups
      feedferry access bob --groups staff --dls intranet
      feedferry access bob --groups staff --document http://example.com/plan --state nightly.yaml
      feedferry access --changes nightly.yaml

    \b
    Exit codes:
      0  done
      1  nothing is known of the document
      2  an option or a groups feed cannot be used
      4  a groups feed, a run or the target cannot be read
    """
    from feedferry.pipelines.cli.results.document_access import print_access

    return print_access({**words, "names": (*names, *users)})


COMMANDS: tuple[click.Command, ...] = (access,)
