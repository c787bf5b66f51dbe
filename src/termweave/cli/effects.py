"""Options of `translate` that would have no effect are refused: whoever gives one expects something of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

from termweave.errors import ConfigError

if TYPE_CHECKING:
    from termweave.decoding.requests import Wanted

_OF_SHARDS = ("workers", "engine", "pairs", "chunk_lines", "ray_address", "ray_cpus", "ray_gpus")
_OF_RAY = ("ray_address", "ray_cpus", "ray_gpus")
_OF_DOCUMENTS = ("format_name", "column", "append", "retranslate")
_OF_SENTENCES = ("constraint_set", "no_constraints", "nbest", "as_json")
_OF_FORMATS = {"column": ("tsv",), "append": ("tsv",), "retranslate": ("po", "xliff")}


class Given:
    """The options a user has given, under the names they have in the command."""

    def __init__(self, context: typer.Context) -> None:
        self._options = {
            parameter.name: parameter.opts[0]
            for parameter in context.command.params
            if parameter.name and getattr(context.get_parameter_source(parameter.name), "name", "") == "COMMANDLINE"
        }

    def refuse(self, names: Iterable[str], reason: str) -> None:
        for name in names:
            if name in self._options:
                raise ConfigError(f"{self._options[name]} has no effect here: {reason}")

    def refuse_in_shards(self, engine: str, wanted: Wanted) -> None:
        self.refuse((*_OF_SENTENCES, "format_name", "append", "retranslate"), "it does not go with --shards")
        if engine != "ray":
            self.refuse(_OF_RAY, "it belongs to --engine ray")
        self._refuse_without_terms(wanted)

    def refuse_in_lines(self, has_set: bool, wanted: Wanted) -> None:
        self.refuse(_OF_SHARDS, "it belongs to --shards")
        self.refuse(_OF_DOCUMENTS, "it is for documents, not for --lines, --json, --nbest or --set")
        if has_set:
            self.refuse(("no_protect",), "nothing is protected in a constraint set")
        self._refuse_without_terms(wanted)

    def refuse_in_documents(self, formats: Iterable[str], wanted: Wanted) -> None:
        """formats: those of the files; none for standard input, which is text."""
        self.refuse(_OF_SHARDS, "it belongs to --shards")
        self.refuse(("no_constraints",), "it belongs to --set: text has no constraints of its own")
        present = set(formats)
        if not present:
            self.refuse(_OF_DOCUMENTS, "standard input is text; name a file")
        for name, needed in _OF_FORMATS.items():
            if not present & set(needed):
                self.refuse((name,), f"it is for files of the format {' or '.join(needed)}, and there is none")
        self._refuse_without_terms(wanted)

    def _refuse_without_terms(self, wanted: Wanted) -> None:
        if not wanted.glossaries and all(term.policy == "forbid" for term in wanted.terms):
            self.refuse(("inflection",), "it is about the terms of --glossary and --term, and there are none")
