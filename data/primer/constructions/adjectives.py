"""Build sentences with adjectives: qualities, comparison, preference, change, liking."""

from __future__ import annotations

from data.primer import lexicon
from data.primer.constructions.basic import sentence
from data.primer.grammar import japanese as ja
from data.primer.grammar import noun_phrases
from data.primer.grammar.choice import Chooser
from data.primer.grammar.clauses import Clause, Complement, Head, Mode, adjective_head, marked, verb_head
from data.primer.grammar.noun_phrases import NounPhrase, common, describing, possessive, pronoun
from data.primer.grammar.selectional_restrictions import BARE, FEMALE, PRICES, preposition
from data.primer.grammar.sentences import Draft, construction
from data.primer.grammar.tree import Link, Parts, Word, text, words
from data.primer.lexicon import Adjective, Noun, adjective, adjectives_for, noun, nouns, suiting, verb


def described(chooser: Chooser, *, asked: bool = False) -> tuple[NounPhrase, Adjective]:
    """Choose a noun phrase and a quality that suits it."""
    quality = chooser.pick(lexicon.ADJECTIVES)
    if quality.kinds[0] in ("person", "job"):
        speaker = not asked and quality.english not in ("happy", "sad")
        return chooser.subject(("person", "named", *quality.kinds), speaker), quality
    options = [thing for thing in nouns(*quality.kinds) if "person" not in thing.kinds]
    if not options:
        return chooser.person(), quality
    return chooser.known(chooser.pick(options), described=0.0), quality


@construction(2.5)
def quality(chooser: Chooser) -> Draft:
    """Statement about a quality. Example: The lemon was very sour. - レモンはとてもすっぱかったです。"""
    subject, attribute = described(chooser)
    mode = Mode(chooser.pick(("present", "past")), chooser.chance(0.25))
    very = not mode.negative and chooser.chance(0.3) and attribute.english not in ("delicious", "having trouble")
    return sentence(Clause(very_head(attribute) if very else adjective_head(attribute), subject, mode))


def very_head(attribute: Adjective) -> Head:
    """Build the head of a clause with 'very'. Example: very sour - とてもすっぱい."""
    very, link = Link(), Link()
    return adjective_head(
        attribute, (Word("very", very), Word(attribute.english, link, True)), (Word("とても", very),), link
    )


@construction(1.0)
def casual_quality(chooser: Chooser) -> Draft:
    """Negated statement about a quality in casual style. Example: The lemon isn't sweet. - レモンは甘くない。"""
    subject, attribute = described(chooser)
    while subject.person == 1:
        subject, attribute = described(chooser)
    mode = Mode(chooser.pick(("present", "past")), True, contracted=True)
    return sentence(Clause(adjective_head(attribute), subject, mode))


@construction(1.2)
def quality_question(chooser: Chooser) -> Draft:
    """Question about a quality. Example: Was the movie interesting? - 映画は面白かったですか。"""
    subject, attribute = described(chooser, asked=True)
    return sentence(Clause(adjective_head(attribute), subject, Mode(chooser.pick(("present", "past"))), question=True))


# Comparison


def more(attribute: Adjective, link: Link, degree: Link | None = None) -> Parts:
    """Build the comparative, e.g. bigger, more interesting: the adjective carries `link`, 'more' carries `degree`."""
    short = attribute.comparative
    return (Word(short, link, True),) if short else (Word("more", degree), Word(attribute.english, link, True))


def comparing(attribute: Adjective, standard: NounPhrase) -> Head:
    """Build the head of a clause with a comparison. Example: bigger than the cat - 猫より大きい."""
    link, than = Link(), Link()
    english = (*more(attribute, link, than), Word("than", than), *standard.as_object)
    return adjective_head(attribute, english, (*standard.japanese, Word("より", than)), link)


OPINIONS = frozenset("expensive cheap delicious interesting difficult easy useful cute good beautiful".split())
OPINIONS |= {"important", "famous", "fast", "slow", "heavy", "light"}
"""Qualities in which things of different kinds can be compared."""


def _comparable(thing: Noun) -> list[Adjective]:
    return [attribute for attribute in adjectives_for(thing) if "nocompare" not in attribute.features]


MIXED = frozenset(("gift", "machine"))
"""Kinds of dissimilar things, compared only with the same noun: a ring with a ring."""


