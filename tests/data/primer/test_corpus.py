"""Rows of the built-in corpus: spans, links, splits, determinism, one translation per English sentence."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from functools import cache
from operator import itemgetter
from typing import Any

import pytest

from data.primer import rows
from data.primer.corpus import ENOUGH, distinct, sentence_row
from data.primer.grammar import english as en
from data.primer.grammar.choice import Chooser
from data.primer.grammar.sentences import CONSTRUCTIONS, Sentence, derive, finish
from data.primer.grammar.tree import write
from data.primer.lexicon import ADJECTIVES, CITIES, NAMES, NOUNS, TIMES, VERBS
from data.primer.plots import PLOTS, REPEATED
from data.primer.splits import SPLITS, held_out, parts, quotas
from data.primer.storyteller import Teller
from data.primer.stream import Combinations, Drawn
from training.evaluation.coreference import without_questions

Row = dict[str, Any]
SIDES = {"sentences": ("source", "target"), "stories": ("text", "japanese")}
PRONOUNS = {"he", "she", "it", "they", "him", "her", "them"}


@cache
def some(kind: str, count: int) -> list[Row]:
    """Return rows shared by the tests."""
    return rows(kind, count, seed=11)


@cache
def derivations(count: int) -> list[Sentence]:
    """Return derived sentences, before their conversion to rows."""
    chooser = Chooser(random.Random(7))
    return [derive(chooser) for _ in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sentences", "stories"])
def test_spans_lie_inside_and_on_word_boundaries(kind: str) -> None:
    """Guards against spans that are off by one, which a projection to tokens would hide."""
    source, target = SIDES[kind]
    for row in some(kind, 1500):
        assert row["alignment"], row
        for a, b, c, d in row["alignment"]:
            english, japanese = row[source][a:b], row[target][c:d]
            assert 0 <= a < b <= len(row[source])
            assert 0 <= c < d <= len(row[target])
            assert english == english.strip()
            before, after = row[source][a - 1 : a], row[source][b : b + 1]
            assert not (before.isalpha() and english[0].isalpha()), (row[source], english)
            assert not (after.isalpha() and english[-1].isalpha()), (row[source], english)
            assert japanese


def test_spans_spell_the_linked_words() -> None:
    """Guards against links to wrong words: names and their katakana are known in advance."""
    katakana = {name.english: name.writing for name in NAMES}
    seen = Counter[str]()
    for row in some("sentences", 1500):
        linked = defaultdict(list)
        for a, b, c, d in row["alignment"]:
            linked[row["source"][a:b]].append(row["target"][c:d])
        for name, writing in katakana.items():
            if name in linked:
                assert set(linked[name]) == {writing}, row
                seen[name] += 1
    assert len(seen) >= 20


def test_every_content_word_is_linked_on_both_sides() -> None:
    """Guards against unlinked nouns and verbs, for which the scores of heads would count any attention as wrong."""
    for sentence in derivations(4000):
        source, target = sentence.written()
        for side, other in ((source, target), (target, source)):
            for word, _, _ in side.words:
                if word.content:
                    assert word.link in other.spans, (sentence.construction, word.text, source.text, target.text)


@pytest.mark.slow
def test_one_english_sentence_has_one_translation() -> None:
    """Guards exact match: a second correct translation would count as an error."""
    known: dict[str, str] = {}
    for sentence in derivations(20000):
        source, target = sentence.written()
        assert known.setdefault(source.text, target.text) == target.text, source.text


def test_stories_have_four_to_twelve_sentences() -> None:
    """Guards against plots whose branches add up to more than the context of a small model."""
    lengths = Counter(without_questions(row, row["text"]).count(".") for row in some("stories", 1500))
    assert set(lengths) == set(range(4, 13))
    assert sum(lengths[count] for count in range(9, 13)) > 0.1 * len(some("stories", 1500))


def passages(row: Row) -> list[str]:
    """Return what a story writes, says, reads or sings, in order."""
    return re.findall(r": ([^.]+)\.", without_questions(row, row["text"]))


def repeating(count: int) -> list[Row]:
    """Return the stories in which words are repeated."""
    return [row for row in some("stories", count) if row["construction"] in REPEATED]


def test_words_are_repeated_exactly() -> None:
    """Guards the only text that rewards induction: three times the same words in the same order."""
    stories = repeating(6000)
    assert {row["construction"] for row in stories} == set(REPEATED)
    for row in stories:
        words, *again = passages(row)
        assert set(again) <= {words}, row["text"]
        assert without_questions(row, row["text"]).count(words) >= 3, row["text"]
        japanese, *_ = re.findall("「([^」]+)」", row["japanese"])
        assert row["japanese"].count(japanese) == row["text"].count(words), row["japanese"]


def test_a_few_stories_repeat_words() -> None:
    """Guards the first impression of a newcomer, who should see stories, and the data about pronouns."""
    assert 0.06 < len(repeating(6000)) / len(some("stories", 6000)) <= 0.08


def test_nobody_can_guess_the_repeated_words() -> None:
    """Guards against lists that a model could learn by heart: each is new, and the word that most often follows two
    words in the other stories is hardly ever right."""
    stories = repeating(6000)
    assert len({passages(row)[0] for row in stories}) == len(stories)
    follows = defaultdict[tuple[str, str], Counter[str]](Counter)
    right: list[bool] = []
    for number, row in enumerate(stories):
        words = ["", ":", *re.findall(r"\w+", passages(row)[0])]
        for before, last, word in zip(words, words[1:], words[2:], strict=False):
            known = follows[before, last]
            if number >= len(stories) / 2 and word not in ("a", "an", "and", "at", "in", "on", "the"):
                right.append(bool(known) and known.most_common(1)[0][0] == word)
            known[word] += 1
    assert len(right) > 1000
    assert sum(right) < 0.15 * len(right)


NUMBER = "(one|two|three|four|five|six|seven|eight|nine|ten)"
MEANINGFUL = {
    "shopping_list": rf"({NUMBER} \w+|[a-z]+)((, | and )({NUMBER} \w+|[a-z]+)){{4,7}}",
    "lesson": r"[A-Za-z]+( [A-Za-z]+){11,15}",
    "invitation": r"[A-Z]\w+(, [A-Z]\w+){3,6} and [A-Z]\w+",
    "recipe": rf"\w+ {NUMBER} \w+(, \w+ {NUMBER} \w+){{3,5}}",
    "song": r"[a-z]+ [a-z]+ [a-z]+(, [a-z]+ [a-z]+ [a-z]+){3,5}",
    "phone_number": rf"{NUMBER}( {NUMBER}){{5,8}}",
    "password": r"[A-Z]( [A-Z]){4,7}",
    "message": r"(an?|the) [a-z]+( [A-Za-z]+)+ and (an?|the) [a-z]+( [A-Za-z]+)+",
}
"""What is repeated, by plot."""


def test_a_lesson_is_about_words_of_one_kind() -> None:
    """Guards lessons, most of the repetitions, against a mixture of words, which would look like gibberish."""
    kinds = {
        "nouns": {entry.english for entry in (*NOUNS, *CITIES)},
        "adjectives": {entry.english for entry in ADJECTIVES},
        "verbs": {entry.english for entry in VERBS},
        "past": {entry.past for entry in VERBS},
    }
    seen = Counter[str]()
    for row in repeating(6000):
        if row["construction"] == "lesson":
            listed = set(passages(row)[0].split())
            fitting = [kind for kind, entries in kinds.items() if listed <= entries]
            assert fitting, row["text"]
            assert any(("verbs" if kind == "past" else kind) in row["text"] for kind in fitting), row["text"]
            seen[fitting[0]] += 1
    assert set(seen) == set(kinds)


def test_repeated_words_mean_something() -> None:
    """Guards against gibberish such as 'wore grew sweet hate', and against guests who write the list themselves."""
    names = {name.english for name in NAMES}
    for row in repeating(6000):
        words = passages(row)[0]
        assert re.fullmatch(MEANINGFUL[row["construction"]], words), (row["construction"], words)
        listed = [word for word in re.findall(r"\w+", words) if word != "and"]
        assert row["construction"] == "message" or len(set(listed)) == len(listed), words
        if row["construction"] == "lesson":
            japanese = re.findall("「([^」]+)」", row["japanese"])[0].split("、")
            assert len(set(japanese)) == len(japanese) == len(listed), row["japanese"]
        people = {name for name in row["names"] if name in names}
        assert len(people) == 2
        assert not people & set(listed), row["text"]
        for place in re.finditer(re.escape(words), row["text"]):  # nothing in a list is a candidate antecedent
            assert all(end <= place.start() or place.end() <= start for start, end, *_ in row["mentions"]), row["text"]


def test_no_clause_has_one_person_as_subject_and_object() -> None:
    """Guards against 'Alice helped Alice': no clause of a story has a person as both its subject and its object."""
    names = {name.english for name in NAMES}
    clauses = 0
    for row in some("stories", 1500):
        for clause in re.split(r"[.?,] |\b(?:because|but|so) ", row["text"]):
            said = [word for word in re.findall(r"\w+(?!'s)\b", clause) if word in names]
            assert len(set(said)) == len(said), (clause, row["text"])
            clauses += len(said) > 1
    assert clauses > 1000


def test_two_acts_have_the_same_people_and_different_things() -> None:
    """Guards against a second act about strangers, or about another ball that 'the ball' could mean."""
    names = {name.english for name in NAMES}
    acts = [row for row in some("stories", 1500) if " " in row["construction"]]
    assert len(acts) > 150
    for row in acts:
        _, later, _ = row["text"].partition("A week later, ")
        assert later, row["text"]
        assert "yesterday" not in row["text"].lower(), row["text"]
        assert {name for name in row["names"] if name in names} == set(re.findall(r"\w+", row["text"])) & names
        assert len(set(re.findall(r"\w+", row["text"])) & names) <= 2, row["text"]
        assert len(set(row["names"])) == len(row["names"]), row["text"]


@pytest.mark.slow
def test_reasons_introduce_no_new_referent() -> None:
    """Guards against 'It chased a duck because a duck ate the rice', which would be two ducks; a repeated noun takes
    'the'."""
    texts = [row["text"] for row in rows("stories", 4000, seed=9)]
    named = [text for text in texts if re.search(r"because (the [a-z]+|[A-Z]\w+) ", text)]
    assert len(named) > 100
    assert [text for text in texts if re.search(r"\b(because|but) an? ", text)] == []


def text(row: Row, kind: str) -> list[str]:
    """Return both sides of a row; of a story without the questions at its end: a story in two splits could have two."""
    english, japanese = (row[side] for side in SIDES[kind])
    if kind == "sentences" or not row["questions"]:
        return [english, japanese]
    return [without_questions(row, english), re.split(r"(?<=。)[^。]*か。", japanese)[0]]


@pytest.mark.parametrize("kind", ["sentences", "stories"])
def test_no_text_is_in_two_splits_and_none_twice(kind: str) -> None:
    """Guards against leakage, which would make the test score measure memorisation."""
    data = some(kind, 6000 if kind == "sentences" else 1500)
    assert len({text(row, kind)[0] for row in data}) == len(data)
    for side in (0, 1):
        homes = defaultdict(set)
        for row in data:
            homes[text(row, kind)[side]].add(row["split"])
        assert max(map(len, homes.values())) == 1
    assert Counter(row["split"] for row in data) == quotas(len(data))


def test_small_requests_fill_every_split() -> None:
    """Guards small corpora against empty splits."""
    assert set(Counter(row["split"] for row in rows("sentences", 40, 1))) == set(SPLITS)
    assert quotas(40000)["test"] >= 500
    assert quotas(40000)["novel"] >= 500


@pytest.mark.slow
def test_novel_combinations_are_new_but_their_parts_are_not() -> None:
    """Guards `novel`, which tests recombination: its combinations never occur in training, its predicates and nouns
    do."""
    chooser = Chooser(random.Random(3))
    made_of: dict[str, Combinations] = {}

    def draw() -> Drawn:
        row, combinations, texts = sentence_row(chooser)
        made_of[row["source"]] = combinations
        return row, combinations, texts

    data = [row for _, row in sorted(distinct(draw, ENOUGH), key=itemgetter(0))]
    trained = {result for row in data if row["split"] == "train" for result in made_of[row["source"]]}
    novel = [made_of[row["source"]] for row in data if row["split"] == "novel"]
    assert len(novel) == quotas(ENOUGH)["novel"]
    assert all(any(held_out(result) for result in combinations) for combinations in novel)
    assert not trained & {result for combinations in novel for result in combinations if held_out(result)}
    assert all(parts(combinations) <= parts(trained) for combinations in novel)


@pytest.mark.parametrize("kind", ["sentences", "stories"])
def test_antecedents_are_a_pronoun_and_an_earlier_noun_phrase(kind: str) -> None:
    """Guards against swapped or shifted spans, which would invalidate the scores of heads."""
    source, _ = SIDES[kind]
    result = 0
    for row in some(kind, 1500):
        for a, b, c, d in row["antecedents"]:
            pronoun, noun_phrase = row[source][a:b].lower(), row[source][c:d]
            assert pronoun in PRONOUNS, row
            assert d <= a
            assert noun_phrase.lower() not in PRONOUNS
            assert re.fullmatch(r"[A-Za-z' ]+", noun_phrase)
            result += 1
    assert result > (200 if kind == "sentences" else 4000)


def test_preference_antecedent_is_not_positional() -> None:
    """Guards against an antecedent that its position reveals: 'because it is less acidic' refers to the first fruit,
    'because it is too acidic' to the second."""
    first = second = 0
    for row in some("sentences", 6000):
        if row["construction"] == "preference_because":
            (_, _, start, _), *_ = row["antecedents"]
            verb = re.search(r"(prefer\w*|like\w*) ", row["source"])
            assert verb is not None
            is_first = start == verb.end()
            first, second = first + is_first, second + (not is_first)
            assert is_first != (" too " in row["source"]), row["source"]
    assert min(first, second) > 30


def test_example_sentence_of_the_lessons_is_derivable() -> None:
    """Guards the project's example: 'Emi prefers the apple over the orange because it is less acidic'."""
    pattern = re.compile(r"(\w+) prefers the (\w+) over the (\w+) because it is less (acidic|sour)\.")
    chooser = Chooser(random.Random(1))
    build = CONSTRUCTIONS["preference_because"]
    for _ in range(3000):
        source, target = finish("preference_because", build(chooser)).written()
        if match := pattern.fullmatch(source.text):
            assert re.fullmatch(r".+は(.+)より.+の方が好きです。\1ほどすっぱくないからです。", target.text), target.text
            assert match[2] != match[3]
            return
    pytest.fail("never derived")


