"""Keys are stored as hashes, found by their text alone, and gone when revoked."""

import json
import stat
import threading

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from packwise.cli import app
from packwise.errors import PackwiseError, UsageError
from packwise.serving.callers import Caller
from packwise.serving.keys import KeyRing


def run(*arguments):
    return CliRunner().invoke(app, ["serve", "keys", *arguments], catch_exceptions=True)


def test_a_key_opens_and_is_nowhere_in_the_file(tmp_path):
    ring = KeyRing(tmp_path / "keys.json")
    key, text = ring.add(tenant="acme", acl=("board", "finance"), label="a bot")
    assert ring.caller_of(text) == Caller(key.id, "acme", ("board", "finance"))
    stored = ring.file.read_text()
    secret = text.split("_", 2)[2]
    assert len(secret) == 43
    assert secret not in stored
    assert text not in stored
    assert stat.S_IMODE(ring.file.stat().st_mode) == 0o600


def test_equal_settings_make_different_keys_salts_and_hashes(tmp_path):
    ring = KeyRing(tmp_path / "keys.json")
    made = [ring.add(tenant="acme") for _ in range(5)]
    assert len({text for _, text in made}) == 5
    assert len({key.salt for key, _ in made}) == 5
    assert len({key.hash for key, _ in made}) == 5


@given(st.text(max_size=80))
def test_no_other_text_opens(tmp_path_factory, text):
    ring = KeyRing(tmp_path_factory.getbasetemp() / "one-key.json")
    if not ring.keys():
        ring.add(tenant="acme")
    assert ring.caller_of(text) is None
    assert ring.caller_of(f"pw_{ring.keys()[0].id}_{text}") is None


def test_the_secret_of_one_key_does_not_open_another(tmp_path):
    ring = KeyRing(tmp_path / "keys.json")
    (one, first), (two, _) = ring.add(tenant="a"), ring.add(tenant="b")
    assert ring.caller_of(first.replace(one.id, two.id)) is None


def test_what_another_process_adds_or_revokes_counts_at_once(tmp_path):
    server, command = KeyRing(tmp_path / "keys.json"), KeyRing(tmp_path / "keys.json")
    assert server.keys() == []
    key, text = command.add(tenant="acme")
    assert server.caller_of(text) is not None
    command.revoke(key.id)
    assert server.caller_of(text) is None


def test_keys_added_at_the_same_time_are_all_kept(tmp_path):
    file = tmp_path / "keys.json"
    threads = [
        threading.Thread(target=lambda: [KeyRing(file).add(tenant="t") for _ in range(5)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(KeyRing(file).keys()) == 20


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"tenant": "acme", "unbound": True},
        {"unbound": True, "acl": ("board",)},
        {"tenant": " acme"},
        {"tenant": "a\nb"},
        {"tenant": "acme", "acl": ("",)},
        {"tenant": "x" * 200},
    ],
)
def test_a_key_that_could_mean_two_things_is_not_made(tmp_path, wrong):
    ring = KeyRing(tmp_path / "keys.json")
    with pytest.raises(UsageError):
        ring.add(**wrong)
    assert ring.keys() == []


def test_a_damaged_file_is_an_error_and_not_an_empty_ring(tmp_path):
    file = tmp_path / "keys.json"
    for content in ("{", "[]", '{"version": 9, "keys": []}', '{"version": 1, "keys": [{}]}'):
        file.write_text(content)
        with pytest.raises(UsageError, match="API keys"):
            KeyRing(file).keys()


def test_the_commands_add_list_and_revoke(tmp_path):
    file = str(tmp_path / "keys.json")
    made = json.loads(
        run("add", "--tenant", "acme", "--acl", "board", "--keys", file, "--json").output
    )
    assert KeyRing(tmp_path / "keys.json").caller_of(made["key"]).tenant == "acme"
    listed = run("list", "--keys", file, "--json").output
    assert json.loads(listed)[0]["acl"] == ["board"]
    assert made["key"] not in listed
    assert made["id"] in run("list", "--keys", file).output
    assert run("revoke", made["id"], "--keys", file).exit_code == 0
    assert json.loads(run("list", "--keys", file, "--json").output) == []
    assert run("revoke", made["id"], "--keys", file).exit_code != 0


def test_where_keys_were_used_a_server_does_not_open_when_the_last_is_revoked(
    tmp_path, monkeypatch
):
    from packwise.cli.serve import required_keys

    monkeypatch.setenv("PACKWISE_HOME", str(tmp_path))
    assert required_keys("127.0.0.1", None, no_keys=False) is None
    ring = KeyRing(tmp_path / "serve-keys.json")
    key, _ = ring.add(tenant="t")
    assert required_keys("127.0.0.1", None, no_keys=False) is not None
    ring.revoke(key.id)
    with pytest.raises(UsageError, match="there is no API key"):
        required_keys("127.0.0.1", None, no_keys=False)
    assert required_keys("127.0.0.1", None, no_keys=True) is None


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(PackwiseError, match=r"cannot write .*; the keys are as before"):
        KeyRing(tmp_path / "file" / "keys.json").add(tenant="t")
