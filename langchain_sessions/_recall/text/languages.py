# ruff: noqa: RUF001 - words of other scripts are what this file is about
"""What recall knows about languages: function words, irregular forms, scripts.

Small tables, each for one reason: function words carry no topic, a stemmer cannot see that "bought" is "buy",
and the share of a language's function words in a text is the cheapest sound guess of which language it is.
"""

from __future__ import annotations

from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DEFAULT_LANGUAGE: Final = "english"

_ENGLISH: Final = """
a an the and or but if then else of to in on at by for with from into onto about as is are was were be been being am
do does did doing done have has had having i me my mine myself we us our ours ourselves you your yours yourself he him
his himself she her hers herself it its itself they them their theirs themselves this that these those there here what
which who whom whose when where why how not no nor so than too very just also can could would should will shall might
must up out over under again once any some such only own same both each few more most other all kind type sort thing
things many much lot way get got go goes going went gone let's s t d m ll re ve don isn wasn aren weren didn doesn
hasn haven hadn won wouldn couldn shouldn ain dont doesnt didnt isnt wasnt arent werent hasnt havent hadnt wont wouldnt
couldnt shouldnt cant aint im ive youre youve youll theyre theyve weve thats whats wheres whos hows heres theres
lets u ur
"""

_OTHERS: Final = {
    "german": """
        der die das den dem des ein eine einen einem einer und oder aber wenn dann als ist sind war waren sein bin bist
        hat habe haben hatte ich mich mir du dich dir er ihn ihm sie wir uns ihr euch es mein dein nicht kein keine auch
        nur noch schon sehr so zu zum zur in im an am auf aus bei mit nach von vom für über unter um was wer wie wo wann
        warum welche welcher dass daß werden wird wurde kann können muss hier da""",
    "french": """
        le la les l un une des du de d et ou mais si est sont était être suis es ai as a avons avez ont avait je j me m
        moi tu te t toi il elle on nous vous ils elles se s ce c cet cette ces mon ma mes ton ta tes son sa ses notre
        votre leur ne n pas plus aussi très à au aux dans en par pour sur avec sans chez que qu qui quoi dont où quand
        comment pourquoi quel quelle y fait""",
    "spanish": """
        el la los las un una unos unas y o pero si es son era fue ser estar está estoy he ha han había yo me mi mis tú
        te tu tus él ella se su sus nosotros nos ellos ellas lo le les este esta estos estas eso esto no ni muy también
        más a al de del en por para con sin sobre que qué quien quién cual cuál cuando cuándo donde dónde como cómo
        porque hay ya""",
    "italian": """
        il lo la i gli le un uno una e ed o ma se è sono era erano essere ho hai ha abbiamo hanno avevo io mi me mio mia
        tu ti tuo tua lui lei si suo sua noi ci voi vi loro questo questa questi quello quella non né più anche molto a
        al alla di del della dei delle da dal in nel nella con su sul per che chi cosa quale quando dove come perché
        c l""",
    "portuguese": """
        o a os as um uma uns umas e ou mas se é são era foi ser estar está estou tenho tem temos têm tinha eu me meu
        minha tu te teu você ele ela nós nos eles elas seu sua seus suas isso isto este esta esse essa não nem muito
        também mais ao à de do da dos das em no na nos nas por para com sem sobre que quem qual quando onde como
        porque há já""",
    "dutch": """
        de het een en of maar als dan is zijn was waren ben bent heb hebt heeft hebben had ik mij me mijn jij je jou
        jouw hij hem zij ze haar wij we ons onze jullie hun dit dat deze die niet geen ook nog al zeer zo te naar in op
        aan uit bij met van voor over onder om wat wie hoe waar wanneer waarom welke er hier daar""",
    "russian": """
        и в во не что он на я с со как а то все она так его но да ты к у же вы за бы по только ее её мне было вот от
        меня еще ещё нет о из ему когда даже ну ли если или быть был была него до вас вам ведь там потом себя ей они
        тут где есть мы тебя их чем сам для это этот эта кто какой какая какие почему зачем""",
    "arabic": """
        في من على إلى الى عن مع هذا هذه ذلك تلك هو هي هم نحن انا أنا أنت انت كان كانت يكون لا لم لن ما ماذا متى اين أين
        كيف لماذا هل من الذي التي و أو او ثم قد أن ان إن كل بعد قبل""",
    "hindi": """
        का की के को में से पर है हैं था थी थे हो और या लेकिन यह वह ये वे मैं हम तुम आप मेरा मेरी मेरे ने भी नहीं क्या कब कहाँ कहां
        कैसे क्यों कौन तो ही एक कर रहा रही रहे गया गयी""",
    "greek": """
        ο η το οι τα τον την του της των ένα μια και ή αλλά αν είναι ήταν έχω έχει δεν μη να θα με σε από για που πως
        τι πότε πού πώς ποιος ποια αυτό αυτός εγώ εσύ μου σου""",
}

