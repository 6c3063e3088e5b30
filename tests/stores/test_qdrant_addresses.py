import subprocess
import sys

import pytest

from packwise.errors import StoreError, UsageError
from packwise.stores.qdrant.server import parse_address
from packwise.stores.qdrant.store import open_qdrant


def test_an_address_names_nodes_collection_and_layout():
    address = parse_address(
        "qdrant+https://a.example:7000,b.example/docs?shards=3&replicas=2&grpc=6334"
    )
    assert address.https
    assert address.nodes == (("a.example", 7000), ("b.example", 6333))
    assert (address.collection, address.shards, address.replicas) == ("docs", 3, 2)
    assert address.grpc == 6334
    plain = parse_address("qdrant+http://[::1]:6333/my.docs-1")
    assert (plain.https, plain.nodes, plain.shards) == (False, (("::1", 6333),), 1)


@pytest.mark.parametrize(
    "text",
    [
        "qdrant+http://localhost:6333",
        "qdrant+http://localhost:6333/",
        "qdrant+http://localhost:6333/a/b",
        "qdrant+http://localhost:6333/..",
        "qdrant+http://localhost:port/docs",
        "qdrant+http://localhost:99999/docs",
        "qdrant+http:///docs",
        "qdrant+http://localhost/docs?shards=0",
        "qdrant+http://localhost/docs?shards=many",
        "qdrant+http://localhost/docs?color=red",
        "qdrant+ftp://localhost/docs",
    ],
)
def test_a_malformed_address_is_refused(text):
    with pytest.raises(UsageError):
        parse_address(text)


def test_a_key_never_belongs_into_an_address(monkeypatch):
    with pytest.raises(UsageError, match="PACKWISE_QDRANT_API_KEY"):
        parse_address("qdrant+http://user:secret@localhost/docs")
    monkeypatch.setenv("PACKWISE_QDRANT_API_KEY", "secret")
    address = parse_address("qdrant+http://localhost/docs")
    assert address.api_key == "secret"
    assert "secret" not in repr(address)


def test_a_server_that_is_not_there_is_named_in_one_line(monkeypatch):
    from packwise.stores.qdrant import server

    monkeypatch.setattr(server, "_FIRST_PAUSE", 0.001)
    with pytest.raises(StoreError, match=r"127\.0\.0\.1:9 does not answer") as caught:
        open_qdrant("qdrant+http://127.0.0.1:9/docs")
    assert "\n" not in str(caught.value)


def test_without_the_client_one_line_says_what_to_install():
    program = (
        "import sys\n"
        "sys.modules['qdrant_client'] = None\n"
        "from packwise.errors import StoreError\n"
        "from packwise.stores.locate import create_or_open_store, open_store, same_store\n"
        "for use in (open_store, create_or_open_store, lambda a: same_store(a, 'pack')):\n"
        "    try:\n"
        "        use('qdrant+http://localhost/docs')\n"
        "    except StoreError as error:\n"
        "        print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    line = "the package qdrant-client is not installed -> pip install 'packwise[qdrant]'"
    assert done.stdout.splitlines() == [line] * 3
