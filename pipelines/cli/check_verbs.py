"""Verbs that check before a run: `doctor`, `loss`."""

import click

from pipelines.cli.verb import Verb


def _loss_flags(_name: str) -> list[click.Parameter]:
    from pipelines.cli.convert_options import ConvertOptions
    from pipelines.cli.flags import click_options
    from pipelines.doctor.loss import FLAGS

    return click_options(ConvertOptions, only=FLAGS)


@click.command(cls=Verb, flags=_loss_flags, short_help="Show what a conversion cannot carry.")
def loss(**words: object) -> int:
    """Show what a conversion cannot carry, field by field, and what a run does about it.

    The table is made by converting sample records. With --from, it has only what files of that
    format can hold; without it, or with a source that is no format, everything that a record has.

    \b
    Examples:
      feedferry loss --from gsa-feed --to thunderstone
      feedferry loss --to gsa-feed --feedtype metadata-and-url
      feedferry loss --to thunderstone --format json

    \b
    Exit codes:
      0  the table is printed, also if it is empty
      2  an option cannot be used
    """
    from pipelines.doctor.loss import run

    return run(words)


COMMANDS: tuple[click.Command, ...] = (loss,)
