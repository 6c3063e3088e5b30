"""Every example in the README and the docs runs, in a folder like the one it speaks of.

A block is left out only when a comment `<!-- not run: why -->` stands right before it.
"""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"(<!-- not run: [^>]+-->\n)?```(bash|python)\n(.*?)```", re.DOTALL)


def examples(page):
    for skip, language, code in BLOCK.findall(page.read_text(encoding="utf-8")):
        if not skip:
            yield language, code


# Heavy libraries: their pages are skipped without `packwise[integrations]`, which .ci/run installs.
NEEDED = {
    "data-frames.md": "polars",
    "dspy.md": "dspy",
    "haystack.md": "haystack",
    "langchain.md": "langchain_core",
    "llama-index.md": "llama_index",
}
WITH_EXAMPLES = [page for page in PAGES if any(True for _ in examples(page))]


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: page.name)
def test_the_examples_of_the_page_run(page, workshop, tmp_path):
    needed = NEEDED.get(page.name)
    if needed and find_spec(needed) is None:
        pytest.skip("pip install 'packwise[integrations]'")
    folder = workshop(tmp_path)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # A home of its own: the keys and packs that the examples make are no other test's.
    home = str(tmp_path / "home")
    env = {**os.environ, "PATH": path, "COLUMNS": "100", "PACKWISE_HOME": home}
    for language, code in examples(page):
        command = ["bash", "-euo", "pipefail", "-c", code]
        if language == "python":
            command = [sys.executable, "-W", "error", "-c", code]
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
        assert done.returncode == 0, f"{page.name}:\n{code}\n{done.stdout}\n{done.stderr}"
