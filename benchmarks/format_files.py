"""Fetches real files of every format: ``python benchmarks/format_files.py FOLDER``.

They come from Debian packages (``apt-get`` and ``dpkg-deb`` must be there), and from source
distributions and wheels of the configured package index. ``FOLDER/files`` gets one folder per
format; its ``pdf`` has one per kind. ``FOLDER/pdf-text`` gets the further PDF files that
``pdf_text.py`` compares, and ``FOLDER/packages`` what was downloaded.
"""

from __future__ import annotations

import bz2
import gzip
import re
import shutil
import subprocess
import sys
import tarfile
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path

import click

DOC, SHARE = "usr/share/doc", "usr/share"
FILES: dict[str, tuple[tuple[str, str], ...]] = {
    "files/pdf/papers": (
        ("deb:r-cran-survival", "**/concordance.pdf"),
        ("deb:faust-common", f"{DOC}/faust-common/misc/faust_SMC2009.pdf.gz"),
    ),
    "files/pdf/manuals": (
        ("deb:libtasn1-doc", "**/libtasn1.pdf"),
        ("deb:openni-doc", "**/OpenNI_UserGuide.pdf.gz"),
    ),
    "files/pdf/books": (("deb:maint-guide", "**/maint-guide.en.pdf"),),
    "files/pdf/slides": (
        ("deb:faust-common", f"{DOC}/faust-common/misc/lac07_slides_graef.pdf.gz"),
        ("deb:texlive-latex-recommended-doc", "**/beamerexample-conference-talk.pdf"),
    ),
    "files/pdf/cards": (
        ("deb:octave-doc", "**/refcard-a4.pdf"),
        ("deb:r-cran-zoo", "**/zoo-quickref.pdf"),
    ),
    "files/docx": (
        ("deb:previsat", "**/PreviSat_en.docx"),
        ("deb:pscan-chip", "**/README.docx.gz"),
        ("deb:toppic-common", "**/topmsv/doc/*.docx"),
    ),
    "files/pptx": (
        ("deb:libtango-doc", "**/*.pptx.gz"),
        ("deb:r-cran-officer", "**/example.pptx"),
    ),
    "files/xlsx": (
        ("deb:opa-fastfabric", f"{SHARE}/opa/samples/detailed_topology.xlsx"),
        ("deb:r-cran-readxl", "**/deaths.xlsx"),
        ("deb:r-cran-readxl", "**/datasets.xlsx"),
        ("deb:faust-common", f"{SHARE}/faust/examples/SAM/*/*.xlsx"),
        ("deb:r-cran-gdata", "**/ExampleExcelFile.xlsx"),
    ),
    "files/csv": (
        ("deb:distro-info-data", f"{SHARE}/distro-info/*.csv"),
        ("deb:r-cran-readr", "**/mtcars.csv"),
        ("deb:r-cran-readr", "**/chickens.csv"),
    ),
    "files/epub": (("deb:debian-history", "**/project-history.en.epub"),),
    "files/odt": (
        ("deb:nagios-nrpe-server", "**/NRPE.odt"),
        ("deb:uncrustify", "**/overview.odt"),
        ("deb:aprx", "**/aprx-requirement-specification.odt"),
    ),
    "files/notebook": (("sdist:emcee", "*/docs/tutorials/*.ipynb"),),
    "files/json": (("deb:iso-codes", f"{SHARE}/iso-codes/json/iso_[143]*[1745].json"),),
    "files/mail": (
        ("deb:inetsim", "**/sample.mbox"),
        ("deb:python3-networkx", f"{DOC}/python3-networkx/**/unix_email.mbox"),
        ("deb:golang-github-gatherstars-com-jwz-dev", "**/ham/000*.eml"),
        ("deb:golang-github-gatherstars-com-jwz-dev", "**/ham/001*.eml"),
        ("deb:golang-github-gatherstars-com-jwz-dev", "**/ham/002*.eml"),
    ),
    "files/wiki": (("wheel:gensim", "gensim/test/test_data/enwiki-*-shortened.bz2"),),
    "files/asciidoc": (
        ("deb:rdiff-backup", "**/[FRWem]*.adoc.gz"),
        ("deb:git-doc", f"{DOC}/git/html/git-b*.txt"),
    ),
    "files/org": (
        ("deb:maildir-utils", "**/NEWS.org"),
        ("deb:elpa-magit", "**/RelNotes/3.[0-2]*.org*"),
    ),
    "files/man": (
        ("deb:tar", f"{SHARE}/man/man1/tar.1.gz"),
        ("deb:openssh-client", f"{SHARE}/man/man[15]/ssh*"),
        ("deb:logrotate", f"{SHARE}/man/man8/*"),
    ),
    "files/code": (
        ("deb:golang-github-spf13-cobra-dev", f"{SHARE}/gocode/src/**/cobra/a*.go"),
        ("deb:golang-github-spf13-cobra-dev", f"{SHARE}/gocode/src/**/cobra/command.go"),
        ("deb:librust-anyhow-dev", f"{SHARE}/cargo/registry/*/src/[ceklm]*.rs"),
        ("deb:node-semver", f"{SHARE}/nodejs/semver/[cf]*/*.js"),
        ("deb:ruby-mustache", "usr/lib/ruby/vendor_ruby/**/*.rb"),
        ("sdist:requests", "*/src/requests/[aesu]*.py"),
        ("sdist:markupsafe", "*/src/markupsafe/*.c"),
    ),
    "files/html": (("deb:debian-faq", "**/FAQ/[a-hj-z]*.en.html"),),
    "files/sphinx": (
        ("sdist:anyio", "*/docs/**/*"),
        ("sdist:attrs", "*/docs/*"),
    ),
    "files/mkdocs": (("sdist:starlette", "*/docs/*.md"), ("sdist:starlette", "*/mkdocs.yml")),
    "files/rst-in-txt": (("sdist:django", "*/docs/howto/**/*.txt"),),
    "files/encodings": (
        ("deb:debian-history", "**/dedication-2.2.*.txt"),
        ("deb:cloudcompare", "**/fr_2.4/Readme.txt"),
    ),
    "pdf-text/papers": (
        ("deb:r-cran-lme4", "**/lmer.pdf"),
        ("deb:r-cran-zoo", "**/zoo.pdf"),
        ("deb:r-cran-vcd", "**/strucplot.pdf"),
        ("deb:r-cran-vcd", "**/residual-shadings.pdf"),
        ("deb:faust-common", f"{DOC}/faust-common/misc/lac06.pdf.gz"),
    ),
    "pdf-text/manuals": (
        ("deb:gnuplot-doc", "**/gnuplot.pdf"),
        ("deb:octave-doc", "**/liboctave.pdf"),
        ("deb:texlive-latex-recommended-doc", "**/microtype.pdf"),
        ("deb:texlive-latex-recommended-doc", "**/listings.pdf"),
        ("deb:libdigidoc-doc", "**/SK-CDD-PRG-GUIDE.pdf.gz"),
        ("deb:nagios-nrpe-server", "**/NRPE.pdf.gz"),
    ),
    "pdf-text/books": (
        ("deb:debian-reference-en", "**/debian-reference.en.pdf"),
        ("deb:developers-reference", "**/developers-reference.pdf"),
        ("deb:texlive-latex-recommended-doc", "**/fontspec.pdf"),
    ),
    "pdf-text/slides": (
        ("deb:texlive-latex-recommended-doc", "**/beamerexample-lecture-beamer-version.pdf"),
        ("deb:texlive-latex-recommended-doc", "**/beamerexample-lecture-print-version.pdf"),
        ("deb:faust-common", f"{DOC}/faust-common/misc/faust-den-haag-april-2006-v6.pdf.gz"),
    ),
    "pdf-text/cards": (
        ("deb:octave-doc", "**/refcard-letter.pdf"),
        ("deb:r-cran-zoo", "**/zoo-faq.pdf"),
    ),
}
"""By folder: from which package (``deb:``, ``sdist:``, ``wheel:``) which files are taken."""

