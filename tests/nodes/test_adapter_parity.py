"""The async adapter offers what the sync one offers, and the SQL files are part of the package."""

import inspect
from importlib.resources import files

import pytest

from packwise.nodes.adapter import AsyncKnowledgeVerseAdapter, KnowledgeVerseAdapter


def public_methods(adapter):
    return {
        name: member
        for name, member in inspect.getmembers(adapter, inspect.isfunction)
        if not name.startswith("_")
    }


def parameters(method):
    return [
        (p.name, p.kind, p.default, p.annotation)
        for p in inspect.signature(method).parameters.values()
    ]


def test_both_adapters_have_the_same_methods_with_the_same_parameters():
    sync, awaited = map(public_methods, (KnowledgeVerseAdapter, AsyncKnowledgeVerseAdapter))
    assert sync.keys() == awaited.keys()
    assert sync.keys() >= {"get_nodes", "hybrid_search", "add_nodes", "delete_nodes", "embed"}
    for name, method in sync.items():
        assert parameters(method) == parameters(awaited[name]), name
        assert inspect.iscoroutinefunction(awaited[name])
        assert awaited[name].__doc__
        if name != "close":
            assert awaited[name].__doc__ == method.__doc__
    assert parameters(KnowledgeVerseAdapter.__init__) == parameters(
        AsyncKnowledgeVerseAdapter.__init__
    )


@pytest.mark.parametrize(
    ("package", "name", "creates"),
    [
        ("packwise.nodes", "tables", "CREATE TABLE knowledge_nodes"),
        ("packwise.nodes", "hybrid_search_nodes", "CREATE OR REPLACE FUNCTION hybrid_search_nodes"),
        ("packwise.stores.postgres", "passages", "CREATE TABLE packwise_passages"),
    ],
)
def test_sql_files_are_read_from_the_package_and_say_what_they_are(package, name, creates):
    folder = files(package).joinpath("sql")
    assert creates in folder.joinpath(f"{name}.sql").read_text(encoding="utf-8")
    for file in folder.iterdir():
        assert file.name.endswith(".sql")
        assert file.read_text(encoding="utf-8").startswith("-- ")
