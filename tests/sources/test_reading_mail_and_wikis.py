"""Mail loses signatures and repeated quotations; a wiki's dump becomes its articles."""

import bz2

import pytest

FIRST = """From ada Mon Jan  1 00:00:00 2024
From: Ada <ada@example.org>
To: list@example.org
Subject: [keys] When do keys change?
Message-ID: <1@x>

When do the signing keys change?

--\x20
Ada Example, a long signature
"""
ANSWER = """From ben Mon Jan  1 00:00:00 2024
From: =?utf-8?q?B=C3=A9n?= <ben@example.org>
Subject: Re: [keys] When do keys change?
Message-ID: <2@x>
In-Reply-To: <1@x>
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="b"

--b
Content-Type: text/plain; charset=utf-8

On Monday Ada wrote:
> When do the signing keys change?

In March, every year.
>From then on the old ones end.
--b
Content-Type: application/pdf; name="plan.pdf"
Content-Disposition: attachment; filename="plan.pdf"

x
--b--
"""
LONE = """From: Cleo <cleo@example.org>
Subject: Fwd: backups
Acl: hr
Content-Type: text/html

<p>Kept for <b>35</b> days.</p>
"""


def test_an_mbox_is_one_document_per_message(folder, opened):
    found = opened(folder({"list.mbox": FIRST + "\n" + ANSWER}))
    first, answer = found.documents.values()
    assert list(found.documents) == ["list.mbox/1@x", "list.mbox/2@x"]
    assert first.text.endswith("When do the signing keys change?")
    assert first.metadata["thread"] == answer.metadata["thread"] == "When do keys change?"
    assert answer.metadata["from"] == "Bén <ben@example.org>"
    assert [part.path for part in answer.sections] == [("Bén",)]
    assert answer.text.split("\n\n")[2:] == [
        "In March, every year.\nFrom then on the old ones end.",
        "Attachments: plan.pdf (application/pdf)",
    ]
    assert [link.href for link in answer.links] == ["list.mbox/1@x"]


def test_attached_texts_and_messages_inside_a_message_are_read(folder, opened):
    inner = "From: Dee <dee@example.org>\nDate: Tue, 2 Jan 2024 10:00:00 +0000\n{}\nPort 8443.\n"
    parts = (
        "Content-Type: text/plain\n\nSee below.",
        "Content-Type: message/rfc822\n\n" + inner.format("Subject: ports\n"),
        "Content-Type: message/rfc822\n\n" + inner.format("Acl: hr\n"),
        'Content-Type: text/plain; name="log.txt"\n'
        'Content-Disposition: attachment; filename="log.txt"\n\nVersion: 1.8.12',
    )
    head = "From: Cleo <cleo@example.org>\nMIME-Version: 1.0\n"
    content = f'{head}Content-Type: multipart/mixed; boundary="b"\n\n'
    found = opened(folder({"a.eml": content + "".join(f"--b\n{p}\n" for p in parts) + "--b--\n"}))
    assert found.documents["a.eml"].text.split("\n\n") == [
        "Cleo",
        "From: Cleo <cleo@example.org>",
        "See below.",
        "Attachments: log.txt (text/plain)",
        "log.txt",
        "Version: 1.8.12",
        "Dee, 2024-01-02",
        "From: Dee <dee@example.org>\nDate: Tue, 02 Jan 2024 10:00:00 +0000\nSubject: ports",
        "Port 8443.",
    ]


def test_a_quotation_is_kept_where_it_is_all_there_is(folder, opened):
    found = opened(folder({"list.mbox": ANSWER}))
    (answer,) = found.documents.values()
    assert "Quoted: When do the signing keys change?" in answer.text


def test_one_message_with_html_and_an_access_list(folder, opened):
    document = opened(folder({"a.eml": LONE})).documents["a.eml"]
    assert (document.title, document.metadata["acl"]) == ("Fwd: backups", "hr")
    assert document.text.endswith("Kept for 35 days.")


