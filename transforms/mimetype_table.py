"""The MIME types that names of files tell: a fixed table, so that all machines say the same.

The tables of an operating system differ from one to the next. Types are those that IANA has, where
it has one; what is text for programmers is text/plain, which every appliance indexes.
"""

_OOXML = "application/vnd.openxmlformats-officedocument"
_ODF = "application/vnd.oasis.opendocument"
_MS = "application/vnd.ms"

DOCX = f"{_OOXML}.wordprocessingml.document"
XLSX = f"{_OOXML}.spreadsheetml.sheet"
PPTX = f"{_OOXML}.presentationml.presentation"
VSDX = f"{_MS}-visio.drawing.main+xml"
DOC = "application/msword"
XLS = f"{_MS}-excel"
PPT = f"{_MS}-powerpoint"
MSG = f"{_MS}-outlook"
VSD = "application/vnd.visio"
OLE = "application/x-ole-storage"
JAR = "application/java-archive"
ZIP = "application/zip"
TAR = "application/x-tar"
GZIP = "application/gzip"
BZIP2 = "application/x-bzip2"
XZ = "application/x-xz"

OFFICE_TYPES = {
    DOC: "doc dot wiz",
    XLS: "xls xlt xla xlw xlm",
    PPT: "ppt pot pps ppa",
    MSG: "msg oft",
    VSD: "vsd vst vss vsw",
    f"{_MS}-project": "mpp mpt",
    f"{_MS}-works": "wps wks wcm wdb",
    "application/x-mspublisher": "pub",
    OLE: "ole",
    "application/x-hwp": "hwp",
}
"""What stands in OLE2 compound files."""

WORD_TYPES = {
    DOCX: "docx",
    f"{_OOXML}.wordprocessingml.template": "dotx",
    f"{_MS}-word.document.macroenabled.12": "docm",
    f"{_MS}-word.template.macroenabled.12": "dotm",
}
SHEET_TYPES = {
    XLSX: "xlsx",
    f"{_OOXML}.spreadsheetml.template": "xltx",
    f"{_MS}-excel.sheet.macroenabled.12": "xlsm",
    f"{_MS}-excel.template.macroenabled.12": "xltm",
    f"{_MS}-excel.addin.macroenabled.12": "xlam",
    f"{_MS}-excel.sheet.binary.macroenabled.12": "xlsb",
}
SLIDE_TYPES = {
    PPTX: "pptx",
    f"{_OOXML}.presentationml.template": "potx",
    f"{_OOXML}.presentationml.slideshow": "ppsx",
    f"{_OOXML}.presentationml.slide": "sldx",
    f"{_MS}-powerpoint.presentation.macroenabled.12": "pptm",
    f"{_MS}-powerpoint.template.macroenabled.12": "potm",
    f"{_MS}-powerpoint.slideshow.macroenabled.12": "ppsm",
    f"{_MS}-powerpoint.addin.macroenabled.12": "ppam",
}
DRAWING_TYPES = {
    VSDX: "vsdx",
    f"{_MS}-visio.template.main+xml": "vstx",
    f"{_MS}-visio.stencil.main+xml": "vssx",
    f"{_MS}-visio.drawing.macroenabled.main+xml": "vsdm",
    f"{_MS}-visio.template.macroenabled.main+xml": "vstm",
}
ODF_TYPES = {
    f"{_ODF}.text": "odt",
    f"{_ODF}.text-template": "ott",
    f"{_ODF}.text-master": "odm",
    f"{_ODF}.text-web": "oth",
    f"{_ODF}.spreadsheet": "ods",
    f"{_ODF}.spreadsheet-template": "ots",
    f"{_ODF}.presentation": "odp",
    f"{_ODF}.presentation-template": "otp",
    f"{_ODF}.graphics": "odg",
    f"{_ODF}.graphics-template": "otg",
    f"{_ODF}.chart": "odc",
    f"{_ODF}.formula": "odf",
    f"{_ODF}.base": "odb",
    "application/vnd.sun.xml.writer": "sxw",
    "application/vnd.sun.xml.calc": "sxc",
    "application/vnd.sun.xml.impress": "sxi",
    "application/vnd.sun.xml.draw": "sxd",
    "application/epub+zip": "epub",
}
JAR_TYPES = {JAR: "jar war ear", "application/vnd.android.package-archive": "apk"}
OTHER_ZIP_TYPES = {
    "application/vnd.google-earth.kmz": "kmz",
    f"{_MS}-xpsdocument": "xps",
    "application/oxps": "oxps",
    "application/vnd.adobe.indesign-idml-package": "idml",
    "application/vnd.apple.pages": "pages",
    "application/vnd.apple.numbers": "numbers",
    "application/vnd.apple.keynote": "key",
    "application/x-xpinstall": "xpi",
    "application/vnd.mindjet.mindmanager": "mmap",
    "application/x-xmind": "xmind",
}

