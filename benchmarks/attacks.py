"""Attack packs, and count what did not hold: bits flipped and packs crafted.

    python benchmarks/attacks.py                     1,000 flips, 300 crafted packs
    python benchmarks/attacks.py --flips 20 --crafted 12 --seed 2

The pack has whole indexes and a segment beside them. Each flip is one bit of one file, half of
them with the time of change kept. Each crafted pack (or file of a pack) is read, searched,
verified, installed and built upon in a process of its own that may end neither by a signal nor
after the deadline, beside files that must stay the same. No model is needed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import random
import resource
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path

import numpy as np

from packwise import file_hashes
from packwise.answering.few_shot import load_examples
from packwise.documents import Document, Passage, content_hash, passage_id
from packwise.errors import PackwiseError
from packwise.evaluation.feedback import feedback_path, load_feedback
from packwise.language.analyzer import terms
from packwise.packs.installed import install
from packwise.packs.pack_file import write_pack_file
from packwise.packs.release import release_of
from packwise.packs.remembered_sources import sources_to_update
from packwise.packs.sample_questions import load_samples
from packwise.reading.passage_reading import READING_RULES, reading_of
from packwise.retrieval.calibration import load_calibration
from packwise.retrieval.profile import RULES as PROFILE_RULES
from packwise.retrieval.profile import load_profile
from packwise.stores.locate import pack_folder
from packwise.stores.pack import index
from packwise.stores.pack.store import create_or_open_pack, open_pack
from packwise.stores.pack.validation import validate

DIM = 16
GENERATIONS = ("1", "2")
CPU_SECONDS, SECONDS = 120, 900
GRAPH_FROM = 50
OUTSIDE = "Documents"


def document(number: int, words: str) -> tuple[Document, list[Passage]]:
    """A short document of one passage."""
    name, text = f"note-{number:03}", f"{words} number {number} on topic {number % 7}."
    url = f"https://example.org/{name}"
    made = Document(name, f"About {number}", text, (), (), url, source_hash=content_hash(text))
    passage = Passage(
        *(passage_id(name, 0), name, made.title, (), 0, text, 0, len(text), content_hash(text)),
        url=url,
    )
    return made, [passage]


def vector(text: str) -> np.ndarray:
    """A vector that depends on the text alone."""
    values = np.frombuffer(hashlib.blake2b(text.encode(), digest_size=DIM).digest(), np.uint8)
    return values.astype(np.float32) - 127.5


def change_few(folder: Path, count: int) -> None:
    """Change so many documents of a pack, which makes a segment."""
    index.EXACT_LIMIT = GRAPH_FROM
    with open_pack(folder).writer(embedder="made-up", embedder_version="1", dim=DIM) as writer:
        for number in range(count):
            made, passages = document(number, "Changed")
            writer.stage(made, passages, np.stack([vector(p.text) for p in passages]))
        writer.commit(prune=False)


def build(folder: Path, count: int, words: str) -> None:
    """Make a pack hold so many documents."""
    index.EXACT_LIMIT = GRAPH_FROM
    with create_or_open_pack(folder).writer(
        embedder="made-up", embedder_version="1", dim=DIM
    ) as writer:
        for number in range(count):
            made, passages = document(number, words)
            writer.stage(made, passages, np.stack([vector(p.text) for p in passages]))
        writer.commit()


def read(folder: Path) -> list[object]:
    """All that a reader can see."""
    index.EXACT_LIMIT = GRAPH_FROM
    with open_pack(folder) as store:
        found = [store.vector_search(vector(f"q{n}"), 10) for n in range(5)]
        found.append(store.keyword_search(terms("note topic 3"), 20))
        names = [summary.id for summary in store.documents()]
        # Without the keys of passages, which differ after each build.
        texts = [[p for _, p in store.document_passages(name)] for name in names]
        return [*found, names, *map(store.document, names), *texts]


def consult(folder: Path) -> None:
    """What search and answers take from a pack besides its passages. Each part may end in an
    error of one line."""
    with open_pack(folder) as store:
        info, names = store.info(), [summary.id for summary in store.documents()]
        keys = [key for name in names for key, _ in store.document_passages(name)]
        for part in (
            lambda: load_profile(info),
            lambda: load_calibration(info),
            lambda: load_samples(info),
            lambda: load_feedback(feedback_path(info)),
            lambda: load_examples(folder),
            lambda: release_of(folder, info),
            lambda: sources_to_update(str(folder)),
            lambda: (store.links(names), store.pagerank(names)),
            lambda: (store.entities_of(keys), store.entities_like("about", 9)),
            lambda: (store.facts_of(keys), store.extractions(keys)),
            lambda: [reading_of(passage) for passage in store.passages(keys) if passage],
        ):
            fairly(part)


def fairly(step: Callable[[], object]) -> None:
    """Do something that may end in an error of one line."""
    try:
        step()
    except PackwiseError as error:
        if "\n" in str(error):
            raise RuntimeError(str(error)) from error


def flips(sound: Path, scratch: Path, count: int, seed: int) -> Counter[str]:
    """Flip bits; what was found, and what changed a result without a word."""
    place, outcome, expected = random.Random(f"flips {seed}"), Counter[str](), read(sound)
    for number in range(count):
        copy = shutil.copytree(sound, scratch / "flip")
        files = [p for p in sorted(copy.rglob("*")) if p.is_file() and p.stat().st_size]
        # The shared memory of SQLite is no content: it is made again by whoever opens the pack.
        path = place.choice([p for p in files if not p.name.endswith("-shm")])
        content, status = bytearray(path.read_bytes()), path.stat()
        content[place.randrange(len(content))] ^= 1 << place.randrange(8)
        path.write_bytes(content)
        if number % 2:
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        file_hashes.forget()
        try:
            outcome["found by verify" if validate(copy) else "MISSED BY VERIFY"] += 1
        except PackwiseError:
            outcome["found by verify"] += 1
        try:
            outcome["same results" if read(copy) == expected else "WRONG RESULTS"] += 1
        except PackwiseError as error:
            outcome["one-line error" if "\n" not in str(error) else "TRACEBACK"] += 1
        except Exception:  # noqa: BLE001 - what is counted
            outcome["TRACEBACK"] += 1
        shutil.rmtree(copy)
    return outcome


def reseal(pack: Path, generation: str, name: str, content: bytes) -> None:
    """Replace an index file and make the list of files fit, as an attacker can."""
    folder = pack / "index" / generation
    (folder / name).write_bytes(content)
    listed = json.loads((folder / "index.json").read_text())
    signature, _ = listed.pop("signature"), listed.pop("checksum")
    listed["files"][name] = [len(content), hashlib.sha256(content).hexdigest()]
    own = hashlib.sha256(f"{json.dumps(listed)} {signature}".encode()).hexdigest()
    whole = {**listed, "checksum": own, "signature": signature}
    (folder / "index.json").write_text(json.dumps(whole, indent=1) + "\n")


def craft_index(pack: Path, place: random.Random) -> None:
    """An index file with other bytes, listed as if it were right."""
    generation = place.choice(GENERATIONS)
    folder = pack / "index" / generation
    files = [p for p in folder.rglob("*") if p.is_file() and p.stat().st_size]
    path = place.choice([p for p in files if p.name != "index.json"])
    content = bytearray(path.read_bytes())
    for _ in range(place.choice((1, 20, 400))):
        content[place.randrange(len(content))] = place.choice((0, 0x7F, 0x80, 0xFF))
    reseal(pack, generation, str(path.relative_to(folder)), bytes(content))


STATEMENTS = [
    "UPDATE pack SET generation = '../../Documents'",
    "UPDATE pack SET generation = -1",
    "UPDATE pack SET passages = 1e300",
    "UPDATE pack SET token = x'ff'",
    "UPDATE embedders SET dim = 1000000000",
    "UPDATE embedders SET dim = 'x'",
    "UPDATE documents SET metadata = '['",
    "UPDATE documents SET title = x'00ff'",
    "UPDATE documents SET id = 5 WHERE key = 3",
    "UPDATE passages SET section_path = '{}'",
    "UPDATE passages SET layout = '[[[['",
    "UPDATE passages SET first = -5, past = 1e18",
    "UPDATE passages SET document = document + 99999",
    "UPDATE vectors SET vector = x'00'",
    "UPDATE vectors SET vector = zeroblob(400000000) WHERE key = 1",
    "UPDATE ranks SET pagerank = 'x'",
    "UPDATE links SET target = 'x'",
    "INSERT INTO staged SELECT 'new', 'x', key, x'00' FROM embedders",
    "INSERT INTO staged SELECT x'00', 7, key, 7 FROM embedders",
    "INSERT INTO extractions SELECT key, '[[1' FROM passages",
    "UPDATE entities SET name = x'00ff' WHERE key = 1",
    "UPDATE knowledge SET rules = x'00'",
    "DELETE FROM vectors",
    "DELETE FROM migrations",
    "INSERT INTO migrations VALUES (99, '')",
    "CREATE TRIGGER t AFTER UPDATE ON pack BEGIN DELETE FROM documents; END",
    "CREATE VIEW v AS SELECT 1",
    "CREATE TABLE more (x)",
    "CREATE INDEX i ON documents (length(title))",
    "DROP TABLE mentions",
    "PRAGMA application_id = 7",
    "PRAGMA journal_mode = DELETE",
]
VALUES = (
    *("x", 5, -1, 1.5, math.inf, b"\xff\xfe", 2**62, "", "\x1b[2J\n\ny", "[]", "null", "9e999"),
    *('{"a": 9e999}', '[["text", 9e999, 2]]', '["", [["text", null, 2]]]'),
    *(f'["", [], "", "{READING_RULES}:{rest}"]' for rest in ("a", "", "AAAA", "/" * 400)),
)
SIDE_FILES = (
    *("", "[]", "{}", "[" * 100_000, "\0" * 9, '{"files": {"/": 1}}'),
    '{"format": Infinity, "files": {"pack.sqlite": [Infinity, ""]}, "drift": Infinity}',
    '{"rules": "samples-2", "questions": [], "changed": Infinity}',
    f'{{"rules": "{PROFILE_RULES}", "embedder_version": "1", "gate": [], "changed": Infinity,'
    ' "languages": {}}',
    f'{{"rules": "{PROFILE_RULES}", "embedder_version": "1", "gate": [["x", 1]], "changed": 0,'
    ' "languages": {"": {"spread": 0}}}',
    '{"format": 1, "models": [], "threshold": 1e400, "refuse_below": 0, "source": "pack"}',
)
VIEW = (
    "CREATE VIEW {} AS WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
    " SELECT x AS key, x AS only, x AS generation FROM n WHERE x < 0"
)


@cache
def bomb() -> bytes:
    """More than a text may have, in little space."""
    return zlib.compress(bytes(300 << 20), 1)


def craft_database(pack: Path, place: random.Random) -> None:
    """Tables and rows that a pack does not have."""
    connection = sqlite3.connect(pack / "pack.sqlite", isolation_level=None)
    try:
        kind = place.randrange(10)
        if kind == 0:
            connection.execute("UPDATE documents SET text = ?", (bomb(),))
        elif kind == 1:
            table = place.choice(("pack", "documents", "passages", "staged", "migrations"))
            connection.execute("PRAGMA legacy_alter_table = ON")
            connection.execute(f"DROP TABLE {table}")
            connection.execute(VIEW.format(table))
        else:
            connection.execute(place.choice(STATEMENTS))
    finally:
        connection.close()


def craft_values(pack: Path, place: random.Random) -> None:
    """A column with values that no build writes."""
    connection = sqlite3.connect(pack / "pack.sqlite", isolation_level=None)
    try:
        listed = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        table = place.choice(sorted(name for (name,) in listed))
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        value = place.choice(VALUES)
        try:
            connection.execute(
                f"UPDATE OR IGNORE {table} SET {place.choice(columns)} = ?", (value,)
            )
        except sqlite3.IntegrityError:
            return  # SQLite itself keeps numbers in the place of keys.
        if "checksum" in columns:
            connection.execute(f"UPDATE {table} SET checksum = NULL")
    finally:
        connection.close()


def craft_pages(pack: Path, place: random.Random) -> None:
    """Pages of the database that lead to one another: loops, and trees that never end."""
    content = bytearray((pack / "pack.sqlite").read_bytes())
    pages = len(content) // 4096
    for _ in range(place.choice((1, 5, 50))):
        one, other = place.randrange(1, pages), place.randrange(1, pages)
        if place.random() < 0.5:
            content[one * 4096 : one * 4096 + 4096] = content[other * 4096 : other * 4096 + 4096]
        else:
            at = one * 4096 + place.randrange(0, 64)
            content[at : at + 4] = other.to_bytes(4, "big")
    (pack / "pack.sqlite").write_bytes(content)


def craft_names(pack: Path, place: random.Random) -> None:
    """Links, pipes and folders in the place of files."""
    names = "index index/1 index/1/keywords index/1/keys.i64 index/2 index/2/removed.i64 eval"
    more = "build.lock checksums.json calibration.json few_shot_examples.json pack.sqlite-wal"
    more += " pack.sqlite manifest.json profile.json release.json sources.json"
    path = pack / place.choice(f"{names} {more}".split())
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    outside = pack.parent / OUTSIDE
    kind = place.randrange(4)
    if kind == 0:
        os.mkfifo(path)
    elif kind == 1:
        path.mkdir()
    else:
        path.symlink_to(place.choice((outside, outside / "thesis.txt", Path("/dev/zero"))))


def craft_text(pack: Path, place: random.Random) -> None:
    """Files that are not what they should be."""
    names = "manifest.json index/1/index.json index/2/index.json calibration.json profile.json"
    more = "sample_questions.json few_shot_examples.json release.json release.sig sources.json"
    more += " checksums.json"
    path = pack / place.choice(f"{names} {more}".split())
    path.write_text(place.choice(SIDE_FILES))


def craft_file(pack: Path, place: random.Random) -> None:
    """The pack as a file with other bytes, or packed in another way."""
    file = pack.parent / "file.pack"
    write_pack_file(pack, file, version="1.0.0", license="MIT")
    kind = place.choice((zipfile.ZIP_STORED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2, None))
    if kind is not None:
        with zipfile.ZipFile(file) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(file, "w", kind) as archive:
            for name, member in members.items():
                archive.writestr(name, member)
    content = bytearray(file.read_bytes())
    near_end = place.random() < 0.5
    for _ in range(place.choice((1, 3, 40))):
        start = max(0, len(content) - 400) if near_end else 0
        content[place.randrange(start, len(content))] = place.randrange(256)
    file.write_bytes(content)


def use(pack: Path) -> None:
    """Everything one does with a pack; an error of one line is a fair end of each."""
    os.environ["PACKWISE_HOME"] = str(pack.parent / "home")
    file = pack.parent / "file.pack"
    steps = [read, consult, validate, install, lambda folder: build(folder, 60, "Other"), read]
    if file.exists():
        steps = [lambda folder: install(file), lambda folder: read(pack_folder("pack"))]
    for step in steps:
        fairly(partial(step, pack))


def crafted(sound: Path, scratch: Path, count: int, seed: int) -> Counter[str]:
    """Use crafted packs, each in a process of its own."""
    place, outcome = random.Random(f"crafted {seed}"), Counter[str]()
    ways = (craft_index, craft_database, craft_pages, craft_names, craft_text, craft_file)
    ways = (*ways, craft_values)
    for number in range(count):
        home = scratch / f"crafted-{number}"
        pack = shutil.copytree(sound, home / "pack")
        (home / OUTSIDE).mkdir()
        (home / OUTSIDE / "thesis.txt").write_text("years of work")
        (home / OUTSIDE / "1").mkdir()
        (home / OUTSIDE / "1" / "keys.i64").write_text("mine")
        (pack / "checksums.json").unlink()
        way = ways[number % len(ways)]
        way(pack, place)
        outcome[way.__name__.removeprefix("craft_")] += 1
        ended = _in_child(lambda pack=pack: use(pack))
        outcome[ended] += 1
        if (home / OUTSIDE / "thesis.txt").read_text() != "years of work" or not (
            home / OUTSIDE / "1" / "keys.i64"
        ).exists():
            outcome["WROTE OUTSIDE"] += 1
        if ended != "fair":
            say(f"crafted {number} ({way.__name__}): {ended}")
        shutil.rmtree(home)
    return outcome


def _in_child(step: Callable[[], None]) -> str:
    child = os.fork()
    if child == 0:
        # By the seconds of computing, so that a busy machine does not count; by the clock too,
        # for what waits for ever.
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        signal.alarm(SECONDS)
        try:
            step()
            os._exit(0)
        except BaseException:  # noqa: BLE001 - what is counted
            import traceback

            traceback.print_exc()
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    ends = {0: "fair", 1: "TRACEBACK", -signal.SIGALRM: "HANG", -signal.SIGXCPU: "HANG"}
    return ends.get(code, f"CRASH {code}")


def say(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def report(name: str, attack: Callable[[], Counter[str]]) -> int:
    """Run attacks and say what came of them; how many did not hold."""
    started = time.monotonic()
    outcome = attack()
    say(f"{name} in {time.monotonic() - started:.0f} s")
    for what, number in sorted(outcome.items()):
        say(f"  {number:5} {what}")
    return sum(n for what, n in outcome.items() if any(word.isupper() for word in what.split()))


@contextmanager
def workplace() -> Generator[Path]:
    """A scratch folder that has a sound pack, a home and a key of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        os.environ.setdefault("PACKWISE_HOME", f"{scratch}/home")
        os.environ.setdefault("PACKWISE_SEAL_KEY", "of this run")
        os.environ["PACKWISE_CACHE"] = f"{scratch}/cache"
        build(Path(scratch) / "sound", 80, "Note")
        change_few(Path(scratch) / "sound", 4)
        yield Path(scratch)


def main() -> None:
    """Run the attacks and exit with 1 if something did not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, count in (("flips", 1000), ("crafted", 300)):
        parser.add_argument(f"--{name}", type=int, default=count)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    failed = 0
    with workplace() as scratch:
        for attack, count in ((flips, given.flips), (crafted, given.crafted)):
            if count:
                run = partial(attack, scratch / "sound", scratch, count, given.seed)
                failed += report(f"{count} {attack.__name__}", run)
    say(f"{failed} did not hold")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
