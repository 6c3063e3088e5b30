"""Licences and a software bill of materials of what an extra installs.

    python scripts/licences.py models serve              # a table
    python scripts/licences.py models --sbom > sbom.json # CycloneDX 1.6

Reads the metadata of the packages that are installed here and needed by `packwise[EXTRA,...]`.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

import click
from packaging.utils import canonicalize_name

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
from install_size import closure

_CLASSIFIER = "License :: OSI Approved :: "


def main() -> None:
    """Print the table or the bill of materials."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("extras", nargs="*", default=["models"])
    parser.add_argument("--sbom", action="store_true", help="CycloneDX instead of a table")
    options = parser.parse_args()
    installed = {canonicalize_name(d.name): d for d in distributions()}
    needed: set[str] = set()
    for extra in options.extras:
        needed |= closure(installed, extra)
    packages = [installed[name] for name in sorted(needed)]
    if options.sbom:
        click.echo(json.dumps(bill_of_materials(packages), indent=2))
        return
    click.echo("| package | version | licence |\n|---|---|---|")
    for package in packages:
        click.echo(f"| {package.name} | {package.version} | {licence(package)} |")
    unknown = [package.name for package in packages if licence(package) == "unknown"]
    if unknown:
        raise SystemExit(f"no licence in the metadata of: {', '.join(unknown)}")


def licence(package: Distribution) -> str:
    """The licence that a package states: its expression, its classifiers, or its short text."""
    stated = package.metadata
    if expression := stated.get("License-Expression"):
        return expression
    classified = [
        value.removeprefix(_CLASSIFIER)
        for value in stated.get_all("Classifier") or ()
        if value.startswith(_CLASSIFIER)
    ]
    text = (stated.get("License") or "").strip().splitlines()
    return ", ".join(classified) or (text[0][:60] if text else "unknown")


def bill_of_materials(packages: list[Distribution]) -> dict[str, Any]:
    """The packages as a CycloneDX document, without a time or a serial number: reproducible."""
    own = next(package for package in packages if canonicalize_name(package.name) == "packwise")
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": component(own, "application")},
        "components": [component(package) for package in packages if package is not own],
    }


def component(package: Distribution, kind: str = "library") -> dict[str, Any]:
    """One package of a bill of materials."""
    name = canonicalize_name(package.name)
    address = f"pkg:pypi/{name}@{package.version}"
    stated = licence(package)
    entry: dict[str, Any] = {"expression": stated}
    if not package.metadata.get("License-Expression"):
        entry = {"license": {"name": stated}}
    return {
        "type": kind,
        "bom-ref": address,
        "name": name,
        "version": package.version,
        "purl": address,
        "licenses": [entry],
    }


if __name__ == "__main__":
    main()
