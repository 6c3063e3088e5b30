"""Manual pages beside ``mandoc``: ``python benchmarks/man_text.py FOLDER [--most N]``.

FOLDER holds manual pages, such as the ``usr/share/man`` of unpacked Debian packages. Prints how
many of the words and signs that ``mandoc`` shows the reader keeps, how much of what it keeps is
shown there, which pages lose most, and what is lost most often.
"""

from __future__ import annotations

import random
import re
import subprocess
from collections import Counter, defaultdict
from pathlib import Path

import click

from packwise import Item, open_source

_TOKEN = re.compile(r"\w+|[^\w\s]")
_OVERSTRIKE = re.compile(r".\x08")
_SAME = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "−": "-", "‐": "-", "´": "'"})
_RULES = re.compile(r"[│─┼├┤┬┴┌┐└┘═║╪]")


def tokens(text: str) -> Counter[str]:
    """The words and signs of a text, quotes and dashes all of one kind."""
    return Counter(_TOKEN.findall(_RULES.sub(" ", text.translate(_SAME).casefold())))


def shown(path: Path) -> str:
    """What ``mandoc`` shows, without the page's header and footer."""
    command = ["mandoc", "-T", "utf8", "-O", "width=900", str(path)]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    lines = _OVERSTRIKE.sub("", done.stdout.decode("utf-8", "replace")).split("\n")
    return (
        "\n".join(line for line in lines if line.strip())[0:].partition("\n")[2].rpartition("\n")[0]
    )


def kept(path: Path) -> str:
    """What the reader keeps: the text and the headings of sections."""
    (item,) = open_source(str(path)).items()
    assert isinstance(item, Item)
    document = item.read()
    headings = (section.path[-1] for section in document.sections if section.path)
    return "\n".join((*(name for name in headings if name not in document.text), document.text))


def sampled(folder: Path, most: int) -> list[Path]:
    """Pages of many programs, one for each beginning of a name in turn."""
    pages = [path for path in sorted(folder.rglob("*.gz")) if re.search(r"\.\d\w*\.gz$", path.name)]
    families: dict[str, list[Path]] = defaultdict(list)
    for path in pages:
        if not path.is_symlink():
            families[path.name[:4]].append(path)
    chosen = random.Random(0)
    order = sorted(families)
    chosen.shuffle(order)
    return [chosen.choice(families[name]) for name in order][:most]


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--most", default=300, help="Pages to compare.")
def main(folder: Path, most: int) -> None:
    """Compare the pages and print the table."""
    rows: list[tuple[float, float, Path]] = []
    lost: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for path in sampled(folder, most):
        peer, own = tokens(shown(path)), tokens(kept(path))
        if peer.total() < 50:
            continue  # It only names another page.
        both = (peer & own).total()
        rows.append((both / peer.total(), both / max(1, own.total()), path))
        lost += peer - own
        total.update(peer=peer.total(), own=own.total(), both=both)
    rows.sort(key=lambda row: row[:2])
    share = total["both"] / total["peer"], total["both"] / total["own"]
    click.echo(f"{len(rows)} pages: {share[0]:.2%} of what mandoc shows is kept, ", nl=False)
    click.echo(f"{share[1]:.2%} of what is kept is shown there")
    for found, right, path in rows[:25]:
        click.echo(f"{found:7.1%} {right:7.1%}  {path.name}")
    click.echo("lost most often: " + "  ".join(f"{word} {n}" for word, n in lost.most_common(60)))


if __name__ == "__main__":
    main()
