"""The trace of a context as one self-contained page: what is in, what is not, and why.

The page loads nothing and runs no script; Jinja escapes every text on it.
"""

from __future__ import annotations

from jinja2 import Environment, PackageLoader

from packwise.context.packer import Context


def render(context: Context) -> str:
    """The page for a context, as HTML."""
    environment = Environment(loader=PackageLoader("packwise.context"), autoescape=True)
    page = environment.get_template("trace.html").render(context=context)
    return page.encode("utf-8", "replace").decode("utf-8")
