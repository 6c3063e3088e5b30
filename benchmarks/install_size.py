"""What `pip install packwise[EXTRA]` brings: packages and megabytes, per extra.

    python benchmarks/install_size.py                # the core and every extra that users install
    python benchmarks/install_size.py models serve   # these extras
    python benchmarks/install_size.py --largest 12   # and the largest packages of each

Installs the extras together into a fresh environment in a temporary folder, then reads from the
metadata of its packages which of them each extra needs. Sizes are those of the files on the disk.
`packwise[models]` is the core with the models, as pip would install it alone.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions
from pathlib import Path

import click
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
NOT_FOR_USERS = ("all", "test", "check", "docs", "integrations")


def main() -> None:
    """Print the table."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("extras", nargs="*", help="by default every extra that users install")
    parser.add_argument("--largest", type=int, default=0, metavar="N")
    options = parser.parse_args()
    chosen = options.extras or [name for name in extras if name not in NOT_FOR_USERS]
    with tempfile.TemporaryDirectory() as scratch:
        installed = install(Path(scratch), chosen)
        click.echo("| install | packages | MB |\n|---|---:|---:|")
        for extra in ("", *chosen):
            needed = closure(installed, extra)
            sizes = {name: size(installed[name]) for name in needed}
            name = f"packwise[{extra}]" if extra else "packwise"
            click.echo(f"| `{name}` | {len(needed)} | {sum(sizes.values()) / 1e6:.0f} |")
            if options.largest:
                largest = sorted(sizes.items(), key=lambda entry: -entry[1])[: options.largest]
                listed = ", ".join(f"{name} {bytes_ / 1e6:.0f}" for name, bytes_ in largest)
                click.echo(f"| largest: {listed} | | |")


def install(scratch: Path, extras: Iterable[str]) -> dict[str, Distribution]:
    """The packages of a fresh environment with these extras, by name."""
    folder = scratch / "environment"
    venv.create(folder, with_pip=False)
    python = next(path for path in folder.glob("*/python*") if path.stem == "python")
    wanted = f"{ROOT}[{','.join(extras)}]"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    subprocess.run([*command, "-c", str(ROOT / "constraints.txt"), wanted], check=True)
    (site,) = folder.glob("[Ll]ib/**/site-packages")
    return {canonicalize_name(d.name): d for d in distributions(path=[str(site)])}


def closure(installed: dict[str, Distribution], extra: str) -> set[str]:
    """The packages that `packwise[extra]` needs, itself included."""
    seen: set[tuple[str, str]] = set()
    pending = [("packwise", ""), ("packwise", extra)]
    while pending:
        name, wanted = pending.pop()
        if (name, wanted) in seen or name not in installed:
            continue
        seen.add((name, wanted))
        for line in installed[name].requires or ():
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": wanted}):
                found = canonicalize_name(requirement.name)
                pending += [(found, further) for further in ("", *requirement.extras)]
    return {name for name, _ in seen}


def size(distribution: Distribution) -> int:
    """Bytes of the files of a package."""
    files = (Path(str(file.locate())) for file in distribution.files or ())
    return sum(path.stat().st_size for path in files if path.is_file())


if __name__ == "__main__":
    main()
