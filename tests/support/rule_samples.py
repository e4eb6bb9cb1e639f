"""Documents that break each rule once, and no other, next to the same documents corrected."""

from transforms.validate.record_checks import MAX_URL_CHARS

_DOCTYPE = '<!DOCTYPE gsafeed PUBLIC "-//Google//DTD GSA Feeds//EN" "">\n'
_URL = 'url="http://www.example.com/a"'
_TEXT = "<content>text</content>"
_ACL = '<acl><principal scope="user" access="permit">{}</principal></acl>'.format
_PARENT = '<acl url="http://www.example.com/d/" inheritance-type="{}"{}>{}</acl>'.format
_JOE = '<principal scope="user" access="permit">joe</principal>'


def _feed(*records: str, datasource: str = "docs", feedtype: str = "incremental") -> str:
    """Return a feed with these records."""
    header = f"<datasource>{datasource}</datasource>\n<feedtype>{feedtype}</feedtype>"
    return (
        f"{_DOCTYPE}<gsafeed>\n<header>\n{header}\n</header>\n<group>\n"
        + "\n".join(records)
        + "\n</group>\n</gsafeed>\n"
    )


def _record(inner: str = _TEXT, *, url: str = _URL, more: str = "") -> str:
    return f'<record {url} mimetype="text/plain"{more}>{inner}</record>'


def _urls(*records: str, datasource: str = "docs") -> str:
    return _feed(*records, datasource=datasource, feedtype="metadata-and-url")


def _groups(members: str) -> str:
    return (
        '<xmlgroups>\n<membership>\n<principal scope="GROUP">staff</principal>\n'
        f"<members>{members}</members>\n</membership>\n</xmlgroups>\n"
    )


def _data(item: str) -> str:
    return f"<ThunderstoneReplication>\n<Item>{item}</Item>\n</ThunderstoneReplication>\n"


def _child(parent: str) -> str:
    return _record(
        f'<acl inherit-from="{parent}">{_JOE}</acl>{_TEXT}', url='url="http://www.example.com/d/a"'
    )


SAMPLES: dict[str, tuple[str, str]] = {
    "datasource-name": (
        _feed(_record(), datasource="my docs"),
        _feed(_record(), datasource="my_docs"),
    ),
    "feedtype-name": (_feed(_record(), feedtype="ful"), _feed(_record(), feedtype="full")),
    "header-incomplete": (
        _feed(_record()).replace("<feedtype>incremental</feedtype>\n", "<feedtype/>\n"),
        _feed(_record()),
    ),
    "doctype-missing": (_feed(_record()).removeprefix(_DOCTYPE), _feed(_record())),
    "dtd": (_feed(_record(f"<note/>{_TEXT}")), _feed(_record())),
    "url-relative": (_feed(_record(url='url="/a"')), _feed(_record())),
    "url-host": (
        _feed(_record(url='url="http://intranet/a"')),
        _feed(_record(url='url="http://intranet.example.com/a"')),
    ),
    "url-length": (
        _feed(_record(url=f'url="http://www.example.com/{"a" * MAX_URL_CHARS}"')),
        _feed(_record()),
    ),
    "content-in-web-feed": (_urls(_record()), _feed(_record())),
    "metadata-in-web": (
        _urls(_record('<metadata><meta name="a" content="b"/></metadata>'), datasource="web"),
        _urls(_record('<metadata><meta name="a" content="b"/></metadata>')),
    ),
    "metadata-without-content": (
        _feed(_record('<metadata><meta name="a" content="b"/></metadata>'), feedtype="full"),
        _feed(_record('<metadata><meta name="a" content="b"/></metadata>')),
    ),
    "mimetype-absent": (_feed(f'<record {_URL} mimetype="">{_TEXT}</record>'), _feed(_record())),
    "mimetype-form": (
        _feed(f'<record {_URL} mimetype="pdf">{_TEXT}</record>'),
        _feed(f'<record {_URL} mimetype="application/pdf">{_TEXT}</record>'),
    ),
    "crawl-immediately-ignored": (
        _feed(_record(more=' crawl-immediately="true"')),
        _feed(_record()),
    ),
    "crawl-once-ignored": (_feed(_record(more=' crawl-once="true"')), _feed(_record())),
    "metadata-empty": (
        _feed(_record(f'<metadata><meta name="a" content=""/></metadata>{_TEXT}')),
        _feed(_record()),
    ),
    "acl-in-metadata": (
        _feed(
            _record(
                f'{_ACL("joe")}<metadata><meta name="google:aclusers" content="joe"/></metadata>'
                f"{_TEXT}"
            )
        ),
        _feed(_record(_ACL("joe") + _TEXT)),
    ),
    "principal-empty": (
        _feed(_record(_ACL("joe").replace("</acl>", _ACL(" ").removeprefix("<acl>")) + _TEXT)),
        _feed(_record(_ACL("joe") + _TEXT)),
    ),
    "principal-padded": (
        _feed(_record(_ACL(" joe ") + _TEXT)),
        _feed(_record(_ACL("joe") + _TEXT)),
    ),
    "principal-in-both": (
        _feed(
            _record(
                "<acl>"
                + _JOE
                + _JOE.replace("permit", "deny")
                + '<principal scope="user" access="permit">ann</principal></acl>'
                + _TEXT
            )
        ),
        _feed(_record(_ACL("joe") + _TEXT)),
    ),
    "acl-parent-missing": (
        _feed(_child("http://www.example.com/d/")),
        _feed(_PARENT("child-overrides", "", _JOE), _child("http://www.example.com/d/")),
    ),
    "acl-leaf-parent": (
        _feed(_PARENT("leaf-node", "", _JOE), _child("http://www.example.com/d/")),
        _feed(_PARENT("child-overrides", "", _JOE), _child("http://www.example.com/d/")),
    ),
    "acl-cycle": (
        _feed(_PARENT("child-overrides", ' inherit-from="http://www.example.com/d/"', _JOE)),
        _feed(_PARENT("child-overrides", "", _JOE)),
    ),
    "acl-two-forms": (
        _feed(
            _record(_ACL("joe") + _TEXT, url='url="http://www.example.com/d/"'),
            _PARENT("child-overrides", "", _JOE),
        ),
        _feed(_record(_ACL("joe") + _TEXT)),
    ),
    "url-repeated": (_feed(_record(), _record()), _feed(_record())),
    "group-in-itself": (
        _groups('<principal scope="GROUP">staff</principal>'),
        _groups('<principal scope="USER">joe</principal>'),
    ),
    "group-repeated": (
        _groups('<principal scope="USER">joe</principal>').replace(
            "</xmlgroups>\n",
            _groups('<principal scope="USER">ann</principal>').removeprefix("<xmlgroups>\n"),
        ),
        _groups('<principal scope="USER">joe</principal>'),
    ),
    "wide-deletion": (
        _data("<Type>DP</Type><Url>http://www.example.com/*</Url>"),
        _data("<Type>DP</Type><Url>http://www.example.com/dir/*</Url>"),
    ),
}
"""By the code of the rule; those of whole files are too large for a table."""