DENSE_STOPS: Final = frozenset(
    "的了是我你他她它们們在吗呢吧啊嗎這这那有和就都也不谁誰哪几幾么麼什怎何のはをにがでとてしたもいるかす은는이가을를의에도"
)
"""Function characters of scripts without blanks: alone, or in pairs of nothing else, they carry no topic."""

_DENSE_PHRASES: Final = """
什么时候 什麼時候 什么时间 什麼時間 什么地方 什麼地方 什么样 什麼樣 什么 什麼 怎么样 怎麼樣 怎么 怎麼 怎样 怎樣
为什么 為什麼 为何 為何 如何 何时 何地 哪里 哪裡 哪儿 哪兒 哪个 哪個 哪些 哪位 哪种 哪種 哪天 哪年 哪家 多少
多久 多长 多長 多大 几点 幾點 几号 幾號 几个 幾個 几次 幾次 是否 有没有 有沒有 是不是 能不能
我们 我們 你们 你們 他们 他們 她们 她們 自己 一个 一個 一些 这个 這個 那个 那個 这样 這樣
那样 那樣 因为 因為 所以 但是 然后 然後 如果 时候 時候
です ます でした ました ですか ますか でしたか ましたか でしょうか ください どこ だれ なに なぜ どう どの どんな
どうして いくら いくつ いつ こと もの それ これ あれ から まで
언제 어디 어디서 어디에 누구 누가 무엇 무엇인가요 무슨 어떤 어떻게 얼마 얼마나 왜 인가요 입니까 습니까 했나요 하나요
있나요 되나요 까요 나요 그리고 그래서 하지만
เมื่อไหร่ เมื่อไร ที่ไหน อะไร ใคร ทำไม อย่างไร ยังไง เท่าไหร่ เท่าไร หรือเปล่า ครับ ค่ะ คะ
"""

_DENSE_DOUBLES: Final = """
爸 爸爸 父亲 父親 老爸|妈 妈妈 媽媽 媽 母亲 母親 老妈 老媽|爷爷 爺爺 祖父|奶奶 祖母|妻子 老婆 太太 媳妇|丈夫 老公|
孩子 小孩 小朋友|工作 上班|照片 相片|手机 手機 电话 電話|汽车 轿车 汽車|单车 自行车 自行車|아빠 아버지|엄마 어머니
"""
"""Everyday doubles in scripts without blanks; the first, of one or two characters, is a term of every text about it."""

