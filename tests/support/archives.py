"""Small archives: feeds, Items and jsonl lines of numbered documents, to be put into files."""

from pathlib import Path

HOST = "http://intranet.example.com"
ACL = '<acl><principal scope="group" access="permit">staff</principal></acl>'
DELETED = f'<record url="{HOST}/old.txt" action="delete"/>'
BROKEN = (
    f'<record url="{HOST}/torn.txt" mimetype="text/plain"><content>fish & chips</content></record>'
)


def document(number: int, *, text: str = "plan", inside: str = "") -> str:
    """Return the gsafeed record of a plain text, with `inside` before its content."""
    return (
        f'<record url="{HOST}/{number}.txt" mimetype="text/plain">{inside}'
        f"<content>{text} {number}</content></record>"
    )


def documents(first: int, last: int, *, text: str = "plan") -> list[str]:
    """The records from one number to another, that one among them."""
    return [document(number, text=text) for number in range(first, last + 1)]


def gsa_feed(*records: str, datasource: str = "intranet", feedtype: str = "incremental") -> bytes:
    """A feed of one group, each record on a line of its own from the third on."""
    lines = (
        '<?xml version="1.0" encoding="UTF-8"?>',
        f"<gsafeed><header><datasource>{datasource}</datasource>"
        f"<feedtype>{feedtype}</feedtype></header><group>",
        *records,
        "</group></gsafeed>",
    )
    return "\n".join(lines).encode() + b"\n"


def thunderstone(*urls: str) -> bytes:
    """A dataload that adds a document at each url."""
    added = (f"<Item><Type>I</Type><Url>{url}</Url><Body>plan</Body></Item>\n" for url in urls)
    return f"<ThunderstoneReplication>{''.join(added)}</ThunderstoneReplication>\n".encode()


def jsonl(*urls: str) -> bytes:
    """A line that deletes each url."""
    return "".join(f'{{"action":"DELETE","url":"{url}"}}\n' for url in urls).encode()


def put(path: Path, text: bytes) -> str:
    """Write a file, and its folders; return its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)
    return str(path)
