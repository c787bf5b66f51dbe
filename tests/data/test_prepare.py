"""Preparation end to end on a made-up corpus: steps, restarts, test sets, links, directions."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from made_up_corpus import DICTIONARY, natural, sentences, toy_config, write_corpus

from termweave.alignment import LINK
from termweave.config import Config
from termweave.data import prepare as preparation
from termweave.data.corpus import DirectionData, PreparedCorpus
from termweave.data.folder import RECORD, PairFolder
from termweave.data.prepare import STEPS, StepReport, prepare
from termweave.errors import ConfigError, DataError
from termweave.storage import RaggedArray, RaggedWriter, locked, read_json
from termweave.text.subwords import Subwords


def fingerprints(folder: Path) -> dict[str, str]:
    """Name → hash of everything but the record, whose times differ from run to run, and the lock."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in (RECORD, ".lock")
    }


def phrase_texts(subwords: Subwords, direction: DirectionData, row: int) -> set[tuple[str, str]]:
    assert direction.phrases is not None
    texts = set()
    for phrase in direction.phrases[row]:
        source = direction.source[row][phrase["source_start"] :][: phrase["source_tokens"]]
        target = direction.target[row][phrase["target_start"] :][: phrase["target_tokens"]]
        texts.add((subwords.decode(source), subwords.decode(target)))
    return texts


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Config, list[StepReport]]:
    """One whole preparation, for the tests that only look."""
    folder = tmp_path_factory.mktemp("finished")
    write_corpus(folder, 300)
    config = toy_config(folder)
    return config, list(prepare(config).steps)


def test_every_step_reports(finished: tuple[Config, list[StepReport]]) -> None:
    config, steps = finished
    assert tuple(step.name for step in steps) == STEPS
    assert steps[0].counts["de-en"] == {
        "read": 300, "kept": 300, "empty": 0, "too_long": 0, "ratio": 0, "test_set": 0, "duplicate": 0
    }  # fmt: skip
    assert steps[1].counts["all"]["sentences"] == 600
    assert all(step.cpu_seconds >= 0 and step.peak_memory > 0 and not step.skipped for step in steps)
    record = read_json(Path(config.data.folder) / RECORD)
    assert list(record["steps"]) == list(STEPS)
    assert not list(Path(config.data.folder).rglob("*.partial*"))


def test_corpus_opens_as_written(finished: tuple[Config, list[StepReport]]) -> None:
    corpus = PreparedCorpus.open(Path(finished[0].data.folder))
    (direction,) = corpus.directions
    assert (direction.name, direction.tag, len(direction)) == ("de-en", None, 300)
    for row, (source, target) in enumerate(sentences(300)):
        assert corpus.subwords.decode(direction.source[row]) == natural(source)
        assert corpus.subwords.decode(direction.target[row]) == natural(target)


def test_phrases_are_translations(finished: tuple[Config, list[StepReport]]) -> None:
    corpus = PreparedCorpus.open(Path(finished[0].data.folder))
    (direction,) = corpus.directions
    found = [pair for row in range(len(direction)) for pair in phrase_texts(corpus.subwords, direction, row)]
    single = [pair for pair in found if " " not in pair[0]]
    right = sum(DICTIONARY.get(source) == target for source, target in single)
    assert right / len(single) > 0.95
    assert {len(source.split()) for source, _ in found} == {1, 2, 3}
    assert not any("." in source or source in ("das", "und", "das das") for source, _ in found)


def test_a_second_run_does_nothing(finished: tuple[Config, list[StepReport]]) -> None:
    config, steps = finished
    before = {path: path.stat().st_mtime_ns for path in Path(config.data.folder).rglob("*.values")}
    again = prepare(config).steps
    assert all(step.skipped for step in again)
    assert [dataclasses.replace(step, skipped=False) for step in again] == steps
    assert before == {path: path.stat().st_mtime_ns for path in Path(config.data.folder).rglob("*.values")}