def test_size() -> None:
    """Guards the minimum sizes that the demo and the documentation state."""
    assert sum(map(len, (NOUNS, NAMES, CITIES, VERBS, ADJECTIVES, TIMES))) >= 400
    assert len(CONSTRUCTIONS) >= 70
    assert len(PLOTS) >= 15


@pytest.mark.slow
def test_corpus_size_limits() -> None:
    """Guards the documented maximum sizes: `rows` fails if the grammar cannot generate that many distinct rows. English
    alone is written: a sentence has one translation."""
    chooser = Chooser(random.Random(17))
    sentences: set[str] = set()
    for _ in range(600_000):
        sentences.add(write(derive(chooser).english, english=True).text)
        if len(sentences) == 200_000:
            break
    assert len(sentences) == 200_000
    stories: set[str] = set()
    for _ in range(200_000):
        teller = Teller(chooser)
        chooser.pick(PLOTS)[1](teller, chooser)
        stories.add(write(teller.english, english=True).text)
        if len(stories) == 100_000:
            break
    assert len(stories) == 100_000


def test_every_verb_and_construction_occurs() -> None:
    """Guards against words and rules that can never be chosen."""
    drawn = derivations(20000)
    seen = Counter(sentence.construction for sentence in drawn)
    assert set(seen) == set(CONSTRUCTIONS)
    assert min(seen.values()) >= 40
    english = " ".join(row["text"] for row in some("stories", 1500))
    english += " ".join(sentence.written()[0].text for sentence in drawn[:4000])
    words = f" {re.sub(r'[^a-z ]', ' ', english.lower())} "
    forms = {
        entry: (entry.english, entry.past, en.third_person(entry.english), en.ing(entry.english)) for entry in VERBS
    }
    assert [entry.english for entry in VERBS if not any(f" {form} " in words for form in forms[entry])] == []


def test_unknown_kind_is_rejected() -> None:
    """Guards against sentences in response to a wrong kind."""
    with pytest.raises(ValueError, match="no kind of rows 'poems'"):
        rows("poems", 10, 1)
