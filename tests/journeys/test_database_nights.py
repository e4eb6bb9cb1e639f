"""Nights of a database: PostgreSQL with 20,000 rows is loaded, and followed over five nights."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import pytest

from feedferry.schemas.run_record import Phase
from support.databases import PASSWORD, Server, postgresql
from support.operators import Operator, appliance, contents, has_receipts, has_spans

pytestmark = pytest.mark.slow

ROWS = 20_000
JOB = """\
version: 1
job: people
source:
  type: database
  mapping: people.map.yaml
  span_bytes: 512KiB
target:
  type: gsa-feed
  url: {url}
  datasource: people
chunk: {{max_bytes: 512KiB}}
push: {{attempts: 1}}
safety: {{min_records: 1000, max_delete_percent: 5}}
"""
MAPPING = """\
connection: postgresql://feeder:${{env:PEOPLE_PASSWORD}}@127.0.0.1:{port}/{database}
table: people
url: http://people.example.com/{{id}}
content: {{column: {column}}}
mimetype: text/plain
incremental: {{timestamp: updated_at, deletes: compare}}
"""
TABLE = (
    "CREATE TABLE people (id integer PRIMARY KEY, body text NOT NULL,"
    " updated_at timestamptz NOT NULL DEFAULT now())",
    "INSERT INTO people (id, body) SELECT id, repeat('Person ' || id || '. ', 20)"
    f" FROM generate_series(1, {ROWS}) AS id",
    "CREATE INDEX ON people (updated_at)",
)
SLOW = "- {endpoint: xmlfeed, delay: 100ms}\n"


class People(NamedTuple):
    """The table, as the database has it now."""

    server: Server
    database: str
    column: str = "body"

    def execute(self, *statements: str) -> None:
        self.server.execute(self.database, statements)

    def change(self, night: int) -> None:
        """Change 200 rows, insert 300, delete 200."""
        self.execute(
            f"UPDATE people SET {self.column} = {self.column} || ' Night {night}.',"
            f" updated_at = now() WHERE id % 100 = {night}",
            f"INSERT INTO people (id, {self.column}) SELECT id, 'Hired in night {night}, ' || id"
            f" FROM generate_series({night}000000, {night}000299) AS id",
            f"DELETE FROM people WHERE id BETWEEN {night * 1000} AND {night * 1000 + 199}",
        )

    def documents(self) -> dict[str, str | None]:
        rows = self.server.execute(self.database, [f"SELECT id, {self.column} FROM people"])
        return {
            f"http://people.example.com/{key}": sha256(str(text).encode()).hexdigest()
            for key, text in rows
        }

    def mapping(self) -> str:
        return MAPPING.format(port=self.server.port, database=self.database, column=self.column)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgresql() as running:
        yield running


def test_five_nights_of_a_database(server: Server, tmp_path: Path) -> None:
    people = People(server, server.new_database(*TABLE))
    (tmp_path / "people.map.yaml").write_text(people.mapping())
    scenario = tmp_path / "slow.yaml"
    scenario.write_text(SLOW)
    slow = ("--scenario", str(scenario))
    with appliance(tmp_path / "spool") as gsa:
        text = JOB.format(url=gsa.url)
        operator = Operator(tmp_path, "people", text, PEOPLE_PASSWORD=PASSWORD)

        # The first night loads all rows, and is killed twice.
        with gsa.up(*slow) as served:
            operator.run_killed(Phase.CONVERT, has_spans(3))
            operator.run_killed(Phase.PUSH, has_receipts(4))
            assert operator.run().returncode == 0
            assert contents(served) == people.documents()

        # In the second night the appliance is dead; it is repaired in the morning.
        people.change(2)
        after_dead = operator.run()
        assert after_dead.returncode == 4
        assert operator.record().phase is Phase.PUSH
        people.execute(f"INSERT INTO people (id, {people.column}) VALUES (9000000, 'Hired late')")
        with gsa.up() as served:
            assert operator.run().returncode == 0
            assert contents(served) == people.documents()

        # The third night reaches its deadline, and is continued.
        people.change(3)
        with gsa.up(*slow) as served:
            late = operator.run("--deadline", "1ms")
            assert late.returncode == 75
            assert operator.run().returncode == 0
            assert contents(served) == people.documents()

        # In the fourth night a column that the mapping names has another name.
        people.change(4)
        people.execute("ALTER TABLE people RENAME COLUMN body TO biography")
        people = people._replace(column="biography")
        with gsa.up() as served:
            before = contents(served)
            refused = operator.run()
            assert refused.returncode == 2
            assert "people.map.yaml" in refused.stderr
            assert "'body'" in refused.stderr
            assert contents(served) == before
            (tmp_path / "people.map.yaml").write_text(people.mapping())
            assert operator.run().returncode == 0
            assert contents(served) == people.documents()

        # The fifth night finds most of the table gone, and stops; it is restored.
        people.change(5)
        people.execute("CREATE TABLE kept AS TABLE people", "DELETE FROM people WHERE id > 2000")
        with gsa.up() as served:
            before = contents(served)
            assert operator.run().returncode == 3
            assert contents(served) == before
            people.execute("TRUNCATE people", "INSERT INTO people TABLE kept")
            assert operator.run().returncode == 0
            assert contents(served) == people.documents()

    assert PASSWORD not in "".join(
        path.read_text("utf-8", "replace")
        for path in operator.home.rglob("*")
        if path.is_file() and path.suffix in {".json", ".jsonl", ".yaml", ".html", ".log"}
    )
