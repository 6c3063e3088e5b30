import pytest

from messages_api import KEY, ModelServer
from packwise.models.claude import ClaudeModel, connect_claude
from packwise.models.openai_compatible import OpenAICompatibleModel


@pytest.fixture
def server():
    with ModelServer() as running:
        yield running


@pytest.fixture
def claude(server):
    model = ClaudeModel(connect_claude(KEY, server.url))
    yield model
    model.close()


@pytest.fixture(params=["claude", "openai-compatible"])
def model(request, server):
    """Each language model in turn, talking to the local server."""
    if request.param == "claude":
        yield request.getfixturevalue("claude")
    else:
        yield OpenAICompatibleModel(server.url, "local-model", KEY)
