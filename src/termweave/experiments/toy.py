"""A small bilingual corpus, generated: German clauses with the verb at the end, English ones with it in the middle.

    der alte Lehrer hat gestern das Haus gekauft .   ↔   yesterday the old teacher bought the building .

Each word's translation is drawn at random (see `toy_lexicon`), so a model without constraints can only guess, and
the gold links are known by construction. Minutes on a laptop's processor are enough to train on it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from termweave.constraints.evaluation_sets import ConstraintSetOptions, Link, make_constraint_set
from termweave.errors import ConfigError
from termweave.experiments import toy_lexicon as lexicon
from termweave.storage import write_text
from termweave.text.words import join_tokens

SOURCE_LANGUAGE, TARGET_LANGUAGE = "de", "en"
EVALUATION_SENTENCES = 300  # in the validation set, and as many in the test set

MAX_TOKENS = 13  # of a source sentence: twelve words and the full stop

_ARTICLES = {  # (gender, definite, accusative) → article and ending of the adjective after it
    ("der", True, False): ("der", "e"),
    ("die", True, False): ("die", "e"),
    ("das", True, False): ("das", "e"),
    ("der", True, True): ("den", "en"),
    ("die", True, True): ("die", "e"),
    ("das", True, True): ("das", "e"),
    ("der", False, False): ("ein", "er"),
    ("die", False, False): ("eine", "e"),
    ("das", False, False): ("ein", "es"),
    ("der", False, True): ("einen", "en"),
    ("die", False, True): ("eine", "e"),
    ("das", False, True): ("ein", "es"),
}


@dataclass(frozen=True)
class ToyCorpus:
    """The files of a toy corpus."""

    folder: Path
    config: Path  # for `termweave prepare` and `termweave train`
    train: tuple[Path, Path]  # natural text, source and target
    validation: tuple[Path, Path]
    test: tuple[Path, Path]
    test_tokens: tuple[Path, Path]  # the test set, tokens separated by spaces
    test_links: Path  # its gold links, Pharaoh format
    validation_set: Path  # constraint sets of the kind `all`
    test_set: Path


@dataclass(frozen=True)
class Constituent:
    """A part of a sentence in both languages; the links count within it. One side may be empty."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    links: tuple[Link, ...]


@dataclass(frozen=True)
class TokenPair:
    """A sentence pair as tokens, with its gold links."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    links: tuple[Link, ...]


def generate(sentences: int, seed: int) -> list[TokenPair]:
    """Sentence pairs with different sources; the same seed gives the same pairs."""
    generator = random.Random(seed)
    pairs: dict[tuple[str, ...], TokenPair] = {}
    while len(pairs) < sentences:
        pair = _sentence(generator)
        if len(pair.source) <= MAX_TOKENS:
            pairs.setdefault(pair.source, pair)
    return list(pairs.values())


def _sentence(generator: random.Random) -> TokenPair:
    """One of four patterns: present, perfect, perfect after an adverbial, perfect in a clause with `dass`."""
    subject = _subject(generator)
    verb, target_object = _predicate(generator, perfect=True)
    place = _place(generator) if generator.random() < 0.3 else _EMPTY
    adverbial = _adverbial(generator)
    has, stop = Constituent(("hat",), (), ()), _linked(".", ".")
    pattern = generator.choices(("present", "perfect", "inverted", "clause"), (3, 3, 3, 2))[0]
    if pattern == "present":
        verb, target_object = _predicate(generator, perfect=False)
        source = target = [subject, verb, target_object, place, stop]
    elif pattern == "perfect":
        adverbial = adverbial if generator.random() < 0.5 else _EMPTY
        source = [subject, has, adverbial, target_object, place, verb, stop]
        target = [adverbial, subject, verb, target_object, place, stop]
    elif pattern == "inverted":
        source = [adverbial, has, subject, target_object, place, verb, stop]
        target = [adverbial, subject, verb, target_object, place, stop]
    else:
        name = generator.choice(lexicon.NAMES)
        says = _word(*generator.choice(lexicon.VERBS_OF_SAYING), generator)
        comma, that = Constituent((",",), (), ()), _linked("dass", "that")
        opening = [_linked(name, name), says]
        source = [*opening, comma, that, subject, target_object, verb, has, stop]
        target = [*opening, that, subject, verb, target_object, stop]
    return _assemble(source, target)


def _assemble(source: Sequence[Constituent], target: Sequence[Constituent]) -> TokenPair:
    """Put the constituents into each language's order; a constituent is the same one if it is the same object."""
    starts: dict[int, int] = {}
    position = 0
    for part in target:
        starts[id(part)] = position
        position += len(part.target)
    links: list[Link] = []
    position = 0
    for part in source:
        links += [(position + first, starts[id(part)] + second) for first, second in part.links]
        position += len(part.source)
    source_tokens = [token for part in source for token in part.source]
    target_tokens = [token for part in target for token in part.target]
    return TokenPair(_capitalised(source_tokens), _capitalised(target_tokens), tuple(sorted(links)))


