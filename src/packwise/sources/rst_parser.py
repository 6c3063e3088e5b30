"""reStructuredText as docutils parses it, with the roles and directives that only Sphinx knows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from packwise.sources import sphinx_tree
from packwise.sources.document_builder import FindReference

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
    "console doctest testcode testoutput productionlist prompt mermaid graphviz digraph graph "
    "ipython jupyter-execute literalinclude-content uml plantuml".split()
)
_TYPED = re.compile(r"\s*(?:\$|>>>|C:\\)\s?\S")
"""How lines begin that show what to type."""
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
_LONGEST_TERM = 80
OBJECT = "packwise-object"
"""The class of the definition lists made of described options, functions and the like."""
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


def parse(text: str, find: FindReference | None) -> Any:
    """The document tree of a text; ``find`` finds what its references mean."""
    from docutils import core
    from docutils.parsers.rst import roles

    # Otherwise a role that one document defines would be known in all later ones.
    table: dict[str, Any] = vars(roles)["_roles"]
    before = dict(table)
    try:
        tree = core.publish_doctree(text, parser=_parser()(find), settings_overrides=_SETTINGS)
    finally:
        table.clear()
        table.update(before)
    _define_quoted(tree)
    return tree


def _define_quoted(tree: Any) -> None:
    """Make a definition of a short line with an indented text below it: between empty lines, a
    term and what it means are written as a paragraph and a quotation."""
    from docutils import nodes

    for quote in list(tree.findall(nodes.block_quote)):
        before = quote.previous_sibling()
        if isinstance(before, nodes.paragraph) and _is_term(before.astext()):
            term = nodes.term(before.rawsource, "", *before.children)
            item = nodes.definition_list_item("", term, nodes.definition("", *quote.children))
            quote.parent.remove(before)
            quote.replace_self(nodes.definition_list("", item))


def _is_term(text: str) -> bool:
    return len(text) <= _LONGEST_TERM and "\n" not in text and text.strip()[-1:] not in ".:;,!?"


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
    if name in _CODE or (not argument and _TYPED.match(next(filter(str.strip, content), ""))):
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
        return [nodes.definition_list("", item, classes=[OBJECT])]
    texts, _ = state.inline_text(argument, state.state_machine.abs_line_number())
    return [nodes.paragraph(argument, "", *texts), *body.children]


def _toctree_node(nodes: Any, lines: Iterable[str], find: FindReference | None) -> Any:
    links = nodes.paragraph()
    for target in sphinx_tree.toctree_targets(lines):
        found = find("doc", target) if find else None
        links += nodes.reference("", "", refuri=found[1] if found else target)
    return links
