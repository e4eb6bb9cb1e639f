"""The url of a database as a file may hold it: with references where its secrets would stand."""

import re
from itertools import starmap
from typing import Any

import sqlalchemy as sa

from schemas.errors import ConfigError
from transforms.sources.secrets import REFERENCE

PASSWORD = "${env:DATABASE_PASSWORD}"
"""What stands for a password in a file that is written for its user."""

_SECRET = re.compile("pass|pwd|secret|token|api_?key", re.IGNORECASE)
_ODBC = re.compile(r"(?:\A|;)\s*(?:pwd|password)\s*=\s*(?!\s*(?:;|\Z))", re.IGNORECASE)
_MARK = "90071992547409910"
"""Stands for a reference in a url that is looked at: it may be a port."""


def parse_connection(key: str, value: Any) -> str:
    """Return the url of a database; raise ConfigError, which does not show it, if it has a secret.

    A reference may be all of it.
    """
    if not isinstance(value, str):
        raise ConfigError(f"{key}: {type(value).__name__}; expected the url of a database")
    if REFERENCE.fullmatch(value):
        return value
    if "${" in REFERENCE.sub("", value):
        raise ConfigError(
            f"{key}: a ${{ that is no reference; expected ${{env:NAME}} or ${{file:PATH}}"
        )
    url = _url(key, value)
    options = ((name, str(value)) for name, value in url.query.items())
    if _is_told(url.password or "") or any(starmap(_is_secret, options)):
        raise ConfigError(
            f"{key}: a password as it is; expected ${{env:NAME}} or ${{file:PATH}} in its place"
        )
    return value


def hide_password(connection: str) -> str:
    """Return the url of a database with a reference in place of each password that it tells."""
    url = _url("connection", connection)
    is_told = _is_told(url.password or "")
    told = {name: _MARK for name, value in url.query.items() if _is_secret(name, str(value))}
    if not is_told and not told:
        return connection
    hidden = url.update_query_dict(told)
    if is_told:
        hidden = hidden.set(password=_MARK)
    return hidden.render_as_string(hide_password=False).replace(_MARK, PASSWORD)


def _url(key: str, text: str) -> sa.URL:
    try:
        return sa.make_url(REFERENCE.sub(_MARK, text))
    except (sa.exc.ArgumentError, ValueError):
        raise ConfigError(
            f"{key}: no url of a database; expected one such as sqlite:///people.db or "
            "postgresql://reader:${env:PASSWORD}@db.example.com/people"
        ) from None


def _is_told(secret: str) -> bool:
    return secret.replace(_MARK, "") != ""


def _is_secret(name: str, value: str) -> bool:
    """Whether an option tells a password, in one of the ways in which drivers take it there."""
    if name == "odbc_connect":
        return _ODBC.search(value.replace(_MARK, "")) is not None
    return _SECRET.search(name) is not None and _is_told(value)
