"""Urls of databases in files: none may tell a secret, and no message shows one."""

import pytest

from schemas.errors import ConfigError
from transforms.sources.database.connection_url import hide_password, parse_connection

TOLD = "connection: a password as it is; expected ${env:NAME} or ${file:PATH} in its place"
NO_URL = (
    "connection: no url of a database; expected one such as sqlite:///people.db or "
    "postgresql://reader:${env:PASSWORD}@db.example.com/people"
)
NO_REFERENCE = "connection: a ${ that is no reference; expected ${env:NAME} or ${file:PATH}"


@pytest.mark.parametrize(
    "text",
    [
        "sqlite:///people.db",
        "sqlite://",
        "postgresql://db.example.com/people",
        "postgresql+psycopg://reader@db.example.com:5433/people",
        "postgresql://reader:${env:PW}@db.example.com/people",
        "postgresql://reader:${file:/run/secrets/pw}@db.example.com/people",
        "postgresql://${env:USER}:${env:PW}@${env:HOST}/people",
        "postgresql:///people?host=/run/postgresql&sslkey=/etc/key.pem",
        "postgresql://db.example.com/people?user=reader&password=${env:PW}",
        "mssql+pyodbc:///?odbc_connect=Driver%3DX;UID%3Da;PWD%3D${env:PW}",
        "${env:DATABASE_URL}",
        "${file:/run/secrets/url}",
    ],
)
def test_a_url_that_tells_no_secret_stays_as_it_is(text: str) -> None:
    assert parse_connection("connection", text) == text


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://reader:hunter2@db.example.com/people",
        "postgresql://reader:hunter2${env:PW}@db.example.com/people",
        "postgresql://db.example.com/people?password=hunter2",
        "mysql://db.example.com/people?Passwd=hunter2",
        "mysql://db.example.com/people?ssl_token=hunter2",
        "mssql+pyodbc:///?odbc_connect=Driver%3DX;UID%3Da;PWD%3Dhunter2",
    ],
)
def test_a_url_that_tells_a_secret_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_connection("connection", text)

    assert str(caught.value) == TOLD


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("hunter2", NO_URL),
        ("", NO_URL),
        ("postgresql://reader@db.example.com:hunter2/people", NO_URL),
        ("postgresql://reader:${PW}@db.example.com/people", NO_REFERENCE),
        ("postgresql://reader:${env:PW@db.example.com/people", NO_REFERENCE),
        (7, "connection: int; expected the url of a database"),
        (None, "connection: NoneType; expected the url of a database"),
        (["hunter2"], "connection: list; expected the url of a database"),
    ],
)
def test_what_is_no_url_is_refused_and_not_shown(value: object, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_connection("connection", value)

    assert str(caught.value) == expected


def test_nothing_behind_a_refusal_shows_what_was_found() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_connection("connection", "postgresql://reader@db.example.com:hunter2/people")

    assert caught.value.__suppress_context__


def test_a_password_is_replaced_by_a_reference() -> None:
    assert hide_password("postgresql://reader:hun%40ter2@db.example.com/people?a=b") == (
        "postgresql://reader:${env:DATABASE_PASSWORD}@db.example.com/people?a=b"
    )


def test_a_password_among_the_options_is_replaced_as_well() -> None:
    assert hide_password("mysql://db.example.com/people?passwd=hunter2&charset=utf8mb4") == (
        "mysql://db.example.com/people?charset=utf8mb4&passwd=${env:DATABASE_PASSWORD}"
    )


@pytest.mark.parametrize(
    "text",
    [
        "sqlite:///my people.db",
        "postgresql://${env:USER}:${env:PW}@${env:HOST}/people?password=${file:/run/pw}",
    ],
)
def test_a_url_without_a_password_stays_as_it_is(text: str) -> None:
    assert hide_password(text) == text