_IRREGULAR: Final = """
buy bought|bring brought|teach taught|catch caught|think thought|fight fought|seek sought|run ran|begin began begun|
sing sang sung|swim swam swum|drink drank drunk|ring rang rung|write wrote written|drive drove driven|ride rode ridden|
rise rose risen|choose chose chosen|speak spoke spoken|break broke broken|steal stole stolen|wake woke woken|
freeze froze frozen|take took taken|give gave given|see saw seen|eat ate eaten|fall fell fallen|know knew known|
grow grew grown|throw threw thrown|fly flew flown|draw drew drawn|blow blew blown|wear wore worn|tear tore torn|
swear swore sworn|forget forgot forgotten|hide hid hidden|bite bit bitten|make made|find found|lose lost|win won|
tell told|sell sold|keep kept|sleep slept|feel felt|leave left|meet met|send sent|spend spent|build built|lend lent|
hold held|hear heard|lead led|feed fed|pay paid|say said|stand stood|understand understood|sit sat|hang hung|
stick stuck|shoot shot|become became|come came|light lit|mean meant|dream dreamt|learn learnt|burn burnt|shake shook
shaken|show shown|dig dug|slide slid|spin spun|strike struck|sweep swept|bend bent|wind wound|bind bound|
child children kid kids|man men|woman women|foot feet|tooth teeth|mouse mice|person people|wife wives|knife knives|
life lives|leaf leaves|mother mom mum|father dad|picture photo photos|film movie movies|television tv|
bicycle bike bikes|telephone phone phones
"""
"""Forms of one word that no suffix rule joins, and the few everyday doubles."""


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _base_forms(table: str) -> dict[str, str]:
    groups = (group.split() for group in table.split("|"))
    return {form: base for base, *forms in groups for form in forms}


DENSE_BASE_FORMS: Final[Mapping[str, str]] = MappingProxyType(_base_forms(_DENSE_DOUBLES))
"""Double to the word that is indexed beside it, in scripts without blanks."""

DENSE_STOP_PHRASES: Final = tuple(sorted(_word_set(_DENSE_PHRASES), key=lambda phrase: (-len(phrase), phrase)))
"""What is asked with in scripts without blanks, and what joins sentences there, the longest first.

They are cut out before pairs are made, so that no pair reaches across.
"""

STOP_WORDS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {"english": _word_set(_ENGLISH), **{name: _word_set(words) for name, words in _OTHERS.items()}}
)
"""Function words by language, lower case, with their accents."""

BASE_FORMS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {"english": MappingProxyType(_base_forms(_IRREGULAR))}
)
"""Irregular form to base form, by language."""

_FEWEST_VOTES: Final = 3

GUESSABLE: Final = ("english", "german", "french", "spanish", "italian", "portuguese", "dutch")
"""Languages in Latin script that a text's function words tell apart; the others are known by their script."""

_VOTERS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        word: tuple(name for name in GUESSABLE if word in STOP_WORDS[name])
        for word in frozenset().union(*(STOP_WORDS[name] for name in GUESSABLE))
    }
)
"""The guessable languages that a word is a function word of: most words of a text are none's."""
_HAS_VOTERS: Final = frozenset(_VOTERS).__contains__

_SCRIPTS: Final = (
    ("\u0370", "\u03ff", "greek"),
    ("\u0400", "\u052f", "russian"),
    ("\u0530", "\u058f", "armenian"),
    ("\u0600", "\u06ff", "arabic"),
    ("\u0750", "\u077f", "arabic"),
    ("\u0900", "\u097f", "hindi"),
    ("\u0b80", "\u0bff", "tamil"),
    ("\u1f00", "\u1fff", "greek"),
)


def language_of_script(character: str) -> str | None:
    """Name the language whose stemmer fits a character's script, or None where the script does not tell."""
    if character < "\u0370":
        return None
    return next((name for first, last, name in _SCRIPTS if first <= character <= last), None)


def guess_language(words: Iterable[str], default: str = DEFAULT_LANGUAGE) -> str:
    """Guess the language of a text from its function words.

    Args:
        words: The words of the text, in lower case.
        default: The answer when there are fewer than three function words, or no clear winner.

    Returns:
        One of `GUESSABLE`, or the default.
    """
    votes: dict[str, int] = dict.fromkeys(GUESSABLE, 0)
    # Most words are nobody's: passed over in C.
    for word, count in Counter(filter(_HAS_VOTERS, words)).items():
        for name in _VOTERS[word]:
            votes[name] += count
    best = max(votes, key=lambda name: (votes[name], name == default))
    return best if votes[best] >= _FEWEST_VOTES and votes[best] > votes.get(default, 0) else default