def _capitalised(tokens: Sequence[str]) -> tuple[str, ...]:
    return (tokens[0][0].upper() + tokens[0][1:], *tokens[1:])


_EMPTY = Constituent((), (), ())


def _linked(source: str, target: str) -> Constituent:
    """Every word with every word: single words, and phrases translated as a whole."""
    source_words, target_words = tuple(source.split()), tuple(target.split())
    links = tuple((i, j) for i in range(len(source_words)) for j in range(len(target_words)))
    return Constituent(source_words, target_words, links)


def _choose(translations: Sequence[str], generator: random.Random) -> str:
    """The first translation half of the time: natural words have a favourite, too."""
    weights = [max(1, len(translations) - 1)] + [1] * (len(translations) - 1)
    return generator.choices(translations, weights)[0]


def _word(source: str, translations: Sequence[str], generator: random.Random) -> Constituent:
    return _linked(source, _choose(translations, generator))


def _subject(generator: random.Random) -> Constituent:
    if generator.random() < 0.2:
        name = generator.choice(lexicon.NAMES)
        return _linked(name, name)
    return _noun_phrase(lexicon.PEOPLE, lexicon.ADJECTIVES_OF_PEOPLE, False, generator)


def _predicate(generator: random.Random, perfect: bool) -> tuple[Constituent, Constituent]:
    """A verb and its object. The auxiliary stays unlinked, so that the participle is a phrase of its own."""
    if generator.random() < 0.75:
        verbs, nouns, adjectives = lexicon.VERBS_WITH_THINGS, lexicon.THINGS, lexicon.ADJECTIVES_OF_THINGS
    else:
        verbs, nouns, adjectives = lexicon.VERBS_WITH_PEOPLE, lexicon.PEOPLE, lexicon.ADJECTIVES_OF_PEOPLE
    german, translations = generator.choice(verbs)
    form = 1 if perfect else 0
    verb = _linked(german.split()[form], _choose(translations, generator).split()[form])
    return verb, _noun_phrase(nouns, adjectives, True, generator)


def _noun_phrase(
    nouns: Sequence[lexicon.Entry], adjectives: Sequence[lexicon.Entry], accusative: bool, generator: random.Random
) -> Constituent:
    german, translations = generator.choice(nouns)
    gender, *words = german.split()
    definite = generator.random() < 0.6
    article, ending = _ARTICLES[gender, definite, accusative]
    if len(words) == 2:  # a fixed phrase such as "das schwarze Brett", its adjective inflected like any other
        words = [words[0].removesuffix("e") + ending, words[1]]
    parts = [_linked(" ".join(words), _choose(translations, generator))]
    if len(words) == 1 and generator.random() < 0.55:
        stem, meanings = generator.choice(adjectives)
        parts.insert(0, _linked(stem + ending, _choose(meanings, generator)))
    indefinite = "an" if parts[0].target[0][0] in "aeiou" else "a"
    parts.insert(0, _linked(article, "the" if definite else indefinite))
    return _sequence(parts)


def _sequence(parts: Sequence[Constituent]) -> Constituent:
    """Several constituents in the same order in both languages, as one."""
    source: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    for part in parts:
        links += tuple((len(source) + i, len(target) + j) for i, j in part.links)
        source, target = source + part.source, target + part.target
    return Constituent(source, target, links)


def _place(generator: random.Random) -> Constituent:
    german, translations = generator.choice(lexicon.PLACES)
    *source_head, source_noun = german.split()
    *target_head, target_noun = _choose(translations, generator).split()
    return _sequence([_linked(" ".join(source_head), " ".join(target_head)), _linked(source_noun, target_noun)])


