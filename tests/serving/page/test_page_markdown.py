"""What a language model writes, as the page shows it: all of Markdown, and nothing that acts."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

import packwise
from messages_api import text

RICH = r"""## In short

Make **a new key** with *care*, ~~never~~ `vaultctl` [2], see [the guide](https://example.org/a).

1. First
   - inner
   - other
2. Second [1]

| step | days |
|:-----|-----:|
| wait | 1 |
| keep | 30 |

```python
def rotate(key: str) -> None:
    return None  # done
```

> Quoted [2].

The share is $\frac{a_1}{b^2}$, or

$$\sum_{i=1}^{n} x_i \le \sqrt{2}$$
"""
POISON = """<img src=x onerror="window.stung=1"> [click](javascript:window.stung=2)
![see](http://elsewhere.example/pixel.png) [![x](https://a.example/b.png)](javascript:alert(1))

<script>window.stung = 3</script>

| <svg onload="window.stung=4"> | b |
|---|---|
| [y](data:text/html,<script>window.stung=5</script>) | [z]( javascript:window.stung=6) |

$\\text{<img src=x onerror=window.stung=7>}$ and `<b>code</b>` [1].

```html
<script>window.stung = 8</script>
```
"""


@pytest.fixture
def shown(visit, model_server, model):
    def show(said):
        model.will(text(said, pieces=7))
        page = visit(model_server, permissions=["clipboard-read", "clipboard-write"]).page
        box = page.get_by_role("textbox", name="Question")
        box.fill("How do I rotate the signing key?")
        box.press("Enter")
        answer = page.get_by_label("Answer", exact=True)
        expect(answer).to_have_attribute("aria-busy", "false")
        return answer

    return show


def test_an_answer_is_full_markdown(shown):
    answer = shown(RICH)
    expect(answer.get_by_role("heading", name="In short")).to_be_visible()
    for tag, said in (("strong", "a new key"), ("em", "care"), ("s", "never")):
        expect(answer.locator(tag).first).to_have_text(said)
    expect(answer.locator("p > code")).to_have_text("vaultctl")
    link = answer.get_by_role("link", name="the guide")
    expect(link).to_have_attribute("rel", "noreferrer noopener")
    expect(answer.locator("ol > li > ul > li").last).to_have_text("other")
    assert answer.get_by_role("cell").all_inner_texts() == ["wait", "1", "keep", "30"]
    expect(answer.get_by_role("columnheader", name="days")).to_have_class("num")
    expect(answer.locator("blockquote")).to_contain_text("Quoted")
    expect(answer.locator("math mfrac msub")).to_have_text("a1")
    expect(answer.locator("math munderover > mo").first).to_have_text("∑")
    assert [m.inner_text() for m in answer.locator("button.cite").all()] == ["1", "2", "1"]


def test_a_term_stands_above_what_is_said_about_it(shown):
    answer = shown("shadow\n/etc/shadow is readable by this group [1].\n\nwrapped\nat a word\n")
    expect(answer.locator("p").first.locator("strong")).to_have_text("shadow")
    expect(answer.locator("p").first.locator("br")).to_have_count(1)
    expect(answer.locator("p").last.locator("strong")).to_have_count(0)


def test_code_is_coloured_and_copied(shown):
    answer = shown(RICH)
    expect(answer.locator(".code-word").first).to_have_text("def")
    expect(answer.locator(".code-comment")).to_have_text("# done")
    answer.get_by_role("button", name="Copy").click()
    expect(answer.get_by_role("button", name="Copied")).to_be_visible()
    copied = answer.page.evaluate("navigator.clipboard.readText()")
    assert copied == "def rotate(key: str) -> None:\n    return None  # done"


def test_python_is_told_by_its_definitions_also_with_a_brace_at_the_end_of_a_line(shown):
    answer = shown("So [1]:\n\n```\ndef get():\n    return {\n        'name': 1,\n    }\n```\n")
    expect(answer.locator(".code-word").first).to_have_text("def")


def test_what_a_model_was_made_to_write_is_only_text(shown):
    answer = shown(POISON)
    expect(answer).to_contain_text("<script>window.stung = 3</script>")
    page = answer.page
    assert page.evaluate("window.stung") is None
    assert page.locator("main img, main script, main iframe, [onerror], [onload]").count() == 0
    for link in answer.get_by_role("link").all():
        assert link.get_attribute("href").startswith(("http://", "https://"))


def test_a_settings_change_asks_again_in_place(visit, notes_server):
    page = visit(notes_server, "#/ask?q=How+long+is+a+backup+kept%3F").page
    expect(page.get_by_role("button", name="Copy link")).to_be_visible()
    page.get_by_text("Settings", exact=True).click()
    field = page.get_by_label("Search by", exact=True)
    expect(field).to_have_accessible_description(
        "Words find exact names and codes; meaning finds other phrasings."
    )
    with page.expect_request(lambda request: "/v1/ask" in request.url) as request:
        field.select_option("words only")
    assert request.value.post_data_json["mode"] == "keyword"
    expect(page.locator(".turn")).to_have_count(1)
    expect(page.get_by_label("Answer", exact=True)).to_contain_text("ninety days")
    assert "mode=keyword" in page.url
    with page.expect_request(lambda request: "/v1/ask" in request.url) as again:
        page.get_by_role("button", name="Ask again").click()
    assert again.value.post_data_json["mode"] == "keyword"


def test_dates_in_a_table_stay_on_one_line(shown):
    answer = shown("| name | released |\n|---|---|\n| Buzz, a first one | 1996-06-17 |\n\n[1]")
    cells = answer.locator("td")
    expect(cells.nth(1)).to_have_css("white-space", "nowrap")
    expect(cells.nth(0)).to_have_css("white-space", "normal")


@pytest.mark.parametrize(
    ("answer", "text", "question", "quote"),
    [
        pytest.param(
            "shadow /etc/shadow is readable (by this group). [1]",
            "src\nSource.\n\nshadow\n/etc/shadow is readable (by this group).",
            "What is the group shadow for?",
            "shadow\n/etc/shadow is readable (by this group).",
            id="a-term-and-its-definition-on-two-lines",
        ),
        pytest.param(
            "The spool holds work that waits until\n\n9 it has been done. [1]\n\nElse. [2]",
            "Purpose\n\nThe spool holds work that waits until\n\n9 it has been done.\n\nEnd.",
            "What does the spool hold?",
            "The spool holds work that waits until\n\n9 it has been done.",
            id="a-sentence-that-a-page-break-cuts",
        ),
        pytest.param(
            "no | name | made | released | end [1]\n--- | --- | --- | --- | ---\n"
            "13 | Trixie | 2023-06-10 | 2025-08-09 | 2028-08-09\n"
            "12 | Bookworm | 2021-08-14 | 2023-06-10 | 2026-07-11",
            "13 | Trixie | 2023-06-10 | 2025-08-09 | 2028-08-09\n"
            "12 | Bookworm | 2021-08-14 | 2023-06-10 | 2026-07-11",
            "When was Bookworm released?",
            "12 | Bookworm | 2021-08-14 | 2023-06-10 | 2026-07-11",
            id="the-asked-row-of-a-table-cited-in-its-head",
        ),
        pytest.param(
            "**Debian** [1]\n\n| no | name | made |\n| --- | --- | --- |\n"
            "| 12 | Bookworm | 2021-08-14 |\n\nElse. [2]",
            "13 | Trixie | 2023-06-10\n12 | Bookworm | 2021-08-14",
            "When was Bookworm made?",
            "12 | Bookworm | 2021-08-14",
            id="a-row-below-a-heading-with-the-citation",
        ),
        pytest.param(
            "The log grows: [1]\n\n- without checkpoints\n- with long readers\n\nElse. [2]",
            "Intro.\n\nThe log grows:\n\n- without checkpoints\n- with long readers\n\nEnd.",
            "When does the log grow?",
            "without checkpoints\n- with long readers",
            id="a-list-below-the-line-with-the-citation",
        ),
    ],
)
def test_all_of_what_a_citation_supports_is_marked(chromium, answer, text, question, quote):
    source = (Path(packwise.__file__).parent / "serving/page/evidence.js").read_text("utf-8")
    page = chromium.new_page()
    try:
        found = page.evaluate(
            """async ([source, answer, citation, question]) => {
              const url = "data:text/javascript," + encodeURIComponent(source);
              return (await import(url)).evidence(answer, citation, question);
            }""",
            [source, answer, {"marker": 1, "text": text}, question],
        )
    finally:
        page.close()
    assert found["quote"] == quote
