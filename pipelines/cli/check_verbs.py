"""Verbs that check before a run: `doctor`, `loss`."""

import click

COMMANDS: tuple[click.Command, ...] = ()
