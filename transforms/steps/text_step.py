"""`text`: a document becomes its text, for targets that search texts only.

HTML, mail and texts are read here, PDF and Office by libraries that are extras, in a process of
their own (see `text_process`). A document that cannot be read, and one of another type, keeps its
content: a target that cannot hold it has a loss of `content`.
"""

import os
import selectors
import subprocess
import time
from contextlib import suppress
from email import policy
from email.message import EmailMessage, Message
from email.parser import BytesParser
from importlib.util import find_spec
from typing import IO

import msgspec
from msgspec.structs import replace

from feedferry.schemas.content import MAX_CONTENT_BYTES, decode
from feedferry.schemas.errors import ConfigError, RecordError
from feedferry.schemas.record import DELETIONS, Record
from feedferry.transforms.config.yaml_structs import PositiveDuration, Size
from feedferry.transforms.content_types.document_text import DocumentText, is_text, text_of
from feedferry.transforms.processes import end_group, start_child
from feedferry.transforms.steps.step import TransformStep
from feedferry.transforms.steps.text_process import LENGTH, LIBRARIES, TEXT, library_of

_MODULE = "feedferry.transforms.steps.text_process"
_MAIL = "message/rfc822"
_READ_BYTES = 1 << 16


class TextRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The limits of one document: its bytes, and the time and memory of reading it."""

    max_bytes: Size = MAX_CONTENT_BYTES
    timeout: PositiveDuration = 60.0
    max_memory: Size = 2 << 30

    @classmethod
    def from_scalar(cls, value: object) -> "TextRules":
        if value is not True:
            raise ValueError(f"{value!r}; expected true, or limits")
        return cls()


class TextStep(TransformStep):
    """Replaces the content of a document by its text."""

    def __init__(self, rules: TextRules) -> None:
        self._rules = rules
        self._process = _TextProcess(rules)

    def apply(self, record: Record) -> Record:
        content = record.content
        if content is None or record.body is not None or record.action in DELETIONS:
            return record
        try:
            data = decode(content, max_bytes=self._rules.max_bytes)
        except RecordError:  # too large: it stays as it is
            return record
        text = self._text_of(data, record)
        if text is None:
            return record
        title = text.title if record.title is None else record.title
        return replace(record, content=None, charset=None, body=text.body, title=title)

    def close(self) -> None:
        self._process.close()

    def _text_of(self, data: bytes, record: Record) -> DocumentText | None:
        kind = (record.mimetype or "").partition(";")[0].strip().lower()
        if kind == _MAIL:
            return _text_of_mail(data)
        if library_of(kind) is not None:
            body = self._process.text_of(kind, data)
            return None if body is None else DocumentText(body, None, "utf-8")
        if is_text(record.mimetype, data):
            return text_of(data, mimetype=record.mimetype, charset=record.charset)
        return None


def _text_of_mail(data: bytes) -> DocumentText:
    """Return the subject of a mail as the title, and the text of its parts that are text."""
    mail = BytesParser(policy=policy.default).parsebytes(data)
    parts = [part for part in mail.walk() if part.get_content_maintype() == "text"]
    preferred = mail.get_body(("plain", "html"))
    chosen = [preferred] if isinstance(preferred, EmailMessage) else parts
    texts = [_text_of_part(part) for part in chosen]
    subject = " ".join(str(mail.get("subject", "")).split())
    return DocumentText("\n".join(texts), subject or None, "utf-8")


def _text_of_part(part: Message) -> str:
    data = part.get_payload(decode=True)
    if not isinstance(data, bytes):
        return ""
    charset = part.get_content_charset()
    return text_of(data, mimetype=part.get_content_type(), charset=charset).body


class _TextProcess:
    """The process that reads documents, started for the first one and again after a fault."""

    def __init__(self, rules: TextRules) -> None:
        self._rules = rules
        self._process: subprocess.Popen[bytes] | None = None

    def text_of(self, mimetype: str, data: bytes) -> str | None:
        """Return the text of a document, None if it cannot be read within the limits.

        Raise ConfigError if the library is not installed.
        """
        library = library_of(mimetype) or ""
        if find_spec(library) is None:
            extra = LIBRARIES[library]
            raise ConfigError(
                f"text: {mimetype}: no library {library}; pip install 'feedferry[{extra}]'"
            )
        process = self._process or self._start()
        request = b"".join(LENGTH.pack(len(part)) + part for part in (mimetype.encode(), data))
        try:
            reply = _exchange(process, request, time.monotonic() + self._rules.timeout)
        except (EOFError, OSError, TimeoutError):
            self.close()
            return None
        return reply[1:].decode() if reply.startswith(TEXT) else None

    def close(self) -> None:
        if self._process is not None:
            end_group(self._process)
            for pipe in (self._process.stdin, self._process.stdout):
                with suppress(OSError):
                    _pipe(pipe).close()
            self._process = None

    def _start(self) -> subprocess.Popen[bytes]:
        limit = str(self._rules.max_memory)
        self._process = start_child(
            _MODULE, limit, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        for pipe in (self._process.stdin, self._process.stdout):
            os.set_blocking(_pipe(pipe).fileno(), False)
        return self._process


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise AssertionError("a process without pipes")
    return pipe


def _exchange(process: subprocess.Popen[bytes], request: bytes, deadline: float) -> bytes:
    """Return the status and the text of a reply; raise TimeoutError, EOFError or OSError."""
    to_process, from_process = _pipe(process.stdin).fileno(), _pipe(process.stdout).fileno()
    left, reply = memoryview(request), bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(from_process, selectors.EVENT_READ)
        selector.register(to_process, selectors.EVENT_WRITE)
        while True:
            if len(reply) > LENGTH.size:
                (size,) = LENGTH.unpack_from(reply, 1)
                if len(reply) == 1 + LENGTH.size + size:
                    return bytes(reply[:1] + reply[1 + LENGTH.size :])
            seconds = deadline - time.monotonic()
            ready = selector.select(seconds) if seconds > 0 else []
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                if key.fd == to_process:
                    left = left[os.write(to_process, left[:_READ_BYTES]) :]
                    if not left:
                        selector.unregister(to_process)
                else:
                    block = os.read(from_process, _READ_BYTES)
                    if not block:
                        raise EOFError
                    reply += block
