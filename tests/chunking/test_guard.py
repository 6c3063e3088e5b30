"""What is kept out of a store, and what looks alike but is kept."""

from __future__ import annotations

import base64
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packwise.documents import Passage, passage_id
from packwise.errors import EmbedderMismatch
from packwise.guard import Guard, RejectReason, check_embedder

BLOB = base64.b64encode(random.Random(0).randbytes(3000)).decode()


def passage(text, *, path=(), title="Guide", document="guide", order=0):
    return Passage(
        id=passage_id(document, order),
        document=document,
        doc_title=title,
        section_path=path,
        order_index=order,
        text=text,
        start=0,
        end=len(text),
        content_hash="",
    )


def reason(text, **where):
    report = Guard().check([passage(text, **where)])
    return next(iter(report.counts), None)


@pytest.mark.parametrize("text", ["", "---", "* * *", "→ ← …", "|  |  |", "___", "🙂🙂"])
def test_what_has_no_letter_or_digit_is_empty(text):
    assert reason(text) is RejectReason.EMPTY


@pytest.mark.parametrize("text", ["a", "7", "état", "水", "x = {}", "№ 5"])
def test_a_single_letter_or_digit_is_not_empty(text):
    assert reason(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "\x00P\x00K\x03\x04 some file",
        "\ufffd\ufffd\x7fELF\ufffd\ufffd and more \ufffd\ufffd",
        "h\x00e\x00l\x00l\x00o\x00",
        BLOB,
        f"data:image/png;base64,{BLOB}",
    ],
)
def test_bytes_are_binary(text):
    assert reason(text) is RejectReason.BINARY


@pytest.mark.parametrize(
    "text",
    [
        "Caf\ufffd Muller opened in Z\ufffdrich a long time ago.",
        "A form feed\x0cparts the pages, a tab\tthe columns.",
        "GATTACA" * 100,
        "3.14159" + "2653589793" * 60,
        "-" * 300 + " Chapter",
        f"The key is a long one and goes as follows: {BLOB[:220]}. " + "It opens the door. " * 12,
        "日本語の文章には空白がありません。" * 40,
        "https://example.org/a/path/that/is/long?with=arguments&and=values " * 5,
    ],
)
def test_readable_text_is_not_binary(text):
    assert reason(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "We use cookies to improve your experience. By continuing to browse you agree to our use.",
        "This website uses cookies.\nAccept all | Manage preferences",
        "We value your privacy. We and our partners store cookies. Accept all",
    ],
)
def test_a_consent_banner_is_boilerplate(text):
    assert reason(text) is RejectReason.BOILERPLATE


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("An HTTP cookie is a small text. A server that sets cookies sends Set-Cookie.", "HTTP"),
        ("We use cookies to keep you signed in; they last for 30 days.", "Handbook"),
        ("Cookies are baked for ten minutes. Accept no burnt ones.", "Baking"),
        ("We use cookies to count visits. By using the site you accept them.", "Privacy policy"),
        ("The banner shows a button that says Accept all.", "Design"),
    ],
)
def test_text_about_cookies_is_kept(text, title):
    assert reason(text, title=title) is None


@pytest.mark.parametrize(
    "text",
    [
        "© 2024 Acme Inc. All rights reserved.",
        "Copyright (c) 1999-2020 The Acme Authors",
        "Copyright 2001 by Jane Doe",
        "© Acme Corp\nAll rights reserved.\nPowered by WordPress",
        "Copyright © 2001-2023 Python Software Foundation. All rights reserved.",
    ],
)
def test_a_copyright_line_is_boilerplate(text):
    assert reason(text) is RejectReason.BOILERPLATE


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("© 2024 Acme Inc. All rights reserved.", ("License",)),
        ("Copyright 1998 was the year the Act was extended.", ()),
        ("Copyright protects works for 70 years.", ()),
        ("© is the copyright sign.", ()),
        ("© 2024 Acme Inc.\nThe engine starts when the key is turned.", ()),
        ("(c) 1945", ()),
        ("(c) Paris", ()),
        ("Powered by diesel", ("Engine",)),
        ("All rights reserved.", ()),
    ],
)
def test_text_about_rights_is_kept(text, path):
    assert reason(text, path=path) is None


