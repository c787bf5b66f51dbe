"""DeepL's own Python client against our server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import deepl
import pytest
from deepl.api_data import MultilingualGlossaryDictionaryEntries as Entries

SENTENCE = "der alte Müller verkauft Mehl"


def words(text: str) -> list[str]:
    """Weights of chance make odd characters, control characters among them, which end a word too."""
    return re.findall(r"\w+", text)


@pytest.fixture
def client(server: Any) -> Iterator[deepl.DeepLClient]:
    client = deepl.DeepLClient("any key", server_url=server.url)
    yield client
    client.close()


def test_text_is_translated(client: deepl.DeepLClient):
    result = client.translate_text(SENTENCE, target_lang="EN-US")
    assert result.text
    assert result.detected_source_lang == "DE"
    assert result.billed_characters == len(SENTENCE)


def test_texts_keep_their_order_and_are_the_same_alone(client: deepl.DeepLClient):
    texts = ["ein Haus", SENTENCE, "ein Haus am Fluss"]
    together = client.translate_text(texts, source_lang="DE", target_lang="EN-GB")
    alone = [client.translate_text(text, source_lang="de", target_lang="en-gb") for text in texts]
    assert [result.text for result in together] == [result.text for result in alone]


def test_each_text_has_its_own_language(client: deepl.DeepLClient):
    german, english = client.translate_text(
        ["Das alte Haus steht am Fluss.", "Ein Müller verkauft das Mehl."], target_lang="EN-US"
    )
    assert german.detected_source_lang == english.detected_source_lang == "DE"


def test_white_space_between_sentences_stays(client: deepl.DeepLClient):
    text = "  Ein Haus.\n\n\tEin Fluss.  Ein Müller.\n"
    result = client.translate_text(text, source_lang="DE", target_lang="EN-US").text
    assert result.startswith("  ")
    assert "\n\n\t" in result
    assert result.endswith("\n")


def test_terms_of_a_glossary_are_in_the_translation(client: deepl.DeepLClient):
    glossary = client.create_glossary("mills", "DE", "EN", {"Müller": "grinder", "Fluss": "stream"})
    plain = client.translate_text(SENTENCE, source_lang="DE", target_lang="EN-US").text
    result = client.translate_text(SENTENCE, source_lang="DE", target_lang="EN-US", glossary=glossary).text
    assert "grinder" not in words(plain)
    assert "grinder" in words(result)
    assert "stream" not in words(result)
    client.delete_glossary(glossary)


def test_earlier_glossaries_come_first(client: deepl.DeepLClient):
    first = client.create_glossary("first", "DE", "EN", {"Müller": "grinder"})
    second = client.create_glossary("second", "DE", "EN", {"Müller": "farmer", "Mehl": "powder"})
    result = client.translate_text(SENTENCE, source_lang="DE", target_lang="EN-US", glossary_ids=[first, second])
    found = words(result.text)
    assert "grinder" in found
    assert "powder" in found
    assert "farmer" not in found


def test_glossaries_of_version_2(client: deepl.DeepLClient):
    entries = {"Müller": "miller", "altes Haus": "old “house”"}
    made = client.create_glossary("mills", "DE", "EN-US", entries)
    assert made.name == "mills"
    assert made.ready
    assert (made.source_lang, made.target_lang, made.entry_count) == ("DE", "EN", 2)
    assert client.get_glossary(made.glossary_id).creation_time == made.creation_time
    assert client.get_glossary_entries(made) == entries
    assert made.glossary_id in {glossary.glossary_id for glossary in client.list_glossaries()}
    client.delete_glossary(made)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_glossary(made.glossary_id)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.delete_glossary(made)


def test_glossaries_from_csv(client: deepl.DeepLClient):
    made = client.create_glossary_from_csv("c", "DE", "EN", 'Müller,"miller, old"\n"sag ""ja""",say yes\n')
    assert client.get_glossary_entries(made) == {"Müller": "miller, old", 'sag "ja"': "say yes"}


