"""Verbs about records that were set aside: `rejects list`, `show`, `export`, `replay`, `accept`."""

import click

COMMANDS: tuple[click.Command, ...] = ()