ARCHIVE_TYPES = {
    ZIP: "zip zipx",
    TAR: "tar gtar",
    GZIP: "gz gzip tgz taz",
    BZIP2: "bz2 bz tbz tbz2 tb2",
    XZ: "xz txz",
    "application/x-lzma": "lzma tlz",
    "application/x-7z-compressed": "7z",
    "application/vnd.rar": "rar",
    "application/zstd": "zst tzst",
    "application/x-lz4": "lz4",
    "application/x-lzip": "lz",
    "application/x-compress": "z",
    "application/vnd.ms-cab-compressed": "cab",
    "application/x-lzh-compressed": "lzh lha",
    "application/x-ace-compressed": "ace",
    "application/x-arj": "arj",
    "application/x-cpio": "cpio",
    "application/x-archive": "ar a",
    "application/x-rpm": "rpm",
    "application/vnd.debian.binary-package": "deb",
    "application/x-iso9660-image": "iso",
    "application/x-apple-diskimage": "dmg",
    **JAR_TYPES,
}

_TEXT = (
    "txt text asc md markdown mdown rst adoc asciidoc org tex latex bib log out err lst nfo diz"
    " csv tsv tab psv ini cfg conf config cnf properties env toml yaml yml editorconfig lock"
    " c h cc cpp cxx hh hpp hxx inl ino m mm cs fs fsx vb vbs vba bas cls frm java kt kts groovy"
    " gradle scala clj cljs go rs swift dart d pas dpr pp inc f for f77 f90 f95 ada adb ads cob cbl"
    " cpy py pyw pyi pyx ipy rb erb rake pl pm pod t php phtml php3 php4 php5 lua tcl r rmd jl hs"
    " lhs ml mli erl hrl ex exs lisp lsp el scm rkt pro asm s sh bash zsh ksh csh fish bat cmd ps1"
    " psm1 psd1 awk sed sql ddl dml pls plsql proto thrift avsc graphql gql tf hcl jsp jspx asp"
    " aspx ascx ashx cfm cfc ts tsx jsx vue svelte coffee less scss sass styl mk mak cmake make"
    " dockerfile diff patch po srt sub vtt ass reg inf rc def idl v vhd vhdl sv"
)

