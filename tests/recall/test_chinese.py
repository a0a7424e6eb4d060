# ruff: noqa: RUF001 - Chinese is punctuated as it is
"""Questions in Chinese find their evidence: a small chat of our own, over four days, with both names as authors."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from langchain_core.messages import HumanMessage

from langchain_sessions._recall.index.postings import EntryMaker, Segment, search_segments
from langchain_sessions._recall.rank.ranking import RankingWeights
from langchain_sessions._recall.text.dates import asked_dates
from langchain_sessions._recall.text.documents import make_document
from langchain_sessions._recall.text.grammar import parse_query
from langchain_sessions._recall.text.numerals import figures_in, in_figures, value_of
from langchain_sessions._recall.text.terms import TermMaker

TALK = {
    "2024-03-02": """
        小雨:早啊陈浩，好久没聊了，最近怎么样？
        陈浩:还行吧，上个月换了工作，现在在一家做地图软件的公司。
        小雨:真的吗？恭喜你！为什么想换呢？
        陈浩:以前那家天天加班，身体吃不消，医生让我多休息。
        小雨:那确实该换了。我这边还在医院上班，刚从急诊调到儿科。
        陈浩:儿科是不是特别吵？
        小雨:吵是吵，不过小朋友挺可爱的，昨天有个小女孩送了我一张画。
        陈浩:哈哈，画的是什么？
        小雨:画的是一只戴帽子的长颈鹿，我贴在冰箱上了。
        陈浩:对了，我开始学做饭了，第一个学会的是番茄牛腩。
        小雨:听起来很香，下次请我吃。
        陈浩:没问题，等我把火候练好。
    """,
    "2024-04-15": """
        小雨:我上周末去了趟黄山，看到日出了！
        陈浩:哇，跟谁一起去的？
        小雨:跟我表姐，她特意从成都飞过来。
        陈浩:爬了多久？
        小雨:早上三点就出发，爬了四个多小时，腿都软了。
        陈浩:厉害。我这个周末打算在家看书，最近在读《三体》。
        小雨:我大学的时候读过，最喜欢第二部。
        陈浩:我也觉得黑暗森林那部最精彩。
        小雨:你妹妹现在还在学钢琴吗？
        陈浩:她早就不弹了，改学大提琴，下个月有演出。
        小雨:太好了，演出在哪儿？
        陈浩:在市图书馆的小剧场，你要不要来？
        小雨:一定来，我会带花。
    """,
    "2024-06-20": """
        陈浩:告诉你个坏消息，我的自行车昨晚在地铁口被偷了。
        小雨:啊？报警了没有？
        陈浩:报了，警察说那一带没有摄像头，希望不大。
        小雨:那你现在怎么去公司？
        陈浩:先坐公交，二十分钟就到，其实也不慢。
        小雨:我最近养了一只橘猫，名字叫豆包。
        陈浩:从哪里领养的？
        小雨:小区门口的流浪猫救助站，已经打过疫苗了。
        陈浩:我对猫毛过敏，每次去朋友家都打喷嚏。
        小雨:那以后来我家要先吃药，哈哈。
        陈浩:妹妹的演出很成功，谢谢你那天送的向日葵。
        小雨:不客气，她拉得真好，我都听哭了。
    """,
    "2024-09-08": """
        小雨:我决定报名今年十一月的上海马拉松！
        陈浩:你疯啦？你以前跑步不是最多五公里吗？
        小雨:所以现在每天早上六点起来训练，教练是我们科室的同事。
        陈浩:加油！我的膝盖不行，只能游泳，现在每周去两次。
        小雨:在哪个游泳馆？
        陈浩:就在公司楼下，办了一张年卡，花了两千八。
        小雨:挺划算的。对了，我妈妈下周做白内障手术，有点紧张。
        陈浩:别担心，现在这个手术很成熟，我爷爷做完第二天就能看报纸了。
        小雨:谢谢你这么说，我安心多了。
        陈浩:公司派我去东京出差两周，你要带什么吗？
        小雨:帮我带一盒抹茶饼干吧，还有那种很细的水彩笔。
        陈浩:你还在画画啊？
        小雨:对，晚上画水彩放松，最近在画豆包睡觉的样子。
    """,
}
EVIDENCE = {
    "陈浩为什么换了工作？": 3,
    "陈浩现在在什么公司上班？": 1,
    "小雨在医院的哪个科室工作？": 4,
    "小女孩送给小雨的画上画了什么动物？": 8,
    "陈浩最先学会做的菜是什么？": 9,
    "小雨什么时候去爬黄山的？": 12,
    "小雨是和谁一起去看日出的？": 14,
    "小雨爬山用了多长时间？": 16,
    "陈浩最近在看什么书？": 17,
    "陈浩的妹妹学什么乐器？": 21,
    "演出的地点是哪里？": 23,
    "小雨给陈浩的妹妹送了什么花？": 35,
    "陈浩的自行车是在哪里丢的？": 25,
    "陈浩没有自行车之后怎么上班？": 29,
    "小雨的猫叫什么名字？": 30,
    "小雨的猫是从哪里来的？": 32,
    "陈浩对什么过敏？": 33,
    "小雨报名了什么比赛？": 37,
    "谁在教小雨跑步？": 39,
    "陈浩每周游泳几次？": 40,
    "陈浩的游泳年卡多少钱？": 42,
    "小雨的妈妈要做什么手术？": 43,
    "陈浩的爷爷手术后多久能看报纸？": 44,
    "陈浩要去哪个城市出差？": 46,
    "小雨想让陈浩带什么东西？": 47,
    "小雨晚上做什么来放松？": 49,
}


def test_questions_find_their_evidence() -> None:
    maker = TermMaker()
    entries = EntryMaker(maker)
    segments: list[Segment] = []
    places: list[tuple[int, int]] = []
    for day, talk in TALK.items():
        segment = Segment()
        when = datetime.fromisoformat(day).replace(tzinfo=timezone.utc)
        for line in talk.split():
            author, _, text = line.partition(":")
            places.append((len(segments), segment.events))
            segment.add(entries.entry(make_document(HumanMessage(text), author=author, timestamp=when)))
        segments.append(segment)
    ranks: list[int] = []
    for question, number in EVIDENCE.items():
        found = search_segments(segments, parse_query(question, maker), maker, weights=RankingWeights())
        order = [(each.segment, each.index) for each in found]
        ranks.append(order.index(places[number]) if places[number] in order else len(places))
    assert sum(rank < 1 for rank in ranks) >= 19
    assert sum(rank < 3 for rank in ranks) >= 24


def test_what_is_asked_with_is_no_word() -> None:
    maker = TermMaker()
    terms = set(maker.terms("什么时候去了北京"))
    assert {"北京", "北", "京"} <= terms
    assert terms.isdisjoint({"什么", "时候", "候去"})


@pytest.mark.parametrize(
    ("numeral", "value"),
    [("三", 3), ("十", 10), ("十二", 12), ("三十五", 35), ("一百零三", 103), ("两千八百", 2800), ("二〇二四", 2024)],
)
def test_numerals_are_numbers(numeral: str, value: int) -> None:
    assert value_of(numeral) == value


def test_numerals_count_only_before_what_they_count() -> None:
    assert figures_in("三月五号一起看三体，花了三百块") == ["3", "5", "300"]
    assert in_figures("二〇二四年五月二十号") == "2024年5月20号"
    assert value_of("一二三十") is None


@pytest.mark.parametrize("query", ["3月5日发生了什么", "三月五号发生了什么", "\uff13月\uff15日发生了什么"])
@pytest.mark.parametrize("text", ["我们三月五号搬家", "我们3月5号搬家", "我们\uff13月\uff15日搬家"])
def test_dates_are_found_however_they_are_written(query: str, text: str) -> None:
    maker = TermMaker()
    asked = {term for group in parse_query(query, maker).groups for term in group}
    assert {"3", "5"} <= asked & set(maker.terms(text))


@pytest.mark.parametrize("query", ["2024年5月3日的事", "\uff12024年5月3号", "二〇二四年五月三日", "2024년 5월 3일"])
def test_days_are_understood(query: str) -> None:
    assert {term for _, term in asked_dates(query)} == {"at:2024", "at:may", "at:3"}


def test_what_asks_for_a_date() -> None:
    assert {term for _, term in asked_dates("十一月和2月")} == {"at:november", "at:february"}
    assert not asked_dates("去哪里")


def test_everyday_doubles_are_one_word() -> None:
    maker = TermMaker()
    for one, other in (("父亲", "我爸"), ("妈妈", "母亲"), ("自行车", "单车"), ("工作", "上班"), ("아버지", "아빠")):
        asked = {term for group in maker.query_terms(one) for term in group}
        assert asked & set(maker.terms(other)), (one, other)