def test_a_long_signature_ends_the_message_at_once(folder, opened):
    footer = "\n".join(f"line {number} of what a mailing list adds" for number in range(20))
    whole = f"{FIRST}\n{footer}\n"
    quoting = f"{FIRST}\n> What was asked before\n"
    longer = f"{FIRST}\n{footer}\n{footer}\n"
    found = opened(folder({"a.mbox": whole, "b.mbox": quoting, "c.mbox": longer}))
    first, second, third = found.documents.values()
    assert first.text.endswith("When do the signing keys change?")
    assert second.text.endswith("Quoted: What was asked before")
    assert third.text.endswith("line 19 of what a mailing list adds")


def test_a_letter_that_is_encoded_within_a_word_is_read(folder, opened):
    message = LONE.replace("Cleo", "David H=?ISO-8859-1?B?9g==?=hn")
    document = opened(folder({"a.eml": message})).documents["a.eml"]
    assert document.metadata["from"] == "David Höhn <cleo@example.org>"


@pytest.mark.parametrize("content", ["", "no mail\n"])
def test_a_file_without_mail_is_a_problem(content, folder, opened):
    found = opened(folder({"a.mbox": content, "b.eml": content, "c.md": "x"}))
    assert [problem.reason for problem in found.problems] == ["holds no mail"]


DUMP = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" xml:lang="en">
<siteinfo><base>https://wiki.example/wiki/Main_Page</base></siteinfo>
<page><title>Signing key</title><ns>0</ns><revision><text xml:space="preserve">{{Infobox key
| key_length = 4096 bits
}}
A '''signing key''' is {{nowrap|used yearly}} by [[Release team|the team]].&lt;ref&gt;x&lt;/ref&gt;
[[File:Key.png|thumb|A key]]
== Change ==
* in [[March]]
** on a Monday
# first

{| class="wikitable"
|+ Lengths
! Kind !! Bits
|-
| align="left" | RSA || 4096
|}
&lt;syntaxhighlight lang="sh"&gt;
gpg --gen-key
&lt;/syntaxhighlight&gt;
[[Category:Keys]]</text></revision></page>
<page><title>Old</title><ns>0</ns><revision><text>#REDIRECT [[Signing key]]</text></revision></page>
<page><title>Talk:Key</title><ns>1</ns><revision><text>words</text></revision></page>
</mediawiki>"""


@pytest.mark.parametrize("name", ["wiki.xml", "wiki.xml.bz2"])
def test_a_dump_becomes_its_articles(name, folder, opened, blocks):
    content = bz2.compress(DUMP.encode()) if name.endswith("bz2") else DUMP
    found = opened(folder({name: content, "feed.xml": "<rss/>", "c.md": "x"}))
    assert not found.problems
    assert list(found.documents) == ["c.md", f"{name}/Signing key"]
    document = found.documents[f"{name}/Signing key"]
    assert document.url == "https://wiki.example/wiki/Signing_key"
    assert blocks(document) == [
        ("table", "key length | 4096 bits"),
        ("text", "A signing key is used yearly by the team."),
        ("list", "- in March\n  - on a Monday\n- first"),
        ("text", "Lengths"),
        ("table", "Kind | Bits\nRSA | 4096"),
        ("code", "gpg --gen-key"),
    ]
    assert [section.path for section in document.sections] == [(), ("Change",)]
    assert {link.href for link in document.links} == {f"{name}/Release team", f"{name}/March"}


def test_a_broken_dump_keeps_what_came_before(folder, opened):
    found = opened(folder({"w.xml": DUMP[: DUMP.index("<page><title>Talk")]}))
    assert list(found.documents) == ["w.xml/Signing key"]
    assert "cannot be read after Old" in found.problems[0].reason


def test_mail_in_utf_8_that_declares_another_encoding_is_read(folder, opened):
    head = b"From: a@example.org\nContent-Type: text/plain; charset=gb2312\n"
    mail = head + b"Content-Transfer-Encoding: 8bit\n\n" + "Die Öle für Łódź.\n".encode()
    assert "Die Öle für Łódź." in opened(folder({"a.eml": mail})).documents["a.eml"].text


def test_an_article_in_a_file_of_its_own_is_read(folder, opened, blocks):
    text = "'''Ohm''' is a [[unit]].\n\n== Use ==\n* one\n* two\n"
    document = opened(folder({"Ohm.wiki": text})).documents["Ohm.wiki"]
    assert blocks(document) == [("text", "Ohm is a unit."), ("list", "- one\n- two")]
    assert document.sections[-1].path == ("Use",)
    at = document.text.index("two")
    assert document.place(at, at + 3) == "line 5"


def test_dates_in_templates_stay_and_a_caption_is_a_paragraph_of_its_own(folder, opened):
    text = (
        "[[Image:G.jpg|thumb|Washington at [[Fort Le Boeuf]] in 1753]]\n"
        "He was born on {{OldStyleDate|February 22,|1732|February 11}} in [[Virginia]].\n\n"
        "He died on {{death date|1799|12|14|df=yes}}.{{Update|date=June 2011}}\n"
    )
    assert opened(folder({"G.wiki": text})).documents["G.wiki"].text.split("\n\n") == [
        "Washington at Fort Le Boeuf in 1753",
        "He was born on February 22, 1732 in Virginia.",
        "He died on 1799-12-14.",
    ]


def test_code_and_headings_of_other_wikis_are_read(folder, opened, blocks):
    text = """= Quick start

