"""Verbs that run jobs and operate their runs: `run`, `runs`, `state`."""

import click

COMMANDS: tuple[click.Command, ...] = ()
