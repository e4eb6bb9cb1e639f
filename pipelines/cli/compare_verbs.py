"""Verbs that check inputs and targets: `validate`, `diff`, `verify`, `compact`."""

import click

from feedferry.pipelines.cli.verb import Verb

_FINDINGS_FORMAT = click.Option(
    ["--format", "report_format"],
    type=click.Choice(["text", "json", "sarif"]),
    default="text",
    help="Text, a line of JSON for each finding, or SARIF.",
)
_READ = ("from_format", "encoding", "base_url", "url_template", "zone", "strict", "max_token_bytes")


def _flags_of(verb: str) -> list[click.Parameter]:
    from feedferry.pipelines.cli.click_flags import USUAL, click_options
    from feedferry.pipelines.options.compare_options import (
        CompareOptions,
        ValidateOptions,
        VerifyOptions,
    )
    from feedferry.pipelines.options.convert_options import ConvertOptions
    from feedferry.pipelines.options.display_options import DisplayOptions
    from feedferry.pipelines.options.flags import flags_of
    from feedferry.pipelines.options.job_options import OverrideOptions
    from feedferry.pipelines.options.push_options import CONNECTION, ApplianceOptions
    from feedferry.pipelines.options.section import Section

    own = {
        "diff": click_options(CompareOptions),
        "verify": [
            *click_options(VerifyOptions),
            *click_options(ApplianceOptions, only=CONNECTION, usual=()),
            *click_options(OverrideOptions),
        ],
        "validate": [*click_options(ValidateOptions), _FINDINGS_FORMAT],
    }
    path = click.Path(allow_dash=verb not in ("diff", "verify"))
    arguments = (
        [click.Argument([name], type=path, metavar=name.upper()) for name in ("before", "after")]
        if verb == "diff"
        else [click.Argument(["inputs"], type=path, nargs=-1, metavar="INPUT...")]
    )
    read = [*arguments, *own.get(verb, ())]
    if verb == "validate":
        return [*read, *click_options(ConvertOptions, only=_READ)]
    is_compact = verb == "compact"
    written = {Section.WRITE, Section.RUN}
    names = [
        name
        for name, declared in flags_of(ConvertOptions).items()
        if name in _READ or (declared.flag.section in written and (is_compact or name != "output"))
    ]
    return [
        *read,
        *click_options(ConvertOptions, only=names, usual={*_READ, *USUAL}),
        *click_options(DisplayOptions, omit=() if is_compact else ("report_format",)),
    ]


@click.command(cls=Verb, flags=_flags_of, short_help="Show what differs between two inputs.")
def diff(**words: object) -> int:
    """Show the documents that BEFORE and AFTER differ in: added, removed, changed.

    Each is a file, a folder, a spool, or the folder of a run, in any format and any order. A
    history of feeds stands for the documents that an appliance would hold after it. Changed ACLs
    come first. With --to, both are compared as that format would hold them. With --emit, a feed is
    written that makes AFTER of BEFORE.

    \b
    Examples:
      feedferry diff monday.xml tuesday.xml
      feedferry diff old-export/ new-export/ --ignore modified,metadata:crawled
      feedferry diff monday/ tuesday/ --emit changes --to gsa-feed

    \b
    Exit codes:
      0  no difference
      1  documents differ, or records could not be read
      2  an option or input cannot be used
      4  an input cannot be read
    """
    from feedferry.pipelines.cli.results.comparisons import print_diff

    return print_diff(words)


@click.command(cls=Verb, flags=_flags_of, short_help="Prove that a target has the documents.")
def verify(**words: object) -> int:
    """Compare the documents of INPUT with those that a target has.

    INPUT is the folder of a run, or files and folders of feeds, or a job file: its newest run is
    compared with its target, as `verify` in the file says. Every document must be at the target,
    with the same content, fields and ACL, and no document that INPUT deletes. Other documents of
    the target are counted. With --emit, a feed is written that corrects the target.

    With --against urls, the servers of the documents are asked, by HEAD. A document whose server
    gives no clear answer is unknown.

    \b
    Examples:
      feedferry verify nightly.yaml
      feedferry verify out --against http://rehearsal.example.com:19900
      feedferry verify out --against spool/
      feedferry verify out --against http://rehearsal.example.com:19900 \\
          --emit missing --to gsa-feed
      feedferry verify out --against urls --sample 1000 --contents

    \b
    Exit codes:
      0   all documents are at the target
      1   documents are missing, differ or are unknown, or records could not be read
      2   an option or input cannot be used
      4   the input or the target cannot be read
      75  the target has not indexed all feeds yet
    """
    from feedferry.pipelines.cli.results.comparisons import print_verification

    return print_verification(words)


@click.command(cls=Verb, flags=_flags_of, short_help="Fold a history of feeds into one.")
def compact(**words: object) -> int:
    """Write the documents that an appliance would hold after all feeds of INPUT.

    INPUT are feeds in the order in which they were pushed, archives, or a spool. Later records
    replace earlier ones, updates are merged, deleted documents are left out. A datasource that has
    a full feed in the history becomes a full feed.

    \b
    Examples:
      feedferry compact archive/2019/ archive/2020/ -o whole --to gsa-feed
      feedferry compact spool/ -o whole --to avro

    \b
    Exit codes: those of convert
    """
    from feedferry.pipelines.cli.results.comparisons import print_compacted

    return print_compacted(words)


@click.command(cls=Verb, flags=_flags_of, short_help="Find everything wrong with feeds.")
def validate(report_format: str, **words: object) -> int:
    """Check feeds against their DTD and the rules of the specifications.

    All findings of all files are reported in one pass, with the line, the code, the cause and the
    cure. Findings about several records, such as chains of ACLs, come last: give all feeds of an
    appliance together.

    \b
    Examples:
      feedferry validate feed.xml
      feedferry validate archive/ --severity error
      feedferry validate feed.xml groups.xml --format sarif

    \b
    Exit codes:
      0  no findings
      1  findings
      2  an option or input cannot be used
      4  an input cannot be read
    """
    from feedferry.pipelines.cli.results.findings_text import print_findings

    return print_findings(words, report_format)


COMMANDS: tuple[click.Command, ...] = (validate, diff, verify, compact)
