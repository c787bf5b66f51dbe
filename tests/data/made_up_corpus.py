"""A small made-up corpus: word-for-word translations, so that every link and phrase is known."""

from __future__ import annotations

import random
from pathlib import Path

from termweave.config import Config, from_tree

NOUNS = {
    "Haus": "house", "Baum": "tree", "Garten": "garden", "Brücke": "bridge", "Fluss": "river", "Mühle": "mill",
    "Pferd": "horse", "Wagen": "cart", "Schloss": "castle", "Stadt": "town", "Müller": "miller", "Bäcker": "baker",
}  # fmt: skip
VERBS = {"sieht": "sees", "findet": "finds", "verkauft": "sells", "malt": "paints", "sucht": "seeks", "lobt": "praises"}
ADJECTIVES = {"rote": "red", "alte": "old", "kleine": "small", "schöne": "beautiful", "dunkle": "dark"}
DICTIONARY = NOUNS | VERBS | ADJECTIVES


def sentences(count: int, seed: int = 1) -> list[tuple[str, str]]:
    """Pairs of tokenised sentences whose words translate one by one."""
    chance = random.Random(seed)
    pairs: dict[tuple[str, str], None] = {}
    while len(pairs) < count:
        words = [
            *_phrase(chance),
            chance.choice(list(VERBS)),
            *_phrase(chance),
            *(["und", *_phrase(chance)] if chance.random() < 0.4 else []),
        ]
        english = [{"und": "and", "das": "the"}.get(word) or DICTIONARY[word] for word in words]
        pairs[" ".join([*words, "."]), " ".join([*english, "."])] = None
    return list(pairs)


def _phrase(chance: random.Random) -> list[str]:
    adjective = [chance.choice(list(ADJECTIVES))] if chance.random() < 0.6 else []
    return ["das", *adjective, chance.choice(list(NOUNS))]


def natural(text: str) -> str:
    text = text.replace(" .", ".")
    return text[0].upper() + text[1:]


def write_corpus(folder: Path, count: int, seed: int = 1) -> tuple[Path, Path]:
    """Natural text in two files."""
    folder.mkdir(parents=True, exist_ok=True)
    pairs = sentences(count, seed)
    paths = folder / "text.de", folder / "text.en"
    for side, path in enumerate(paths):
        path.write_text("".join(f"{natural(pair[side])}\n" for pair in pairs), encoding="utf-8")
    return paths


def toy_config(folder: Path, **changes: object) -> Config:
    """A configuration for the files `write_corpus` leaves in `folder`; `changes` replace whole tables."""
    tree: dict[str, object] = {
        "data": {"folder": str(folder / "prepared"), "directions": ["de-en"], "workers": 1},
        "corpora": [{"source": str(folder / "text.de"), "target": str(folder / "text.en")}],
        "subwords": {"size": 400},
        "training": {"folder": str(folder / "model")},
    }
    return from_tree(Config, tree | changes)
