"""Documentation takes signatures and docstrings from the code of its project."""

import pytest

CODE = '''"""Things for keys.

.. autofunction:: revoke
"""
from ._inner import Ring as Ring
import os

#: Seconds that a key lives.
LIFETIME = 3600

def make(name, *, bits=4096, **more):
    """Make a key. See :func:`revoke`.

    Parameters
    ----------
    bits : int
        Its length.
    """

def revoke(key):
    """Withdraw a key for ever."""

def _hidden():
    """Secret words."""

def undocumented():
    pass
'''
INNER = '''class Ring:
    """Holds keys."""

    def __init__(self, path="ring.db"):
        pass

    def add(self, key):
        """Put a key on the ring."""

    @property
    def size(self):
        """How many keys there are."""

class LostKey(KeyError):
    """There is no such key."""
'''
PROJECT = {
    "pyproject.toml": "",
    "src/keys/__init__.py": CODE,
    "src/keys/_inner.py": INNER,
    "docs/conf.py": "",
}


@pytest.fixture
def document(folder, opened):
    """Call it with the name and the text of a page of a project's documentation."""

    def read(name, text, **changes):
        root = folder({**PROJECT, f"docs/{name}": text, **changes})
        return opened(root / "docs").documents[name]

    return read


def test_a_function_stands_with_its_signature_and_docstring(document):
    found = document("a.rst", "Keys\n====\n\n.. autofunction:: keys.make\n\nEnd.\n")
    assert found.text.startswith("keys.make(name, *, bits=4096, **more)\nMake a key. See revoke.")
    assert "Parameters\n\nbits : int\nIts length." in found.text
    assert found.text.endswith("End.")


def test_names_are_those_of_the_current_module_and_class(document):
    text = (
        ".. currentmodule:: keys\n\n.. autoclass:: Ring\n\n   More on rings.\n\n"
        "   .. automethod:: add\n\n.. autodata:: LIFETIME\n"
    )
    found = document("a.rst", text).text
    assert "keys.Ring(path='ring.db')\nHolds keys." in found
    assert "More on rings." in found
    assert "add(key)\nPut a key on the ring." in found
    assert "keys.LIFETIME\nSeconds that a key lives." in found
    assert "How many keys" not in found


def test_members_are_the_public_ones_with_a_docstring(document):
    found = document("a.rst", ".. automodule:: keys\n   :members:\n").text
    assert found.startswith("Things for keys.")
    assert found.index("Withdraw a key") < found.index("make(name")
    assert "Secret words" not in found
    assert "undocumented" not in found
    named = document("a.rst", ".. autoclass:: keys.Ring\n   :members: size\n").text
    assert "How many keys there are." in named
    assert "Put a key" not in named


@pytest.mark.parametrize(
    "text",
    [
        "```{autofunction} keys.revoke\n```\n",
        "```{eval-rst}\n.. autofunction:: keys.revoke\n```\n",
        "::: keys.revoke\n    options:\n      show_root_heading: true\n",
    ],
)
def test_markdown_pages_take_docstrings_too(document, text):
    found = document("a.md", f"# Keys\n\n{text}\nEnd.\n")
    assert "Withdraw a key for ever." in found.text
    assert found.text.endswith("End.")
    assert "eval-rst" not in found.text


def test_a_class_of_mkdocstrings_has_its_members(document):
    found = document("a.md", "# Ring\n\n::: keys.Ring\n").text
    assert "keys.Ring(path='ring.db')" in found
    assert "Put a key on the ring." in found


def test_a_changed_docstring_changes_the_source_hash(folder, opened):
    page = ".. autofunction:: keys.revoke\n"
    root = folder({**PROJECT, "docs/a.rst": page, "docs/b.md": "::: keys.revoke\n"})
    before = {name: item.source_hash for name, item in opened(root / "docs").items.items()}
    (root / "src/keys/__init__.py").write_text(CODE.replace("for ever", "at once"))
    after = {name: item.source_hash for name, item in opened(root / "docs").items.items()}
    assert before["a.rst"] != after["a.rst"]
    assert before["b.md"] != after["b.md"]


def test_nothing_is_read_beyond_the_project(folder, opened, tmp_path):
    (tmp_path / "outside.py").write_text('"""hidden words"""\n')
    page = ".. automodule:: outside\n\n.. automodule:: linked\n\nText.\n"
    conf = "import sys\nsys.path.insert(0, '../..')\n"
    root = folder({**PROJECT, "docs/conf.py": conf, "docs/a.rst": page})
    (root / "src/linked.py").symlink_to(tmp_path / "outside.py")
    assert opened(root / "docs").documents["a.rst"].text == "Text."


def test_without_a_project_directives_stay_empty(folder, opened):
    root = folder(
        {
            "keys.py": CODE,
            "docs/conf.py": "",
            "docs/a.rst": "Text.\n\n.. autofunction:: keys.make\n",
        }
    )
    assert opened(root / "docs").documents["a.rst"].text == "Text."


def test_deep_nesting_and_circular_imports_end(document):
    nested = "".join(f"{'   ' * n}.. module:: m{n}\n\n" for n in range(30))
    circle = {
        "src/keys/_one.py": "from ._two import lost\n",
        "src/keys/_two.py": "from ._one import lost\n",
    }
    text = f"Start.\n\n{nested}\n.. autofunction:: keys._one.lost\n\nEnd.\n"
    found = document("a.rst", text, **circle).text
    assert found.startswith("Start.")
    assert found.endswith("End.")


def test_code_that_cannot_be_parsed_is_left_out(document):
    broken = {"src/keys/__init__.py": "def (", "src/bomb.py": "(" * 5000}
    text = ".. autofunction:: keys.make\n\n.. automodule:: bomb\n\nEnd.\n"
    assert document("a.rst", text, **broken).text == "End."
