"""Filter: a forgotten field in a cache key would show one tenant another's passages."""

from dataclasses import fields, replace

import pytest

from packwise.candidates import EVERYTHING, Filter, Query
from packwise.errors import UsageError
from packwise.retrieval.cache import QueryCache

FIELDS = [f.name for f in fields(Filter)]


def value_for(name):
    kind = type(getattr(EVERYTHING, name))
    return {str: "x", tuple: ("x",)}.get(kind, {"x": "y"})


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_makes_a_filter_true_and_another_key(name):
    one = replace(EVERYTHING, **{name: value_for(name)})
    assert one
    assert one != EVERYTHING
    assert hash(one) != hash(EVERYTHING)
    cache = QueryCache(8, 60.0)
    cache.put(Query("q"), "v", "everything")
    assert cache.get(Query("q", where=one), "v") is None
    cache.put(Query("q", where=one), "v", "one")
    assert cache.get(Query("q", where=one), "v") == "one"
    assert cache.get(Query("q"), "v") == "everything"


def test_an_empty_filter_is_false():
    assert not Filter()
    assert not Filter(metadata={}, acl=())


def test_a_filter_is_hashable_and_its_metadata_reads_as_a_mapping():
    metadata = {"team": "x", "kind": "y"}
    where = Filter(metadata=metadata, acl=["staff"], documents=["a", "b"])
    metadata["team"] = "z"
    assert where.metadata == {"kind": "y", "team": "x"}
    assert where.metadata["team"] == "x"
    assert (where.acl, where.documents) == (("staff",), ("a", "b"))
    same = Filter(metadata={"kind": "y", "team": "x"}, acl=("staff",), documents=("a", "b"))
    assert where == same
    assert {where: 1}[same] == 1
    assert replace(where, tenant="t").metadata == where.metadata
    with pytest.raises(TypeError):
        where.metadata["team"] = "z"


def test_parsing_knows_every_field():
    keys = {"node_type": "type", "documents": "document", "path_prefix": "path", "metadata": "x"}
    for name in FIELDS:
        where = Filter.parse([(keys.get(name, name), "y")])
        expected = {"x": "y"} if name == "metadata" else "y"
        if isinstance(getattr(EVERYTHING, name), tuple):
            expected = ("y",)
        assert where == Filter(**{name: expected})


def test_repeated_documents_and_groups_add_up_and_others_take_one_text():
    where = Filter.parse([("document", "a"), ("document", ["b", "c"]), ("acl", "staff")])
    assert where == Filter(documents=("a", "b", "c"), acl=("staff",))
    assert Filter.parse([("lang", "de"), ("lang", "en")]).lang == "en"
    with pytest.raises(UsageError, match=r"where\.lang takes one text"):
        Filter.parse([("lang", ["de", "en"])])