def compared(chooser: Chooser) -> tuple[NounPhrase, NounPhrase, Adjective]:
    """Choose two people, two things of one name (this bag, that bag; Ken's dog, Emi's dog) or of one kind."""
    draw = chooser.pick(("people", "owners", "this", "kinds"))
    if draw == "people":
        attribute = adjective(chooser.pick(("tall", "kind", "gentle", "smart", "brave", "serious", "busy", "strong")))
        first = chooser.subject(("named",), speaker=False)
        return first, chooser.person(first), attribute
    if draw == "kinds":
        scale = chooser.pick([scale for scale in lexicon.SCALES if scale.kind not in MIXED])
        first_noun, second_noun = chooser.pair(nouns(scale.kind))
        both = [
            attribute
            for attribute in _comparable(first_noun)
            if attribute in _comparable(second_noun) and attribute.english in OPINIONS
        ]
        if both:
            openings = chooser.pick((("the", "the"), ("the", "the"), ("this", "that")))
            first, second = (
                chooser.kind_of(entry) if entry.kinds & BARE else common(entry, opening if entry.plural else "the")
                for entry, opening in zip((first_noun, second_noun), openings, strict=True)
            )
            return first, second, chooser.pick(both)
    thing = chooser.pick([thing for thing in nouns("goods", "pet", "text", "dish") if thing.plural])
    attribute = chooser.pick(_comparable(thing))
    if draw == "this" or not thing.kinds & {"goods", "pet"} or thing.kinds & FEMALE:
        return common(thing, "this"), common(thing, "that"), attribute
    first = chooser.person()
    return common(thing, possessive(first)), common(thing, possessive(chooser.person(first))), attribute


def pointed(phrase: NounPhrase) -> bool:
    """Whether the thing is present ('this bag'), so that its quality is in the present tense."""
    return next(words(phrase.english)).text in ("this", "that")


@construction(2.0)
def comparison(chooser: Chooser) -> Draft:
    """Statement with a comparison. Example: This bag is heavier than that bag. - このかばんはあのかばんより重いです。"""
    first, second, attribute = compared(chooser)
    tense = "present" if pointed(first) else chooser.pick(("present", "present", "past"))
    return sentence(
        Clause(comparing(attribute, second), first, Mode(tense)), pairs=_pairs(attribute.english, first, second)
    )


@construction(0.8)
def which_is(chooser: Chooser) -> Draft:
    """Choice question. Example: Which is cheaper, the apple or the orange? - りんごとオレンジではどちらが安いですか。"""
    first, second, attribute = compared(chooser)
    if first.entry is None:
        first = chooser.person(second)
    link, choice = Link(), Link()
    human = first.animate and "person" in first.entry.kinds if first.entry else True
    which = noun_phrases.asked("who" if human else "which", "どちら")
    clause = Clause(adjective_head(attribute, more(attribute, link), (), link), which, Mode("present"))
    english = (*clause.english(), Word(","), *first.english, Word("or", choice), *second.english)
    japanese = (*first.japanese, Word("と", choice), *second.japanese, Word("では"), *clause.japanese(topic="が"))
    return Draft(english, japanese, (clause,), "?", _pairs(attribute.english, first, second))


def _pairs(predicate: str, *phrases: NounPhrase) -> tuple[tuple[str, str], ...]:
    return tuple((predicate, phrase.entry.english) for phrase in phrases if isinstance(phrase.entry, Noun))


@construction(0.8)
def superlative(chooser: Chooser) -> Draft:
    """Statement with a superlative. Example: Emi is the kindest student in the school. - エミは学校で一番親切な学生です。"""
    attribute = adjective(chooser.pick(("tall", "kind", "gentle", "smart", "brave", "serious", "young", "busy")))
    subject = chooser.person()
    role, place = chooser.pick(ROLES).split()
    top, link, at, who = Link(), Link(), Link(), Link()
    short = attribute.superlative
    word = (Word(short, link, True),) if short else (Word("most", top), Word(attribute.english, link, True))
    where = common(noun(place))
    english = (Word("the", top), *word, Word(role, who, True), Word(preposition(noun(place)), at), *where.english)
    kindest = (Word("一番", top), Word(ja.attributive(attribute.predicate).text, link, True))
    before = (*where.japanese, Word("で", at), *kindest, Word(noun(role).writing, who, True))
    head = Head(ja.Predicate("", "", "da", "の"), None, english, before, lemma=attribute.english)
    clause = Clause(head, subject, Mode(chooser.pick(("present", "past"))))
    return sentence(clause, pairs=((attribute.english, role),))