@pytest.mark.parametrize(
    "text",
    [
        "Home | About | Contact",
        "Home » Products » Contact us » Sitemap",
        "- Home\n- About us\n- Blog\n- Privacy policy",
        "Skip to content",
        "« Previous | Next »",
        "Back to top",
        "Home | News | Our shop | Contact | Login",
    ],
)
def test_navigation_is_boilerplate(text):
    assert reason(text) is RejectReason.BOILERPLATE


@pytest.mark.parametrize(
    "text",
    [
        "Name | Email | Phone\nJane | jane@example.org | 555",
        "Home | 21 points\nAway | 17 points",
        "- Home\n- Search\n- Profile\n- Cart",
        "File > Print > Page setup",
        "Contact: 555-0100",
        "Home is where the heart is | a proverb",
        "The menu holds Home | About | Contact, in this order.",
        "Yes | No",
        "Email\nPrint",
        "None",
    ],
)
def test_short_text_that_is_not_navigation_is_kept(text):
    assert reason(text) is None


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("- Beer\n- 10th century\n- Solar System", ("History", "See also")),
        ("See also:\n- Beer\n- Washington, D.C.", ("History",)),
        ("Beer\nLion", ("Related articles",)),
        ("1. Install\n2. Use", ("On this page",)),
        ("\n".join(f"- A page named {n}" for n in range(200)), ("See also",)),
    ],
)
def test_a_bare_list_of_links_elsewhere_is_boilerplate(text, path):
    assert reason(text, path=path) is RejectReason.BOILERPLATE


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("- Beer\n- Lion", ("Exports",)),
        ("- os.path - work with file names\n- shutil - copy files", ("See also",)),
        ("- json: read and write JSON\n- csv: tables", ("See also",)),
        ("Module faulthandler dumps tracebacks on a fault.", ("See also",)),
        ("- Beer\n- How to brew beer at home with simple means and time", ("See also",)),
        ("- 2 screws\n- 4 bolts", ("Contents",)),
        ("See also the chapter on brewing, which tells how hops are used.", ()),
    ],
)
def test_lists_that_say_something_are_kept(text, path):
    assert reason(text, path=path) is None


def banner(length):
    """A consent banner of so many characters."""
    text = "We use cookies on this site. By continuing you agree."
    return text + " " + "x" * (length - len(text) - 1)


def holder(words):
    """A copyright line whose holder has so many words."""
    return "© 2024 " + " ".join(["Acme"] * words)


def menu(known, other):
    """A menu of so many known and other items."""
    return " | ".join(["Home", "News", "Login", "Blog", "Help", "Jobs"][:known] + ["Mill"] * other)


@pytest.mark.parametrize(
    ("last_rejected", "first_kept", "why"),
    [
        # Unreadable characters make up a tenth.
        ("\x00" + "a" * 9, "\x00" + "a" * 10, RejectReason.BINARY),
        # Encoded runs have 200 characters and make up more than half.
        (BLOB[:200], BLOB[:199], RejectReason.BINARY),
        (BLOB[:300] + " " + "a b " * 74, BLOB[:300] + " " + "a b " * 75, RejectReason.BINARY),
        # A banner, copyright line or menu has at most 600 characters.
        (banner(600), banner(601), RejectReason.BOILERPLATE),
        # A copyright holder has at most 12 words.
        (holder(12), holder(13), RejectReason.BOILERPLATE),
        # Items of a menu have at most 4 words.
        (menu(3, 0) + " | A B C D", menu(3, 0) + " | A B C D E", RejectReason.BOILERPLATE),
        # At least 3 items of a menu are known, and 3 of 5.
        (menu(3, 2), menu(2, 1), RejectReason.BOILERPLATE),
        (menu(6, 4), menu(6, 5), RejectReason.BOILERPLATE),
        # The text of a link has at most 8 words.
        (
            "See also\n- Beer and the many other things in it",
            "See also\n- Beer and the many other good things in it",
            RejectReason.BOILERPLATE,
        ),
    ],
)
def test_where_each_threshold_of_a_rule_lies(last_rejected, first_kept, why):
    assert reason(last_rejected) is why
    assert reason(first_kept) is None


