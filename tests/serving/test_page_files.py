"""The page's files: from the package, with the right types, and nothing beyond them."""

import gzip
import re

import pytest

from packwise.serving import page
from packwise.serving.page_bundle import bundle


@pytest.fixture
def folder(tmp_path, monkeypatch):
    site = tmp_path / "page"
    site.mkdir()
    (site / "index.html").write_text(
        '<link rel="stylesheet" href="/one.css">\n<link rel="stylesheet" href="/two.css">\n'
        '<script type="module" src="/main.js"></script>\n'
    )
    (site / "one.css").write_text("p { color: red; }")
    (site / "two.css").write_text("a { color: blue; }")
    (site / "mark.svg").write_text("<svg/>")
    (site / "notes.txt").write_text("not served")
    (site / "main.js").write_text(
        'import * as sums from "./sums.js";\nimport { two, Three as T } from "./numbers.js";\n'
        "globalThis.result = sums.add(two, new T().value);\n"
    )
    (site / "sums.js").write_text(
        'import { two } from "./numbers.js";\n'
        "export const add = (a, b) => a + b;\nexport async function* none() { yield two; }\n"
    )
    (site / "numbers.js").write_text(
        "const secret = 1;\nexport const two = secret + 1;\n"
        "export class Three { value = 3; }\nexport function four() { return 4; }\n"
    )
    (tmp_path / "secret.html").write_text("secret")
    monkeypatch.setattr(page, "FOLDER", site)
    return site


def named(client, suffix):
    return next(n for n in re.findall(r'"(/[\w.-]+)"', client.get("/").text) if n.endswith(suffix))


@pytest.mark.parametrize(
    ("suffix", "kind"),
    [("", "text/html"), (".js", "text/javascript"), (".css", "text/css"), (".svg", "image/svg")],
)
def test_a_file_has_its_type_and_a_policy_that_lets_nothing_else_in(client, folder, suffix, kind):
    path = {"": "/", ".svg": "/mark.svg"}.get(suffix) or named(client, suffix)
    answer = client.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith(kind)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"


def test_the_modules_are_one_script_and_the_stylesheets_one_sheet(client, folder):
    html = client.get("/").text
    assert html.count("<script") == html.count("<link") == 1
    sheet = client.get(named(client, ".css")).text
    assert sheet.index("red") < sheet.index("blue")
    script = client.get(named(client, ".js")).text
    assert not re.search(r"^(?:import|export) ", script, re.M)
    # What is imported comes first, and only what is exported leaves a module.
    assert script.index("Three") < script.index("a + b") < script.index("globalThis.result")
    assert script.count("secret") == 2
    assert "return { two, Three, four };" in script


def test_what_is_named_after_its_content_is_asked_for_once(client, folder):
    path = named(client, ".js")
    assert "immutable" in client.get(path).headers["cache-control"]
    first = client.get("/")
    assert first.headers["cache-control"] == "no-cache"
    again = client.get("/", headers={"If-None-Match": first.headers["etag"]})
    assert again.status_code == 304
    assert again.content == b""
    (folder / "sums.js").write_text("export const add = () => 6;\n")
    page._files.cache_clear()
    assert named(client, ".js") != path


def test_files_are_compressed_for_those_who_can_read_it(client):
    plain = client.get(named(client, ".js"), headers={"Accept-Encoding": "identity"})
    with client.stream("GET", named(client, ".js")) as packed:
        raw = b"".join(packed.iter_raw())
        assert packed.headers["content-encoding"] == "gzip"
    assert len(raw) < len(plain.content) / 2
    assert gzip.decompress(raw) == plain.content


def test_modules_that_import_each_other_are_refused(folder):
    (folder / "numbers.js").write_text('import { add } from "./sums.js";\n')
    with pytest.raises(ValueError, match="imports itself"):
        bundle(folder)


OTHERS = """
/notes.txt /nothing.js /main.js /one.css
/..%2fsecret.html /%2e%2e/secret.html /../secret.html /page/index.html
/%00.js /index.html%00 /index.html/
""".split()


@pytest.mark.parametrize("path", OTHERS)
def test_nothing_else_is_served(client, folder, path):
    answer = client.get(path)
    assert answer.status_code == 404
    assert "secret" not in answer.text
