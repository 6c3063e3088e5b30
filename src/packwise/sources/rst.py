"""reStructuredText, including the text of roles and directives that only Sphinx knows.

Other files are inserted, and cross-references found, by ``sphinx_tree``. Raw output is dropped and
nothing is reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from typing import Any

from packwise.sources import plain_rst, sphinx_tree
from packwise.sources.access import access, access_key
from packwise.sources.document_builder import (
    DocumentBuilder,
    FindReference,
    LinkedText,
    TextBuilder,
)
from packwise.sources.rst_includes import leading_fields

SIZE_LIMIT = 1_000_000
"""Characters. A larger file is read line by line: docutils takes 5 seconds for this many."""

_LINE_LIMIT, _LONG_PARAGRAPH = 10_000, 1000
_EFFORT_LIMIT, _WORD_EFFORT_LIMIT = 60_000_000, 10_000_000
_LONG_WORD = re.compile(r"\S{200,}")
_PARAGRAPHS = re.compile(r"\n[ \t]*\n")
_MARK = re.compile(r"[*`|_]")
# What docutils raises on unexpected markup; the text can still be read line by line.
_FAULTS = (
    RecursionError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    TypeError,
    ValueError,
)
_OPTION = re.compile(r":[\w\-]+:(?:\s|$)")
# What projects define for themselves to mark what follows: the description is not indented.
_MARKERS = frozenset(
    "setting signal templatetag templatefilter fieldlookup django-admin django-admin-option".split()
)
_SIGNATURE = re.compile(
    r"(?:[a-z]+:)?(?:auto)?(?:function|method|class|classmethod|staticmethod|attribute|data|"
    r"exception|property|decorator|decoratormethod|module|macro|type|member|var|struct|enum|"
    r"option|envvar|confval|describe|object|cmdoption|directive|role|opcode|pdbcommand|"
    rf"{'|'.join(_MARKERS)})$"
)
# Docutils has a directive of this name that sets CSS classes, which have other names.
_PYTHON_CLASS = re.compile(r"\s*(?:[A-Z]|[\w.]*[.(])")
_CODE = frozenset(
    "doctest testcode testoutput productionlist prompt mermaid graphviz digraph graph ipython "
    "jupyter-execute literalinclude-content uml plantuml".split()
)
_DROPPED = frozenset(
    "index highlight currentmodule py:currentmodule module-author sectionauthor codeauthor "
    "tabularcolumns todolist default-domain literalinclude testsetup testcleanup program "
    "image-sg".split()
)
# Directives of docutils whose text is from other files, for one output format, or not the
# author's. Target-notes also never returns if a link's target is given at its second mention
# (docutils 0.23).
_REFUSED = frozenset(
    "include raw contents sectnum section-numbering header footer date target-notes".split()
)
# What Sphinx fills from the code: without a text of its own it leaves nothing to read.
_GENERATED = re.compile(
    r"(?:auto(?:module|class|function|method|attribute|data|exception|summary)"
    r"|autodoc|apidoc|doxygen\w*|click|argparse|program-output|plot)$"
)
_ADMONITIONS = frozenset("attention caution danger error hint important note tip warning".split())
_SETTINGS = {
    "_disable_config": True,
    "docinfo_xform": True,
    "doctitle_xform": False,
    "file_insertion_enabled": False,
    "halt_level": 5,
    "input_encoding": "unicode",
    "raw_enabled": False,
    "report_level": 5,
    "sectsubtitle_xform": False,
    "smart_quotes": False,
    "syntax_highlight": "none",
    "traceback": True,
    "warning_stream": False,
}


def read(builder: DocumentBuilder, text: str) -> None:
    """Add the blocks of a reStructuredText file; a field list at its start becomes metadata."""
    builder.metadata |= access([*builder.metadata.items(), *leading_fields(text)])
    tree = None
    if not _is_too_much(text):
        with suppress(*_FAULTS):
            tree = _parse(text, builder.find_reference)
    if tree is None:
        plain_rst.read(builder, text)
    else:
        reader = _RstReader(builder)
        reader.read(tree)
        reader.flush()


def _is_too_much(text: str) -> bool:
    """Whether docutils would refuse the text or take minutes: its time grows with the square of a
    word's length, and with a paragraph's length times the number of its markup characters."""
    if len(text) > SIZE_LIMIT or max(map(len, text.split("\n"))) > _LINE_LIMIT:
        return True
    words = sum(len(word) ** 2 for word in _LONG_WORD.findall(text))
    marked = sum(
        len(paragraph) * len(_MARK.findall(paragraph))
        for paragraph in _PARAGRAPHS.split(text)
        if len(paragraph) > _LONG_PARAGRAPH
    )
    return words > _WORD_EFFORT_LIMIT or marked > _EFFORT_LIMIT


def _parse(text: str, find: FindReference | None) -> Any:
    from docutils import core
    from docutils.parsers.rst import roles

    # Otherwise a role that one document defines would be known in all later ones.
    table: dict[str, Any] = vars(roles)["_roles"]
    before = dict(table)
    try:
        return core.publish_doctree(text, parser=_parser()(find), settings_overrides=_SETTINGS)
    finally:
        table.clear()
        table.update(before)


@cache
def _parser() -> Callable[[FindReference | None], Any]:
    """The class of a parser that accepts what only Sphinx knows.

    Docutils has one global table of directives and roles. This subclasses its states instead
    of changing that table, which other users of docutils in the same process share.
    """
    from docutils import nodes, utils
    from docutils.parsers.rst import Parser, roles, states

    def tolerant_inliner(find: FindReference | None) -> Any:
        # Not a subclass: an inliner finds its patterns in its own class only.
        inliner: Any = states.Inliner()
        usual = inliner.interpreted

        def interpreted(rawsource: str, text: str, role: str, lineno: int) -> Any:
            known, _ = roles.role(role, inliner.language, lineno, inliner.reporter)
            # These two of docutils refuse the titles that Sphinx allows.
            if known and not (role.lower() in ("rfc", "pep") and "<" in text):
                return usual(rawsource, text, role, lineno)
            return [_role_node(nodes, role, utils.unescape(text), find)], []

        inliner.interpreted = interpreted
        inliner.find = find
        return inliner

    class Tolerant:
        nested_sm_cache: list[Any] = []  # noqa: RUF012

        def __init__(self, state_machine: Any, debug: bool = False) -> None:
            super().__init__(state_machine, debug)  # pyright: ignore[reportCallIssue]
            self.nested_sm_kwargs = {"state_classes": tolerant_states, "initial_state": "Body"}

        def parse_extension_options(self, spec: Any, lines: Any) -> Any:
            parsed = super().parse_extension_options(spec, lines)  # pyright: ignore
            # A directive must not lose its content because of an option that only Sphinx knows.
            return parsed if parsed[0] else (1, {})

        def run_directive(self: Any, directive: Any, match: Any, name: str, presets: Any) -> Any:
            if name == "class" and _PYTHON_CLASS.match(match.string, match.end()):
                return self.unknown_directive(name)
            if name.lower() not in _REFUSED:
                return super().run_directive(directive, match, name, presets)  # pyright: ignore
            machine = self.state_machine
            *_, blank_finish = machine.get_first_known_indented(match.end(), strip_top=False)
            return [], blank_finish

        def unknown_directive(self: Any, name: str) -> Any:
            indented = self.state_machine.get_first_known_indented
            after_name = self.state_machine.line.index("::") + 2
            lines, _, offset, blank_finish = indented(after_name, strip_top=False)
            return _directive_nodes(self, name, lines, offset), blank_finish

    tolerant_states = tuple(
        type(state.__name__, (Tolerant, state), {}) for state in states.state_classes
    )

    class TolerantParser(Parser):
        def __init__(self, find: FindReference | None) -> None:
            super().__init__(inliner=tolerant_inliner(find))
            self.state_classes = tolerant_states

    return TolerantParser


def _role_node(nodes: Any, role: str, text: str, find: FindReference | None) -> Any:
    """The text of an unknown role, as a link if its target is known: the title that the author
    gave, that of the target, or the last part of a ``~dotted.name``."""
    shown, target = sphinx_tree.title_and_target(text)
    found = find(role, target.lstrip("~")) if find and not target.startswith("!") else None
    shown = shown or (found and found[0]) or sphinx_tree.short_name(text)
    if found or role.endswith("doc"):
        return nodes.reference(text, shown, refuri=found[1] if found else target)
    return nodes.inline(text, shown)


def _directive_nodes(state: Any, name: str, lines: Any, offset: int) -> list[Any]:
    """The argument and the content of an unknown directive, as text."""
    from docutils import nodes

    argument = lines[0].strip() if lines else ""
    content = lines[1:]
    skipped = 1
    # An object may have several signatures: the lines up to a blank one or the options.
    while _SIGNATURE.match(name) and content and content[0].strip()[:1] not in ("", ":"):
        argument += f"\n{content[0].strip()}"
        content = content[1:]
        skipped += 1
    caption = ""
    while content and _OPTION.match(content[0].strip()):
        option, _, value = content[0].strip().removeprefix(":").partition(":")
        caption = value.strip() if option == "caption" else caption
        content = content[1:]
        skipped += 1
    if name in _DROPPED or (_GENERATED.match(name) and not any(map(str.strip, content))):
        return []
    if name == "toctree":
        return [_toctree_node(nodes, content, state.inliner.find)]
    if name in _CODE:
        code = "\n".join([argument, *content]).strip("\n")
        return [nodes.literal_block(code, code)]
    if name == "code-tab":
        label, code = caption or argument, "\n".join(content).strip("\n")
        return [nodes.paragraph(label, label), nodes.literal_block(code, code)]
    body: Any = nodes.container()
    state.nested_parse(content, offset + skipped, body)
    if name in sphinx_tree.VERSIONS:
        version, _, rest = argument.partition(" ")
        argument = f"{sphinx_tree.VERSIONS[name]} {version}: {rest}".rstrip(": ")
        if not rest and body.children and body.children[0].tagname == "paragraph":
            body.children[0].insert(0, nodes.Text(f"{argument}: "))
            argument = ""
    if not argument:
        return list(body.children)
    if _SIGNATURE.match(name):
        terms = [nodes.term(line, line) for line in argument.split("\n")]
        item = nodes.definition_list_item("", *terms)
        if body.children or name not in _MARKERS:
            item += nodes.definition("", *body.children)
        return [nodes.definition_list("", item)]
    texts, _ = state.inline_text(argument, state.state_machine.abs_line_number())
    return [nodes.paragraph(argument, "", *texts), *body.children]


def _toctree_node(nodes: Any, lines: Iterable[str], find: FindReference | None) -> Any:
    links = nodes.paragraph()
    for target in sphinx_tree.toctree_targets(lines):
        found = find("doc", target) if find else None
        links += nodes.reference("", "", refuri=found[1] if found else target)
    return links


class _RstReader:
    """Walks the tree. ``_lead`` is text that goes in front of the next paragraph."""

    def __init__(self, builder: DocumentBuilder) -> None:
        self._builder = builder
        self._level = 0
        self._lead = TextBuilder()
        self._readers: dict[str, Callable[[Any], None]] = {
            "definition_list_item": self._definition,
            "docinfo": self._docinfo,
            "field": self._field,
            "line_block": self._lines,
            "option_list_item": self._option,
            "section": self._section,
            "system_message": self._message,
            "table": self._table,
            "title": self._title,
            **dict.fromkeys(("paragraph", "image", "line", "rubric", "term"), self._paragraph),
            **dict.fromkeys(("literal_block", "doctest_block", "math_block"), self._code),
            **dict.fromkeys(("bullet_list", "enumerated_list"), self._list),
            **dict.fromkeys(("footnote", "citation"), self._note),
            **dict.fromkeys(_ADMONITIONS, self._admonition),
            **dict.fromkeys(_UNSEEN, lambda node: None),
        }

    def read(self, node: Any) -> None:
        for child in node.children:
            if reader := self._readers.get(child.tagname):
                reader(child)
            elif child.tagname == "#text":
                self._emit(LinkedText(child.astext().strip()))
            else:
                self.read(child)

    def _emit(self, span: LinkedText) -> None:
        """Add a paragraph, with the lead in front of it."""
        self._lead.add(span)
        self._builder.paragraph(self._lead.finish())

    def flush(self) -> None:
        if not self._lead.blank:
            self._emit(LinkedText(""))

    def _paragraph(self, node: Any) -> None:
        self._emit(_span(node))

    def _section(self, node: Any) -> None:
        self._level += 1
        self.read(node)
        self._level -= 1

    def _title(self, node: Any) -> None:
        if node.parent.tagname == "section":
            self.flush()
            self._builder.heading(self._level, _span(node))
        else:
            self._emit(_span(node))

    def _code(self, node: Any) -> None:
        self.flush()
        self._builder.code(node.astext())

    def _lines(self, node: Any) -> None:
        self._emit(LinkedText("\n".join(_texts(node, "line"))))

    def _list(self, node: Any) -> None:
        self.flush()
        ordered = node.tagname == "enumerated_list"
        self._builder.open_list(ordered=ordered, start=int(node.get("start", 1)))
        for item in node.children:
            self._builder.open_item()
            self.read(item)
            self._builder.close_item()
        self._builder.close_list()

    def _definition(self, node: Any) -> None:
        self.flush()
        for child in node.children:
            if child.tagname in ("term", "classifier"):
                if not self._lead.blank:
                    self._lead.write(" : " if child.tagname == "classifier" else "\n")
                self._lead.add(_span(child))
            else:
                self._lead.write("\n")
                self.read(child)
        if node.children[-1].tagname == "definition":
            self.flush()
        else:
            self._lead.write("\n")  # a term that the next paragraph describes

    def _with_lead(self, lead: str, node: Any) -> None:
        self.flush()
        self._lead.write(lead)
        self.read(node)
        self.flush()

    def _field(self, node: Any) -> None:
        self._with_lead(f"{node.children[0].astext()}: ", node.children[1])

    def _option(self, node: Any) -> None:
        self._with_lead(", ".join(_texts(node, "option")) + "\n", node.children[-1])

    def _note(self, node: Any) -> None:
        labels = (child for child in node.children if child.tagname == "label")
        self._with_lead("".join(f"[{label.astext()}] " for label in labels), node)

    def _admonition(self, node: Any) -> None:
        self._with_lead(f"{node.tagname.capitalize()}: ", node)

    def _message(self, node: Any) -> None:
        """Keep what docutils could not parse as it was written, without roles."""
        self.flush()
        for text in _texts(node, "literal_block"):
            if not _NOT_WRITTEN.match(text):
                self._builder.code(sphinx_tree.without_markup(text))

    def _table(self, node: Any) -> None:
        self.flush()
        rows: list[list[LinkedText]] = []
        for child in node.findall():
            if child.tagname == "title" and child.parent is node:
                self._emit(_span(child))
            elif child.tagname == "row":
                rows.append([_cell(entry) for entry in child.children])
        self._builder.table(rows)

    def _docinfo(self, node: Any) -> None:
        for child in node.children:
            if child.tagname == "field":
                name, value = child.children[0].astext(), child.children[1].astext()
            else:
                name, value = child.tagname, child.astext()
            text = " ".join(value.split())
            if text and not access_key(name):
                self._builder.metadata.setdefault(name.lower(), text)


_UNSEEN = "comment label substitution_definition target pending meta raw decoration".split()
_NOT_WRITTEN = re.compile(r"\.\.\s+(?:include|raw|csv-table|\|[^|]+\|\s+date)::")


def _texts(node: Any, tagname: str) -> list[str]:
    return [child.astext() for child in node.findall() if child.tagname == tagname]


def _cell(entry: Any) -> LinkedText:
    inline = TextBuilder()
    for child in entry.children:
        if not inline.blank:
            inline.write(" ")
        inline.add(_span(child))
    return inline.finish()


def _span(node: Any) -> LinkedText:
    inline = TextBuilder()
    if node.tagname == "image":
        inline.write_flowing(node.get("alt", ""))
    _write_inline(inline, node)
    return inline.finish()


def _write_inline(inline: TextBuilder, node: Any) -> None:
    for child in node.children:
        match child.tagname:
            case "#text":
                inline.write_flowing(child.astext())
            case "literal" | "math":
                inline.write(child.astext())
            case "image":
                inline.write_flowing(child.get("alt", ""))
            case "footnote_reference" | "citation_reference":
                inline.write(f"[{child.astext()}]")
            case "raw" | "system_message" | "substitution_definition":
                pass
            case "reference" if child.get("refuri"):
                inline.open_link(child["refuri"])
                _write_inline(inline, child)
                inline.close_link()
            case _:
                _write_inline(inline, child)