def _adverbial(generator: random.Random) -> Constituent:
    german, translations = generator.choice(lexicon.ADVERBIALS)
    numbers = {
        "hour": generator.randint(1, 12),
        "number": generator.randint(2, 30),
        "year": generator.randint(1900, 2020),
    }
    return _linked(german.format(**numbers), _choose(translations, generator).format(**numbers))


def write_toy_corpus(folder: Path, *, sentences: int = 15_000, seed: int = 1) -> ToyCorpus:
    """Write training, validation and test text, constraint sets and a configuration; the same seed, the same files.

    `sentences` counts the training pairs; no sentence stands in two of the parts.
    """
    if sentences < 100:
        raise ConfigError(f"a toy corpus of {sentences} sentences is too small to learn from; ask for 100 or more")
    pairs = generate(sentences + 2 * EVALUATION_SENTENCES, seed)
    test, validation = pairs[:EVALUATION_SENTENCES], pairs[EVALUATION_SENTENCES : 2 * EVALUATION_SENTENCES]
    corpus = ToyCorpus(
        folder=folder,
        config=folder / "toy.toml",
        train=_write_natural(folder / "train", pairs[2 * EVALUATION_SENTENCES :]),
        validation=_write_natural(folder / "valid", validation),
        test=_write_natural(folder / "test", test),
        test_tokens=_write_tokens(folder / "test.tok", test),
        test_links=folder / "test.links",
        validation_set=folder / "valid.all.jsonl",
        test_set=folder / "test.all.jsonl",
    )
    write_text(corpus.test_links, "".join(_pharaoh(pair) for pair in test))
    _write_constraints(corpus.validation_set, validation, seed)
    _write_constraints(corpus.test_set, test, seed)
    write_text(corpus.config, _CONFIG.format(folder=folder.as_posix(), seed=seed))
    return corpus


def _write_natural(stem: Path, pairs: Sequence[TokenPair]) -> tuple[Path, Path]:
    sides = [
        [join_tokens(pair.source, SOURCE_LANGUAGE)[0] for pair in pairs],
        [join_tokens(pair.target, TARGET_LANGUAGE)[0] for pair in pairs],
    ]
    return _write_sides(stem, sides)


def _write_tokens(stem: Path, pairs: Sequence[TokenPair]) -> tuple[Path, Path]:
    return _write_sides(stem, [[" ".join(pair.source) for pair in pairs], [" ".join(pair.target) for pair in pairs]])


def _write_sides(stem: Path, sides: Sequence[Sequence[str]]) -> tuple[Path, Path]:
    paths = [stem.with_name(f"{stem.name}.{language}") for language in (SOURCE_LANGUAGE, TARGET_LANGUAGE)]
    for path, lines in zip(paths, sides, strict=True):
        write_text(path, "".join(f"{line}\n" for line in lines))
    return paths[0], paths[1]


def _pharaoh(pair: TokenPair) -> str:
    return " ".join(f"{source}-{target}" for source, target in pair.links) + "\n"


def _write_constraints(path: Path, pairs: Sequence[TokenPair], seed: int) -> None:
    make_constraint_set(
        path,
        [" ".join(pair.source) for pair in pairs],
        [" ".join(pair.target) for pair in pairs],
        [pair.links for pair in pairs],
        ConstraintSetOptions(SOURCE_LANGUAGE, TARGET_LANGUAGE, seed=seed),
        tokenised=True,
    )


_CONFIG = """\
# The toy experiment, made by `termweave toy`: both stages of training in minutes on two processor cores.

[data]
folder = "{folder}/prepared"
directions = ["de-en"]

[[corpora]]
source = "{folder}/train.de"
target = "{folder}/train.en"
languages = "de-en"

[[test_sets]]
source = "{folder}/valid.de"
target = "{folder}/valid.en"

[[test_sets]]
source = "{folder}/test.de"
target = "{folder}/test.en"

[subwords]
size = 1400

[model]
dimension = 128
heads = 4
encoder_layers = 2
decoder_layers = 2
feed_forward = 512

[training]
folder = "{folder}/model"
seed = {seed}
batch_tokens = 1500
precision = "float32"
compile = "never"
log_every = 50
checkpoint_every = 200
keep = 2
average = 1

[training.stage1]
steps = 350
learning_rate = 2e-3
warmup = 100

[training.stage2]
steps = 280
learning_rate = 2e-3
warmup = 50

[validation]
file = "{folder}/valid.all.jsonl"
every = 250
sentences = 100
beam = 1
"""