ROLES = ["student school", "student university", "teacher school", "doctor hospital", "nurse hospital"]
ROLES += ["chef restaurant", "child village", "carpenter village"]


# Liking and preferring


@construction(1.8)
def liking(chooser: Chooser) -> Draft:
    """Statement or question about liking. Example: Leo likes apples and peaches. Do you like cats? - …が好きです。"""
    action = verb(chooser.pick(("like", "like", "love", "hate")), None)
    things = nouns(*action.object)
    phrase = chooser.kind_of(chooser.pick(things))
    asked = chooser.chance(0.25)
    you = asked and chooser.chance(0.6)
    subject = pronoun("you") if you else chooser.subject(("person", "named"), speaker=not asked)
    negative = not asked and action.english == "like" and chooser.chance(0.45)
    if not negative and chooser.chance(0.25):
        first, second = chooser.pair(nouns(chooser.pick(("fruit", "sweets", "brewed", "sport", "vegetable", "study"))))
        phrase = noun_phrases.together(chooser.kind_of(first), chooser.kind_of(second))
    mode = Mode(chooser.pick(("present", "present", "past")), negative)
    return sentence(Clause(verb_head(action), subject, mode, (marked(phrase, "", "が", 0, 7),), asked))


@construction(0.5)
def understanding(chooser: Chooser) -> Draft:
    """Statement or question with 'understand'. Example: John does not understand French. - ジョンはフランス語がわかりません。"""
    action = verb("understand")
    entry = chooser.pick(nouns(*action.object))
    phrase = chooser.kind_of(entry) if entry.kinds & BARE else common(entry, "the")
    asked = chooser.chance(0.25)
    you = asked and chooser.chance(0.6)
    subject = pronoun("you") if you else chooser.subject(("person", "named"), speaker=not asked)
    mode = Mode(chooser.pick(("present", "past")), not asked and chooser.chance(0.5))
    return sentence(Clause(verb_head(action), subject, mode, (marked(phrase, "", "が", 0, 7),), asked))


def turned(attribute: Adjective) -> Complement:
    """Build the complement of 'become'. Example: cold - 冷たく."""
    link = Link()
    return Complement(
        (Word(attribute.english, link, True),), (Word(ja.adverbial(attribute.predicate).text, link, True),), 0, 7
    )


@construction(0.8)
def becoming(chooser: Chooser) -> Draft:
    """Statement about a change of a quality. Example: The soup became cold. - スープは冷たくなりました。"""
    name = chooser.pick(tuple(lexicon.CHANGES))
    attribute, things = adjective(name), lexicon.CHANGES[name]
    if "person" in things:
        subject = chooser.subject(things)
    else:
        subject = chooser.known(chooser.pick(nouns(*things)), described=0.0)
    if isinstance(subject.entry, Noun) and name in PRICES and subject.entry.kinds & {"fruit", "vegetable"}:
        subject = chooser.kind_of(subject.entry)  # a price changes for the whole kind: oranges became expensive
    clause = Clause(
        verb_head(verb("become")), subject, Mode(chooser.pick(("past", "past", "future"))), (turned(attribute),)
    )
    return sentence(clause, pairs=_pairs(attribute.english, subject))


def _rivals(chooser: Chooser) -> tuple[NounPhrase, NounPhrase, Adjective, str]:
    """Choose two things of a kind, a quality, and its role: 'more' if good, 'less' or 'too' if bad."""
    scale = chooser.pick(lexicon.SCALES)
    if scale.kind in MIXED or (chooser.chance(0.3) and scale.kind in ("container", "top", "book", "instrument")):
        thing = chooser.pick([thing for thing in nouns(scale.kind) if thing.plural])
        first_color, second_color = chooser.pair(COLORS if suiting(thing, ("red",)) else ("old", "new"))
        first, second = (common(thing, "the", describing(adjective(word))) for word in (first_color, second_color))
        taken, entries, definite = {first_color, second_color}, (thing, thing), True
    else:
        entries = chooser.pair(nouns(scale.kind))
        definite = chooser.chance(0.75) and all(entry.plural for entry in entries)
        first, second = (common(entry, "the") if definite else chooser.kind_of(entry) for entry in entries)
        taken = set()
    how = chooser.pick(("more", "less", "too"))
    names = scale.good if how == "more" else scale.bad
    options = [
        attribute
        for attribute in suiting(entries[0], names)
        if attribute in suiting(entries[1], names)
        and attribute.english not in taken
        and not (taken and attribute.english in ("easy", "difficult", "new"))
        and not (how == "less" and attribute.comparative)  # lighter, not less heavy
        and not (not definite and attribute.english in ("new", "fresh"))  # of this bag, not of bags in general
    ]
    if not options:
        return _rivals(chooser)
    attribute = chooser.pick(options)
    if attribute.english in ("acidic", "sour") and entries[0].english == "lemon":
        first, second = second, first  # nothing is sourer than a lemon
    return first, second, attribute, how


