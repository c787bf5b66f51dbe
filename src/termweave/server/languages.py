"""Which languages a server translates, under the codes its clients use."""

from __future__ import annotations

from collections.abc import Sequence

from termweave.server.detection import most_likely
from termweave.server.problems import bad_request

NAMES = {
    "ar": "Arabic",
    "bg": "Bulgarian",
    "ca": "Catalan",
    "cs": "Czech",
    "da": "Danish",
    "de": "German",
    "el": "Greek",
    "en": "English",
    "es": "Spanish",
    "et": "Estonian",
    "fa": "Persian",
    "fi": "Finnish",
    "fr": "French",
    "he": "Hebrew",
    "hi": "Hindi",
    "hr": "Croatian",
    "hu": "Hungarian",
    "id": "Indonesian",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "lt": "Lithuanian",
    "lv": "Latvian",
    "nb": "Norwegian (bokmål)",
    "nl": "Dutch",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "sk": "Slovak",
    "sl": "Slovenian",
    "sr": "Serbian",
    "sv": "Swedish",
    "th": "Thai",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "vi": "Vietnamese",
    "zh": "Chinese",
}
# As targets, DeepL's clients know these languages by their varieties only. The model makes no difference between them.
VARIETIES = {
    "en": {"EN-GB": "English (British)", "EN-US": "English (American)"},
    "pt": {"PT-BR": "Portuguese (Brazilian)", "PT-PT": "Portuguese (European)"},
    "zh": {"ZH": "Chinese", "ZH-HANS": "Chinese (simplified)"},
}


class Languages:
    """The directions of a model, `de-en`, asked for by codes such as `DE` and `EN-US`."""

    def __init__(self, directions: Sequence[str]) -> None:
        self.directions = tuple(directions)
        self.pairs = [(source, target) for source, _, target in (own.partition("-") for own in directions)]
        self.sources = sorted({source for source, _ in self.pairs})
        self.targets = sorted({target for _, target in self.pairs})

    def deepl_sources(self) -> list[tuple[str, str]]:
        """(code, name)."""
        return [(code.upper(), name_of(code)) for code in self.sources]

    def deepl_targets(self) -> list[tuple[str, str]]:
        return [
            variety for code in self.targets for variety in VARIETIES.get(code, {code.upper(): name_of(code)}).items()
        ]

    def targets_of(self, source: str) -> list[str]:
        return sorted(target for own, target in self.pairs if own == source)

    def source(self, code: str) -> str:
        """`DE` → `de`."""
        language = code.strip().lower()
        if language not in self.sources:
            raise _unsupported("source_lang", [code for code, _ in self.deepl_sources()])
        return language

    def target(self, code: str) -> str:
        """`EN-US` → `en`."""
        code = code.strip().upper().replace("_", "-")
        for language in self.targets:
            if code == language.upper() or code in VARIETIES.get(language, {}):
                return language
        raise _unsupported("target_lang", [code for code, _ in self.deepl_targets()])

    def direction(self, source: str, target: str) -> str:
        if (source, target) not in self.pairs:
            known = ", ".join(self.directions)
            raise bad_request("Language pair not supported", f"{source}-{target} is not served; choose one of: {known}")
        return f"{source}-{target}"

    def pair(self, source_code: str, target_code: str) -> tuple[str, str]:
        """A pair for a glossary, without varieties."""
        source, target = self.source(source_code), self.target(target_code)
        self.direction(source, target)
        return source, target

    def detect_source(self, text: str, target: str) -> str:
        """The most likely language among those that are translated into `target`."""
        candidates = [source for source, own in self.pairs if own == target]
        return most_likely(text, candidates)


def name_of(language: str) -> str:
    return NAMES.get(language, language.upper())


def _unsupported(parameter: str, known: Sequence[str]) -> Exception:
    return bad_request(f"Value for '{parameter}' not supported", f"use one of: {', '.join(known)}")
