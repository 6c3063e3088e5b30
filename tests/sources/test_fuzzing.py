"""Any mixture of markup is read without a fault, in time that grows with the text."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from packwise.errors import SourceError
from packwise.language.entities import facts_in
from packwise.language.names import names_in
from packwise.language.sentences import sentence_spans
from packwise.sources import open_source, wikitext
from packwise.sources.document_builder import DocumentBuilder
from packwise.sources.files import parse
from packwise.sources.ignore import IgnoreRules
from packwise.sources.links import LinkResolver
from packwise.sources.readers import BUILT_IN, Reads

SECONDS = 20  # a case takes milliseconds; one that takes quadratic time takes minutes
TEXT_FORMATS = [reader.format for reader in BUILT_IN if reader.reads is Reads.TEXT]
FRAGMENTS = [" ", "\n", "\n\n", "    ", "\t"]
FRAGMENTS += (
    "a Ab . - * ** # > 1. ` ``` [ ]( ] ![ ( ) < > <p> <div <!-- --> :a:` `_ .. .. == -- +-+ :: "
    "{{ }} [[ ]] {| |- | ''' * / def class {\"a\": [1, --- acl: http://a @ www. _ __ é 漢 !!! "
    '=== :::{a} #+BEGIN_SRC :A: """ \\ (AB) e.g. |=== ++++ ....'
).split()
texts = st.tuples(
    st.lists(st.sampled_from(FRAGMENTS), max_size=4),
    st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=4),
    st.integers(1, 3000),
    st.lists(st.sampled_from(FRAGMENTS), max_size=4),
).map(lambda p: "".join(p[0]) + "".join(p[1]) * p[2] + "".join(p[3]))
bounded = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("format", TEXT_FORMATS)
@given(text=texts)
@bounded
def test_readers(format, text):
    started = time.thread_time()
    try:
        document = parse(format, text).build("a", LinkResolver(()))
    except SourceError:
        return
    for section in document.sections:
        for block in section.blocks:
            assert document.text[block.start : block.end].strip()
    assert time.thread_time() - started < SECONDS


@given(text=texts)
@bounded
def test_wikitext(text):
    started = time.thread_time()
    builder = DocumentBuilder()
    wikitext.read(builder, text)
    builder.build("a", LinkResolver(()))
    assert time.thread_time() - started < SECONDS


@given(text=texts)
@bounded
def test_names_sentences_and_facts(text):
    started = time.thread_time()
    for name in names_in(text):
        assert text[name.start : name.end] == name.text
    spans = sentence_spans(text)
    assert "".join(text[a:b] for a, b in spans).split() or not text.split()
    facts_in(text)
    assert time.thread_time() - started < SECONDS


@given(pattern=st.text("ab*?[]!/\\-", max_size=60), path=st.text("ab/", min_size=1, max_size=200))
@bounded
def test_ignore_rules(pattern, path):
    started = time.thread_time()
    IgnoreRules().with_lines([pattern]).ignored(path, folder=False)
    assert time.thread_time() - started < SECONDS


@pytest.mark.slow
def test_the_command_finds_no_fault_in_any_reader():
    fuzz = Path(__file__).parents[2] / "benchmarks" / "fuzz.py"
    done = subprocess.run(
        [sys.executable, str(fuzz), "--cases", "12", "--seed", "11"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    for format in (*TEXT_FORMATS, "pdf", "docx", "pptx", "xlsx", "epub", "odt", "names"):
        assert f"{format}: 12 cases, 0 faults\n" in done.stdout


def test_the_files_that_are_fuzzed_can_be_read(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    import fuzz

    for kind, content in fuzz.samples().items():
        path = tmp_path / f"sample.{kind}"
        path.write_bytes(content)
        documents = [entry.read() for entry in open_source(str(path)).items()]
        assert documents, kind


@pytest.mark.parametrize(("limit", "is_fault"), [(0.4, False), (100.0, True)])
def test_time_that_grows_is_a_fault_and_a_limit_on_it_is_none(monkeypatch, limit, is_fault):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    import fuzz

    monkeypatch.setattr(fuzz, "seconds", lambda target, text: min(limit, len(text) ** 2 / 1e6))
    wrong, _ = fuzz.fault(len, random.Random(1), 1)
    assert bool(wrong) == is_fault
