"""Commands other than conversions, and conversions with a step, as they are measured."""

from collections.abc import Iterator
from pathlib import Path

STEPS = {
    "keep": "keep: {url: 'http://docs.example.com/*'}",
    "drop": "drop: {mimetype: image/*}",
    "urls": "urls: {rewrite: [['http://docs.example.com/', 'https://new.example.com/']]}",
    "metadata": "metadata: {rename: {Author: creator}, drop: x-*, move: {'metadata:Title': title}}",
    "principals": "principals: {table: people.csv, unmapped: keep}",
    "acl": "acl: effective",
    "content": "content: {max_bytes: 1MB}",
    "python": "python: {function: 'rules:same', from_job_folder: true}",
}
"""One step of each kind; its file is `NAME.yaml` next to the feed."""

_CONVERT = "convert {feed} -o {output} --to gsa-feed --jobs 1 --fresh -q"
VERBS = {
    "diff": "diff {feed} {feed}",
    "verify": "verify {feed} --against {feed}",
    "compact": "compact {feed} -o {output} --to gsa-feed -q",
    "validate": "validate {feed}",
    "validate --no-dtd": "validate {feed} --no-dtd",
    "no step": _CONVERT,
    **{f"step {name}": f"{_CONVERT} --transform {{folder}}/{name}.yaml" for name in STEPS},
}
"""The words of each command, without the name of the program."""

_PEOPLE = 100_000
_DOCUMENTS_OF_A_FOLDER = 100
_TEXT = "The boat left the harbour with the tide. " * 8


def words_of_verb(command: str, feed: Path, output: Path) -> Iterator[str]:
    """Yield the words of a command."""
    paths = {"feed": feed, "output": output, "folder": feed.parent}
    return (word.format(**paths) for word in VERBS[command].split())


def write_steps(folder: Path) -> None:
    """Write the files of all steps, a table of 100,000 people, and a function."""
    for name, step in STEPS.items():
        (folder / f"{name}.yaml").write_text(f"transform:\n- {step}\n", "utf-8")
    lines = (f"EXAMPLE\\user{number},user{number}@example.com\n" for number in range(_PEOPLE))
    (folder / "people.csv").write_text("".join(lines), "utf-8")
    (folder / "rules.py").write_text("def same(record):\n    return record\n", "utf-8")


def protected(number: int) -> bytes:
    """Return a short text with an ACL that inherits, after the ACL of its folder if it is new."""
    folder = f"http://docs.example.com/folder{number // _DOCUMENTS_OF_A_FOLDER}/"
    record = (
        f'<record url="{folder}{number}.txt" mimetype="text/plain"'
        f' last-modified="Tue, 06 Nov 2007 12:45:{number % 60:02d} GMT">\n'
        f'<acl inherit-from="{folder}"><principal scope="user" access="permit">'
        f"EXAMPLE\\user{number % _PEOPLE}</principal></acl>\n<metadata>\n"
        f'<meta name="Author" content="Author {number % 311}"/>\n'
        f'<meta name="Title" content="Document {number}"/>\n'
        f"</metadata>\n<content>{_TEXT}</content>\n</record>\n"
    )
    if number % _DOCUMENTS_OF_A_FOLDER == 0:
        record = (
            f'<acl url="{folder}" inheritance-type="child-overrides">'
            f'<principal scope="group" access="permit">staff</principal></acl>\n{record}'
        )
    return record.encode()
