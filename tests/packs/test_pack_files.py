"""Packs as files: reproducible, checked before they are installed, and hostile ones refused."""

import hashlib
import http.server
import io
import json
import math
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
import urllib.request
import warnings
import zipfile
from contextlib import suppress
from http.client import HTTPMessage
from pathlib import Path

import pytest
from click.testing import CliRunner

from packwise import build
from packwise.cli import app
from packwise.errors import NotAStore, PackwiseError, StoreDamaged, StoreError, UsageError
from packwise.packs import fetching
from packwise.packs.installed import install, installed_packs, release_problems, update
from packwise.packs.pack_file import opened, write_pack_file
from packwise.packs.release import content_hash, difference, parse_version
from packwise.packs.signing import make_key, sign
from packwise.stores.locate import installed
from packwise.stores.pack.store import open_pack
from packwise.stores.pack.validation import validate


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("PACKWISE_HOME", str(tmp_path / "home"))


@pytest.fixture
def pack(notes_pack, tmp_path):
    return shutil.copytree(notes_pack, tmp_path / "notes")


@pytest.fixture
def export(pack, tmp_path):
    def write(version="1.0.0", **options):
        file = tmp_path / f"{version}{len(list(tmp_path.glob('*.pack')))}.pack"
        return write_pack_file(pack, file, version=version, license="CC-BY-4.0", **options)[0]

    return write


def test_the_same_pack_gives_the_same_bytes(export):
    one, other = export(), export()
    assert one.read_bytes() == other.read_bytes()