@pytest.mark.parametrize("name", STEPS)
def test_interrupted_steps_are_done_again(
    finished: tuple[Config, list[StepReport]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Killed after a step wrote its files but before it was recorded, and in the middle of writing."""
    write_corpus(tmp_path, 300)
    config = toy_config(tmp_path)

    def interrupted(plan: object) -> object:
        step(plan)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    step = preparation._FUNCTIONS[name]
    with monkeypatch.context() as patch:
        patch.setitem(preparation._FUNCTIONS, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            prepare(config)
    assert list(read_json(tmp_path / "prepared" / RECORD)["steps"]) == list(STEPS[: STEPS.index(name)])
    with monkeypatch.context() as patch:
        patch.setattr(RaggedWriter, "close", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
        if name in ("encode", "align", "phrases"):
            with pytest.raises(KeyboardInterrupt):
                prepare(config)
    steps = prepare(config).steps
    assert [done.name for done in steps if done.skipped] == list(STEPS[: STEPS.index(name)])
    assert fingerprints(tmp_path / "prepared") == fingerprints(Path(finished[0].data.folder))


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from made_up_corpus import toy_config
from termweave.data import steps
from termweave.data.prepare import prepare
from termweave.storage import RaggedWriter

calls = []
extend = RaggedWriter.extend

def extend_and_die(self, *arguments):
    extend(self, *arguments)
    calls.append(self)
    if len(calls) == 4:
        os.kill(os.getpid(), signal.SIGKILL)

RaggedWriter.extend = extend_and_die
prepare(toy_config(Path(sys.argv[2])))
"""


def test_a_killed_process_leaves_a_folder_to_go_on_with(
    finished: tuple[Config, list[StepReport]], tmp_path: Path
) -> None:
    write_corpus(tmp_path, 300)
    done = subprocess.run([sys.executable, "-c", KILLED, Path(__file__).parent, tmp_path], check=False)
    assert done.returncode == -signal.SIGKILL
    assert list((tmp_path / "prepared").rglob("*.partial*"))
    assert [step.name for step in prepare(toy_config(tmp_path)).steps if step.skipped] == ["clean", "subwords"]
    assert fingerprints(tmp_path / "prepared") == fingerprints(Path(finished[0].data.folder))


def test_several_processes_write_the_same_files(
    finished: tuple[Config, list[StepReport]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_corpus(tmp_path, 300)
    monkeypatch.setattr("termweave.data.steps._CHUNK", 70)
    config = toy_config(tmp_path, data={"folder": str(tmp_path / "prepared"), "directions": ["de-en"], "workers": 2})
    prepare(config, until="encode")
    expected = fingerprints(Path(finished[0].data.folder))
    assert fingerprints(tmp_path / "prepared").items() <= expected.items()


def test_until_encode_and_the_rest_later(tmp_path: Path) -> None:
    write_corpus(tmp_path, 60)
    config = toy_config(tmp_path)
    assert [step.name for step in prepare(config, until="encode").steps] == ["clean", "subwords", "encode"]
    early = PreparedCorpus.open(tmp_path / "prepared").directions[0]
    assert early.phrases is None
    before = fingerprints(tmp_path / "prepared")
    prepare(config)
    assert before.items() <= fingerprints(tmp_path / "prepared").items(), "later steps leave earlier files alone"
    late = PreparedCorpus.open(tmp_path / "prepared").directions[0]
    assert late.phrases is not None
    assert len(late.phrases) == len(early)


def test_changed_settings_redo_what_they_touch(tmp_path: Path) -> None:
    write_corpus(tmp_path, 60)
    prepare(toy_config(tmp_path))

    def redone(config: Config) -> list[str]:
        return [step.name for step in prepare(config).steps if not step.skipped]

    assert redone(toy_config(tmp_path, phrases={"max_words": 2})) == ["phrases"]
    assert redone(toy_config(tmp_path, subwords={"size": 380}))[0] == "subwords"
    os.utime(tmp_path / "text.de", (0, 0))
    assert redone(toy_config(tmp_path, subwords={"size": 380})) == [], "dates do not matter, contents do"
    write_corpus(tmp_path, 60, seed=2)
    assert redone(toy_config(tmp_path, subwords={"size": 380})) == list(STEPS)
    (tmp_path / "prepared" / "de-en" / "links.values").unlink()
    assert redone(toy_config(tmp_path, subwords={"size": 380})) == ["align", "phrases"]


@pytest.mark.parametrize(
    ("file", "first"),
    [("source.ids.values", "encode"), ("target.spans.offsets", "encode"), ("links.values", "align"),
     ("de-en.phrases.values", "phrases")],
)  # fmt: skip
def test_damaged_files_are_written_again(tmp_path: Path, file: str, first: str) -> None:
    write_corpus(tmp_path, 60)
    config = toy_config(tmp_path)
    prepare(config)
    before = fingerprints(tmp_path / "prepared")
    path = tmp_path / "prepared" / "de-en" / file
    content = path.read_bytes()
    for damaged in (b"", content[: len(content) // 16 * 8], content + bytes(8)):
        path.write_bytes(damaged)
        assert [step.name for step in prepare(config).steps if not step.skipped] == list(STEPS[STEPS.index(first) :])
        assert fingerprints(tmp_path / "prepared") == before


def test_repeated_text_stands_in_the_corpus_as_often(tmp_path: Path) -> None:
    write_corpus(tmp_path, 20)
    config = toy_config(tmp_path)
    config = dataclasses.replace(config, corpora=(dataclasses.replace(config.corpora[0], repeat=3),))
    counts = prepare(config, until="clean").steps[0].counts["de-en"]
    assert (counts["read"], counts["kept"], counts["repeated"]) == (20, 20, 40)
    text = PairFolder(tmp_path / "prepared", "de-en").text("source").read_text(encoding="utf-8").splitlines()
    assert text == [natural(source) for source, _ in sentences(20) for _ in range(3)]


def test_tokenised_test_set_is_removed(tmp_path: Path) -> None:
    write_corpus(tmp_path, 100)
    held_out = sentences(100)[10:30]
    for side, name in enumerate(("test.de", "test.en")):
        (tmp_path / name).write_text("".join(f"{pair[side].lower()}\n" for pair in held_out), encoding="utf-8")
    test_sets = [{"source": str(tmp_path / "test.de"), "target": str(tmp_path / "test.en")}]
    counts = prepare(toy_config(tmp_path, test_sets=test_sets), until="clean").steps[0].counts["de-en"]
    assert (counts["kept"], counts["test_set"]) == (80, 20)
    text = PairFolder(tmp_path / "prepared", "de-en").text("source").read_text(encoding="utf-8").split("\n")
    assert natural(held_out[0][0]) not in text


def write_linked(folder: Path, count: int) -> dict[str, str]:
    pairs = sentences(count, seed=5)
    for side, name in enumerate(("linked.de", "linked.en")):
        (folder / name).write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    links = (" ".join(f"{word}-{word}" for word in range(len(source.split()))) for source, _ in pairs)
    (folder / "linked.links").write_text("".join(f"{line}\n" for line in links), encoding="utf-8")
    return {
        "source": str(folder / "linked.de"),
        "target": str(folder / "linked.en"),
        "links": str(folder / "linked.links"),
    }


def test_links_brought_by_the_user(tmp_path: Path) -> None:
    linked = write_linked(tmp_path, 30)
    prepare(toy_config(tmp_path, corpora=[linked]))
    corpus = PreparedCorpus.open(tmp_path / "prepared")
    links = RaggedArray.open(PairFolder(tmp_path / "prepared", "de-en").links, LINK)
    for row, (source, target) in enumerate(sentences(30, seed=5)):
        assert links[row].tolist() == [(word, word) for word in range(len(source.split()))]
        text = corpus.subwords.decode(corpus.directions[0].source[row])
        assert text == source.replace(" .", "."), "tokens are joined to natural text"
        words = [pair for pair in zip(source.split(), target.split(), strict=True) if pair[0] in DICTIONARY]
        assert set(words) <= phrase_texts(corpus.subwords, corpus.directions[0], row)


def test_links_for_a_part_of_the_text(tmp_path: Path) -> None:
    write_corpus(tmp_path, 200)
    natural_text = {"source": str(tmp_path / "text.de"), "target": str(tmp_path / "text.en")}
    turned = write_linked(tmp_path, 20)
    turned["source"], turned["target"] = turned["target"], turned["source"]
    prepare(toy_config(tmp_path, corpora=[natural_text, turned | {"languages": "en-de"}]))
    folder = PairFolder(tmp_path / "prepared", "de-en")
    links = RaggedArray.open(folder.links, LINK)
    assert len(links) == 220
    for row, (source, _) in enumerate(sentences(20, seed=5)):
        assert links[200 + row].tolist() == [(word, word) for word in range(len(source.split()))]
    assert sum(len(links[row]) for row in range(200)) > 200
    assert not list(folder.path.glob("aligned*"))


@pytest.mark.parametrize(
    ("line", "message"),
    [("0-0 99-1", r"linked.links, line 3: links reach the words 99 and 1"), ("0-0 1:1", r"linked.links, line 3.*1:1")],
)
def test_wrong_links_name_file_and_line(tmp_path: Path, line: str, message: str) -> None:
    linked = write_linked(tmp_path, 5)
    lines = (tmp_path / "linked.links").read_text().split("\n")
    (tmp_path / "linked.links").write_text("\n".join([*lines[:2], line, *lines[3:]]))
    with pytest.raises(DataError, match=message):
        prepare(toy_config(tmp_path, corpora=[linked]))


def test_a_translation_memory(tmp_path: Path) -> None:
    units = "".join(
        f'<tu><tuv xml:lang="de"><seg>{natural(source)}</seg></tuv>'
        f'<tuv xml:lang="en-GB"><seg>{natural(target)}</seg></tuv></tu>'
        for source, target in sentences(50)
    )
    (tmp_path / "memory.tmx").write_text(f"<tmx><body>{units}</body></tmx>", encoding="utf-8")
    data = {"folder": str(tmp_path / "prepared"), "directions": ["en-de"], "workers": 1}
    config = toy_config(tmp_path, data=data, corpora=[{"tmx": str(tmp_path / "memory.tmx")}])
    prepare(config, until="encode")
    corpus = PreparedCorpus.open(tmp_path / "prepared")
    (direction,) = corpus.directions
    assert len(direction) == 50
    assert corpus.subwords.decode(direction.source[3]) == natural(sentences(50)[3][1])


def test_links_of_another_text(tmp_path: Path) -> None:
    linked = write_linked(tmp_path, 5)
    lines = (tmp_path / "linked.links").read_text().split("\n")
    for changed in (lines[:4], [*lines[:5], "0-0"]):
        (tmp_path / "linked.links").write_text("\n".join(changed) + "\n")
        with pytest.raises(DataError, match=r"linked.links has \d lines, but .*linked.de has more or fewer"):
            prepare(toy_config(tmp_path, corpora=[linked]))


def test_two_directions_share_one_folder(tmp_path: Path) -> None:
    write_corpus(tmp_path, 120)
    data = {"folder": str(tmp_path / "prepared"), "directions": ["en-de", "de-en"], "workers": 1}
    corpora = [{"source": str(tmp_path / "text.de"), "target": str(tmp_path / "text.en"), "languages": "de-en"}]
    prepare(toy_config(tmp_path, data=data, corpora=corpora))
    corpus = PreparedCorpus.open(tmp_path / "prepared")
    english, german = corpus.directions
    assert [direction.name for direction in corpus.directions] == ["en-de", "de-en"]
    assert (english.tag, german.tag) == (corpus.subwords.tag("de"), corpus.subwords.tag("en"))
    assert english.source[7].tolist() == german.target[7].tolist()
    forward = phrase_texts(corpus.subwords, german, 7)
    backward = phrase_texts(corpus.subwords, english, 7)
    assert {(source, target) for target, source in backward} == forward, "all phrases here translate word by word"


def test_a_direction_added_later(tmp_path: Path) -> None:
    write_corpus(tmp_path, 40)
    prepare(toy_config(tmp_path))
    data = {"folder": str(tmp_path / "prepared"), "directions": ["de-en", "en-de"], "workers": 1}
    config = toy_config(tmp_path, data=data)
    assert all(step.skipped for step in prepare(config, until="encode").steps)
    forward, backward = PreparedCorpus.open(tmp_path / "prepared").directions
    assert (forward.name, backward.name) == ("de-en", "en-de")
    assert backward.phrases is None
    assert [step.name for step in prepare(config).steps if not step.skipped] == ["phrases"]
    assert all(direction.phrases for direction in PreparedCorpus.open(tmp_path / "prepared").directions)


def test_an_existing_vocabulary(finished: tuple[Config, list[StepReport]], tmp_path: Path) -> None:
    write_corpus(tmp_path, 40)
    model = Path(finished[0].data.folder) / "tokenizer.model"
    prepare(toy_config(tmp_path, subwords={"model": str(model)}), until="encode")
    assert (tmp_path / "prepared" / "tokenizer.model").read_bytes() == model.read_bytes()
    other = {"folder": str(tmp_path / "other"), "directions": ["de-fr"], "workers": 1}
    with pytest.raises(ConfigError, match="has no tag for fr"):
        prepare(toy_config(tmp_path, data=other, subwords={"model": str(model)}), until="encode")


def test_errors_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"text.de: no such file"):
        prepare(toy_config(tmp_path))
    write_corpus(tmp_path, 10)
    with pytest.raises(ConfigError, match="--until bake: no such step; the steps are clean, subwords"):
        prepare(toy_config(tmp_path), until="bake")
    corpora = [{"source": "a", "target": "b", "languages": "fr-en"}]
    with pytest.raises(ConfigError, match="'fr-en' text serves none"):
        prepare(toy_config(tmp_path, corpora=corpora))
    data = {"folder": str(tmp_path / "prepared"), "directions": ["de-en", "fr-en"], "workers": 1}
    with pytest.raises(ConfigError, match="no corpus for fr-en"):
        prepare(toy_config(tmp_path, data=data))


def test_nothing_left_says_why(tmp_path: Path) -> None:
    for name in ("text.de", "text.en"):
        (tmp_path / name).write_text("\n\n\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"no sentence pair is left after cleaning \(empty 3\)"):
        prepare(toy_config(tmp_path))


def test_one_preparation_at_a_time(tmp_path: Path) -> None:
    write_corpus(tmp_path, 10)
    with (
        locked(tmp_path / "prepared", "termweave prepare"),
        pytest.raises(DataError, match="another `termweave prepare` is at work"),
    ):
        prepare(toy_config(tmp_path))


def test_opening_what_is_not_prepared(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="run `termweave prepare`"):
        PreparedCorpus.open(tmp_path)
    write_corpus(tmp_path, 20)
    prepare(toy_config(tmp_path), until="subwords")
    with pytest.raises(DataError, match=r"not fully prepared \(steps done: clean, subwords\)"):
        PreparedCorpus.open(tmp_path / "prepared")