_TREES = ("sphinx", "mkdocs", "code")
"""Formats whose files keep their folders."""


def fetch(folder: Path, name: str) -> Path:
    """The files of one entry of ``FILES`` in ``folder``; what is there is not fetched again."""
    place = folder / name
    if place.is_dir():
        return place
    for origin, pattern in FILES[name]:
        unpacked = unpack(origin, folder / "packages")
        found = [path for path in sorted(unpacked.glob(pattern)) if path.is_file()]
        for path in found:
            inside = path.relative_to(unpacked)
            target = place / (inside if place.name in _TREES else inside.name)
            target.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".gz" and place.name != "man":
                target = target.with_suffix("")
                with gzip.open(path) as packed:
                    target.write_bytes(packed.read())
            elif path.suffix == ".bz2":
                target.with_suffix(".xml.bz2").write_bytes(_first_articles(path))
            else:
                shutil.copyfile(path, target)
    return place


def unpack(origin: str, packages: Path) -> Path:
    """A package, downloaded and unpacked."""
    kind, _, name = origin.partition(":")
    place = packages / kind / name
    done = place.with_suffix(".done")
    if done.exists():
        return place
    place.mkdir(parents=True, exist_ok=True)
    click.echo(f"fetching {origin}", err=True)
    if kind == "deb":
        subprocess.run(["apt-get", "download", "-qq", name], cwd=place, check=True)
        (package,) = place.glob("*.deb")
        subprocess.run(["dpkg-deb", "-x", str(package), str(place)], check=True)
    elif kind == "sdist":
        package = _source_distribution(name, place)
        with tarfile.open(package) as archive:
            archive.extractall(place, filter="data")
    else:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", name]
        subprocess.run([*command, "--only-binary", ":all:", "-d", str(place)], check=True)
        (package,) = place.glob("*.whl")
        with zipfile.ZipFile(package) as archive:
            archive.extractall(place)
    package.unlink()
    done.touch()
    return place


def _first_articles(dump: Path) -> bytes:
    """The first articles of a MediaWiki dump, as a dump."""
    text = bz2.decompress(dump.read_bytes()).decode()
    pages = text.split("</page>")[:30]
    return bz2.compress(("</page>".join(pages) + "</page></mediawiki>").encode())


def _source_distribution(name: str, place: Path) -> Path:
    """The newest source distribution. ``pip download`` would build it first."""
    from pip._internal.models.index import PyPI

    setting = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    stated = subprocess.run(setting, capture_output=True, text=True, check=False).stdout.strip()
    page = f"{(stated or PyPI.simple_url).rstrip('/')}/{name}/"
    with urllib.request.urlopen(page) as answer:
        links = re.findall(r'href="([^"#]+)[^"]*"', answer.read().decode())
    releases = {
        tuple(map(int, match[1].split("."))): link
        for link in links
        if (match := re.search(r"-(\d+(?:\.\d+)*)\.tar\.gz$", link))
    }
    address = urllib.parse.urljoin(page, releases[max(releases)])
    target = place / address.rpartition("/")[2]
    with urllib.request.urlopen(address) as answer:
        target.write_bytes(answer.read())
    return target


def main(folder: str) -> None:
    """Fetch the files that are not there yet."""
    for name in FILES:
        place = fetch(Path(folder), name)
        click.echo(f"{place}: {sum(path.is_file() for path in place.rglob('*'))} files")


if __name__ == "__main__":
    main(sys.argv[1])
