"""Environments with one library each, and what the library brings: packages, megabytes, import.

    python benchmarks/environments.py FOLDER [--only packwise,haystack]

Installs each library with what hybrid search in it needs into an environment of its own below
FOLDER (kept, and used again), without an embedding model or a language model. Import costs are CPU
seconds and peak memory of a fresh process, the best of three. Prints Markdown; comparison.py uses
the same environments.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import venv
from dataclasses import dataclass
from functools import cache
from importlib.metadata import distributions
from pathlib import Path

import click
from install_size import ROOT, size
from packaging.utils import canonicalize_name

TORCH = "torch==2.13.0"
"""Needed by some; other versions of it may bring gigabytes of libraries for graphics cards."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A library: what pip installs, and the import that a hybrid search in it begins with.
    ``package`` is the one whose version counts, none if it is not published as a package."""

    name: str
    title: str
    package: str
    requirements: tuple[str, ...]
    statement: str


SUBJECTS = (
    Subject("packwise", "Packwise", "packwise", (str(ROOT),), "import packwise.library"),
    Subject("lancedb", "LanceDB", "lancedb", ("lancedb==0.40.0",), "import lancedb.rerankers"),
    Subject("txtai", "txtai", "txtai", (TORCH, "txtai==9.14.0"), "import txtai"),
    Subject(
        "haystack",
        "Haystack",
        "haystack-ai",
        ("haystack-ai==3.4.0",),
        "import haystack.components.retrievers.in_memory",
    ),
    Subject(
        "llama-index",
        "LlamaIndex with Qdrant",
        "llama-index-core",
        (
            "llama-index-core==0.14.25",
            "llama-index-retrievers-bm25==0.8.0",
            "llama-index-vector-stores-qdrant==0.10.4",
        ),
        "import llama_index.core, llama_index.retrievers.bm25, llama_index.vector_stores.qdrant",
    ),
    Subject(
        "vectrixdb",
        "VectrixDB",
        "vectrixdb",
        ("vectrixdb==2.2.0",),
        "from vectrixdb import VectrixDB",
    ),
    Subject(
        "lightrag",
        "LightRAG",
        "lightrag-hku",
        ("lightrag-hku==1.5.7",),
        "from lightrag import LightRAG",
    ),
    Subject(
        "agent-kgpacks",
        "agent-kgpacks (what it needs)",
        "",
        # Its own code is not published as a package; these are the requirements it declares.
        (
            TORCH,
            "kuzu>=0.11.3,<0.12.0",
            "sentence-transformers>=5.2.0,<6.0.0",
            "requests>=2.32.0,<3.0.0",
            "pandas>=2.2.0,<3.0.0",
            "numpy>=2.4.0,<3.0.0",
            "transformers>=5.1.0,<6.0.0",
            "python-dateutil>=2.9.0,<3.0.0",
            "pyyaml>=6.0.0,<7.0.0",
        ),
        "import kuzu, sentence_transformers",
    ),
)
_MEASURE = """
import time
{statement}
peak = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(time.process_time(), *peak)
"""
"""The memory as the kernel counts it for this program: `ru_maxrss` also counts what the process had
that started it."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """What an installed library brings."""

    version: str
    packages: int
    megabytes: float
    import_seconds: float
    import_megabytes: float


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("environments", type=Path)
    parser.add_argument("--only", default=",".join(subject.name for subject in SUBJECTS))
    options = parser.parse_args()
    chosen = [subject for subject in SUBJECTS if subject.name in options.only.split(",")]
    click.echo(table({one.name: footprint(one, options.environments) for one in chosen}))


def table(found: dict[str, Footprint]) -> str:
    """The figures as Markdown."""
    lines = [
        "| library | version | packages | MB | import, CPU s | import, MB of memory |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for subject in SUBJECTS:
        if (one := found.get(subject.name)) is not None:
            lines.append(
                f"| {subject.title} | {one.version} | {one.packages} | {one.megabytes:.0f} |"
                f" {one.import_seconds:.2f} | {one.import_megabytes:.0f} |"
            )
    return "\n".join(lines)


@cache
def python_of(subject: Subject, environments: Path) -> Path:
    """The interpreter of a library's environment, which is made if it does not exist. Packwise is
    installed again each time, since its source may have changed."""
    folder = environments / subject.name
    python = folder / "bin" / "python"
    ready = folder / "installed"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    if not ready.exists():
        if not python.exists():
            venv.create(folder, with_pip=False)
        subprocess.run([*command, *subject.requirements], check=True)
        ready.touch()
    elif subject.requirements == (str(ROOT),):
        subprocess.run([*command, "--no-deps", "--force-reinstall", str(ROOT)], check=True)
    return python


def footprint(subject: Subject, environments: Path) -> Footprint:
    """Install a library unless it is there, and measure it."""
    python = python_of(subject, environments)
    (site,) = (environments / subject.name).glob("lib/*/site-packages")
    installed = {canonicalize_name(d.name): d for d in distributions(path=[str(site)])}
    for tool in ("pip", "setuptools"):
        installed.pop(tool, None)
    weight = sum(size(package) for package in installed.values()) / 1e6
    seconds, memory = min(_imported(subject, python) for _ in range(3))
    version = installed[canonicalize_name(subject.package)].version if subject.package else ""
    return Footprint(version, len(installed), weight, seconds, memory)


def _imported(subject: Subject, python: Path) -> tuple[float, float]:
    """CPU seconds and peak megabytes of a process that only imports the library."""
    code = _MEASURE.format(statement=subject.statement)
    command = [str(python), "-I", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/")
    seconds, kilobytes = done.stdout.split()
    return float(seconds), int(kilobytes) / 1000


if __name__ == "__main__":
    main()
