"""Packs made, changed, renamed and deleted over HTTP: by an admin only, and as a whole or not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from packwise.errors import UsageError
from packwise.library import open_library
from packwise.packs.remembered_sources import recall
from packwise.packs.workspace import Workspace
from packwise.serving import store_changes
from packwise.serving.limits import Limits
from serving_world import client_of, key_ring
from tests_world import wait_until

GARDEN = "# Garden\n\nThe garden opens at nine and closes at dusk.\n"
FERRY = "# Ferry\n\nThe ferry leaves every forty minutes from the north pier.\n"


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "packs"
    folder.mkdir()
    return folder


@pytest.fixture
def client(folder):
    with client_of(folder) as found:
        yield found


def upload(client, **files):
    """Send files, named `garden__md` for `garden.md`; returns the id of the upload."""
    answer = client.post("/v1/uploads")
    assert answer.status_code == 200, answer.text
    store_changes.UploadRecord.model_validate(answer.json())
    upload = answer.json()["id"]
    for name, text in files.items():
        path = name.replace("___", "/").replace("__", ".")
        sent = client.put(f"/v1/uploads/{upload}/{path}", content=text.encode())
        assert sent.status_code == 200, sent.text
        assert sent.json()["bytes"] == len(text.encode())
    return upload


def finished(client, answer):
    """The record of the build that an answer began, once it has ended."""
    assert answer.status_code == 202, answer.text
    record = answer.json()

    def ended():
        nonlocal record
        record = client.get(f"/v1/jobs/{record['id']}").json()
        store_changes.JobRecord.model_validate(record)
        return record["state"] in ("done", "failed")

    wait_until(ended, "the build ends")
    return record


def make(client, name="island", **files):
    files = files or {"garden__md": GARDEN, "travel___ferry__md": FERRY}
    body = {"name": name, "upload": upload(client, **files)}
    return finished(client, client.post("/v1/stores", json=body))


def names(client):
    return [store["name"] for store in client.get("/v1/stores").json()["stores"]]


def paths(client, name="island"):
    listed = client.get(f"/v1/stores/{name}/files").json()
    store_changes.FileList.model_validate(listed)
    return [file["path"] for file in listed["files"]]


def answer_of(client, question, store="island"):
    return client.post("/v1/ask", json={"question": question, "store": store}).json()["answer"]


def test_an_empty_folder_is_served_and_says_so(client):
    listed = client.get("/v1/stores").json()
    assert (listed["stores"], listed["can_create"]) == ([], True)
    asked = client.post("/v1/ask", json={"question": "When does the garden open?"})
    assert asked.status_code == 404
    assert asked.json()["error"]["message"] == "there is no pack yet"
    assert client.get("/readyz").status_code == 200


def test_a_pack_is_made_of_uploaded_files(client, folder):
    done = make(client)
    assert (done["state"], done["added"], done["total"]) == ("done", 2, 2)
    (store,) = client.get("/v1/stores").json()["stores"]
    assert (store["name"], store["documents"], store["editable"]) == ("island", 2, True)
    assert "forty minutes" in answer_of(client, "How often does the ferry leave?")
    assert paths(client) == ["garden.md", "travel/ferry.md"]
    # The command line can follow the same files.
    assert recall(str(folder / "island")) == [str(folder / "documents" / "island")]
    with open_library(folder / "island") as library:
        assert {d.id for d in library.store.documents()} == {"garden.md", "travel/ferry.md"}
    assert list((folder / ".packwise" / "uploads").iterdir()) == []


def test_documents_are_added_replaced_and_removed(client):
    make(client)
    later = GARDEN.replace("nine", "seven")
    change = {"upload": upload(client, garden__md=later, mill__txt="The mill grinds oats.")}
    done = finished(client, client.post("/v1/stores/island/files", json=change))
    assert (done["added"], done["changed"], done["removed"]) == (1, 1, 0)
    assert "seven" in answer_of(client, "When does the garden open?")
    removal = {"remove": ["travel/ferry.md", "mill.txt"]}
    done = finished(client, client.post("/v1/stores/island/files", json=removal))
    assert (done["state"], done["removed"]) == ("done", 2)
    assert paths(client) == ["garden.md"]
    last = client.post("/v1/stores/island/files", json={"remove": ["garden.md"]})
    assert "delete the pack instead" in finished(client, last)["error"]
    assert paths(client) == ["garden.md"]


def test_a_pack_is_renamed_and_deleted(client, folder):
    make(client)
    make(client, "other", mill__md="# Mill\n\nThe mill grinds oats on Fridays.")
    assert client.patch("/v1/stores/island", json={"name": "other"}).status_code == 400
    assert client.patch("/v1/stores/island", json={"name": "../up"}).status_code == 400
    assert client.patch("/v1/stores/island", json={"name": "isle"}).json() == {"name": "isle"}
    assert names(client) == ["isle", "other"]
    assert "nine" in answer_of(client, "When does the garden open?", "isle")
    change = {"remove": ["travel/ferry.md"]}
    assert finished(client, client.post("/v1/stores/isle/files", json=change))["removed"] == 1
    assert client.delete("/v1/stores/isle").json() == {"name": None}
    assert names(client) == ["other"]
    assert client.get("/v1/stores/isle/files").status_code == 404
    assert sorted(p.name for p in folder.iterdir()) == [".packwise", "documents", "other"]
    assert [p.name for p in (folder / "documents").iterdir()] == ["other"]


def test_a_build_that_fails_leaves_everything_as_it_was(client, folder):
    failed = make(client, "broken", scan__pdf="not a PDF")
    assert failed["state"] == "failed"
    assert "nothing could be read" in failed["error"]
    assert str(folder) not in failed["error"]
    assert names(client) == []
    assert not (folder / "broken").exists()
    assert list((folder / "documents").iterdir()) == []
    make(client)
    change = {"upload": upload(client, garden__md=GARDEN.replace("nine", "six"))}
    # Its database is in the way of the build.
    (folder / "island" / "pack.sqlite").rename(folder.parent / "kept")
    (folder / "island" / "pack.sqlite").mkdir()
    done = finished(client, client.post("/v1/stores/island/files", json=change))
    assert done["state"] == "failed"
    assert (folder / "documents" / "island" / "garden.md").read_text() == GARDEN


def test_a_file_that_cannot_be_read_is_named_and_the_others_are_in(client):
    done = make(client, garden__md=GARDEN, broken__pdf="not a PDF")
    assert (done["state"], done["added"]) == ("done", 1)
    (problem,) = done["problems"]
    assert problem.startswith("broken.pdf: ")


@pytest.mark.parametrize(
    "path",
    [
        *"../up.md a/../../up.md .hidden.md a/.git/x.md a//b.md film.mp4 LICENSE a\\b.md".split(),
        *("x" * 300 + ".md", "a%00b.md", "a%0Ab.md"),
    ],
)
def test_a_path_that_leads_elsewhere_or_cannot_be_read_is_refused(client, folder, path):
    name = client.post("/v1/uploads").json()["id"]
    encoded = path.replace("..", "%2e%2e")
    answer = client.put(f"/v1/uploads/{name}/{encoded}", content=b"text")
    assert answer.status_code in (400, 404)
    assert list((folder / ".packwise" / "uploads" / name).iterdir()) == []
    assert not (folder / "up.md").exists()


def test_an_upload_that_is_not_there_and_a_file_that_is_not_there_are_one_line(client):
    make(client)
    for request in (
        client.put(f"/v1/uploads/{'0' * 32}/x.md", content=b"x"),
        client.post("/v1/stores", json={"name": "new", "upload": "0" * 32}),
        client.post("/v1/stores", json={"name": "new", "upload": upload(client)}),
        client.post("/v1/stores/island/files", json={"remove": ["nothing.md"]}),
        client.post("/v1/stores", json={"name": "documents", "upload": upload(client)}),
    ):
        assert request.status_code == 400
        assert "\n" not in request.json()["error"]["message"]
    assert client.get("/v1/jobs/nothing").status_code == 404


def test_what_is_too_large_is_not_kept(folder):
    limits = Limits(file_bytes=100, upload_bytes=150)
    with client_of(folder, limits=limits) as client:
        name = client.post("/v1/uploads").json()["id"]
        assert client.put(f"/v1/uploads/{name}/a.md", content=b"x" * 101).status_code == 413
        assert client.put(f"/v1/uploads/{name}/a.md", content=b"x" * 100).status_code == 200
        second = client.put(f"/v1/uploads/{name}/b.md", content=b"x" * 60)
        assert second.status_code == 413
        assert "150 bytes" in second.json()["error"]["message"]
        # A file that is sent again takes the place of the first.
        assert client.put(f"/v1/uploads/{name}/a.md", content=b"x" * 90).status_code == 200
        kept = folder / ".packwise" / "uploads" / name
        assert [path.name for path in kept.iterdir()] == ["a.md"]
        assert len(list(kept.parent.iterdir())) == 1


def test_only_an_admin_key_changes_packs(folder, tmp_path):
    ring, headers = key_ring(
        tmp_path,
        reader={"tenant": "acme"},
        everything={"unbound": True},
        admin={"unbound": True, "admin": True},
    )
    with client_of(folder, keys=ring) as client:
        assert client.post("/v1/uploads").status_code == 401
        for name in ("reader", "everything"):
            refused = client.post("/v1/uploads", headers=headers[name])
            assert refused.status_code == 403
            assert "--admin" in refused.json()["error"]["fix"]
            assert not client.get("/v1/stores", headers=headers[name]).json()["can_create"]
            for method, path in (("DELETE", "/v1/stores/x"), ("GET", "/v1/jobs/x")):
                assert client.request(method, path, headers=headers[name]).status_code == 403
        assert client.post("/v1/uploads", headers=headers["admin"]).status_code == 200


def test_packs_that_were_named_on_the_command_line_are_not_changed(notes_pack, folder):
    with client_of(notes_pack) as client:
        assert client.post("/v1/uploads").status_code == 403
        assert client.delete(f"/v1/stores/{names(client)[0]}").status_code == 403
    with client_of(notes_pack, folder) as client:
        make(client)
        assert names(client) == [notes_pack.name, "island"]
        assert client.delete(f"/v1/stores/{notes_pack.name}").status_code == 403
        assert (notes_pack / "pack.sqlite").exists()


def test_packs_that_another_process_makes_are_served_too(client, folder):
    source = folder.parent / "mill.md"
    source.write_text("# Mill\n\nThe mill grinds oats on Fridays.")
    command = [sys.executable, "-m", "packwise", "build", str(source), "--out"]
    subprocess.run([*command, str(folder / "mill")], check=True, capture_output=True)
    assert "Fridays" in answer_of(client, "When does the mill grind oats?", "mill")
    change = {"upload": upload(client, garden__md=GARDEN)}
    done = finished(client, client.post("/v1/stores/mill/files", json=change))
    # What it was built from elsewhere stays, and only uploaded files can be removed.
    assert (done["added"], done["removed"]) == (1, 0)
    assert client.get("/v1/stores/mill/files").json()["elsewhere"] == 1


def test_a_build_whose_server_was_killed_is_over(client, folder):
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    record = make(client)
    file = folder / ".packwise" / "jobs" / f"{record['id']}.json"
    file.write_text(
        file.read_text()
        .replace('"done"', '"running"')
        .replace(f'"process": {os.getpid()}', f'"process": {child.pid}')
    )
    said = client.get(f"/v1/jobs/{record['id']}").json()
    assert said["state"] == "failed"
    assert "the pack is as it was" in said["error"]


def test_a_rename_killed_half_way_loses_no_document(client, folder):
    make(client)
    with pytest.MonkeyPatch.context() as patch:
        renamed = []

        def once(self, target, rename=Path.rename):
            renamed.append(target)
            if len(renamed) > 1:
                raise KeyboardInterrupt
            return rename(self, target)

        patch.setattr(Path, "rename", once)
        with pytest.raises(KeyboardInterrupt):
            Workspace(folder).rename("island", "isle")
    workspace = Workspace(folder)
    with pytest.raises(UsageError, match="made from the documents named island"):
        workspace.check_new_name("island")
    arrived = workspace.new_upload()
    with workspace.receiving(arrived, "mill.md") as target:
        target.write_text("# Mill\n\nThe mill grinds oats on Fridays.")
    assert workspace.change("isle", arrived).changes.removed == 0
