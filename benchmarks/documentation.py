"""What a reader of real documentation gets: right answers, unsure ones, wrong ones, refusals.

    python benchmarks/documentation.py [FOLDER] [--second | ... | --sixth | --tune] [--wrong]

Fetches the source archives of three projects with pip, builds a pack from the documentation of
each in FOLDER (else a temporary one), and asks the questions in ``benchmarks/documentation``
without a language model, as ``packwise eval answers PACK QUESTIONS`` does for each. --second takes
three other projects, --third to --sixth four to eight more each, with questions that were written
before their documentation was looked at. --tune takes the projects and questions that
``answer_model.py`` fits on. Manuals of Debian packages are fetched with apt-get. --wrong prints
the answers that are not right.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import packwise
from packwise.cli.evaluate_tables import show_answers
from packwise.evaluation.answers import AnswerReport, evaluate_answers, read_questions

QUESTIONS = Path(__file__).parent / "documentation"
TREES = {
    "coverage": ("coverage==7.17.2", "doc"),
    "gunicorn": ("gunicorn==27.0.0", "docs/content"),
    "scrapy": ("scrapy==2.19.0", "docs"),
}
SECOND_TREES = {
    "jinja2": ("jinja2==3.1.6", "docs"),
    "pip": ("pip==26.3", "docs/html"),
    "pytest": ("pytest==9.0.0", "doc/en"),
}
THIRD_TREES = {
    "haproxy": ("debian: haproxy-doc", "usr/share/doc/haproxy-doc/html"),
    "lftp": ("debian: lftp", "usr/share/man"),
    "nox": ("nox==2026.10.20", "docs"),
    "urllib3": ("urllib3==2.8.0", "docs"),
}
FOURTH_TREES = {
    "apscheduler": ("apscheduler==3.11.3", "docs"),
    "peewee": ("peewee==4.5.3", "docs"),
    "structlog": ("structlog==26.1.0", "docs"),
    "sysadmin_man": ("debian: logrotate cryptsetup-bin smartmontools", "usr/share/man"),
}
FIFTH_TREES = {
    "aiohttp": ("aiohttp==3.14.5", "docs"),
    "debian_policy": ("debian: debian-policy", "usr/share/doc/debian-policy/policy.html"),
    "hypothesis": (
        "debian: python-hypothesis-doc",
        "usr/share/doc/python-hypothesis-doc/html",
    ),
    "requests": ("debian: python-requests-doc", "usr/share/doc/python-requests-doc/html"),
    "systemd_man": ("debian: systemd", "usr/share/man/man5"),
}
SIXTH_TREES = {
    "curl_wget": ("debian: curl wget", "usr/share/man"),
    "gpg_man": ("debian: gpg gpg-agent", "usr/share/man"),
    "jq": ("debian: jq", "usr/share/man"),
    "psutil": ("psutil==7.2.2", "docs"),
    "setuptools": ("setuptools==84.2.1", "docs"),
    "sudo_man": ("debian: sudo", "usr/share/man"),
    "trio": ("trio==0.35.0", "docs"),
    "watchdog": ("watchdog==7.1.0", "docs"),
}
TUNE_TREES = {
    "alembic": ("alembic==1.20.1", "docs/build"),
    "attrs": ("attrs==26.1.0", "docs"),
    "black": ("black==26.10.1", "docs"),
    "borg": ("debian: borgbackup-doc", "usr/share/doc/borgbackup/html"),
    "celery": ("celery==5.7.0", "docs"),
    "click": ("click==8.5.1", "docs"),
    "django": ("django==5.2.19", "docs/faq docs/howto docs/topics"),
    "dnsmasq_chrony": ("debian: dnsmasq-base chrony", "usr/share/man"),
    "flask": ("flask==3.1.3", "docs"),
    "gimp": ("debian: gimp-help-en", "usr/share/gimp/2.0/help/en"),
    "gnucash": (
        "debian: gnucash-docs",
        "usr/share/doc/gnucash-docs/gnucash-guide-en usr/share/doc/gnucash-docs/gnucash-help-en",
    ),
    "gnuplot": ("debian: gnuplot-doc", "usr/share/doc/gnuplot/gnuplot.pdf"),
    "licences": ("debian: base-files", "usr/share/common-licenses"),
    "marshmallow": ("marshmallow==4.4.0", "docs"),
    "mutt": ("debian: mutt", "usr/share/doc/mutt/html"),
    "mypy": ("mypy==2.4.1", "docs/source"),
    "nano": ("debian: nano", "usr/share/doc/nano"),
    "notes": ("", ""),
    "openssh": ("debian: openssh-client openssh-server", "usr/share/man"),
    "rsync_tmux": ("debian: rsync tmux", "usr/share/man"),
    "starlette": ("starlette==1.10.0", "docs"),
    "supervisor": ("supervisor==4.3.0", "docs"),
    "tornado": ("tornado==6.6.1", "docs"),
    "tox": ("tox==4.67.13", "docs"),
    "werkzeug": ("werkzeug==3.1.9", "docs"),
}
PARTS = {
    "second": SECOND_TREES,
    "third": THIRD_TREES,
    "fourth": FOURTH_TREES,
    "fifth": FIFTH_TREES,
    "sixth": SIXTH_TREES,
    "tune": TUNE_TREES,
}


def main(folder: Path, part: str) -> None:
    """Build what is missing, ask every question, print one row per kind of question."""
    trees = PARTS.get(part, TREES)
    questions = QUESTIONS / part
    report = AnswerReport(())
    for tree, (requirement, inside) in trees.items():
        with packwise.open(pack(tree, requirement, inside, folder)) as library:
            asked = read_questions(questions / f"{tree}.jsonl")
            found = evaluate_answers(library, asked, synthesis=False)
            report = AnswerReport((*report.results, *found.results))
    show_answers(report, wrong="--wrong" in sys.argv)


def pack(tree: str, requirement: str, inside: str, folder: Path) -> str:
    """The pack of a tree's documentation, built if it is not there yet."""
    target = folder / tree
    if not (target / "pack.sqlite").exists():
        files = QUESTIONS / "tune" / tree
        if requirement.startswith("debian: "):
            files = unpacked(requirement.removeprefix("debian: ").split(), folder / f"{tree}-files")
        elif requirement:
            archive = fetched(requirement, folder)
            with tarfile.open(archive) as opened:
                opened.extractall(folder, filter="data")
            files = folder / archive.name.removesuffix(".tar.gz")
        packwise.build([str(files / part) for part in inside.split() or ["."]], str(target))
    return str(target)


def unpacked(packages: list[str], folder: Path) -> Path:
    """A folder with the files of Debian packages."""
    folder.mkdir(exist_ok=True)
    subprocess.run(["apt-get", "download", "-qq", *packages], cwd=folder, check=True)
    for package in folder.glob("*.deb"):
        subprocess.run(["dpkg", "-x", str(package), str(folder)], check=True)
    return folder


def fetched(requirement: str, folder: Path) -> Path:
    """The source archive of a project, as pip downloads it."""
    name = requirement.partition("==")[0]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--no-binary", name, "--dest", str(folder), requirement]
    subprocess.run(command, check=True)
    return next(folder.glob(f"{name}-*.tar.gz"))


if __name__ == "__main__":
    places = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(places[0] if places else scratch)
        place.mkdir(parents=True, exist_ok=True)
        main(place, next((name for name in PARTS if f"--{name}" in sys.argv), ""))
