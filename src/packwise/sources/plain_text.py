"""Text files: plain paragraphs, or markup that many projects keep in files named ``.txt``."""

from __future__ import annotations

import re

from packwise.sources import plain_blocks, shown_manuals, vim_help
from packwise.sources.document_builder import DocumentBuilder

_SAMPLE = 40_000
_TERMS_ALONE = 12
_UNDERLINED = re.compile(r"(?m)^(?=\S)[^\n]{2,120}\n([=\-~^*+#\"'])\1{2,}[ \t]*$")
_RST = re.compile(
    r"(?m)^[ \t]*\.\. (?:[\w:-]+::|_[^\n:]+:|\|)|:[\w:+.-]{2,40}:`[^`\n]+`|``[^`\n]+``|`[^`\n]+`_\b"
)
# ":name: text" is an attribute of AsciiDoc; if it goes on, indented, a field of reStructuredText.
_ASCIIDOC = re.compile(
    r"(?m)^\[(?:verse|source|NOTE|TIP|WARNING|horizontal|listing|role)\b[^\]\n]*\]$"
    r"|^(?:include|ifdef|ifndef|image)::\S+\[|\b(?:linkgit|link|xref):[^\s\[]+\["
    r"|^={2,5} \S|^:[\w-]+: [^\n]*$(?!\n[ \t]+\S)|^(?:-{4,}|\.{4,})$|^\S[^\n]{0,80}::$|^\+$"
)


def read(builder: DocumentBuilder, text: str) -> None:
    """Add a text. It is read as reStructuredText or AsciiDoc if it has headings and several
    marks of one of them. A part of a manual in AsciiDoc may have terms alone."""
    sample = text[:_SAMPLE]
    # What underlines a title may be what encloses code in AsciiDoc.
    untitled, titled = _UNDERLINED.subn("", sample)
    rst, asciidoc = len(_RST.findall(sample)), len(_ASCIIDOC.findall(untitled))
    headed = titled or re.search(r"(?m)^=+ \S", sample)
    of_manual = asciidoc >= _TERMS_ALONE and "\n+\n" in sample
    if vim_help.is_help(text):
        vim_help.read(builder, text)
    elif asciidoc > rst and ((headed and asciidoc >= 3) or of_manual):
        from packwise.sources import asciidoc as manual

        manual.read(builder, text)
    elif titled and rst >= 3:
        from packwise.sources import rst as restructured

        restructured.read(builder, text)
    elif shown_manuals.is_manual(text):
        shown_manuals.read(builder, text)
    else:
        plain_blocks.read(builder, text)
