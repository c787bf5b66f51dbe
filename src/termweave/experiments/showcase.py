"""`termweave demo`: sentences of our own, without and with a glossary, and a receipt for every term."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from termweave.constraints.glossary import Glossary, GlossaryEntry
from termweave.decoding.terminology import Receipt, Terminology
from termweave.decoding.translator import Translation, Translator
from termweave.errors import ConfigError

SENTENCES = {
    "de-en": (
        "Der Lehrer hat ein Haus gekauft.",
        "Klicken Sie auf die Schaltfläche, um das Fenster zu schließen.",
        "Die Kommission hat gestern einen neuen Vorschlag zum Verkehr vorgelegt.",
        "Die Datei {name} wurde nach https://example.org/ablage kopiert.",
    ),
    "en-de": (
        "The teacher has bought a house.",
        "Click the button to close the window.",
        "The settings of this folder cannot be changed.",
        "The file was sent to {name}, see https://example.org/store.",
    ),
}
# Not what a model would say by itself: that is what glossaries are for.
GLOSSARIES = {
    "de-en": (
        GlossaryEntry("Haus", ("building",)),
        GlossaryEntry("Schaltfläche", ("control",)),
        GlossaryEntry("Fenster", ("pane",)),
        GlossaryEntry("Vorschlag", ("draft", "drafts")),
        GlossaryEntry("Datei", ("document",)),
    ),
    "en-de": (
        GlossaryEntry("house", ("Gebäude",)),
        GlossaryEntry("button", ("Taste",)),
        GlossaryEntry("settings", ("Voreinstellungen",)),
        GlossaryEntry("folder", ("Verzeichnis", "Verzeichnisses")),
        GlossaryEntry("file", ("Dokument",)),
    ),
}


def show_glossary(translator: Translator, console: Console | None = None) -> list[Receipt]:
    """Translate the sentences of every direction the model knows, print them, and return all receipts."""
    console = console or Console(highlight=False)
    directions = [direction for direction in SENTENCES if direction in translator.directions]
    if not directions:
        raise ConfigError(
            f"the sentences of the demo are German and English, but this model translates "
            f"{', '.join(translator.directions)}; try it with `termweave translate`"
        )
    receipts: list[Receipt] = []
    for direction in directions:
        receipts += _show_direction(translator, direction, console)
    return receipts


def _show_direction(translator: Translator, direction: str, console: Console) -> list[Receipt]:
    sentences = SENTENCES[direction]
    terminology = Terminology(Glossary.of(GLOSSARIES[direction], direction), direction)
    plain = translator.translate(sentences, direction=direction, terminology=Terminology(None, direction))
    bound = translator.translate(sentences, direction=direction, terminology=terminology)
    for sentence, without, translation in zip(sentences, plain, bound, strict=True):
        console.print(f"\n{direction}   {sentence}", markup=False, soft_wrap=True)
        console.print(f"plain   {without.text}", markup=False, soft_wrap=True)
        console.print(Text("terms   ") + _marked(translation), soft_wrap=True)
        console.print(_receipts(translation.receipts))
    return [receipt for translation in bound for receipt in translation.receipts]


def _marked(translation: Translation) -> Text:
    """The translation with its terms in bold."""
    text = Text(translation.text)
    for receipt in translation.receipts:
        if receipt.target_span is not None:
            text.stylize("bold green", *receipt.target_span)
    return text


def _receipts(receipts: Sequence[Receipt]) -> Padding:
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for receipt in receipts:
        table.add_row(Text(receipt.source), Text(receipt.found or receipt.target), receipt.policy, receipt.status)
    return Padding(table, (0, 0, 0, 8))
