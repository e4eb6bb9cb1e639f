"""The URL of a database: its form, and no secret in plain text."""

import sqlalchemy as sa

from feedferry.transforms.config.secrets import (
    PLAIN_SECRET,
    REFERENCE,
    SECRET_NAME,
    check_references,
)

_PLACEHOLDER = "90071992547409910"
"""Replaces a reference while a URL is parsed: digits, since it can be the port."""
_EXAMPLE = (
    "such as sqlite:///people.db or postgresql://reader:${env:PASSWORD}@db.example.com/people"
)


def check_connection(value: str) -> str:
    """Return the URL of a database; raise ValueError, which does not show it, for a secret in it.

    The whole URL can be one reference.
    """
    if REFERENCE.fullmatch(value):
        return value
    check_references(value)
    url = parse_url(REFERENCE.sub(_PLACEHOLDER, value))
    if any(secret.replace(_PLACEHOLDER, "") for secret in secrets_of(url)):
        raise ValueError(PLAIN_SECRET)
    return value


def parse_url(text: str) -> sa.URL:
    try:
        return sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError):
        raise ValueError(f"not the URL of a database; expected one {_EXAMPLE}") from None


def secrets_of(url: sa.URL) -> list[str]:
    """Return the password and the secret options of a URL."""
    options = [str(value) for name, value in url.query.items() if SECRET_NAME.search(name)]
    return [str(url.password or ""), *options]