_REST = {
    "application/pdf": "pdf",
    "application/rtf": "rtf",
    "application/postscript": "ps eps",
    "application/illustrator": "ai",
    "application/vnd.wordperfect": "wpd wp wp5 wp6",
    "application/vnd.lotus-1-2-3": "wk1 wk3 wk4 123",
    "application/vnd.lotus-wordpro": "lwp",
    "application/x-mswrite": "wri",
    "application/vnd.framemaker": "fm book",
    "application/x-mif": "mif",
    "application/x-indesign": "indd",
    "application/vnd.ms-htmlhelp": "chm",
    "application/onenote": "one onetoc2",
    "application/x-msaccess": "mdb accdb",
    "application/vnd.sqlite3": "sqlite sqlite3 db3",
    "application/vnd.tcpdump.pcap": "pcap",
    "application/vnd.mozilla.xul+xml": "xul",
    "text/html": "html htm shtml shtm stm",
    "application/xhtml+xml": "xhtml xht",
    "application/xml": "xml xsd xsl wsdl xmi dita ditamap dbk xlf xliff resx csproj vcxproj pom",
    "application/xslt+xml": "xslt",
    "application/xml-dtd": "dtd ent mod",
    "application/rss+xml": "rss",
    "application/atom+xml": "atom",
    "application/rdf+xml": "rdf owl",
    "application/vnd.google-earth.kml+xml": "kml",
    "application/gpx+xml": "gpx",
    "application/json": "json jsonl ndjson geojson ipynb",
    "application/ld+json": "jsonld",
    "text/css": "css",
    "text/javascript": "js mjs cjs",
    "text/calendar": "ics ical",
    "text/vcard": "vcf vcard",
    "text/plain": _TEXT,
    "message/rfc822": "eml emlx mht mhtml mime",
    "application/mbox": "mbox",
    f"{_MS}-outlook-pst": "pst ost",
    "application/vnd.ms-tnef": "tnef",
    "application/pkcs7-mime": "p7m p7c",
    "image/jpeg": "jpg jpeg jpe jfif",
    "image/png": "png",
    "image/gif": "gif",
    "image/bmp": "bmp dib",
    "image/tiff": "tif tiff",
    "image/webp": "webp",
    "image/svg+xml": "svg",
    "image/x-icon": "ico cur",
    "image/heic": "heic heif",
    "image/avif": "avif",
    "image/jp2": "jp2 j2k jpf",
    "image/vnd.djvu": "djvu djv",
    "image/vnd.adobe.photoshop": "psd",
    "image/x-xcf": "xcf",
    "image/emf": "emf",
    "image/wmf": "wmf",
    "image/vnd.dwg": "dwg",
    "image/vnd.dxf": "dxf",
    "image/x-raw": "dng nef cr2 arw orf pef rw2 srw",
    "audio/mpeg": "mp3 mp2 mpga",
    "audio/mp4": "m4a m4b",
    "audio/aac": "aac",
    "audio/flac": "flac",
    "audio/ogg": "ogg oga opus spx",
    "audio/wav": "wav",
    "audio/aiff": "aif aiff aifc",
    "audio/x-ms-wma": "wma",
    "audio/midi": "mid midi",
    "video/mp4": "mp4 m4v",
    "video/quicktime": "mov qt",
    "video/3gpp": "3gp 3g2",
    "video/mpeg": "mpg mpeg mpe m2v vob",
    "video/ogg": "ogv",
    "video/webm": "webm",
    "video/matroska": "mkv mka mks",
    "video/x-msvideo": "avi",
    "video/x-ms-wmv": "wmv",
    "video/x-ms-asf": "asf",
    "video/x-flv": "flv",
    "video/mp2t": "m2ts mts",
    "font/ttf": "ttf",
    "font/otf": "otf",
    "font/woff": "woff",
    "font/woff2": "woff2",
    "application/vnd.microsoft.portable-executable": "exe dll sys ocx scr cpl mui",
    "application/x-msi": "msi msp mst",
    "application/x-elf": "so elf ko o",
    "application/java-vm": "class",
    "application/wasm": "wasm",
    "application/x-python-code": "pyc pyo",
}

OLE_TYPES = frozenset((*OFFICE_TYPES, "application/x-msi"))
OOXML_TYPES = frozenset((*WORD_TYPES, *SHEET_TYPES, *SLIDE_TYPES, *DRAWING_TYPES))
ZIP_TYPES = frozenset((ZIP, *OOXML_TYPES, *ODF_TYPES, *JAR_TYPES, *OTHER_ZIP_TYPES))
ARCHIVES = frozenset(ARCHIVE_TYPES)

ALL = {
    **OFFICE_TYPES,
    **WORD_TYPES,
    **SHEET_TYPES,
    **SLIDE_TYPES,
    **DRAWING_TYPES,
    **ODF_TYPES,
    **OTHER_ZIP_TYPES,
    **ARCHIVE_TYPES,
    **_REST,
}
TYPES = {name: mimetype for mimetype, names in ALL.items() for name in names.split()}
"""The type of each extension, in small letters and without its dot."""


def type_of_name(name: str) -> str | None:
    """Return the MIME type that the name of a file tells; None where it tells none."""
    stem, _, extension = name.rpartition(".")
    return TYPES.get(extension.lower()) if stem else None