COLORS = ("red", "blue", "white", "black", "yellow")


def _judge(chooser: Chooser) -> NounPhrase:
    """Choose one person, since several people do not share one carrot."""
    while (subject := chooser.subject(("person", "named"))).plural:
        pass
    return subject


def preferring(
    chooser: Chooser, subject: NounPhrase, better: NounPhrase, worse: NounPhrase, mode: Mode, choice: bool = False
) -> Clause:
    """Build a clause that expresses a preference. Example: prefers the apple over the orange - オレンジよりりんごの方が好き.

    `choice`: a decision in a shop rather than a matter of taste, …の方がいいと思いました.
    """
    over, which = Link(), Link()
    wording = chooser.pick((("prefer", "over"), ("prefer", "over"), ("prefer", "to"), ("like", "better than")))
    standard = Complement((Word(wording[1], over), *worse.as_object), (*worse.japanese, Word("より", over)), 1, 6)
    japanese = (*better.japanese, Word("の方", over), Word("が", which))
    preferred = Complement(better.as_object, japanese, 0, 7, better.entry)
    predicate = ja.Predicate("いい", "と思う", "godan") if choice else None
    head = verb_head(verb(wording[0]), predicate, lemma="prefer")
    return Clause(head, subject, mode, (preferred, standard))


@construction(1.5)
def preference(chooser: Chooser) -> Draft:
    """Statement about a preference. Example: Emi prefers the apple over the orange. - エミはオレンジよりりんごの方が好きです。"""
    better, worse, _, _ = _rivals(chooser)
    subject = _judge(chooser)
    clause = preferring(chooser, subject, better, worse, Mode(chooser.pick(("present", "present", "past"))))
    return sentence(clause, pairs=_pairs("prefer", better, worse))


@construction(3.0)
def preference_because(chooser: Chooser) -> Draft:
    """Statement about a preference and its reason. Example: Emi prefers the apple over the orange because it is less
    acidic. - …。オレンジほどすっぱくないからです。

    Only the meaning identifies the antecedent of 'it': the preferred thing is less acidic or sweeter, the
    other thing too acidic.
    """
    better, worse, attribute, how = _rivals(chooser)
    subject = _judge(chooser)
    main = preferring(chooser, subject, better, worse, Mode(chooser.pick(("present", "present", "past"))))
    english, japanese, reason = with_reason(main, better, worse, attribute, how)
    return Draft(english, japanese, (main, reason), pairs=_pairs("prefer", better, worse))


def with_reason(
    main: Clause, better: NounPhrase, worse: NounPhrase, attribute: Adjective, how: str, topic: str | None = "は"
) -> tuple[Parts, Parts, Clause]:
    """Add a reason to a preference: the better thing has 'more' or 'less' of a quality, or the worse has 'too' much."""
    tense = main.mode.tense
    meant, other = (worse, better) if how == "too" else (better, worse)
    link, degree, because, it = Link(), Link(), Link(), pronoun(meant.pronoun, meant.referent, rival=other.referent)
    word = Word(attribute.english, link, True)
    english = more(attribute, link, degree) if how == "more" else (Word(how, degree), word)
    predicate = ja.excess(attribute.predicate) if how == "too" else attribute.predicate
    head = Head(predicate, None, english, link=link, lemma=attribute.english)
    # With 'less', only the Japanese side is negated: …ほど…ない.
    reason = Clause(head, it, Mode(tense, how == "less"), ending=Link() if how == "more" else degree)
    affirmed = Clause(head, it, Mode(tense), ending=degree) if how == "less" else reason
    again = Word(text(meant.japanese), it.link)
    said_of: Parts = {
        "more": (again, Word("の方", degree), Word("が")),
        "less": (*worse.japanese, Word("ほど", degree)),
        "too": (again, Word("は")),
    }[how]
    why = (*said_of, *reason.japanese(ja.plain, topic=None), Word("から", because), Word("です", because))
    english = (*main.english(), Word("because", because), *affirmed.english())
    return english, (*main.japanese(topic=topic), Word("。"), *why), reason
