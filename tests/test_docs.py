"""The documentation is true: names, links, commands, options, the file tree and the configuration keys all exist."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import json
import re
import shlex
import typing
from pathlib import Path

import click
import pytest
import typer

from termweave import config
from termweave.cli import app
from termweave.experiments.plan import Experiment

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "termweave"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PAPER = ROOT / "docs" / "paper-to-code.md"
EQUATIONS = 15
LABELS = [
    "kv-attn",
    "const-related-kv",
    "enc-self-attn",
    "enc-adapt",
    "dec-cross-attn",
    "dec-adapt",
    "p-model",
    "p-plug",
    "gate",
]

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


def blocks(page: Path, *languages: str) -> list[str]:
    """Fenced code blocks of a page; without languages, those that name none."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [text for language, text in found if language in (languages or ("", "bash", "sh"))]


def prose(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


# Names


def defined(path: Path, name: str) -> bool:
    """Does the file define `name`: a function, class, method, or field of a class?"""
    body: list[ast.stmt] = ast.parse(path.read_text(encoding="utf-8")).body
    for part in name.split("."):
        for node in body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == part:
                body = node.body
                break
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == part:
                body = []
                break
        else:
            return False
    return True


def test_everything_the_paper_became_exists():
    names = re.findall(r"`([\w/]+\.py)::([\w.]+)`", PAPER.read_text(encoding="utf-8"))
    assert len(names) > 40
    assert PAPER.read_text(encoding="utf-8").count("::") == len(names), "a name is not written as `path::name`"
    missing = [f"{path}::{name}" for path, name in names if not defined(SOURCE / path, name)]
    assert not missing


def test_a_name_that_does_not_exist_is_noticed():
    assert defined(SOURCE / "config.py", "StageConfig.alpha")
    assert defined(SOURCE / "storage.py", "RaggedArray.open")
    assert not defined(SOURCE / "config.py", "StageConfig.gamma")
    assert not defined(SOURCE / "storage.py", "open")


def test_every_equation_of_the_paper_is_named():
    rows = re.findall(r"^\| \((\d+)\)(.*)$", PAPER.read_text(encoding="utf-8"), re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, EQUATIONS + 1))
    assert all("::" in row for _, row in rows)
    assert [label for _, row in rows for label in re.findall(r"^ `([\w-]+)`", row)] == LABELS


# Links


def slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


@every_page
def test_relative_links_resolve(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), f"{link} leads nowhere"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", prose(target), re.MULTILINE)
            assert anchor in map(slug, headings), f"{link}: no such heading"


def test_the_index_names_every_page():
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert {page for page in pages if f"]({page})" not in index} == set()


# Commands


def invocations(text: str) -> list[list[str]]:
    """The arguments of every `termweave COMMAND …` in lines of shell."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        try:
            lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            words = list(lexer)
        except ValueError:
            continue  # no shell: the output of a command
        for start, word in enumerate(words):
            if word == "termweave" or word.endswith("/termweave"):
                rest = words[start + 1 :]
                ends = [index for index, other in enumerate(rest) if set(other) <= set("|&;<>")]
                found.append(rest[: ends[0]] if ends else rest)
    return found


def mistake(arguments: list[str]) -> str | None:
    """What is wrong with a call: its command or one of its options does not exist."""
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    name, *rest = arguments
    if name in commands and hasattr(commands[name], "commands"):  # a group: the command is the next word
        commands, (name, *rest) = commands[name].commands, rest or ["--help"]
    if name.startswith("-"):
        return None if name in ("--help", "--version") else f"no option {name}"
    if name not in commands:
        return f"no command {name}"
    command = commands[name]
    if inner := getattr(command, "commands", None):  # a group: its own commands come next
        name, *rest = rest or ["--help"]
        if name not in inner:
            return None if name == "--help" else f"no command {name}"
        command = inner[name]
    options = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    wrong = [word for word in rest if word.startswith("-") and word.partition("=")[0] not in options]
    return f"{name} has no option {wrong[0]}" if wrong else None


@every_page
def test_commands_and_options_exist(page):
    text = page.read_text(encoding="utf-8")
    calls = [call for block in blocks(page) for call in invocations(block)]
    calls += [call for code in re.findall(r"`(termweave [^`]+)`", prose(page)) for call in invocations(code)]
    wrong = [(mistake(call), call) for call in calls if call and mistake(call)]
    assert not wrong
    assert calls or "termweave " not in "".join(blocks(page)), f"no call found in {len(text)} characters"


def every_command(command: click.Command) -> list[click.Command]:
    """A command and all below it."""
    return [command, *(each for inner in getattr(command, "commands", {}).values() for each in every_command(inner))]


@every_page
def test_options_in_the_text_exist(page):
    """Options written alone, such as `--beam`, belong to some command."""
    commands = every_command(typer.main.get_command(app))
    known = {option for command in commands for parameter in command.params for option in parameter.opts}
    known |= {"--help", "--version"}
    written = {
        word for code in re.findall(r"`([^`]*)`", prose(page)) for word in re.findall(r"(?<![\w-])--[\w-]+", code)
    }
    assert written <= known


def test_wrong_commands_are_noticed():
    calls = invocations("echo a | termweave translate M --beam 4 > b  # termweave x\ntermweave trian\n")
    assert calls == [["translate", "M", "--beam", "4"], ["trian"]]
    assert mistake(calls[0]) is None
    assert mistake(calls[1]) == "no command trian"
    assert mistake(["glossary", "lnit", "a.tsv"]) == "no command lnit"
    assert mistake(["glossary", "lint", "a.tsv", "--merge"]) == "lint has no option --merge"
    assert mistake(["glossary", "convert", "a.tsv", "b.tbx", "--merge"]) is None
    assert mistake(["train", "c.toml", "--max-second", "3"]) == "train has no option --max-second"
    assert mistake(["train", "c.toml", "--set", "model.heads=4", "--stage", "2"]) is None
    assert mistake(["import", "marian", "A", "B", "--direction", "de-en"]) is None
    assert mistake(["import", "marain", "A", "B"]) == "no command marain"
    assert mistake(["import", "marian", "A", "--directions"]) == "marian has no option --directions"


@every_page
def test_overrides_name_real_keys(page):
    for block in blocks(page):
        for key in re.findall(r"--set ([\w.]+)=", block):
            assert key in config_keys(), f"--set {key}: no such key"


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    for page in PAGES:
        text = "\n".join([*blocks(page), *re.findall(r"`(make [^`]+)`", prose(page))])
        assert set(re.findall(r"^make (\w+)", text, re.MULTILINE)) <= targets, page.name


@every_page
def test_python_blocks_parse_and_import_what_exists(page):
    for block in blocks(page, "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("termweave"):
                module = importlib.import_module(node.module or "")
                assert all(hasattr(module, alias.name) for alias in node.names)


@every_page
def test_configurations_are_valid(page):
    """A block of TOML that names its data is a whole configuration."""
    import tomllib

    for block in blocks(page, "toml"):
        tree = tomllib.loads(block)
        if "data" in tree:
            assert config.from_tree(config.Config, tree).corpora
        if "systems" in tree:
            assert config.from_tree(Experiment, tree).systems


# The file tree of the README


def tree_entries() -> list[tuple[Path, str]]:
    """(path, comment) of every line of the tree."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = next(text for text in blocks(ROOT / "README.md") if text.startswith(".\n"))
    assert block in readme
    entries, parents = [], [ROOT]
    for line in block.splitlines()[1:]:
        match = re.fullmatch(r"((?:│   |    )*)[├└]── (\S+)\s*(?:# (.+))?", line)
        assert match, f"no entry of a tree: {line!r}"
        depth = len(match[1]) // 4
        path = parents[depth] / match[2]
        parents[depth + 1 :] = [path]
        entries.append((path, match[3] or ""))
    return entries


