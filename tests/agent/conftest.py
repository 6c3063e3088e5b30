import sys
from pathlib import Path

import pytest

from messages_api import KEY, ModelServer
from packwise import KnowledgeGraphAgent

sys.path.append(str(Path(__file__).parent.parent / "stores"))


@pytest.fixture
def server(monkeypatch):
    """A server that plays Claude, where the SDK looks for it."""
    with ModelServer() as running:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", running.url)
        yield running


@pytest.fixture
def agent(notes_pack):
    """An agent without a key."""
    with KnowledgeGraphAgent(str(notes_pack)) as opened:
        yield opened


@pytest.fixture
def keyed(notes_pack, server):
    """Makes an agent with a key, talking to the local server."""
    opened = []

    def make(**flags):
        opened.append(KnowledgeGraphAgent(str(notes_pack), KEY, **flags))
        return opened[-1]

    yield make
    for agent in opened:
        agent.close()