def test_two_builds_of_the_same_sources_have_the_same_content(tmp_path):
    (tmp_path / "source").mkdir()
    for name in ("a", "b", "c"):
        (tmp_path / "source" / f"{name}.md").write_text(f"# About {name}\n\nIt has a {name}.\n")
    build(str(tmp_path / "source"), str(tmp_path / "one"))
    (tmp_path / "source" / "a.md").rename(tmp_path / "kept.md")
    build(str(tmp_path / "source"), str(tmp_path / "other"))
    (tmp_path / "kept.md").rename(tmp_path / "source" / "a.md")
    build(str(tmp_path / "source"), str(tmp_path / "other"))
    with open_pack(tmp_path / "one") as one, open_pack(tmp_path / "other") as other:
        assert content_hash(one) == content_hash(other)
        assert difference(one, other).unchanged == 3
    (tmp_path / "source" / "b.md").write_text("# About b\n\nIt has a big b.\n")
    (tmp_path / "source" / "c.md").unlink()
    (tmp_path / "source" / "d.md").write_text("# About d\n\nNew.\n")
    build(str(tmp_path / "source"), str(tmp_path / "other"))
    with open_pack(tmp_path / "one") as one, open_pack(tmp_path / "other") as other:
        assert content_hash(one) != content_hash(other)
        found = difference(one, other)
    assert (found.added, found.removed, found.changed) == (("d.md",), ("c.md",), ("b.md",))
    assert found.places == {"b.md": "line 3"}
    command = [sys.executable, "-m", "packwise", "pack", "diff", "one"]
    done = subprocess.run([*command, "other"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.splitlines()[:3] == ["+ d.md", "- c.md", "~ b.md:3"]
    assert done.returncode == 1, done.stderr
    assert subprocess.run([*command, "one"], cwd=tmp_path, capture_output=True).returncode == 0


def test_what_was_removed_from_a_pack_is_not_in_its_file(tmp_path):
    (tmp_path / "source").mkdir()
    for name in ("a", "b"):
        (tmp_path / "source" / f"{name}.md").write_text(f"# About {name}\n\nIt has a {name}.\n")
    words = "Xylophonequartz is the word of the vault. " * 200
    (tmp_path / "source" / "c.md").write_text(f"# Secret\n\n{words}\n")
    build(str(tmp_path / "source"), str(tmp_path / "pack"))
    (tmp_path / "source" / "c.md").unlink()
    build(str(tmp_path / "source"), str(tmp_path / "pack"))
    file, _ = write_pack_file(
        tmp_path / "pack", tmp_path / "x.pack", version="1.0.0", license="MIT"
    )
    with zipfile.ZipFile(file) as archive:
        assert b"Xylophonequartz" not in archive.read("pack.sqlite")


def test_an_installed_file_is_the_pack_with_its_release(export, pack):
    folder = install(export(description="All notes"))
    assert folder.name == "notes"
    assert validate(folder) == []
    assert release_problems(folder) == []
    with open_pack(pack) as one, open_pack(folder) as other:
        assert content_hash(one) == content_hash(other)
    (found,) = installed_packs()
    assert (found.release.version, found.release.license) == ("1.0.0", "CC-BY-4.0")
    shown = CliRunner().invoke(app, ["pack", "info", "notes", "--json"]).stdout
    release = json.loads(shown)["release"]
    assert release["release"] == "notes 1.0.0"
    assert release["description"] == "All notes"


def test_a_pack_that_was_built_again_is_no_longer_the_release(export, tmp_path):
    folder = install(export())
    (tmp_path / "more.md").write_text("# More\n\nThere is more.\n")
    build(str(tmp_path / "more.md"), str(folder), add=True)
    assert installed_packs()[0].release is None


def repacked(file: Path, change) -> Path:
    """The archive with other members: ``change`` gets them as a dictionary."""
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    changed = change(members) or members
    target = file.with_name(f"changed-{file.name}")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # A name that is there twice.
        for name, content in changed.items() if isinstance(changed, dict) else changed:
            archive.writestr(name, content)
    return target


def with_release(members, **values):
    record = json.loads(members["release.json"]) | values
    text = json.dumps(record, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
    return members | {"release.json": text.encode()}


def with_database(members, content):
    files = json.loads(members["release.json"])["files"]
    files["pack.sqlite"] = [len(content), hashlib.sha256(content).hexdigest()]
    return with_release(members, files=files) | {"pack.sqlite": content}


HOSTILE = {
    "a parent path": (
        lambda m: m | {"../evil": b"x"},
        "holds '../evil'",
    ),
    "an absolute path": (
        lambda m: m | {"/etc/evil": b"x"},
        "holds '/etc/evil'",
    ),
    "a backslash": (
        lambda m: m | {"..\\evil": b"x"},
        "evil'",
    ),
    "an index": (
        lambda m: m | {"index/1/keys.i64": b"x"},
        "holds 'index",
    ),
    "a member twice": (
        lambda m: [*m.items(), ("pack.sqlite", b"x")],
        "holds 'pack.sqlite'",
    ),
    "a member that is not listed": (
        lambda m: m | {"SKILL.md": b"x"},
        "its record lists",
    ),
    "a changed byte": (
        lambda m: m | {"pack.sqlite": m["pack.sqlite"][:-1] + b"\1"},
        "is damaged",
    ),
    "more bytes than listed": (
        lambda m: m | {"pack.sqlite": m["pack.sqlite"] + b"\0"},
        "is damaged",
    ),
    "fewer bytes than listed": (
        lambda m: m | {"pack.sqlite": m["pack.sqlite"][:-1]},
        "is damaged",
    ),
    "a bomb": (
        lambda m: with_database(m, bytes(60 << 20)),
        "more than a pack does",
    ),
    "no database": (
        lambda m: {"release.json": m["release.json"]},
        "its record lists",
    ),
    "no record": (
        lambda m: {"pack.sqlite": m["pack.sqlite"]},
        "has no release.json",
    ),
    "a record that is no record": (
        lambda m: m | {"release.json": b"[]"},
        "cannot be used",
    ),
    "a file of endless size": (
        lambda m: with_release(m, files={"pack.sqlite": [math.inf, "0"]}),
        "cannot be used",
    ),
    "a name with a path": (
        lambda m: with_release(m, name="../evil"),
        "fields of a release",
    ),
    "a version that is none": (
        lambda m: with_release(m, version="one"),
        "MAJOR.MINOR.PATCH",
    ),
    "another content": (
        lambda m: with_release(m, content="0" * 64),
        "not what its record says",
    ),
    "another state": (
        lambda m: with_release(m, state="1-0"),
        "not what its record says",
    ),
    "a database that is none": (
        lambda m: with_database(m, b"SQLite format 3\0" + bytes(5000)),
        "pack.sqlite",
    ),
    "a record that lists a path": (
        lambda m: with_release(m, files={"../evil": [1, "0"]}),
        "its record lists",
    ),
}


@pytest.mark.parametrize(("change", "reason"), HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_file_is_one_line_and_leaves_nothing(export, tmp_path, change, reason):
    file = repacked(export(), change)
    with pytest.raises(PackwiseError, match=reason) as raised:
        install(file)
    assert "\n" not in str(raised.value)
    assert not installed("notes").exists()
    assert not list(tmp_path.rglob("evil"))
    home = tmp_path / "home" / "packs"
    assert not home.exists() or [path.name for path in home.iterdir()] == []


def test_a_trigger_in_the_database_of_a_file_is_refused(export, tmp_path):
    def change(members):
        path = tmp_path / "crafted.sqlite"
        path.write_bytes(members["pack.sqlite"])
        with sqlite3.connect(path) as database:
            database.execute("CREATE TRIGGER t AFTER DELETE ON links BEGIN SELECT 1; END")
        database.close()
        return with_database(members, path.read_bytes())

    with pytest.raises(StoreError):
        install(repacked(export(), change))


def test_a_link_in_an_archive_becomes_no_link(export, tmp_path):
    secret = tmp_path / "secret.json"
    secret.write_text("PRIVATE")
    file = export()
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    target = str(secret).encode()
    files = json.loads(members["release.json"])["files"]
    files["SKILL.md"] = [len(target), hashlib.sha256(target).hexdigest()]
    members = with_release(members, files=files)
    link = zipfile.ZipInfo("SKILL.md")
    link.external_attr = 0o120777 << 16
    crafted = tmp_path / "crafted.pack"
    with zipfile.ZipFile(crafted, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.writestr(link, target)
    folder = install(crafted)
    assert not (folder / "SKILL.md").is_symlink()
    assert (folder / "SKILL.md").read_bytes() == target


@pytest.mark.parametrize("packed", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_members_are_deflated_or_not_packed_at_all(export, packed):
    # zipfile unpacks anything else without bounds, and damage in it raises another error.
    file = export()
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w", packed) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(NotAStore, match="is not packed as packwise does"):
        install(file)


@pytest.mark.parametrize("content", [b"", b"PK\3\4 and no more", b"notes"])
def test_a_file_that_is_no_archive_is_one_line(tmp_path, content):
    (tmp_path / "x.pack").write_bytes(content)
    with pytest.raises(NotAStore, match="not a file of a pack"):
        install(tmp_path / "x.pack")


def test_a_signed_file_is_checked(export, tmp_path):
    public, other = make_key(tmp_path / "key.pem"), make_key(tmp_path / "other.pem")
    signed = export(key=tmp_path / "key.pem")
    assert oct((tmp_path / "key.pem").stat().st_mode & 0o777) == "0o600"
    with pytest.raises(StoreError, match="another key"):
        install(signed, key=other)
    with pytest.raises(StoreError, match="not signed"):
        install(export(), key=public)
    with pytest.raises(StoreError, match="does not fit"):
        install(repacked(signed, lambda members: with_release(members, license="MIT")))
    assert not installed("notes").exists()
    install(signed, key=public)
    shown = CliRunner().invoke(app, ["pack", "info", "notes", "--json"]).stdout
    assert json.loads(shown)["release"]["signed by"] == public


def test_a_signature_made_by_hand_with_the_key_is_accepted(tmp_path):
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    public = make_key(tmp_path / "key.pem")
    signature = json.loads(sign("the record", tmp_path / "key.pem"))
    assert signature["key"] == public
    Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(
        bytes.fromhex(signature["signature"]), b"the record"
    )


def test_an_update_takes_only_a_newer_version_signed_with_the_same_key(export, tmp_path):
    make_key(tmp_path / "key.pem")
    make_key(tmp_path / "other.pem")
    place = tmp_path / "notes.pack"
    shutil.copy(export("1.9.0", key=tmp_path / "key.pem"), place)
    install(place)
    assert update("notes") == ("1.9.0", "1.9.0")
    for options in ({}, {"key": tmp_path / "other.pem"}):
        shutil.copy(export("1.10.0", **options), place)
        with pytest.raises(StoreError, match="sign"):
            update("notes")
    shutil.copy(export("1.8.0", key=tmp_path / "key.pem"), place)
    assert update("notes") == ("1.9.0", "1.9.0")
    shutil.copy(export("1.10.0", key=tmp_path / "key.pem"), place)
    assert update("notes") == ("1.9.0", "1.10.0")
    assert installed_packs()[0].release.version == "1.10.0"


def test_a_pack_that_cannot_be_updated_does_not_keep_the_others_from_it(export, tmp_path):
    for name in ("first", "second"):
        shutil.copy(export("1.0.0"), tmp_path / f"{name}.pack")
        install(tmp_path / f"{name}.pack", name)
    (tmp_path / "first.pack").unlink()
    shutil.copy(export("1.1.0"), tmp_path / "second.pack")
    done = CliRunner().invoke(app, ["pack", "update"])
    assert done.exit_code == 1
    assert "second: 1.0.0 -> 1.1.0" in done.stdout
    assert done.stderr.startswith("first: ")


@pytest.fixture
def server(tmp_path):
    """A server of one file with an ETag; ``asked`` has the headers of each request."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            server.asked.append(dict(self.headers))
            if self.path == "/elsewhere":
                self.send_response(302)
                self.send_header("Location", "http://example.org/notes.pack")
                self.end_headers()
                return
            body = server.body[: server.cut]
            tag = f'"{hashlib.sha256(server.body).hexdigest()[:8]}"'
            if self.headers.get("If-None-Match") == tag:
                self.send_response(304)
                self.end_headers()
                return
            self.send_response(200)
            self.send_header("ETag", tag)
            self.send_header("Content-Length", str(len(server.body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    server.asked, server.body, server.cut = [], b"", None
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    server.url = f"http://127.0.0.1:{server.server_port}/notes.pack"
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_pack_is_installed_and_updated_from_an_address(export, server):
    server.body = export("1.0.0").read_bytes()
    install(server.url)
    assert installed_packs()[0].origin == server.url
    assert update("notes") == ("1.0.0", "1.0.0")
    assert server.asked[-1]["If-None-Match"]
    server.body = export("1.0.1").read_bytes()
    assert update("notes") == ("1.0.0", "1.0.1")


def test_a_download_that_is_cut_off_installs_nothing(export, server):
    server.body, server.cut = export().read_bytes(), 1000
    with pytest.raises(StoreError, match=r"stopped sending|cannot download"):
        install(server.url)
    assert installed_packs() == []


def test_only_https_is_downloaded_also_after_a_redirect(server):
    with pytest.raises(UsageError, match="https"):
        install("http://example.org/notes.pack")
    with pytest.raises(UsageError, match="https"):
        install(server.url.replace("notes.pack", "elsewhere"))


def test_an_address_elsewhere_does_not_lead_to_this_machine():
    request = urllib.request.Request("https://example.org/notes.pack")
    with pytest.raises(UsageError, match="leads to http://localhost"):
        fetching._SafeRedirects().redirect_request(
            request, io.BytesIO(), 302, "", HTTPMessage(), "http://localhost:8080/stop"
        )


@pytest.mark.parametrize("before", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nA"])
def test_a_server_that_sends_a_byte_now_and_then_is_given_up(before, monkeypatch):
    monkeypatch.setattr(fetching, "_ANSWER_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as listening, suppress(OSError):
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/x.pack"
        ended = threading.Event()

        def serve():
            connection, _ = listening.accept()
            with connection, suppress(OSError):
                connection.sendall(before)
                while not ended.wait(0.05):
                    connection.sendall(b"a")

        serving = threading.Thread(target=serve)
        serving.start()
        try:
            with pytest.raises(StoreError, match=r"next to nothing|does not answer in time"):
                install(url)
        finally:
            ended.set()
            serving.join()
            for thread in threading.enumerate():
                if thread.name.endswith("(ask)"):
                    thread.join(10)


VERSIONS = [
    "0.9.0",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1",
    "1.2.0",
    "1.10.0",
    "2.0.0",
]


def test_versions_sort_as_semantic_versions_do():
    assert sorted(set(VERSIONS), key=parse_version) == VERSIONS


@pytest.mark.parametrize("version", ["1", "1.0", "v1.0.0", "1.0.0.0", "01.0.0", "1.0.0\n", ""])
def test_what_is_no_version_is_refused(version):
    with pytest.raises(UsageError, match=r"MAJOR\.MINOR\.PATCH"):
        parse_version(version)


def test_damage_after_the_install_is_found_by_verify(export):
    folder = install(export())
    record = folder / "release.json"
    changed = record.read_text().replace('"content": "', '"content": "0')
    record.write_text(changed)
    assert release_problems(folder) == ["its content is not that of release 1.0.0"]


def test_provenance_names_the_source_of_every_passage(pack, notes):
    done = CliRunner().invoke(app, ["pack", "provenance", str(pack)])
    records = [json.loads(line) for line in done.stdout.splitlines()]
    with open_pack(pack) as store:
        assert len(records) == store.info().passages
        for record in records[:5]:
            text = store.document(record["document"]).text[record["start"] : record["end"]]
            keys = [p for _, p in store.document_passages(record["document"])]
            assert text in [p.text for p in keys]
            assert record["source_hash"]
            document, _, lines = record["source"].partition(":")
            first, _, last = lines.partition("-")
            read = (notes / document).read_text().split("\n")[int(first) - 1 : int(last or first)]
            assert text.split()[0].strip("-.") in read[0]
            assert text.split()[-1].strip("-.") in read[-1]


def test_opening_reads_only_the_record(export):
    with opened(export()) as file:
        assert file.release.name == "notes"
        assert file.signature is None


def test_a_damaged_member_is_named(export):
    file = repacked(export(), HOSTILE["a changed byte"][0])
    with pytest.raises(StoreDamaged, match=r"pack\.sqlite"):
        install(file)