def test_the_file_tree_names_what_exists():
    for path, comment in tree_entries():
        assert path.exists(), f"{path.relative_to(ROOT)} does not exist"
        assert comment or path.is_dir(), f"{path.name}: say what it is"


def test_the_file_tree_names_every_module():
    modules = {path for path in SOURCE.rglob("*.py") if not path.name.startswith("__")}
    named = {path for path, _ in tree_entries()}
    assert {path.relative_to(SOURCE).as_posix() for path in modules - named} == set()


# Configuration keys


def config_keys(kind: type = config.Config, prefix: str = "", default: object = None) -> dict[str, object]:
    """Every key that holds a value, with its default; MISSING if it is required."""
    keys: dict[str, object] = {}
    hints = typing.get_type_hints(kind)
    for entry in dataclasses.fields(kind):
        value: object = entry.default
        if default is not None:
            value = getattr(default, entry.name)
        elif entry.default_factory is not dataclasses.MISSING:
            value = entry.default_factory()
        hint = hints[entry.name]
        inner = typing.get_args(hint)[0] if typing.get_origin(hint) is tuple else hint
        if dataclasses.is_dataclass(inner):
            given = value if dataclasses.is_dataclass(value) else None
            keys |= config_keys(typing.cast(type, inner), f"{prefix}{entry.name}.", given)
        else:
            keys[prefix + entry.name] = value
    return keys


def test_every_configuration_key_is_documented_with_its_default():
    require_keys("train.md", config_keys())


def test_every_key_of_experiments_is_documented_with_its_default():
    require_keys("experiments.md", config_keys(Experiment))


def require_keys(name: str, keys: dict[str, object]) -> None:
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    dotted = r"[\w.]+\.\w+" if name == "train.md" else r"[a-z_]+(?:\.\w+)?"
    rows = re.findall(rf"^\| `({dotted})` \| (required|`.+?`) \| (.+) \|$", page, re.MULTILINE)
    documented = {key: default for key, default, _ in rows}
    assert len(documented) == len(rows), "a key stands twice"
    assert documented.keys() == keys.keys()
    for key, value in keys.items():
        expected = "required" if value is dataclasses.MISSING else f"`{json.dumps(value)}`"
        assert documented[key] == expected, key


def test_the_readme_quotes_the_ready_model_on_whole_test_sets():
    rows = json.loads((ROOT / "docs/results/ready/quality.json").read_text())["rows"]
    figures = {(row["direction"], row["domain"]): f"{row['bleu']:.1f}" for row in rows}
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    for domain in ("software", "debates", "news"):
        assert re.search(rf"{figures['de-en', domain]} and {figures['en-de', domain]} on {domain}", text)


def test_the_keys_are_all_there():
    keys = config_keys()
    assert keys["training.stage2.warmup"] == 500
    assert keys["model.variant"] == "copy"
    assert keys["data.folder"] is dataclasses.MISSING
    assert "corpora.tmx" in keys


def test_the_attempts_told_are_those_that_were_made():
    rows = json.loads((ROOT / "docs/results/attempts.json").read_text(encoding="utf-8"))
    told = (ROOT / "docs/decisions.md").read_text(encoding="utf-8").split("| seen % | unseen % | CSR % | BLEU |")[1]
    columns = r" \| ".join(["([–.0-9]+)"] * 4)
    found = re.findall(rf"^\| .+ \| {columns} \|$", told.split("\n\n")[0], flags=re.MULTILINE)
    keys = ("csr_seen", "csr_unseen", "csr_phrase_level", "bleu")
    assert found == [tuple(f"{row[key]:.1f}" if key in row else "–" for key in keys) for row in rows.values()]