==Hashing, see {{{hash}}}
MD5 is {{{md5 -s}}}, of {{{1}}}, see <<a_api project="x"|val Md5>>.
{{{
var h = MD5("a");
}}}
== Binding =
<<code language="ocaml"|
let v = Js.global##.document
>>
== {{Closed}}Closed ==
a = b
"""
    document = opened(folder({"q.wiki": text, "b.md": "x"})).documents["q.wiki"]
    assert [section.path[-1] for section in document.sections if section.path] == [
        *("Hashing, see hash", "Binding", "Closed"),
    ]
    assert blocks(document) == [
        ("text", "MD5 is md5 -s, of , see val Md5."),
        ("code", 'var h = MD5("a");'),
        ("code", "let v = Js.global##.document"),
        ("text", "a = b"),
    ]


def test_unclosed_code_of_a_wiki_is_read_in_linear_time(folder, opened):
    text = "{{{\n" * 100_000 + "<<code x|" * 50_000
    assert opened(folder({"q.wiki": text, "b.md": "x"})).documents["b.md"].text == "x"


def test_markdown_in_a_file_of_a_wiki_is_read_as_markdown(folder, opened, blocks):
    fenced = "Start it:\n\n```\nbox open \\\n  --key 4\n```\n"
    linked = "See [the box](https://example.org/box).\n"
    files = {"a.wiki": fenced, "b.wiki": linked, "c.wiki": f"== Box ==\n\n{linked}"}
    found = opened(folder(files)).documents
    assert blocks(found["a.wiki"])[1] == ("code", "box open \\\n  --key 4")
    assert found["b.wiki"].text.strip() == "See the box."
    assert [section.path for section in found["c.wiki"].sections] == [("Box",)]


def test_an_mbox_may_be_one_message_as_it_was_sent(folder, opened):
    sent = "Return-Path: <ann@x>\nMessage-ID: <1@x>\nSubject: Keys\n\nThe key is brass.\n"
    assert not opened(folder({"notes.mbox": "Some notes: none\n"}, "other")).items
    document = opened(folder({"one.mbox": sent})).documents["one.mbox/1@x"]
    assert document.title == "Keys"
    assert "The key is brass." in document.text
