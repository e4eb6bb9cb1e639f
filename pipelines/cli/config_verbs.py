"""Verbs about job files: `config check`, `config schema`, `config render`, `init`."""

import click

COMMANDS: tuple[click.Command, ...] = ()
