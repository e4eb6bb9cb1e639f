"""2,000 documents and their groups move to other hosts and domains, proved at the target."""

import json
from pathlib import Path

import pytest

from feedferry.pipelines.cli.main import main
from support.rehearsal import gone, gsa_feed
from support.served import serving

pytestmark = pytest.mark.slow

DOCUMENTS = 2_000
GROUPS = 20
NEW = "https://docs.example.org/"
JOB = """\
version: 1
job: {job}
source: {{type: feeds, path: {source}}}
transform:
  - urls: {{rewrite: [["http://docs.example.com/", "https://docs.example.org/"]]}}
  - principals: {{rewrite: [['ACME\\*', '*@acme.example.org']], unmapped: reject}}
target: {{type: {target}, datasource: docs, url: {url!r}}}
verify: target
"""


def write_feeds() -> None:
    records = "".join(
        f'<record url="http://docs.example.com/{number}" mimetype="text/plain"><acl>'
        f'<principal scope="group" access="permit">ACME\\group{number % GROUPS}</principal>'
        f'<principal scope="user" access="deny">ACME\\user{number % 7}</principal></acl>'
        f"<content>Page {number} of the old intranet.</content></record>\n"
        for number in range(DOCUMENTS)
    )
    Path("feed.xml").write_text(
        '<?xml version="1.0"?><gsafeed><header><datasource>docs</datasource>'
        f"<feedtype>full</feedtype></header><group>{records}</group></gsafeed>"
    )
    memberships = "".join(
        f'<membership><principal scope="GROUP">ACME\\group{number}</principal><members>'
        f'<principal scope="USER">ACME\\user{number}</principal></members></membership>'
        for number in range(GROUPS)
    )
    Path("groups.xml").write_text(f'<?xml version="1.0"?><xmlgroups>{memberships}</xmlgroups>')


def counts(text: str) -> dict[str, int]:
    found: dict[str, int] = json.loads(text.splitlines()[-1])["counts"]
    return found


def test_a_migration_is_proved_repaired_and_proved_again(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_feeds()
    with serving(here / "spool") as appliance:
        for job, source, target in (
            ("move", "feed.xml", "gsa-feed"),
            ("groups", "groups.xml", "gsa-groups"),
        ):
            text = JOB.format(job=job, source=source, target=target, url=appliance.url)
            Path(f"{job}.yaml").write_text(text)
        assert main(["run", "groups.yaml", "--progress", "none"]) == 0
        [chunk] = Path("runs/groups").glob("*-*/chunks/*.xml")
        assert chunk.read_text().count("@acme.example.org") == 2 * GROUPS
        capsys.readouterr()
        assert main(["run", "move.yaml", "--progress", "none"]) == 0
        assert f"verified  {DOCUMENTS:,} same" in capsys.readouterr().out
        urls = {document["url"] for document in appliance.documents()}
        assert urls == {f"{NEW}{number}" for number in range(DOCUMENTS)}

        feed = gsa_feed(gone("77")).replace("http://www.example.com/", NEW)
        Path("gone.xml").write_text(feed.replace("<datasource>other<", "<datasource>docs<"))
        assert main(["push", "gone.xml", "-o", "gone", "--to", appliance.url]) == 0
        appliance.settle()
        [run] = map(str, Path("runs/move").glob("*-*"))
        verify = ["verify", run, "--against", appliance.url, "--format", "json"]
        capsys.readouterr()
        assert main([*verify, "--emit", "missing", "--to", "gsa-feed"]) == 1
        found, summary = capsys.readouterr().out.splitlines()
        assert json.loads(found) == {"change": "missing", "fields": [], "url": f"{NEW}77"}
        assert (counts(summary)["same"], counts(summary)["missing"]) == (DOCUMENTS - 1, 1)

        assert main(["push", "missing", "--to", appliance.url]) == 0
        appliance.settle()
        capsys.readouterr()
        assert main(verify) == 0
        assert counts(capsys.readouterr().out)["same"] == DOCUMENTS
        documents = appliance.documents()
    acl = next(document["acl"] for document in documents if document["url"] == f"{NEW}77")
    names = {principal["name"] for principal in acl["principals"]}
    assert names == {f"group{77 % GROUPS}@acme.example.org", f"user{77 % 7}@acme.example.org"}
