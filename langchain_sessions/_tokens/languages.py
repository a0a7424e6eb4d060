# ruff: noqa: RUF001 - words of languages
"""The language of a text, told by its words and its script, as far as that decides what its letters cost.

A byte-pair vocabulary was made of English for the most part: the same letters take a tenth to twice as many tokens in
another language, and no shape of a text tells so. The words do that every sentence has.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from math import lcm
from typing import TYPE_CHECKING, Final, NamedTuple

from langchain_sessions._tokens.weights import (
    ACCENTED,
    ARABIC,
    CYRILLIC,
    EXTENDED,
    GREEK,
    HAN,
    HANGUL,
    HEBREW,
    INDIC,
    KANA,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from langchain_sessions._tokens.long_texts import Counts

ENGLISH: Final = "English"

IN_LATIN: Final = {
    ENGLISH: "the of and to is that it for was with this are be have not you from by which they were we your can will "
    "would has been if there import return def self none true false select where function null else what how when "
    "more but or their should does could my our about into than then",
    "German": "und der das ist nicht ich wir mit für auf dem den ein eine zu sich auch wird sie von sind nach bei oder "
    "werden kann einen aber noch wenn diese dass muss zum zur nur haben hat können aus als bitte uns mir dein ihr "
    "warum jedes keine über mehr sehr du am im einer",
    "French": "de la à les des est une dans sur vous nous qui que pas ce avec sont ne cette plus votre être au aux du "
    "ou mais leur ses il elle je tu mon ma par il y aucune peux ont été fait où aussi et le bien comme sans pour",
    "Spanish": "a de el los las una por con para no es del se que como pero más su sus este esta está son ha hay muy "
    "ser puede y lo al nos ya me cuando porque donde qué mi tu tiene están todo hasta desde sin sobre le también",
    "Portuguese": "a de e à o os um uma não do da dos das em para com que no na é ao mais por foi são você se seu sua "
    "está isso mas já pelo pela nós eu ele ela como muito também ser tem há até sem quando meu minha nos nas",
    "Italian": "a di e la il gli che di è per non una sono della con del dei nel alla le un questo questa come ma più "
    "si ha anche mi ti ci dal delle degli sul essere ho hai abbiamo già poi molto dopo lo perché quando sia ancora "
    "tutto da",
    "Dutch": "het een van niet zijn voor dat deze met op te aan ik je wij ze bij maar ook nog er dan naar om door "
    "wordt worden als uit heeft hebben kan we geen wat mijn dit moet onze ons wil hij al of en de die zou kun meer",
    "Polish": "a w nie się na jest że do z i to jak ale czy po przez dla tego od być lub są tym może który która co "
    "ten jeszcze już tylko aby bardzo mnie nas jego ich oraz ze za o by będzie jej tak gdy proszę",
    "Czech": "a se na je že to s v z jako ale nebo pro jsou který která které by tak být může jsem jsme až při podle "
    "musí není ještě si už o po ve do jeho jak pokud kde co mi prosím tento byl bylo lze aby",
    "Slovak": "a sa na je že to s v z ako ale alebo pre sú ktorý ktorá ktoré by tak byť môže som sme až pri podľa musí "
    "nie ešte si už po vo do jeho keď kde čo mi prosím tento bol bolo aby",
    "Swedish": "och att det som en är på av för med den till inte om ett har jag vi du kan från så men de ska "
    "eller när hur vid alla denna detta måste skulle redan mycket bara över han hon oss vill",
    "Danish": "og at det som en er på af for med den til ikke et har jeg vi du kan fra så men de skal eller når "
    "hvor ved alle denne dette må skulle allerede meget kun over han hun os vil blev mere være eller deres",
    "Norwegian": "og at det som en er på av for med den til ikke et har jeg vi du kan fra så men de skal eller når "
    "hvor ved alle denne dette må skulle allerede mye bare over han hun oss vil ble mer være hvordan noen",
    "Finnish": "ja on ei se että oli olla kun niin mutta tai ovat joka myös voi jos olen ole hän sen vain kuin tämä "
    "tämän minä me ne jo vielä mitä sitä mukaan jonka ennen olemme saa sekä kaikki nyt minun",
    "Hungarian": "a az és hogy nem egy is van meg ez de csak már el mint vagy ki ha volt még lehet nem be fel minden "
    "kell lesz azt ezt én te ő mi miért amely szerint után mert nagyon ne le",
    "Romanian": "a și în de la nu este un o care pe cu mai din că să pentru sau sunt ce dacă fi ca au fost prin după "
    "acest această are trebuie am ai era le lui poate foarte noi cum când îmi lor",
    "Croatian": "i u je na se za da su od s kao ali ili koji koja koje bi to ne sa po iz biti može sam smo nije još "
    "samo već pri prema nakon ako gdje što ovaj bio bilo kako li mi nas vam",
    "Catalan": "a els les amb per que és una del no són com més aquest aquesta però ha hi han el la i o als dels seva "
    "seu molt quan ser si us plau tot on fins des ja encara em heu nostres podem ho",
    "Turkish": "ve bir bu için ile de da çok daha ne gibi kadar olarak ama mı mi olan en sonra ya her o ki değil "
    "veya bana ben sen biz lütfen olduğu nasıl neden iki içinde göre hiçbir olur",
    "Vietnamese": "và của là không có cho được với các một trong những đã này để người khi bạn tôi đến từ về phải "
    "nhiều như thì mà ở nếu hoặc cũng vào sẽ ra chúng hơn rồi lại nhưng",
    "Indonesian": "yang dan di untuk dengan tidak ini dari itu dalam akan pada adalah ke saya kami atau juga ada bisa "
    "oleh sudah anda kita telah harus lebih tetapi karena dapat kamu apa seperti setiap mereka jika",
}
IN_CYRILLIC: Final = {
    "Russian": "и в не на что я с по это как но он мы из для от все так же вы за бы или если уже к она было чтобы "
    "этого тогда будет ещё был были его её меня нас также при под между можно очень есть где мне ли",
    "Ukrainian": "і в не на що я з по це як але він ми для від всі так ви за або якщо вже до та є у й чи бути щоб "
    "цього тоді буде ще був були його її мене нас також при під між можна дуже де мені коли лише",
    "Bulgarian": "и в не на че с по това как но той ние от за да се са или ако вече към е ще ли ни ми със при без",
    "Serbian": "и у не на што са по ово као али он ми од за да се су или ако већ ка је ће ли нам из би нас",
}
IN_ARABIC: Final = {
    "Arabic": "في من على أن إلى هذا التي لا ما هل عن كان مع هذه أو لم قد ثم كل بعد لكن إذا لقد ذلك",
    "Persian": "در از به که را این است با برای آن یک می تا هم یا ما من شده کرد بود اگر هر نیست",
    "Urdu": "کے میں ہے کی اور سے کا کو نہیں یہ پر ہیں نے ہو بھی کر ایک اس جو تو",
}


SCRIPTS_OF_ONE: Final = (
    (GREEK, "Greek"),
    (HEBREW, "Hebrew"),
    (HANGUL, "Korean"),
)
"""Scripts that nearly only one language is written in."""
BLOCKS: Final = (
    ("\u0900", "Hindi"),
    ("\u0980", "Bengali"),
    ("\u0b80", "Tamil"),
    ("\u0c00", "Telugu"),
    ("\u0e00", "Thai"),
)
"""Scripts of India and its neighbours, by their first character: half a block of 128."""
BLOCK: Final = 128
GROUPS: Final[dict[str, bytes]] = {
    **dict.fromkeys(IN_LATIN, b"aA" + ACCENTED + EXTENDED),
    **dict.fromkeys(IN_CYRILLIC, CYRILLIC),
    **dict.fromkeys(IN_ARABIC, ARABIC),
    **{language: script for script, language in SCRIPTS_OF_ONE},
    **{language: INDIC for _, language in BLOCKS},
    "Japanese": KANA + HAN,
}
"""The classes of characters that a language is written in."""


class Speakers(NamedTuple):
    """Who says which words.

    Attributes:
        words: All of them.
        numbers: By word, the number of its group, below 256; what is nobody's has `NOBODY`.
        votes: By number, what a word of the group says for whom: the place of each language in `_LANGUAGES`, and how
            much. A word that many languages have says little of any.
        said: By place, the numbers of the groups that the language is in.
    """

    words: frozenset[str]
    numbers: Mapping[str, int]
    votes: Sequence[Sequence[tuple[int, int]]]
    said: Sequence[bytes]


NOBODY: Final = 0
ENGLISH_ALONE: Final = 1
_LANGUAGES: Final = (*IN_LATIN, *IN_CYRILLIC, *IN_ARABIC)


@cache
def speakers() -> Speakers:
    """Made when a text first asks for it: most processes count little."""
    found: dict[str, tuple[int, ...]] = {}
    for languages in (IN_LATIN, IN_CYRILLIC, IN_ARABIC):
        for language, words in languages.items():
            place = (_LANGUAGES.index(language),)
            for word in set(words.split()):
                found[word] = found.get(word, ()) + place
    english = (_LANGUAGES.index(ENGLISH),)
    groups = [(), english, *sorted({group for group in found.values() if group != english})]
    numbers = {group: number for number, group in enumerate(groups)}
    # In whole numbers, so that languages which tie are equal.
    one = lcm(*map(len, groups[1:]))
    return Speakers(
        frozenset(found),
        {word: numbers[group] for word, group in found.items()},
        [tuple((at, one // len(group)) for at in group) for group in groups],
        [bytes(number for number, group in enumerate(groups) if at in group) for at in range(len(_LANGUAGES))],
    )


SAMPLE = 700
LEAST_SHARE = 0.06
_FULL_SHARE = 0.12
"""Of the words of a text so many are among those of its language, at least."""
_NOBODYS = bytes([NOBODY])
_KANA = re.compile("[\u3041-\u30ff]")
_HAN = re.compile("[\u4e00-\u9fff]")
_HAN_A_KANA = 4
ALPHABETS = ((CYRILLIC, IN_CYRILLIC), (ARABIC, IN_ARABIC))


def by_script(text: str, classes: Counts) -> list[tuple[str, float]]:
    """The languages that are told by the script that they are written in."""
    found = [(language, 1.0) for script, language in SCRIPTS_OF_ONE if script in classes]
    if KANA in classes and _is_japanese(text):
        found.append(("Japanese", 1.0))
    if INDIC in classes and (language := _of_block(text)) is not None:
        found.append((language, 1.0))
    return found


def by_words(told: bytes, alphabets: Iterable[Iterable[str]]) -> list[tuple[str, float]]:
    """The languages of some alphabets, and one that is written as English is.

    Args:
        told: Whose each word is.
        alphabets: The languages of each.
    """
    known = speakers()
    votes = [0] * len(_LANGUAGES)
    for number in told.translate(None, _NOBODYS):
        for at, times in known.votes[number]:
            votes[at] += times
    found = [(_LANGUAGES[_most(votes, _LANGUAGES.index(first), len(others) + 1)], 1.0) for first, *others in alphabets]
    most = _most(votes, 0, len(IN_LATIN))
    words = len(told) - len(told.translate(None, known.said[most]))
    if _LANGUAGES[most] != ENGLISH and (share := _share(words, len(told))):
        # Languages share words: what is said in both is half of each.
        found.append((_LANGUAGES[most], share * votes[most] / (votes[most] + votes[_LANGUAGES.index(ENGLISH)])))
    return found


def _most(votes: Sequence[int], first: int, count: int) -> int:
    """Which of some languages has most votes; of those that tie the first."""
    some = votes[first : first + count]
    return first + some.index(max(some))


def _share(words: int, of: int) -> float:
    """How much of a text is in a language of which it has so many words."""
    return 0.0 if words <= 1 or words < LEAST_SHARE * of else min(1.0, words / (_FULL_SHARE * of))


def _is_japanese(text: str) -> bool:
    """Whether there are kana between the characters that Chinese has too; the full stop is of both."""
    sample = text[: 3 * SAMPLE]
    return len(_KANA.findall(sample)) * _HAN_A_KANA >= len(_HAN.findall(sample))


def _of_block(text: str) -> str | None:
    """The language of the first block of characters that is one of those we know."""
    characters = Counter(ord(character) // BLOCK for character in text[: 3 * SAMPLE])
    blocks = [(characters[ord(first) // BLOCK], language) for first, language in BLOCKS]
    most, language = max(blocks)
    return language if most else None
