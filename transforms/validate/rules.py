"""The rules of `validate`: one object each, from which checks, tests and the page are made.

Rejects and notices of the readers are findings as well; `schemas/codes.tsv` explains them. The
rules here are those that a reader does not enforce, because it keeps what it can.
"""

from transforms.validate import record_checks as checks
from transforms.validate.rule import Rule, Severity

_ERROR, _WARNING = Severity.ERROR, Severity.WARNING
_FEED = "Feeds Protocol Developer's Guide 7.x"
_DEFINING = f'{_FEED}, "Defining the XML Record for a Document"'
_ACLS = f'{_FEED}, "Per-URL ACLs and ACL Inheritance"'
_GROUPS = f'{_FEED}, "Feeding Groups to the Search Appliance"'
_DATALOAD = "Thunderstone dataload API"
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


RULES: tuple[Rule, ...] = (
    Rule(
        code="datasource-name",
        severity=_ERROR,
        meaning="A datasource with a name that no appliance accepts.",
        cause="A blank, a dot or another character in the name.",
        cure="Use letters, digits, `_` and `-`, and begin with a letter or `_`.",
        section=f'{_FEED}, "Choosing a Name for the Feed Data Source"',
        bad=_feed(_record(), datasource="my docs"),
        good=_feed(_record(), datasource="my_docs"),
        header=checks.datasource_name,
    ),
    Rule(
        code="feedtype-name",
        severity=_ERROR,
        meaning="A feedtype that does not exist.",
        cause="A misspelt feedtype.",
        cure="Write `full`, `incremental` or `metadata-and-url`.",
        section=f'{_FEED}, "Choosing the Feed Type"',
        bad=_feed(_record(), feedtype="ful"),
        good=_feed(_record(), feedtype="full"),
        header=checks.feedtype_name,
    ),
    Rule(
        code="header-incomplete",
        severity=_WARNING,
        meaning="A header without datasource or feedtype.",
        cause="A client that posts both next to the feed.",
        cure="Add both: a feed that is kept as a file does not say what it is otherwise.",
        section=f'{_FEED}, "Defining the XML"',
        bad=_feed(_record()).replace("<feedtype>incremental</feedtype>\n", "<feedtype/>\n"),
        good=_feed(_record()),
        header=checks.header_missing,
    ),
    Rule(
        code="doctype-missing",
        severity=_WARNING,
        meaning="A GSA feed without a DOCTYPE.",
        cause="A client that leaves it out.",
        cure='Add `<!DOCTYPE gsafeed PUBLIC "-//Google//DTD GSA Feeds//EN" "">`.',
        section=f'{_FEED}, "Google Search Appliance Feed DTD"',
        bad=_feed(_record()).removeprefix(_DOCTYPE),
        good=_feed(_record()),
    ),
    Rule(
        code="dtd",
        severity=_ERROR,
        meaning="Markup that the DTD does not allow.",
        cause="An unknown element or attribute, a wrong order, or a value that is not listed.",
        cure="Correct the markup as the message says.",
        section=f'{_FEED}, "Google Search Appliance Feed DTD"',
        bad=_feed(_record(f"<note/>{_TEXT}")),
        good=_feed(_record()),
    ),
    Rule(
        code="feed-too-large",
        severity=_ERROR,
        meaning="A file of a gigabyte or more.",
        cause="Too many documents in one feed.",
        cure="Divide it: `feedferry convert` writes chunks that an appliance accepts.",
        section=f'{_FEED}, "Designing an XML Feed"',
        bad="",
        good="",
    ),
    Rule(
        code="url-relative",
        severity=_ERROR,
        meaning="A URL without a scheme or a host.",
        cause="A relative URL or a document id.",
        cure="Write the whole URL.",
        section=_DEFINING,
        bad=_feed(_record(url='url="/a"')),
        good=_feed(_record()),
        record=checks.url_relative,
    ),
    Rule(
        code="url-host",
        severity=_WARNING,
        meaning="A URL that no appliance can serve.",
        cause="A host without a dot, an IP address, or a blank.",
        cure="Write the fully qualified name of the host.",
        section=_DEFINING,
        bad=_feed(_record(url='url="http://intranet/a"')),
        good=_feed(_record(url='url="http://intranet.example.com/a"')),
        record=checks.url_doubtful,
    ),
    Rule(
        code="url-length",
        severity=_WARNING,
        meaning=f"A URL of more than {checks.MAX_URL_CHARS:,} characters.",
        cause="A session or a query in the URL.",
        cure="Shorten it. The guide has no limit; browsers and proxies do.",
        section=_DEFINING,
        bad=_feed(_record(url=f'url="http://www.example.com/{"a" * checks.MAX_URL_CHARS}"')),
        good=_feed(_record()),
        record=checks.url_length,
    ),
    Rule(
        code="content-in-web-feed",
        severity=_WARNING,
        meaning="A content in a feed of URLs.",
        cause="A wrong feedtype.",
        cure="Use `incremental`, or leave the content out: the appliance ignores it.",
        section=f'{_FEED}, "Choosing the Feed Type"',
        bad=_urls(_record()),
        good=_feed(_record()),
        record=checks.content_in_web_feed,
    ),
    Rule(
        code="metadata-in-web",
        severity=_ERROR,
        meaning="Metadata in the datasource `web`.",
        cause="A web feed has URLs only.",
        cure="Use another datasource with feedtype `metadata-and-url`.",
        section=f'{_FEED}, "Web Feed"',
        bad=_urls(_record('<metadata><meta name="a" content="b"/></metadata>'), datasource="web"),
        good=_urls(_record('<metadata><meta name="a" content="b"/></metadata>')),
        record=checks.metadata_in_web_feed,
    ),
    Rule(
        code="metadata-without-content",
        severity=_ERROR,
        meaning="Metadata without content in a full feed.",
        cause="A full feed replaces documents, so it cannot change some fields of one.",
        cure="Add the content, or use `incremental`.",
        section=f'{_FEED}, "Full Feeds and Incremental Feeds"',
        bad=_feed(_record('<metadata><meta name="a" content="b"/></metadata>'), feedtype="full"),
        good=_feed(_record('<metadata><meta name="a" content="b"/></metadata>')),
        record=checks.metadata_alone,
    ),
    Rule(
        code="mimetype-absent",
        severity=_ERROR,
        meaning="A content without a MIME type.",
        cause="`mimetype` is required.",
        cure="Add `mimetype`.",
        section=_DEFINING,
        bad=_feed(f'<record {_URL} mimetype="">{_TEXT}</record>'),
        good=_feed(_record()),
        record=checks.mimetype_missing,
    ),
    Rule(
        code="mimetype-form",
        severity=_WARNING,
        meaning="A MIME type that is none.",
        cause="A file extension in its place.",
        cure="Write `type/subtype`.",
        section=_DEFINING,
        bad=_feed(f'<record {_URL} mimetype="pdf">{_TEXT}</record>'),
        good=_feed(f'<record {_URL} mimetype="application/pdf">{_TEXT}</record>'),
        record=checks.mimetype_form,
    ),
    Rule(
        code="crawl-immediately-ignored",
        severity=_WARNING,
        meaning="`crawl-immediately` in a content feed.",
        cause="The appliance does not crawl documents that are pushed.",
        cure="Leave it out.",
        section=_DEFINING,
        bad=_feed(_record(more=' crawl-immediately="true"')),
        good=_feed(_record()),
        record=checks.crawl_immediately,
    ),
    Rule(
        code="crawl-once-ignored",
        severity=_WARNING,
        meaning="`crawl-once` in a content feed.",
        cause="The appliance does not crawl documents that are pushed.",
        cure="Leave it out.",
        section=_DEFINING,
        bad=_feed(_record(more=' crawl-once="true"')),
        good=_feed(_record()),
        record=checks.crawl_once,
    ),
    Rule(
        code="metadata-empty",
        severity=_ERROR,
        meaning="Metadata without a value.",
        cause="An empty field of the source.",
        cure="Leave the `meta` out; the appliance refuses the record.",
        section=f'{_FEED}, "Including Metadata in Feeds"',
        bad=_feed(_record(f'<metadata><meta name="a" content=""/></metadata>{_TEXT}')),
        good=_feed(_record()),
        record=checks.empty_metadata,
    ),
    Rule(
        code="acl-in-metadata",
        severity=_WARNING,
        meaning="An ACL as an element and in the metadata.",
        cause="A feed of two releases in one.",
        cure="Leave `google:acl…` out of the metadata.",
        section=f'{_FEED}, "Legacy Metadata Format (Deprecated)"',
        bad=_feed(
            _record(
                f'{_ACL("joe")}<metadata><meta name="google:aclusers" content="joe"/></metadata>'
                f"{_TEXT}"
            )
        ),
        good=_feed(_record(_ACL("joe") + _TEXT)),
        record=checks.acl_in_metadata,
    ),
    Rule(
        code="principal-empty",
        severity=_WARNING,
        meaning="A principal without a name.",
        cause="An empty entry of the source.",
        cure="Leave it out; the appliance skips it.",
        section=_ACLS,
        bad=_feed(_record(_ACL("joe").replace("</acl>", _ACL(" ").removeprefix("<acl>")) + _TEXT)),
        good=_feed(_record(_ACL("joe") + _TEXT)),
        record=checks.principal_empty,
    ),
    Rule(
        code="principal-padded",
        severity=_WARNING,
        meaning="A principal with blanks around its name.",
        cause="Line breaks or blanks in the element.",
        cure="Remove them; the appliance does.",
        section=_ACLS,
        bad=_feed(_record(_ACL(" joe ") + _TEXT)),
        good=_feed(_record(_ACL("joe") + _TEXT)),
        record=checks.principal_padded,
    ),
    Rule(
        code="principal-in-both",
        severity=_WARNING,
        meaning="A principal that is permitted and denied.",
        cause="Two sources of one ACL.",
        cure="Keep one of both; DENY wins.",
        section=_ACLS,
        bad=_feed(
            _record(
                "<acl>"
                + _JOE
                + _JOE.replace("permit", "deny")
                + '<principal scope="user" access="permit">ann</principal></acl>'
                + _TEXT
            )
        ),
        good=_feed(_record(_ACL("joe") + _TEXT)),
        record=checks.acl_contradiction,
    ),
    Rule(
        code="acl-parent-missing",
        severity=_ERROR,
        meaning="An ACL that inherits from a URL without an ACL.",
        cause="The feed with the ACL of the parent is missing, or its URL has another form.",
        cure="Validate all feeds together, or add the ACL: no user finds the document.",
        section=f'{_FEED}, "Specifying ACL Inheritance"',
        bad=_feed(_child("http://www.example.com/d/")),
        good=_feed(_PARENT("child-overrides", "", _JOE), _child("http://www.example.com/d/")),
    ),
    Rule(
        code="acl-leaf-parent",
        severity=_ERROR,
        meaning="An ACL that inherits from a leaf node.",
        cause="The parent has no inheritance type, or `leaf-node`, which ends the chain.",
        cure="Give the parent an inheritance type such as `child-overrides`.",
        section=f'{_FEED}, "Specifying ACL Inheritance"',
        bad=_feed(_PARENT("leaf-node", "", _JOE), _child("http://www.example.com/d/")),
        good=_feed(_PARENT("child-overrides", "", _JOE), _child("http://www.example.com/d/")),
    ),
    Rule(
        code="acl-cycle",
        severity=_ERROR,
        meaning="ACLs that inherit from each other.",
        cause="A chain of parents that comes back to its beginning.",
        cure="End the chain at a URL that does not inherit.",
        section=f'{_FEED}, "Specifying ACL Inheritance"',
        bad=_feed(
            _PARENT("child-overrides", ' inherit-from="http://www.example.com/d/"', _JOE),
        ),
        good=_feed(_PARENT("child-overrides", "", _JOE)),
    ),
    Rule(
        code="acl-two-forms",
        severity=_WARNING,
        meaning="The ACL of one URL in a record and next to the records.",
        cause="Two programs, or two ways of one program.",
        cure="Keep one form for each URL in a feed.",
        section=f'{_FEED}, "Approaches to Using the acl Element"',
        bad=_feed(
            _record(_ACL("joe") + _TEXT, url='url="http://www.example.com/d/"'),
            _PARENT("child-overrides", "", _JOE),
        ),
        good=_feed(_record(_ACL("joe") + _TEXT)),
    ),
    Rule(
        code="url-repeated",
        severity=_WARNING,
        meaning="A URL twice in one feed.",
        cause="A document that two paths lead to, or a record that was written twice.",
        cure="Remove one of both; the appliance keeps one, and the guide does not say which.",
        section=f'{_FEED}, "Full Feeds and Incremental Feeds"',
        bad=_feed(_record(), _record()),
        good=_feed(_record()),
    ),
    Rule(
        code="group-in-itself",
        severity=_WARNING,
        meaning="A group that is a member of itself.",
        cause="A wrong export of the directory.",
        cure="Remove the member.",
        section=_GROUPS,
        bad=_groups('<principal scope="GROUP">staff</principal>'),
        good=_groups('<principal scope="USER">joe</principal>'),
        membership=checks.group_in_itself,
    ),
    Rule(
        code="group-repeated",
        severity=_WARNING,
        meaning="A group twice in one feed.",
        cause="Members of one group in two memberships.",
        cure="Write all members into one membership.",
        section=_GROUPS,
        bad=_groups('<principal scope="USER">joe</principal>').replace(
            "</xmlgroups>\n",
            _groups('<principal scope="USER">ann</principal>').removeprefix("<xmlgroups>\n"),
        ),
        good=_groups('<principal scope="USER">joe</principal>'),
    ),
    Rule(
        code="too-many-members",
        severity=_ERROR,
        meaning=f"More than {checks.MAX_MEMBERS:,} members.",
        cause="The group database of an appliance has a limit.",
        cure="Leave out groups that no ACL names.",
        section=_GROUPS,
        bad="",
        good="",
    ),
    Rule(
        code="wide-deletion",
        severity=_ERROR,
        meaning="A deletion of a whole host, or of everything.",
        cause="A pattern without a path.",
        cure="Name a part of a path.",
        section=f'{_DATALOAD}, "Type: DP"',
        bad=_data("<Type>DP</Type><Url>http://www.example.com/*</Url>"),
        good=_data("<Type>DP</Type><Url>http://www.example.com/dir/*</Url>"),
        record=checks.wide_deletion,
    ),
)
BY_CODE = {rule.code: rule for rule in RULES}