def test_a_text_of_twenty_words_is_a_duplicate_whatever_its_heading():
    for words, kept in ((19, 2), (20, 1)):
        text = " ".join(f"word{n}" for n in range(words))
        twice = [passage(text, path=("A",)), passage(text, path=("B",), order=1)]
        assert len(Guard().check(twice).kept) == kept


LONG = "The valve opens when the pressure rises above the limit that was set at the factory " * 2


def test_the_same_text_in_a_document_is_kept_once_whatever_its_case_and_spacing():
    first = passage(LONG, path=("A",))
    again = passage(LONG.upper().replace(" ", "\n  "), path=("B",), order=1)
    other = passage(LONG.replace("valve", "door"), order=2)
    report = Guard().check([first, again, other])
    assert report.kept == (first, other)
    assert report.counts == {RejectReason.DUPLICATE: 1}


def test_a_short_text_under_another_heading_is_no_duplicate():
    texts = [
        passage("Returns None.", path=("open()",)),
        passage("Returns None.", path=("close()",), order=1),
        passage("returns  none.", path=("close()",), order=2),
    ]
    report = Guard().check(texts)
    assert report.kept == tuple(texts[:2])
    assert report.counts == {RejectReason.DUPLICATE: 1}


def test_documents_do_not_decide_on_one_another():
    one = [passage(LONG, document="one"), passage(LONG, document="one", order=1)]
    two = [passage(LONG, document="two"), passage("---", document="two", order=1)]
    guard = Guard()
    apart = [guard.check(one), guard.check(two)]
    together, reversed_ = guard.check(one + two), guard.check(two + one)
    assert together.kept == apart[0].kept + apart[1].kept
    assert together.counts == apart[0].counts + apart[1].counts == reversed_.counts
    assert {p.id for p in reversed_.kept} == {p.id for p in together.kept}


def test_what_was_kept_out_is_counted_by_reason():
    texts = ["---", "\x00\x00", "Back to top", "Fine.", "Fine.", "..."]
    report = Guard().check(passage(text, order=n) for n, text in enumerate(texts))
    assert [p.text for p in report.kept] == ["Fine."]
    assert report.counts == {
        RejectReason.EMPTY: 2,
        RejectReason.BINARY: 1,
        RejectReason.BOILERPLATE: 1,
        RejectReason.DUPLICATE: 1,
    }


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.text(), st.sampled_from(["Fine.", "---", LONG])), max_size=8))
def test_each_passage_is_either_kept_or_dropped_once_and_a_second_check_changes_nothing(texts):
    passages = [passage(text, order=n) for n, text in enumerate(texts)]
    report = Guard().check(passages)
    orders = [p.order_index for p in report.kept]
    assert orders == sorted(set(orders))
    assert len(orders) + sum(report.counts.values()) == len(texts)
    assert Guard().check(report.kept).kept == report.kept


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.sampled_from("the valve opens when home about contact cookies rise see also".split()),
        min_size=9,
        max_size=30,
    )
)
def test_a_plain_sentence_is_never_boilerplate(words):
    assert reason(" ".join(words).capitalize() + ".") is None


def test_another_embedder_is_refused_and_the_command_that_re_embeds_is_named():
    with pytest.raises(EmbedderMismatch) as caught:
        check_embedder("bge-1", "minilm-1", location="my-pack")
    assert "my-pack" in caught.value.message
    assert "bge-1" in caught.value.message
    assert "minilm-1" in caught.value.message
    assert "packwise build --reembed" in str(caught.value)


@pytest.mark.parametrize("stored", ["bge-1", ""])
def test_the_same_embedder_and_an_empty_store_are_let_through(stored):
    check_embedder(stored, "bge-1")
