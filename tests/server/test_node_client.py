"""DeepL's own Node client against our server. `make clients` installs it; without it, nothing is tested here."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

MODULES = Path(__file__).parents[2] / "build" / "node"
SCRIPT = Path(__file__).with_name("deepl_node.mjs")
NODE = shutil.which("node")


@pytest.mark.skipif(
    NODE is None or not (MODULES / "node_modules" / "deepl-node").is_dir(), reason="`make clients` installs it"
)
def test_every_call_of_the_node_client(server: Any):
    call = [str(NODE), str(SCRIPT), server.url, str(MODULES)]
    done = subprocess.run(call, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["plain"]["text"]
    assert found["plain"]["detectedSourceLang"] == "de"
    assert found["plain"]["billedCharacters"] == len("der alte Müller verkauft Mehl")
    assert len(found["several"]) == 2
    assert found["sources"] == ["de", "en"]
    assert found["targets"] == ["de", "en-GB", "en-US"]
    assert {"sourceLang": "de", "targetLang": "en"} in found["pairs"]
    assert found["usage"]["count"] > 0
    assert (found["glossary"]["name"], found["glossary"]["entryCount"]) == ("mills", 2)
    assert found["listed"]
    assert found["entries"] == {"Müller": "grinder", "a & b=c": "d+e %"}
    assert "grinder" in re.findall(r"\w+", found["constrained"]["text"])
    assert {"grinder", "powder"} <= set(re.findall(r"\w+", found["both"]["text"]))
    assert found["deleted"].startswith("GlossaryNotFoundError")
    assert [own["entryCount"] for own in found["multilingual"]["dictionaries"]] == [1, 1]
    assert found["renamed"] == "renamed"
    assert found["edited"] == {"Haus": "house", "Fluss": "river"}
    assert found["replaced"] == {"Mehl": "flour"}
    assert found["remaining"] == ["de-en"]
    assert found["gone"].startswith("GlossaryNotFoundError")
    assert "target_lang" in found["unsupported"]
    assert re.fullmatch(r"<p>.*<x>Haus</x>.*</p>", found["tags"]["text"], re.DOTALL)
    assert found["document"].startswith("# ")