def test_glossaries_of_version_3(client: deepl.DeepLClient):
    german, english = Entries("DE", "EN", {"Müller": "miller"}), Entries("EN", "DE", {"miller": "Müller"})
    made = client.create_multilingual_glossary("both", [german, english])
    assert [(own.source_lang, own.target_lang, own.entry_count) for own in made.dictionaries] == [
        ("DE", "EN", 1),
        ("EN", "DE", 1),
    ]
    assert client.get_multilingual_glossary(made.glossary_id).name == "both"
    assert made.glossary_id in {own.glossary_id for own in client.list_multilingual_glossaries()}
    assert client.update_multilingual_glossary_name(made, "renamed").name == "renamed"

    client.update_multilingual_glossary_dictionary(made, Entries("DE", "EN", {"Müller": "grinder", "Mehl": "flour"}))
    (read,) = client.get_multilingual_glossary_entries(made, "DE", "EN").dictionaries
    assert read.entries == "Müller\tgrinder\nMehl\tflour"

    replaced = client.replace_multilingual_glossary_dictionary(made, Entries("DE", "EN", {"Haus": "house"}))
    assert replaced.entry_count == 1
    (read,) = client.get_multilingual_glossary_entries(made, "DE", "EN").dictionaries
    assert read.entries == "Haus\thouse"

    assert made.glossary_id not in {own.glossary_id for own in client.list_glossaries()}, "version 2 has no such"
    client.delete_multilingual_glossary_dictionary(made, source_lang="EN", target_lang="DE")
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_multilingual_glossary_entries(made, "EN", "DE")
    client.delete_multilingual_glossary(made)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_multilingual_glossary(made.glossary_id)


def test_languages(client: deepl.DeepLClient):
    assert {language.code for language in client.get_source_languages()} == {"DE", "EN"}
    assert {language.code for language in client.get_target_languages()} == {"DE", "EN-GB", "EN-US"}
    pairs = {(pair.source_lang, pair.target_lang) for pair in client.get_glossary_languages()}
    assert pairs == {("de", "en"), ("en", "de")}


def test_usage_counts_characters(client: deepl.DeepLClient):
    before = client.get_usage().character
    client.translate_text(["ein Haus", "am Fluss"], source_lang="DE", target_lang="EN-US")
    after = client.get_usage().character
    assert after.count == before.count + 16
    assert after.limit == 1_000_000_000_000
    assert not client.get_usage().any_limit_reached


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target_lang": "FR"}, "target_lang"),
        ({"target_lang": "EN-US", "source_lang": "XX"}, "source_lang"),
        ({"target_lang": "DE", "source_lang": "DE"}, "pair"),
        ({"target_lang": "EN-US", "tag_handling": "tex"}, "tag_handling"),
        ({"target_lang": "EN-US", "formality": "more"}, "formality"),
        ({"target_lang": "EN-US", "split_sentences": "2"}, "split_sentences"),
        ({"target_lang": "EN-US", "custom_instructions": ["be kind"]}, "custom_instructions"),
    ],
)
def test_what_is_not_offered_is_refused_in_words(client: deepl.DeepLClient, options: dict[str, Any], said: str):
    with pytest.raises(deepl.DeepLException, match=said) as caught:
        client.translate_text(SENTENCE, **options)
    assert caught.value.http_status_code == 400


def test_preferences_are_taken(client: deepl.DeepLClient):
    result = client.translate_text(
        SENTENCE,
        source_lang="DE",
        target_lang="EN-US",
        formality="prefer_more",
        preserve_formatting=True,
        split_sentences="nonewlines",
        context="a mill",
        model_type="latency_optimized",
    )
    assert result.text


def test_an_unknown_glossary_is_404(client: deepl.DeepLClient):
    with pytest.raises(deepl.DeepLException, match="Glossary not found") as caught:
        client.translate_text(SENTENCE, source_lang="DE", target_lang="EN-US", glossary="nothing")
    assert caught.value.http_status_code == 404


def test_wrong_entries_name_their_line(client: deepl.DeepLClient):
    with pytest.raises(deepl.DeepLException, match="line 2"):
        client._create_glossary("wrong", "DE", "EN", "tsv", "Haus\thouse\nFluss river\n")
    with pytest.raises(deepl.DeepLException, match="twice"):
        client._create_glossary("wrong", "DE", "EN", "tsv", "Haus\thouse\nHaus\thome\n")
