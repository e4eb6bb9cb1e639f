"""URLs of databases: no file holds a secret, and no message shows one."""

import pytest

from feedferry.schemas.errors import ConfigError
from feedferry.transforms.sources.database.connection.session import connect
from feedferry.transforms.sources.database.mapping.connection_url import check_connection
from feedferry.transforms.sources.database.mapping.row_mapping import RowMapping

PLAIN = "a password in plain text; expected ${env:NAME} or ${file:PATH} instead"
NOT_A_URL = (
    "not the URL of a database; expected one such as sqlite:///people.db or "
    "postgresql://reader:${env:PASSWORD}@db.example.com/people"
)
UNKNOWN_REFERENCE = "an unknown ${ reference; expected ${env:NAME} or ${file:PATH}"


@pytest.mark.parametrize(
    "text",
    [
        "sqlite:///people.db",
        "postgresql+psycopg://reader@db.example.com:5433/people",
        "postgresql://${env:USER}:${env:PW}@${env:HOST}/people",
        "postgresql:///people?host=/run/postgresql&sslkey=/etc/key.pem",
        "postgresql://db.example.com/people?user=reader&password=${file:/run/pw}",
        "${env:DATABASE_URL}",
    ],
)
def test_a_url_without_a_plain_secret_is_accepted(text: str) -> None:
    assert check_connection(text) == text


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("postgresql://reader:hunter2@db.example.com/people", PLAIN),
        ("postgresql://reader:hunter2${env:PW}@db.example.com/people", PLAIN),
        ("mysql://db.example.com/people?Passwd=hunter2", PLAIN),
        ("mysql://db.example.com/people?ssl_token=hunter2", PLAIN),
        ("hunter2", NOT_A_URL),
        ("postgresql://reader@db.example.com:hunter2/people", NOT_A_URL),
        ("postgresql://reader:${PW}@db.example.com/people", UNKNOWN_REFERENCE),
        ("postgresql://reader:${env:PW@db.example.com/people", UNKNOWN_REFERENCE),
    ],
)
def test_other_values_are_refused_and_not_shown(value: str, error: str) -> None:
    with pytest.raises(ValueError, match=r"expected") as caught:
        check_connection(value)
    assert str(caught.value) == error
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("connection", "message"),
    [
        ("docs", f"connection: {NOT_A_URL}"),
        (
            "access://host/docs",
            "connection: 'access'; expected a dialect of SQLAlchemy, such as postgresql, mariadb, "
            "mysql or sqlite",
        ),
        (
            "oracle+oracledb://s3same@host/docs",
            "connection: 'oracle+oracledb' needs the Python module 'oracledb'; install its "
            "package, or use another driver",
        ),
        (
            "postgresql+psycopg2://reader@host/docs",
            "connection: 'postgresql+psycopg2'; expected the driver that feedferry supports: "
            "postgresql:// or postgresql+psycopg://",
        ),
        (
            "mysql+mysqldb://reader@host/docs",
            "connection: 'mysql+mysqldb'; expected the driver that feedferry supports: "
            "mysql:// or mysql+pymysql://",
        ),
        (
            "postgresql://me:${env:NOT_SET_ANYWHERE}@host/docs",
            "${env:NOT_SET_ANYWHERE}: not set; expected a variable of the environment",
        ),
    ],
)
def test_a_connection_without_a_driver_or_a_secret_is_refused(
    connection: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        connect(RowMapping(connection=connection))
    assert str(caught.value) == message
    assert caught.value.__cause__ is None
