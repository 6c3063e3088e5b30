"""Packs and clients for the tests of serving."""

import pytest

from packwise.serving.limits import Limits
from serving_world import client_of, key_ring, write_tenants


@pytest.fixture(scope="session")
def tenants_pack(tmp_path_factory):
    """Two tenants' documents in one pack, some for a group only; do not change it."""
    from packwise.packs.build import build_pack

    base = tmp_path_factory.mktemp("tenants")
    build_pack([str(write_tenants(base / "documents"))], str(base / "shared"))
    return base / "shared"


@pytest.fixture(scope="module")
def client(notes_pack):
    """A client of a server without keys over the notes."""
    with client_of(notes_pack) as found:
        yield found


@pytest.fixture(scope="module")
def tenants(tenants_pack, tmp_path_factory):
    """A client of a server with keys, and the headers of each."""
    ring, headers = key_ring(
        tmp_path_factory.mktemp("keys"),
        acme={"tenant": "acme"},
        board={"tenant": "acme", "acl": ("board",)},
        globex={"tenant": "globex"},
        stranger={"tenant": "initech"},
        everything={"unbound": True},
    )
    with client_of(tenants_pack, keys=ring, limits=Limits(rate=0)) as found:
        yield found, headers
