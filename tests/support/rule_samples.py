"""Documents that break each rule once, and no other, next to the same documents corrected."""

from feedferry.transforms.validate.record_checks import MAX_URL_CHARS

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


_GOOD = _feed(_record())
_JOES = _feed(_record(_ACL("joe") + _TEXT))
_CHILD = _child("http://www.example.com/d/")
_PLAIN_PARENT = _PARENT("child-overrides", "", _JOE)
_NOT_JOE = _JOE.replace("permit", "deny")
_OF_JOE = _groups('<principal scope="USER">joe</principal>')
_METADATA = '<metadata><meta name="a" content="b"/></metadata>'
SAMPLES: dict[str, tuple[str, str]] = {
    "datasource-name": (
        _feed(_record(), datasource="my docs"),
        _feed(_record(), datasource="my_docs"),
    ),
    "feedtype-name": (_feed(_record(), feedtype="ful"), _feed(_record(), feedtype="full")),
    "header-incomplete": (
        _GOOD.replace("<feedtype>incremental</feedtype>\n", "<feedtype/>\n"),
        _GOOD,
    ),
    "doctype-missing": (_GOOD.removeprefix(_DOCTYPE), _GOOD),
    "dtd": (_feed(_record(f"<note/>{_TEXT}")), _GOOD),
    "url-relative": (_feed(_record(url='url="/a"')), _GOOD),
    "url-host": (
        _feed(_record(url='url="http://intranet/a"')),
        _feed(_record(url='url="http://intranet.example.com/a"')),
    ),
    "url-length": (
        _feed(_record(url=f'url="http://www.example.com/{"a" * MAX_URL_CHARS}"')),
        _GOOD,
    ),
    "content-in-web-feed": (_urls(_record()), _GOOD),
    "metadata-in-web": (_urls(_record(_METADATA), datasource="web"), _urls(_record(_METADATA))),
    "metadata-without-content": (
        _feed(_record(_METADATA), feedtype="full"),
        _feed(_record(_METADATA)),
    ),
    "mimetype-absent": (_feed(f'<record {_URL} mimetype="">{_TEXT}</record>'), _GOOD),
    "mimetype-form": (
        _feed(f'<record {_URL} mimetype="pdf">{_TEXT}</record>'),
        _feed(f'<record {_URL} mimetype="application/pdf">{_TEXT}</record>'),
    ),
    "crawl-immediately-ignored": (_feed(_record(more=' crawl-immediately="true"')), _GOOD),
    "crawl-once-ignored": (_feed(_record(more=' crawl-once="true"')), _GOOD),
    "metadata-empty": (
        _feed(_record(f'<metadata><meta name="a" content=""/></metadata>{_TEXT}')),
        _GOOD,
    ),
    "acl-in-metadata": (
        _feed(
            _record(
                f'{_ACL("joe")}<metadata><meta name="google:aclusers" content="joe"/></metadata>'
                f"{_TEXT}"
            )
        ),
        _JOES,
    ),
    "principal-empty": (
        _feed(_record(_ACL("joe").replace("</acl>", _ACL(" ").removeprefix("<acl>")) + _TEXT)),
        _JOES,
    ),
    "principal-padded": (_feed(_record(_ACL(" joe ") + _TEXT)), _JOES),
    "principal-in-both": (
        _feed(_record(f"<acl>{_JOE}{_NOT_JOE}{_JOE.replace('joe', 'ann')}</acl>{_TEXT}")),
        _JOES,
    ),
    "acl-parent-missing": (_feed(_CHILD), _feed(_PLAIN_PARENT, _CHILD)),
    "acl-leaf-parent": (
        _feed(_PARENT("leaf-node", "", _JOE), _CHILD),
        _feed(_PLAIN_PARENT, _CHILD),
    ),
    "acl-cycle": (
        _feed(_PARENT("child-overrides", ' inherit-from="http://www.example.com/d/"', _JOE)),
        _feed(_PLAIN_PARENT),
    ),
    "acl-two-forms": (
        _feed(_record(_ACL("joe") + _TEXT, url='url="http://www.example.com/d/"'), _PLAIN_PARENT),
        _JOES,
    ),
    "url-repeated": (_feed(_record(), _record()), _GOOD),
    "group-in-itself": (_groups('<principal scope="GROUP">staff</principal>'), _OF_JOE),
    "group-repeated": (
        _OF_JOE.replace(
            "</xmlgroups>\n",
            _groups('<principal scope="USER">ann</principal>').removeprefix("<xmlgroups>\n"),
        ),
        _OF_JOE,
    ),
    "wide-deletion": (
        _data("<Type>DP</Type><Url>http://www.example.com/*</Url>"),
        _data("<Type>DP</Type><Url>http://www.example.com/dir/*</Url>"),
    ),
}
"""By the code of the rule; those of whole files are too large for a table."""
