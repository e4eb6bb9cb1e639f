"""The names by which the documents of a format are cut into units."""

import re

_AFTER = r"(?=[\s/>])"


class Vocabulary:
    """The names by which a format's documents are cut.

    `units` are the elements that become records. The end tag of the first closes a stretch of
    unknown start; the others may also stand inside the first. `prefixes` are namespaces that
    documents in the wild use without declaring them.
    """

    def __init__(
        self,
        *,
        root: str,
        units: tuple[str, ...],
        group: str = "(?!)",
        header: str = "(?!)",
        prefixes: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.root = root
        self.units = units
        self.prefixes = prefixes
        first, loose = units[0], "|".join(units[1:]) or "(?!)"
        around = f"/?(?:{group}|{root}|{header})"
        skips = r"(?P<cdata>!\[CDATA\[)|(?P<comment>!--)|(?P<instruction>\?)"
        self.top = _tokens(
            rf"(?P<unit>{'|'.join(units)}){_AFTER}|(?P<comment>!--)|(?P<instruction>\?)"
            rf"|(?P<doctype>!DOCTYPE)|(?P<root>{root}){_AFTER}|(?P<end>/{root}\s*>)"
            rf"|(?P<group>{group}){_AFTER}|(?P<ungroup>/{group}\s*>)|(?P<header>{header}){_AFTER}"
        )
        self.record_end = re.compile(f"</{first}\\s*>".encode())
        self.next_unit = re.compile(
            rf"\s*(?:</{group}\s*>\s*<{group}{_AFTER}[^<>]*>\s*)?<(?P<unit>{'|'.join(units)}){_AFTER}".encode()
        )
        self.header_end = re.compile(rf"</{header}\s*>|(?=<{group}{_AFTER})".encode())
        self.inside = {
            first: _tokens(
                rf"(?P<end>/{first}\s*>)|{skips}|(?P<other>(?:{first}|{around}){_AFTER})"
            )
        }
        for name in units[1:]:
            others = f"/?(?:{'|'.join(units)})|{around}"
            self.inside[name] = _tokens(
                rf"(?P<end>/{name}\s*>)|{skips}|(?P<other>(?:{others}){_AFTER})"
            )
        # An element that stands alone has a url; inside the first unit it must not have one.
        self.recover = _tokens(
            rf"(?P<end>/{first}\s*>)|{skips}|(?P<other>(?:{first}|{around}){_AFTER}"
            rf"|(?:{loose})(?=\s(?:[^<>]*\s)?url\s*=))"
            rf"|(?P<opened>(?:{loose}){_AFTER})|(?P<closed>/(?:{loose})\s*>)"
        )


def _tokens(alternatives: str) -> re.Pattern[bytes]:
    """A pattern that begins with one literal byte, which `re` finds at the speed of memchr."""
    return re.compile(f"<(?:{alternatives})".encode())
