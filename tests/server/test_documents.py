"""Documents and texts with tags, by the interfaces of DeepL and LibreTranslate."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deepl
import httpx
import pytest
from gated_backend import GatedBackend, until

from termweave.server.settings import Gathering, Limits, Settings

PAGE = "<html lang='de'><body><p>ein <b>Haus</b> am Fluss</p><code>ein Haus</code></body></html>"


@pytest.fixture
def client(server: Any) -> deepl.DeepLClient:
    return deepl.DeepLClient("any key", server_url=server.url)


def upload(server: Any, name: str, content: bytes, **headers: str) -> httpx.Response:
    data = {"source_lang": "DE", "target_lang": "EN-US"}
    return httpx.post(server.url + "/v2/document", data=data, files={"file": (name, content)}, headers=headers)


def status(server: Any, handle: dict[str, str]) -> dict[str, Any]:
    key = {"document_key": handle["document_key"]}
    return httpx.post(f"{server.url}/v2/document/{handle['document_id']}", json=key).json()


def result(server: Any, handle: dict[str, str]) -> httpx.Response:
    key = {"document_key": handle["document_key"]}
    return httpx.post(f"{server.url}/v2/document/{handle['document_id']}/result", json=key)


def test_deepls_client_translates_a_document_with_a_glossary(client: deepl.DeepLClient, tmp_path: Path):
    source, output = tmp_path / "page.html", tmp_path / "page.en.html"
    source.write_text(PAGE, "utf-8")
    glossary = client.create_glossary("g", source_lang="DE", target_lang="EN", entries={"Fluss": "stream"})
    before = client.get_usage().character.count
    done = client.translate_document_from_filepath(
        source, output, source_lang="DE", target_lang="EN-US", glossary=glossary
    )
    found = output.read_text("utf-8")
    assert done.done
    assert done.billed_characters == client.get_usage().character.count - before == len("ein Haus am Fluss")
    assert re.search(r"<p>.*<b>.*</b>.*</p><code>ein Haus</code></body></html>", found, re.DOTALL)
    assert "lang='en'" in found
    assert "stream" in re.findall(r"\w+", found)


def test_an_error_in_a_document_is_told(client: deepl.DeepLClient):
    with pytest.raises(deepl.DocumentTranslationException, match=r"letter\.txt.*UTF-8"):
        client.translate_document(
            b"a \xff b", io.BytesIO(), filename="letter.txt", source_lang="DE", target_lang="EN-US"
        )


@pytest.mark.parametrize(
    ("name", "content", "wanted"),
    [
        ("a.pdf", b"a", 400),
        ("a", b"a", 400),
        ("a.txt", b"", 400),
        ("../../a.txt", b"ein Haus", 200),
        ("a.TXT", b"a", 200),
    ],
)
def test_what_can_be_uploaded(server: Any, name: str, content: bytes, wanted: int):
    answer = upload(server, name, content)
    assert answer.status_code == wanted, answer.text
    if wanted == 200:
        until(lambda: status(server, answer.json())["status"] == "done")
        named = result(server, answer.json()).headers["content-disposition"]
        assert re.fullmatch(r"attachment; filename\*=UTF-8''a\.en\.(txt|TXT)", named)


@pytest.mark.parametrize("name", ["ü" * 300 + ".txt", "a\nb.txt", 'a"; x=".txt', ".txt.txt", "..\\a.txt", "a b\t.md"])
def test_odd_names_do_no_harm(server: Any, name: str):
    answer = upload(server, name, b"ein Haus")
    assert answer.status_code in (200, 400), answer.text
    if answer.status_code == 200:
        until(lambda: status(server, answer.json())["status"] == "done")
        assert result(server, answer.json()).status_code == 200


def test_our_own_upload_takes_terms(server: Any):
    body = {"source": "de", "target": "en", "terms": '[{"source": "Fluss", "target": "stream"}]'}
    file = {"file": ("a.md", b"# am Fluss")}
    handle = httpx.post(server.url + "/v1/documents", data=body, files=file).json()
    until(lambda: status(server, handle)["status"] == "done")
    assert status(server, handle)["progress"] == 1
    found = result(server, handle).text
    assert found.startswith("# ")
    assert "stream" in re.findall(r"\w+", found)
    for terms in ("[", "{}", '[{"target": 3}]', '[{"source": "a"}]'):
        wrong = httpx.post(server.url + "/v1/documents", data=body | {"terms": terms}, files=file)
        assert wrong.status_code == 400, wrong.text


def test_our_own_upload_takes_as_many_glossaries_as_a_text(server: Any):
    body = {"source": "de", "target": "en", "glossaries": ["nothing"] * 5}
    file = {"file": ("a.txt", b"ein Haus")}
    assert httpx.post(server.url + "/v1/documents", data=body, files=file).status_code == 404  # they are looked for
    several = httpx.post(server.url + "/v1/documents", data=body | {"glossaries": ["nothing"] * 6}, files=file)
    assert (several.status_code, several.json()["message"]) == (400, "Too many glossaries")


def test_a_form_without_a_file_is_refused(server: Any):
    assert httpx.post(server.url + "/v2/document", json={"target_lang": "EN-US"}).status_code == 415
    nothing = httpx.post(server.url + "/v2/document", data={"target_lang": "EN-US"}, files={"other": b"a"})
    assert (nothing.status_code, "file" in nothing.json()["message"]) == (400, True)


def test_only_who_uploaded_it_finds_it(server: Any):
    handle = upload(server, "a.txt", b"ein Haus").json()
    assert result(server, {**handle, "document_key": "A" * 64}).status_code == 404
    assert result(server, {**handle, "document_id": "A" * 32}).status_code == 404
    assert httpx.post(f"{server.url}/v2/document/{handle['document_id']}").status_code == 400


def test_keys_see_their_own_documents_and_pay_for_them(running: Callable[..., Any]):
    with running(GatedBackend()) as server:
        _, rich = server.service.keys.create("rich")
        _, poor = server.service.keys.create("poor", 5)
        handle = upload(server, "a.txt", b"ein Haus", Authorization=f"DeepL-Auth-Key {poor}").json()
        key = {"document_key": handle["document_key"]}
        url = f"{server.url}/v2/document/{handle['document_id']}"
        mine = {"Authorization": f"DeepL-Auth-Key {poor}"}
        until(lambda: httpx.post(url, json=key, headers=mine).json()["status"] == "error")
        assert httpx.post(url + "/result", json=key, headers=mine).status_code == 456
        assert httpx.post(url, json=key, headers={"Authorization": f"DeepL-Auth-Key {rich}"}).status_code == 404


def test_progress_overload_and_the_end(running: Callable[..., Any]):
    backend = GatedBackend(open_gate=False)
    settings = Settings(Limits(documents=2), Gathering(queued_tokens=10))
    with running(backend, settings) as server:
        first = upload(server, "a.txt", b"one\n\ntwo").json()
        backend.entered.acquire()
        assert status(server, first)["status"] == "translating"
        waiting = result(server, first)
        assert (waiting.status_code, int(waiting.headers["retry-after"]) >= 1) == (503, True)
        second = upload(server, "b.txt", b"three").json()
        refused = upload(server, "c.txt", b"four")
        assert (refused.status_code, "retry-after" in refused.headers) == (503, True)
        backend.gate.set()
        for handle, expected in ((first, "eno\n\nowt"), (second, "eerht")):
            until(lambda handle=handle: status(server, handle)["status"] == "done")
            assert result(server, handle).text == expected
            assert result(server, handle).text == expected, "it can be fetched again"
        folder = server.service.documents._folder.path
        assert folder.exists()
    assert not folder.exists()


def test_documents_are_given_up_when_the_server_stops(running: Callable[..., Any]):
    backend = GatedBackend(open_gate=False)
    with running(backend) as server:
        upload(server, "a.txt", "\n\n".join(f"line {number}" for number in range(200)).encode())
        backend.entered.acquire()
        server.ask_to_stop()
        (lines,) = [own.lines for own in server.service.documents._works.values()]
        until(lines._stopped.is_set)
        backend.gate.set()
    assert sum(map(len, backend.batches)) < 200


def test_libretranslate_translates_files(server: Any):
    body = {"source": "de", "target": "en"}
    answer = httpx.post(server.url + "/translate_file", data=body, files={"file": ("seite.html", PAGE.encode())})
    assert answer.status_code == 200, answer.text
    found = httpx.get(answer.json()["translatedFileUrl"])
    assert "<code>ein Haus</code>" in found.text
    assert found.headers["content-type"] == "application/octet-stream"
    assert httpx.get(answer.json()["translatedFileUrl"][:-1]).status_code == 404
    wrong = httpx.post(server.url + "/translate_file", data=body, files={"file": ("a.pdf", b"a")})
    assert (wrong.status_code, set(wrong.json())) == (400, {"error"})
    broken = httpx.post(server.url + "/translate_file", data=body, files={"file": ("a.txt", b"\xff")})
    assert (broken.status_code, "UTF-8" in broken.json()["error"]) == (400, True)


def test_libretranslate_translates_html(server: Any):
    body = {"q": ["<p>ein <b>Haus</b></p>", "am Fluss"], "source": "de", "target": "en", "format": "html"}
    page, plain = httpx.post(server.url + "/translate", json=body, timeout=60).json()["translatedText"]
    assert re.fullmatch(r"<p>.*<b>.*</b>.*</p>", page, re.DOTALL)
    assert "<" not in plain


@pytest.mark.parametrize("kind", ["xml", "html"])
def test_deepls_client_translates_tags(client: deepl.DeepLClient, kind: str):
    texts = ["<p>der alte <b>Müller</b> verkauft <x>Mehl</x></p>", "ein Haus &amp; ein Fluss", "<x>Haus</x>"]
    glossary = client.create_glossary("g", source_lang="DE", target_lang="EN", entries={"Müller": "miller"})
    options: dict[str, Any] = {"source_lang": "DE", "target_lang": "EN-US", "tag_handling": kind, "ignore_tags": ["x"]}
    found = client.translate_text(texts, glossary=glossary, **options)
    assert re.fullmatch(r"<p>.*<b>.*miller.*</b>.*<x>Mehl</x>.*</p>|<p>.*<x>Mehl</x>.*</p>", found[0].text, re.DOTALL)
    assert "miller" in re.findall(r"\w+", found[0].text)
    assert found[2].text == "<x>Haus</x>"
    assert [own.billed_characters for own in found] == [len(text) for text in texts]


def test_tags_are_split_into_sentences(client: deepl.DeepLClient):
    with pytest.raises(deepl.DeepLException, match="split_sentences"):
        client.translate_text("a", target_lang="EN-US", tag_handling="xml", split_sentences="0")


def test_texts_with_tags_share_batches_and_long_ones_are_cut(running: Callable[..., Any]):
    backend = GatedBackend()
    long = "word " * 150
    body = {
        "text": [f"<p>{long}<b>{long}</b></p>", "<p>one</p>", "<p>wrong</p>"],
        "target_lang": "EN",
        "source_lang": "DE",
    }
    with running(backend) as server:
        body |= {"tag_handling": "html"}
        assert httpx.post(server.url + "/v2/translate", json=body).status_code == 400
        body["text"] = body["text"][:2]
        first, second = httpx.post(server.url + "/v2/translate", json=body).json()["translations"]
    assert second["text"] == "<p>eno</p>"
    assert first["text"].count("drow") == 300
    assert re.fullmatch(r"<p>(drow )+<b>(drow ?)+</b></p>", first["text"])
    assert max(len(text.split()) for batch in backend.batches for text in batch) <= backend.longest


def test_a_client_that_leaves_stops_its_work(running: Callable[..., Any]):
    backend = GatedBackend(open_gate=False)
    many = "".join(f"<p>line {number}</p>" for number in range(300))
    with running(backend) as server:
        body = {"q": many, "source": "de", "target": "en", "format": "html"}
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(server.url + "/translate", json=body, timeout=0.5)
        until(lambda: server.service.batcher.queued_requests == 0 and not server.service.documents._running)
        backend.gate.set()
    assert sum(map(len, backend.batches)) < 300
