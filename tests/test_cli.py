"""The command line: help with examples, errors in one paragraph, and each command's way from files to files."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import typer

from termweave import __version__
from termweave.cli import app, main
from termweave.cli.application import share_processors

COMMANDS = sorted(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
GOOD = """
[data]
folder = "prepared"
directions = ["de-en"]
[[corpora]]
source = "absent.de"
target = "absent.en"
[training]
folder = "model"
"""


class Result(NamedTuple):
    code: int
    output: str
    errors: str


@pytest.fixture
def termweave(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Run the command as a shell would, in this process."""

    def run(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["termweave", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a few files, entered."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.toml").write_text(GOOD)
    (tmp_path / "typo.toml").write_text(GOOD.replace("directions", "direction"))
    (tmp_path / "text.de").write_text("das Haus brennt\nder Müller\n", encoding="utf-8")
    (tmp_path / "text.en").write_text("the building burns\nthe miller\n", encoding="utf-8")
    (tmp_path / "short.en").write_text("one line\n")
    (tmp_path / "latin.de").write_bytes("Müller\nMehl\n".encode("latin-1"))
    (tmp_path / "text.links").write_text("0-0 1-1 2-2\n0-0 1-1\n")
    constraint = {"source": "Haus", "target": "building"}
    rows = [
        {"source": "das Haus brennt", "target": "the building burns", "constraints": [constraint]},
        {"source": "der Müller", "target": "the miller", "constraints": []},
    ]
    (tmp_path / "set.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    long = "\U0001f600" * 800  # four bytes each, and no subword
    (tmp_path / "long.de").write_text(f"das Haus\n{long}a\n", encoding="utf-8")
    rows = [{"source": text, "target": "x", "constraints": []} for text in ("das Haus", long)]
    (tmp_path / "long.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "broken.jsonl").write_text('{"source": 3}\n')
    return tmp_path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder with random weights."""
    import torch

    from termweave.config import ModelConfig
    from termweave.model.checkpoint import save_checkpoint
    from termweave.model.transformer import Transformer
    from termweave.text.subwords import Subwords

    folder = tmp_path_factory.mktemp("cli")
    text = ["das Haus brennt", "the building burns", "der Müller", "the miller"] * 10
    subwords = Subwords.train(text, folder / "tokenizer.model", size=310)
    config = ModelConfig(dimension=16, heads=2, encoder_layers=1, decoder_layers=1, feed_forward=16, dropout=0.0)
    torch.manual_seed(0)
    weights = Transformer(config, subwords.size, subwords.pad).state_dict()
    save_checkpoint(folder / "final", weights, config, ["de-en"], folder / "tokenizer.model")
    return folder / "final"


def test_the_commands_are_these():
    preparing, training = ["align", "constraints", "prepare"], ["demo", "pack", "toy", "train"]
    using = ["translate", "evaluate", "compare", "calibration", "experiment", "glossary", "import", "keys", "serve"]
    assert sorted([*preparing, *training, *using]) == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(termweave, command):
    result = termweave(command, "--help")
    assert result.code == 0
    assert "Example" in result.output
    assert f"termweave {command}" in result.output.partition("Example")[2]


def test_help_without_arguments_names_the_commands(termweave):
    result = termweave()
    assert all(command in result.output + result.errors for command in COMMANDS)


def test_version(termweave):
    assert termweave("--version") == (0, f"termweave {__version__}\n", "")


def test_the_module_runs_and_help_loads_nothing_heavy():
    """torch and numba take seconds to load; `--help` and `--version` must not wait for them."""
    code = (
        "import sys; sys.argv = ['termweave', '--version']\n"
        "try:\n    import termweave.__main__\nexcept SystemExit as leaving:\n    assert not leaving.code\n"
        "print(sorted({'torch', 'numba', 'sentencepiece'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"termweave {__version__}\n[]\n"


def test_a_model_is_imported_and_translates(termweave, tmp_path):
    import tomllib

    from marian_checkpoint import write_checkpoint

    folder, output = write_checkpoint(tmp_path / "marian"), tmp_path / "model"
    result = termweave("import", "marian", str(folder), str(output), "--direction", "de-en")
    assert result.code == 0
    settings = tomllib.loads(result.output.partition("configuration:")[2])
    assert settings["training"]["start_from"] == str(output)
    assert settings["model"]["activation"] == "swish"
    (tmp_path / "text").write_text("das Haus\n")
    text = str(tmp_path / "text")
    result = termweave("translate", text, "--lines", "--model", str(output), "--term", "Haus=house", "--device", "cpu")
    assert "house" in re.findall(r"\w+", result.output)


MISTAKES = {
    "no checkpoint": ("import marian . out --direction de-en", "is no MarianMT checkpoint: it has no config.json"),
    "a tag without a language": ("import marian . out --direction de-en --tag fra", "write it as LANGUAGE=CODE"),
    "no configuration": ("train absent.toml", "absent.toml: no such file"),
    "a folder as configuration": ("prepare .", "is a folder; name the configuration file itself"),
    "a misspelt key": ("prepare typo.toml", "unknown key `data.direction`; did you mean `directions`?"),
    "a misspelt override": ("prepare good.toml --set model.hed=3", "did you mean `heads`?"),
    "an override without value": ("train good.toml --set model.heads", "write it as key=value"),
    "an unknown step": ("prepare good.toml --until alin", "no such step"),
    "no input text": ("prepare good.toml", "absent.de"),
    "training before preparing": ("train good.toml --device cpu", "holds no prepared corpus; run `termweave prepare`"),
    "an unknown device": ("train good.toml --device toaster", "unknown device 'toaster'"),
    "no model": ("translate text.de --model nowhere", "nowhere is not a model folder"),
    "text and set": ("translate text.de --model {model} --set set.jsonl", "give either a text file or --set, not both"),
    "a term without target": ("translate text.de --term Haus", "write it as SOURCE=TARGET"),
    "an empty term": ("translate text.de --term Haus=", "a side is empty"),
    "no such text": ("translate absent.de --model {model}", "absent.de: no such file"),
    "a column of text": (
        "translate text.de --column 2",
        "has no effect here: it is for files of the format tsv",
    ),
    "retranslated text": ("translate text.de --retranslate", "for files of the format po or xliff"),
    "a column of lines": ("translate text.de --lines --column 2", "--column has no effect here: it is for documents"),
    "no set to withhold from": ("translate text.de --no-constraints", "it belongs to --set"),
    "a format of standard input": ("translate --format md", "standard input is text; name a file"),
    "inflection of nothing": (
        "translate text.de --inflection",
        "of --glossary and --term, and there are none",
    ),
    "protection in a set": ("translate --set set.jsonl --no-protect", "nothing is protected in a constraint set"),
    "workers without shards": ("translate text.de --workers 2", "--workers has no effect here: it belongs to --shards"),
    "a long line": ("translate long.de --lines --model {model} --device cpu", "long.de, line 2 has"),
    "a long line of a set": ("translate --set long.jsonl --model {model} --device cpu", "long.jsonl, line 2 has"),
    "a long sentence": ("translate long.de --model {model} --device cpu --beam 1", "long.de, line 2, '😀"),
    "text in another encoding": ("translate latin.de --model {model}", "UTF-8"),
    "nothing to evaluate": ("evaluate set.jsonl", "give either --model or --hypotheses"),
    "no languages": ("evaluate set.jsonl --hypotheses text.en", "needs --languages, such as de-en"),
    "one language": ("evaluate set.jsonl --hypotheses text.en --languages de", "such as de-en"),
    "too few translations": ("evaluate set.jsonl --hypotheses short.en --languages de-en", "1 translations cannot"),
    "no such set": ("evaluate absent.jsonl --hypotheses text.en --languages de-en", "absent.jsonl does not exist"),
    "a broken set": ("evaluate broken.jsonl --hypotheses text.en --languages de-en", "broken.jsonl, line 1"),
    "too few to compare": ("compare set.jsonl text.en short.en --languages de-en", "short.en has 1 lines, but"),
    "one language to compare in": ("compare set.jsonl text.en text.en --languages de", "write both, such as de-en"),
    "nothing to compare with": ("compare set.jsonl text.en absent.en --languages de-en", "absent.en"),
    "no model to calibrate": ("calibration set.jsonl --model nowhere", "nowhere is not a model folder"),
    "no links": ("constraints text.de text.en out.jsonl --languages de-en", "give either --links"),
    "unequal files": (
        "constraints text.de short.en out.jsonl --languages de-en --links text.links",
        "short.en",
    ),
    "links for one language": (
        "constraints text.de text.en out.jsonl --languages de --links text.links",
        "write both languages, for example de-en",
    ),
    "no text to align": ("align absent.de text.en links.txt", "absent.de"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_explained_in_one_paragraph(termweave, files, model, name):
    command, message = MISTAKES[name]
    result = termweave(*command.format(model=model).split())
    assert result.code == 1
    assert result.errors.startswith("termweave: ")
    assert message in " ".join(result.errors.split())
    assert "\n\n" not in result.errors
    assert "Traceback" not in result.errors
    assert result.output == ""
    assert not (files / "out.jsonl").exists()


@pytest.mark.parametrize("command", ["translate --beam 0", "frobnicate", "train", "evaluate set.jsonl --fast"])
def test_wrong_usage_is_refused_before_anything_runs(termweave, files, command):
    result = termweave(*command.split())
    assert result.code == 2
    assert "Traceback" not in result.errors


def test_translate_a_file(termweave, files, model):
    result = termweave("translate", "text.de", "--model", model, "--device", "cpu", "--output", "out/text.en")
    assert (result.code, result.output) == (0, "")
    assert (files / "out" / "text.en").read_text(encoding="utf-8").count("\n") == 2


def test_translate_standard_input_with_a_term(termweave, files, model, monkeypatch):
    outputs = []
    for terms in ([], ["--term", "Haus=building"], ["--term", "Mühle=mill"]):
        text = io.TextIOWrapper(io.BytesIO("das Haus brennt\nder Müller\n".encode()), encoding="utf-8")
        monkeypatch.setattr(sys, "stdin", text)
        result = termweave("translate", "--model", model, "--device", "cpu", *terms)
        assert result.code == 0
        assert result.output.count("\n") == 2
        outputs.append(result.output.splitlines())
    assert outputs[0] == outputs[2]  # no sentence holds that source
    assert outputs[0][1] == outputs[1][1]


def test_translate_as_json_with_everything_that_can_be_wished_for(termweave, files, model):
    wishes = ["--term", "Haus=old building", "--term", "der=der", "--forbid", "house", "--ordered"]
    result = termweave(
        "translate",
        "text.de",
        "--model",
        model,
        "--device",
        "cpu",
        *wishes,
        "--nbest",
        "2",
        "--json",
        "--precision",
        "int8",
    )
    assert result.code == 0
    rows = [json.loads(line) for line in result.output.splitlines()]
    assert len(rows) == 2
    for row in rows:
        assert len(row["others"]) == 1
        for each in (row, *row["others"]):
            for receipt in each.get("receipts", ()):
                start, end = receipt["target_span"]
                assert each["output"][start:end] == receipt["found"]
                assert receipt["status"] == "met"
    assert any(row.get("receipts") for row in rows)


def test_translate_documents_with_a_glossary_and_receipts(termweave, files, model):
    (files / "terms.tsv").write_text("Haus\tbuilding\nMüller\tmiller\n", encoding="utf-8")
    (files / "page.md").write_text("# Das Haus\n\nDas **Haus** brennt. Der `Müller` auch.\n", encoding="utf-8")
    command = ("translate", "page.md", "text.de", "--model", model, "--device", "cpu", "--glossary", "terms.tsv")
    result = termweave(*command, "--receipts", "receipts.jsonl")
    assert (result.code, result.output) == (0, "")
    assert "page.en.md: 3 sentences" in result.errors and "terms met" in result.errors
    page = (files / "page.en.md").read_text(encoding="utf-8")
    assert page.startswith("# ") and page.count("building") >= 2 and "`Müller`" in page
    assert (files / "text.en.de").exists() or (files / "text.en").exists()
    rows = [json.loads(line) for line in (files / "receipts.jsonl").read_text(encoding="utf-8").splitlines()]
    receipts = [receipt for row in rows for receipt in row["receipts"]]
    assert {receipt["status"] for receipt in receipts} <= {"met", "kept"}
    for row in rows:
        for receipt in row["receipts"]:
            start, end = receipt["source_span"]
            assert row["source"][start:end] == receipt["source"]


def test_tags_of_lines_come_through_and_spans_are_true(termweave, files, model):
    source = "das <b>Haus</b> <i>brennt</i>"
    (files / "tagged.de").write_text(source + "\n", encoding="utf-8")
    result = termweave("translate", "tagged.de", "--model", model, "--term", "Haus=building", "--nbest", "2", "--json")
    record = json.loads(result.output)
    for own in (record, *record["others"]):
        assert sorted(re.findall("<[^>]*>", own["output"])) == ["</b>", "</i>", "<b>", "<i>"]
        (receipt,) = own["receipts"]
        assert source[slice(*receipt["source_span"])] == "Haus"
        assert own["output"][slice(*receipt["target_span"])] == "building"
    plain = termweave("translate", "tagged.de", "--model", model, "--lines", "--no-protect")
    assert plain.code == 0


def test_a_term_that_occurs_nowhere_is_not_passed_over(termweave, files, model):
    result = termweave("translate", "text.de", "--model", model, "--device", "cpu", "--term", "Mühle=mill")
    assert result.code == 0
    assert "the term 'Mühle' occurs in no sentence and was not applied" in " ".join(result.errors.split())


def test_a_single_term_wins_over_the_glossary_and_is_known_to_occur(termweave, files, model):
    (files / "terms.tsv").write_text("Haus\tbuilding\nHaus\thouse\n", encoding="utf-8")
    terms = ("--glossary", "terms.tsv", "--term", "Haus=abode", "--term", "Haus=dwelling")
    result = termweave("translate", "text.de", "--lines", "--model", model, "--device", "cpu", *terms, "--json")
    receipts = [receipt for line in result.output.splitlines() for receipt in json.loads(line).get("receipts", ())]
    assert receipts and {receipt["found"] for receipt in receipts} <= {"abode", "dwelling"}
    assert "was not applied" not in result.errors


@pytest.mark.parametrize(
    "written", [("--lines", "--output", "text.de"), ("--receipts", "text.de"), ("--output", "o", "--receipts", "o")]
)
def test_nothing_is_written_over_what_is_read_or_written(termweave, files, model, written):
    before = (files / "text.de").read_bytes()
    result = termweave("translate", "text.de", "--model", model, *written)
    assert result.code == 1 and "would be overwritten" in result.errors
    assert (files / "text.de").read_bytes() == before


@pytest.mark.parametrize("names", [("one.txt", "one.de.txt"), ("one.txt", "one.en.txt"), ("app.po", "app.pot")])
def test_no_translation_takes_the_place_of_another_file(termweave, files, model, names):
    for name in names:
        (files / name).write_text('msgid "das Haus"\nmsgstr ""\n', encoding="utf-8")
    before = {path.name: path.read_bytes() for path in files.iterdir() if path.is_file()}
    result = termweave("translate", *names, "--model", model, "--device", "cpu")
    assert result.code == 1
    assert "would overwrite" in result.errors and "--output" in result.errors
    assert {path.name: path.read_bytes() for path in files.iterdir() if path.is_file()} == before


def test_a_model_that_has_changed_goes_on_with_nothing(files, model):
    from termweave.cli.text_work import TextWork
    from termweave.decoding.requests import Wanted

    def key() -> str:
        nothing = Wanted((), (), inflection=False, protect=False)
        with TextWork.open(nothing, folder, None, None, device="cpu", precision="float32") as work:
            return work.key

    folder = files / "model"
    shutil.copytree(model, folder)
    first = key()
    assert key() == first
    os.utime(folder / "weights.safetensors", (1, 1))
    assert key() != first


def test_each_file_is_summed_up_by_itself(termweave, files, model):
    for name in ("one.txt", "two.txt"):
        (files / name).write_text("das Haus\n", encoding="utf-8")
    result = termweave(
        "translate", "one.txt", "two.txt", "--model", model, "--device", "cpu", "--term", "Haus=building"
    )
    assert result.errors.count("1 sentence, 1 term met") == 2


def test_what_had_to_stay_as_it_was_is_told_by_the_exit_code(termweave, files, model, monkeypatch):
    """Whatever the model says of it, such a paragraph cannot be written."""
    monkeypatch.setattr("termweave.documents.markdown.Markdown._readable", lambda _, before, after: before == after)
    (files / "page.md").write_text("das Haus brennt\n", encoding="utf-8")
    translate = ("translate", "page.md", "--model", model, "--term", "Haus=building")
    result = termweave(*translate)
    assert result.code == 3
    assert (files / "page.en.md").read_text(encoding="utf-8") == "das Haus brennt\n"
    assert "1 segment left as it was" in result.errors and "exit code 3" in result.errors
    assert termweave(*translate, "--output", "-").code == 3


def test_a_forbidden_phrase_is_forbidden_in_every_letter_case(termweave, files, model):
    plain = termweave("translate", "text.de", "--lines", "--model", model, "--device", "cpu").output
    word = plain.split()[0]
    result = termweave("translate", "text.de", "--lines", "--model", model, "--device", "cpu", "--forbid", word.lower())
    assert word not in result.output.split()


def test_long_lines_are_translated_in_pieces(termweave, files, model):
    (files / "long.txt").write_text("Haus " * 400 + "\n", encoding="utf-8")
    result = termweave("translate", "long.txt", "--model", model, "--device", "cpu", "--beam", "1", "--search", "beam")
    assert result.code == 0 and (files / "long.en.txt").exists()


def test_without_a_model_the_ready_one_translates(termweave, files):
    (files / "own.txt").write_text("Das alte Haus brennt.\n", encoding="utf-8")
    result = termweave("translate", "own.txt", "--direction", "de-en", "--term", "Haus=building", "--output", "-")
    assert result.code == 0, result.errors
    assert "building" in result.output
    result = termweave("translate", "own.txt")
    assert result.code == 1 and "choose one of: de-en, en-de" in result.errors


def test_translate_the_next_best_below_the_best(termweave, files, model):
    one, three = (
        termweave(
            "translate", "text.de", "--model", model, "--lines", "--device", "cpu", "--nbest", count
        ).output.splitlines()
        for count in ("1", "3")
    )
    assert len(three) == 6
    assert three[::3] == one


def test_evaluate_finished_translations(termweave, files):
    result = termweave("evaluate", "set.jsonl", "--hypotheses", "text.en", "--languages", "de-en", "--json")
    assert result.code == 0
    scores = json.loads(result.output)
    assert scores["chrf"] == pytest.approx(100)
    assert (scores["constraints_met"], scores["constraints"]) == (1, 1)
    plain = termweave("evaluate", "set.jsonl", "--hypotheses", "text.en", "--languages", "de-en").output
    assert "CSR, phrase-level   100.0 % (1 of 1 constraints)" in plain


def test_evaluate_a_model(termweave, files, model):
    command = ("evaluate", "set.jsonl", "--model", model, "--device", "cpu", "--json", "--save", "saved.en")
    given = json.loads(termweave(*command).output)
    withheld = json.loads(termweave(*command, "--no-constraints", "--beam", "2").output)
    assert "constraints:given" in given["signature"]
    assert "beam:4" in given["signature"]
    assert "constraints:withheld" in withheld["signature"]
    assert "beam:2" in withheld["signature"]
    assert (files / "saved.en").read_text(encoding="utf-8").count("\n") == 2


def test_compare_two_files(termweave, files):
    (files / "worse.en").write_text("the house burns\nthe miller\n")
    command = ("compare", "set.jsonl", "worse.en", "text.en", "--languages", "de-en", "--samples", "200")
    bleu, success = json.loads(termweave(*command, "--json").output)["tests"]
    assert (bleu["score"], success["score"]) == ("BLEU", "CSR")
    assert (success["a"], success["b"], success["difference"]) == (0, 100, 100)
    assert "bs:200|seed:1" in success["signature"]
    assert "+100.0" in termweave(*command).output


def test_calibration_of_a_model(termweave, files, model):
    command = ("calibration", "set.jsonl", "--model", model, "--device", "cpu", "--json")
    given = json.loads(termweave(*command, "--beam", "2").output)
    assert len(given["bins"]) == 20
    assert sum(row["tokens"] for row in given["bins"]) == given["tokens"] > given["constrained_tokens"] > 0
    for part in ("constraints:given", "search:vdba", "beam:2", "bins:20"):
        assert part in given["signature"]
    withheld = json.loads(termweave(*command, "--no-constraints", "--search", "beam").output)
    assert "constraints:withheld" in withheld["signature"]
    forced = json.loads(termweave(*command, "--hypotheses", "text.en").output)
    assert forced["accuracy"] == 1  # the references themselves
    assert forced["inference_ece"] == pytest.approx(100 * (1 - forced["probability"]))
    assert "translations:text.en" in forced["signature"] and "search" not in forced["signature"]
    assert "inference ECE" in termweave(*command[:-1]).output


def test_align_with_gold_links(termweave, files):
    gold = ("--gold", "text.de", "text.en", "text.links")
    result = termweave("align", "text.de", "text.en", "links.txt", *gold, "--threads", "1")
    assert result.code == 0, result.errors
    assert "AER" in result.output
    assert (files / "links.txt").read_text().count("\n") == 2


def test_constraints_from_links(termweave, files):
    command = ("constraints", "text.de", "text.en", "out.jsonl", "--languages", "de-en", "--links", "text.links")
    result = termweave(*command)
    assert result.code == 0
    assert result.output.startswith("out.jsonl: 2 sentences")
    first = (files / "out.jsonl").read_bytes()
    termweave(*command)
    assert (files / "out.jsonl").read_bytes() == first
    termweave(*command, "--hard-against", "text.en")
    assert all(not json.loads(line)["constraints"] for line in (files / "out.jsonl").read_text().splitlines())


def test_demo_shows_a_receipt_for_every_term(termweave, model):
    result = termweave("demo", "--model", model)
    assert result.code == 0, result.errors
    wanted = {
        "Haus building must met",
        "Schaltfläche control must met",
        "Fenster pane must met",
        "{name} {name} keep kept",
    }
    assert wanted <= {" ".join(line.split()) for line in result.output.splitlines()}
    assert "missed" not in result.output and "http://127.0.0.1:8080" in result.output


def test_demo_is_for_german_and_english(termweave, model, tmp_path):
    from termweave.model.checkpoint import SETTINGS

    copied = tmp_path / "model"
    shutil.copytree(model, copied)
    settings = json.loads((copied / SETTINGS).read_text())
    (copied / SETTINGS).write_text(json.dumps({**settings, "directions": ["zh-en"]}))
    result = termweave("demo", "--model", copied)
    assert result.code == 1 and "this model translates zh-en" in result.errors


@pytest.mark.parametrize("own, expected", [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7")])
def test_threads_that_wait_sleep_soon_unless_told_otherwise(monkeypatch, own, expected):
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.setenv(name, "")  # so that it is put back afterwards
        monkeypatch.delenv(name)
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    share_processors()
    assert os.environ["GOMP_SPINCOUNT"] == expected


def test_a_policy_of_ones_own_stands(monkeypatch):
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    share_processors()
    assert "GOMP_SPINCOUNT" not in os.environ
