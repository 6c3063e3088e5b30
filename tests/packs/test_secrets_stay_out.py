"""Keys and tokens do not get into a pack; examples in documentation do."""

import base64
import random

import pytest
from click.testing import CliRunner

import packwise
from packwise.cli import app
from packwise.packs.build import build_pack
from packwise.settings import Settings
from packwise.sources.secrets import masked, secret_in

CHANCE = random.Random(7)
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
BODY = base64.encodebytes(CHANCE.randbytes(800)).decode()
KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}-----END RSA PRIVATE KEY-----\n"


def made(prefix, length):
    return prefix + "".join(CHANCE.choices(LETTERS, k=length))


# An Ed25519 key is the shortest.
SMALL_BODY = base64.b64encode(
    bytes.fromhex("302e020100300506032b657004220420") + bytes(range(7, 231, 7))
)

SECRETS = [
    KEY,
    f"export AWS={made('AKIA', 0)}{''.join(CHANCE.choices(LETTERS[:26], k=16))}",
    f"token: {made('ghp_', 36)}",
    f"use {made('npm_', 36)} to publish",
    f"key {made('AIza', 35)}.",
    made("sk-ant-api03-", 80),
    f"-----BEGIN PRIVATE KEY-----\n{SMALL_BODY.decode()}\n-----END PRIVATE KEY-----",
]
EXAMPLES = [
    "AKIAIOSFODNN7EXAMPLE",
    "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "-----BEGIN PRIVATE KEY-----\n(paste the whole of your own private key, as you were given it)\n"
    "-----END PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\nMIIEvQ...\n-----END PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\n" + "A" * 400 + "\n-----END PRIVATE KEY-----",
    "-----BEGIN CERTIFICATE-----\n" + BODY + "-----END CERTIFICATE-----",
    "sk-your-key-here-your-key-here-your-key-here",
    f"sha256 {CHANCE.randbytes(32).hex()}",
]


@pytest.mark.parametrize("text", SECRETS)
def test_keys_and_tokens_are_seen(text):
    assert secret_in("notes.md", f"Some words.\n\n{text}\n")


@pytest.mark.parametrize("text", EXAMPLES)
def test_examples_are_not(text):
    assert secret_in("notes.md", f"Some words.\n\n{text}\n") == ""


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("a/credentials.json", True),
        ("my-service-account.json", True),
        ("prod.secrets.yaml", True),
        ("docs/secrets.md", False),
        ("secrets.txt", False),
        ("about-credentials.html", False),
        ("secretary.json", False),
    ],
)
def test_some_names_are_enough(name, seen):
    assert bool(secret_in(name, "words")) is seen


def documents(pack):
    with packwise.open(str(pack)) as library:
        return {summary.id for summary in library.store.documents()}


def test_they_are_left_out_counted_and_withdrawn(tmp_path):
    source, pack = tmp_path / "docs", tmp_path / "pack"
    source.mkdir()
    (source / "a.md").write_text("About keys.\n")
    (source / "b.md").write_text("About tokens.\n")
    build_pack([source], pack)
    (source / "b.md").write_text(f"About tokens: {SECRETS[2]}\n")
    (source / "c.txt").write_text(KEY)
    report = build_pack([source], pack)
    assert documents(pack) == {"a.md"}
    assert report.kept_out["documents with secrets"] == 2
    assert report.problems == ()
    assert "b.md: holds a token of GitHub: left out" in str(report.warnings[0])
    build_pack([source], pack, settings=Settings.load(allow_secrets=True))
    assert documents(pack) == {"a.md", "b.md", "c.txt"}
    build_pack([source], pack)
    assert documents(pack) == {"a.md"}


@pytest.mark.parametrize("secret", SECRETS)
def test_in_a_long_text_they_are_masked_and_nothing_else_is(secret):
    said = "Keys stand in a file that only its owner can read, as all the manuals say. "
    text = f"{said * 3000}\n\n{secret}\n\n{said}"
    rest = masked("notes.md", text)
    assert secret_in("notes.md", rest) == ""
    assert len(rest) == len(text)
    differing = {at for at, (one, other) in enumerate(zip(text, rest, strict=True)) if one != other}
    begin = text.index(secret)
    assert differing <= set(range(begin, begin + len(secret)))
    assert {rest[at] for at in differing} == {"*"}
    assert len(differing) >= 20
    assert rest.count("\n") == text.count("\n")
    assert masked("credentials.json", text) == ""
    assert masked("notes.md", f"{said * 20}\n\n{KEY}") == ""
    assert masked("notes.md", said) == said


def test_a_manual_that_shows_a_key_is_read_without_it(tmp_path):
    source, pack = tmp_path / "docs", tmp_path / "pack"
    source.mkdir()
    said = "".join(f"Part {n} tells how the lid of box {n} is closed.\n\n" for n in range(400))
    text = f"# Boxes\n\n{said}## Keys\n\nA key looks like this:\n\n```\n{SECRETS[-1]}\n```\n"
    (source / "a.md").write_text(text)
    report = build_pack([source], pack)
    assert report.kept_out == {}
    assert "a.md: holds a private key: masked; --allow-secrets reads it" in str(report.warnings[0])
    with packwise.open(str(pack)) as library:
        found = "\n".join(p.text for _, p in library.store.document_passages("a.md"))
    assert "A key looks like this:" in found
    assert "BEGIN PRIVATE KEY" in found
    assert SMALL_BODY.decode()[:20] not in found
    build_pack([source], pack, settings=Settings.load(allow_secrets=True))
    with packwise.open(str(pack)) as library:
        found = "\n".join(p.text for _, p in library.store.document_passages("a.md"))
    assert SMALL_BODY.decode() in found


def test_the_command_says_how_many_and_how_to_read_them(tmp_path):
    source = tmp_path / "docs"
    source.mkdir()
    (source / "a.md").write_text("About keys.\n")
    (source / "c.txt").write_text(KEY)
    arguments = ["build", str(source), "--out", str(tmp_path / "pack")]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0
    assert "documents with secrets" in shown.output
    assert "holds a private key: left out; --allow-secrets reads it" in shown.output
    assert CliRunner().invoke(app, [*arguments, "--allow-secrets"]).exit_code == 0
    assert documents(tmp_path / "pack") == {"a.md", "c.txt"}
