"""English inflection, compared with hand-written tables."""

from __future__ import annotations

import pytest

from data.primer.grammar import english as en
from data.primer.lexicon import VERBS, adjective, noun, verb

THIRD = (
    "eat:eats watch:watches wash:washes study:studies play:plays go to:goes to do:does have:has fix:fixes look"
    " for:looks for"
)
ING = (
    "eat:eating make:making write:writing run:running swim:swimming cut:cutting look for:looking for see:seeing"
    " study:studying"
)
PAST = "open:opened close:closed study:studied play:played carry:carried listen to:listened to"
PLURAL = (
    "apple:apples box:boxes library:libraries potato:potatoes tomato:tomatoes piano:pianos photo:photos toy:toys"
    " watch:watches"
)
COMPARATIVE = (
    "big:bigger hot:hotter heavy:heavier large:larger tall:taller new:newer slow:slower cute:cuter busy:busier"
    " red:redder"
)
ARTICLE = (
    "apple:an orange:an egg:an umbrella:an university:a useful:a old:an hour:an house:a red:a interesting:an one:a"
)


def pairs(table: str) -> list[tuple[str, str]]:
    """Parse 'eat:eats look for:looks for' into pairs."""
    parts, found = table.split(":"), []
    base = parts[0]
    for part in parts[1:-1]:
        size = len(base.split())
        words = part.split()
        found.append((base, " ".join(words[:size])))
        base = " ".join(words[size:])
    return [*found, (base, parts[-1])]


@pytest.mark.parametrize(
    ("function", "table"),
    [
        (en.third_person, THIRD),
        (en.ing, ING),
        (en.past, PAST),
        (en.plural, PLURAL),
        (en.comparative, COMPARATIVE),
        (en.article, ARTICLE),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_regular_forms(function: object, table: str) -> None:
    """Guards against forms such as goe's, studys, runing, potatos, biger, a apple."""
    assert callable(function)
    assert [(base, function(base)) for base, _ in pairs(table)] == pairs(table)


def test_irregular_forms_come_from_the_lexicon() -> None:
    """Guards against eated, mouses, gooder."""
    for name, past, participle in (
        ("drink", "drank", "drunk"),
        ("write", "wrote", "written"),
        ("swim", "swam", "swum"),
        ("buy", "bought", "bought"),
        ("take", "took", "taken"),
        ("go to", "went to", "been to"),  # "has been to Kyoto": the participle serves experience alone
        ("give", "gave", "given"),
        ("wear", "wore", "worn"),
        ("prefer", "preferred", "preferred"),
        ("practice", "practiced", "practiced"),
    ):
        assert (verb(name).past, verb(name).participle) == (past, participle)
    irregular = {
        "mouse": "mice",
        "child": "children",
        "woman": "women",
        "sheep": "sheep",
        "knife": "knives",
        "shelf": "shelves",
    }
    assert {name: noun(name).plural for name in irregular} == irregular
    assert adjective("good").comparative == "better"
    assert adjective("expensive").comparative is None
    assert en.superlative("kind") == "kindest"
    assert en.superlative("busy") == "busiest"


def test_be_agrees() -> None:
    """Guards against 'I is', 'they was'."""
    present = [
        en.be(person, plural, False) for person, plural in ((1, False), (2, False), (3, False), (1, True), (3, True))
    ]
    past = [
        en.be(person, plural, True) for person, plural in ((1, False), (2, False), (3, False), (1, True), (3, True))
    ]
    assert present == ["am", "are", "is", "are", "are"]
    assert past == ["was", "were", "was", "were", "were"]


def test_every_verb_has_all_forms() -> None:
    """Guards against empty cells in the table, which would print empty words."""
    for entry in VERBS:
        assert all((entry.past, entry.participle, en.third_person(entry.english), en.ing(entry.english))), entry.english
