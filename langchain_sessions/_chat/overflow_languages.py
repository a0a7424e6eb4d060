"""How languages say that a prompt is too long: words for the measure, the bound and what was sent.

Servers that nobody has heard of answer in the language of those who run them, and gateways translate. A text counts
where it has one word of each of the three, and none for rates and quotas, which count tokens too. All are parts of
words in lower case, since these languages inflect.
"""

from __future__ import annotations

from typing import NamedTuple


class Words(NamedTuple):
    """What a language calls tokens and contexts, a bound that is exceeded, what was sent, a rate or a quota.

    Then what it says of a text that is too long, and of what has no length: tokens that stand for somebody and are
    over, how much was used, how many requests there were.
    """

    language: str
    measure: str
    bound: str
    sent: str
    rate: str
    long: str
    other: str


LANGUAGES = (
    Words(
        "Chinese",
        r"(?:输入|輸入|提示词?|提示詞?|消息|对话|對話|请求|prompt) ?(?:文|内容)?[总總]?(?:长度|長度)|上下文"
        r"|令牌|超长|超長|最大(?:文本|输入)?(?:长度|長度)",
        r"超过|超出|超過|超长|超長|超限|过长|過長|上限",
        r"输入|輸入|提示|消息|请求|請求|对话|對話",
        r"限流|频率|速率|额度|余额|配额|请求过于频繁|每(?:秒|分钟|小时|日|天|月)|今日|今天|本月|本周|当日|单日|當日|单天|当天|当月|限额|限額|预算|图片数",
        r"过长|過長|太长|太長|超长|超長",
        r"过期|過期|失效|有效期|用量|套餐|余量|次数|次數|繁忙",
    ),
    Words(
        "Japanese",
        r"(?:入力|プロンプト)(?:文)?の?長さ?|コンテキスト|トークン",
        r"超え|超過|[長多]すぎ|上限",
        r"入力|プロンプト|メッセージ|リクエスト",
        r"レート制限|[秒分時日]あたり|クォータ|本日|月間|日次|画像数",
        r"長すぎ",
        r"有効期限|期限切れ|失効|使用量|回数|リクエストが多すぎ",
    ),
    Words(
        "Korean",
        r"(?:입력|프롬프트) ?길이|컨텍스트|토큰",
        r"초과|너무 (?:길|많|깁)",
        r"입력|프롬프트|메시지|요청",
        r"요청 한도|분당|초당|일일|하루|오늘|월간|할당량",
        r"너무 (?:길|깁)",
        r"만료|유효 ?기간|사용량|횟수|요청이 너무 많",
    ),
    Words(
        "German",
        r"\bkontext",
        r"überschr|übersteig|zu (?:lang|groß|viele)",
        r"eingabe|anfrage|nachricht",
        r"ratenlimit|pro (?:sekunde|minute|stunde|tag|monat)|kontingent|tages(?:limit|grenze|kontingent)"
        r"|(?:täglich|stündlich|monatlich)\w*",
        r"zu lang",
        r"abgelaufen|gültigkeit|verbrauch|(?:zu viele|anzahl (?:von|der|an)) anfragen",
    ),
    Words(
        "French",
        r"\bjetons?\b|\bcontexte\b",
        r"dépass|trop (?:long|grand|de)",
        r"entrée|requête|invite",
        r"limite de débit|par (?:seconde|minute|heure|jour|mois)|quotidien|journali|mensuel",
        r"trop long",
        r"expiré|durée|validité|(?:nombre (?:\w+ )?|trop )de requêtes",
    ),
    Words(
        "Spanish, Portuguese, Catalan",
        r"\bcontexto?\b",
        r"exced|supera(?:n|d[oa]s?)?\b|demasiad|muito long|ultrapass|massa llarg",
        r"entrada|solicitud|solicitação|petición|mensaje|conversa|mensag|pedido|missatge",
        r"por (?:segundo|minuto|hora|día|dia|mes|mês)|cuota|cota\b|diari[oa]|límite de velocidad|per minut",
        r"demasiado (?:larg|extens)|muito (?:long|extens)|massa llarg",
        r"caduc|expir|vencid|validez|validade|de uso\b|demasiad[ao]s (?:solicitud|petic)"
        r"|número (?:\w+ )?de (?:solicit|petic)",
    ),
    Words(
        "Italian",
        r"\bcontesto\b",
        r"tropp[oi] |supera ",
        r"messaggi|richiest",
        r"al (?:secondo|minuto|giorno|mese)|all'ora|giornalier|quota",
        r"troppo lung",
        r"scadut|validità|tropp[ei] richieste|numero (?:\w+ )?di richieste",
    ),
    Words(
        "Russian, Ukrainian, Bulgarian, Serbian",
        r"контекст|токен",
        r"превыш|перевищ|слишком|занадто|надвиш|твърде|премаш|предуг",
        r"запрос|запит|промпт|ввод|сообщен|диалог|заявк|съобщени|порук|унос",
        r"лимит запросов|в (?:секунду|час|день|сутки|месяц)|минуту\b|квот|баланс|остат|за (?:хвилину|добу)"
        r"|на (?:минута|ден)|дневн|суточн",
        r"слишком (?:длинн|больш|велик)|занадто (?:довг|велик)|твърде дълг|предуг",
        r"ист[её]к|просрочен|срок действия|токен доступа|(?:число|количество) (?:\w+ )?запросов|много запросов",
    ),
    Words(
        "Polish, Czech, Slovak",
        r"\bkontekst|\bkontext",
        r"za dług|przekr|příliš|překr|príliš|prekra?č|prekroč",
        r"zapytani|wejści|wiadomoś|vstup|dotaz|požadav|požiadav|zpráv|správ",
        r"na minutę|na godzinę|dzienn|dziś|za (?:minutu|minútu|hodinu|den|deň)|denn[íý]",
        r"za dług|(?:příliš|príliš) d(?:louh|lh)",
        r"wygas|vypršel|vypršal|ważnoś|platnos",
    ),
    Words(
        "Croatian, Slovene",
        r"\bkontekst|žeton",
        r"predug|premaš|predolg|presega|prekorač",
        r"\bporuk|zahtjev|\bupit|\bunos|\bvnos|sporočil|zahtev",
        r"u minuti|na minuto|dnevn|\bkvot",
        r"predug|predolg",
        r"istekao|isteka|potekel",
    ),
    Words(
        "Dutch",
        r"\bcontext",
        r"\bte lang\b|overschr",
        r"invoer|verzoek",
        r"per (?:minuut|uur|dag)|dagelijks|daglimiet",
        r"\bte lang",
        r"verlopen|geldigheid",
    ),
    Words(
        "Swedish, Danish, Norwegian",
        r"\bkontekst|\bkontext",
        r"för lång|\bfor lang\b|överskrid|overskrid|oversteg|överstig",
        r"begäran|inmatning|meddeland|forespørs|besked|melding|anmodning|indtastning",
        r"per (?:minut|timme|dag|time|døgn)|pr\. (?:minut|dag)|dagliga?|\bkvot",
        r"för lång|\bfor lang",
        r"utgått|utløpt|udløbet|giltighet|gyldighed|gyldighet",
    ),
    Words(
        "Finnish, Estonian",
        r"konteksti|tokeni|tunnistetta|merkkiyksik",
        r"liian (?:pitkä|suuri|monta)|ylitt|ületa|liiga (?:pikk|suur)",
        r"syöt|kehot|viesti|pyyn|keskustelu|sisend|päring|sõnum",
        r"minuutis|tunnissa|päiväs|päivitt|päivä(?:raja|kiinti)|kiinti|pyyntöraja|päevas",
        r"liian pitk|liiga pikk",
        r"vanhentu|voimassa|aegunud",
    ),
    Words(
        "Hungarian",
        r"kontextus|\btoken",
        r"túl (?:hosszú|nagy|sok)|meghalad|túllép",
        r"bemenet|kérés|üzenet|beszélgetés|\bprompt",
        r"perc(?:enk|es)|óránk|\b(?:napi|havi)|kvót|keretet",
        r"túl hossz",
        r"lejárt|érvényesség",
    ),
    Words(
        "Romanian",
        r"\btokeni|\bcontext",
        r"depăș|depaș|depășe|prea (?:lung|mare|mult)",
        r"intrare|cerere|cereri|mesaj|solicit|promptul|conversați",
        r"pe (?:secundă|minut|oră|zi|lună)|zilnic|cot[ăa]\b",
        r"prea lung",
        r"expirat|valabilit",
    ),
    Words(
        "Greek",
        r"περιβάλλοντος|συμφραζ|διακριτικ|\btoken|πλαισίο",
        r"υπερβαίν|υπέρβ|ξεπερν|πολύ (?:μεγάλ|μακρ)|μέγιστ",
        r"προτροπ|μήνυμα|μηνύματ|είσοδο|εισόδου|αίτημα|αιτήματ|ερώτημα|συνομιλ",
        r"ανά (?:δευτερόλεπτο|λεπτό|ώρα|ημέρα|μήνα)|ημερήσι|μηνιαί|ποσόστωσ|ρυθμ",
        r"πολύ (?:μεγάλ|μακρ)",
        r"έληξε|ισχύ",
    ),
    Words(
        "Turkish",
        r"bağlam",
        r"çok uzun|aş.yor|aş.ld",
        r"\bgirdi|\bistem|\bistek|mesaj",
        r"dakikada|saatlik|günlük|ayl.k|kota",
        r"çok uzun",
        r"süresi (?:dol|geç)|geçerlilik",
    ),
    Words(
        "Lithuanian, Latvian",
        r"kontekst|žeton|tokenu",
        r"per ilg|viršij|pārāk (?:gar|liel)|pārsnie",
        r"įvest|užklaus|praneš|žinut|ievad|pieprasīj|ziņojum",
        r"per minutę|per dieną|minūtē|dienā|\bkvot",
        r"per ilg|pārāk gar",
        r"galioj|derīguma",
    ),
    Words(
        "Arabic",
        r"رمز|رموز|توكن|سياق",
        r"طويل|تجاوز",
        r"مدخل|إدخال|طلب|برومبت|مطالبة",
        r"في (?:الدقيقة|الساعة|اليوم)|يومي|حصة",
        r"طويل",
        r"صلاحية|انتهت",
    ),
    Words(
        "Persian, Urdu",
        r"توکن|ٹوکن|زمینه|طول متن|سیاق",
        r"بیش از حد|بیشتر است|فراتر|تجاوز|بہت (?:لمبا|طویل|بڑا)|طولانی",
        r"ورودی|پیام|درخواست|پرامپت|گفتگو|ان پٹ|پرامپٹ|پیغام",
        r"در (?:ثانیه|دقیقه|ساعت|روز)|روزانه|ماهانه|سهمیه|محدودیت نرخ|فی منٹ|روزانہ|کوٹہ",
        r"طولانی|بہت (?:لمبا|طویل)",
        r"منقضی|اعتبار",
    ),
    Words(
        "Hindi, Bengali",
        r"टोकन|संदर्भ|টোকেন|প্রসঙ্গ",
        r"बहुत लंब|अधिकतम|सीमा से|খুব দীর্ঘ|সর্বোচ্চ|ছাড়িয়ে|অতিক্রম",
        r"प्रॉम्प्ट|इनपुट|अनुरोध|ইনপুট|প্রম্পট|অনুরোধ|বার্তা",
        r"प्रति (?:मिनट|दिन|घंट)|दैनिक|कोटा|প্রতি (?:মিনিট|দিন)|দৈনিক|কোটা",
        r"बहुत लंब|খুব দীর্ঘ",
        r"समाप्त हो|মেয়াদ",
    ),
    Words(
        "Vietnamese",
        r"ngữ cảnh",
        r"quá dài|vượt quá",
        r"đầu vào|yêu cầu|tin nhắn",
        r"mỗi (?:phút|giờ|ngày)|hằng ngày|hạn ngạch",
        r"quá dài",
        r"hết hạn|hiệu lực",
    ),
    Words(
        "Indonesian, Malay",
        r"\bkonteks",
        r"terlalu panjang|melebihi",
        r"masukan|permintaan|mesej|pesan\b",
        r"per (?:menit|jam|hari)|seminit|harian|kuota",
        r"terlalu panjang",
        r"kedaluwarsa|tamat tempoh|masa berlaku",
    ),
    Words(
        "Thai",
        r"โทเค็น|บริบท",
        r"ยาวเกิน|เกินขีด",
        r"คำขอ|ข้อความ|อินพุต",
        r"ต่อ(?:นาที|วัน)|โควตา",
        r"ยาวเกิน",
        r"หมดอายุ",
    ),
    Words(
        "Hebrew",
        r"טוקנ|אסימונ",
        r"ארוך מדי|חורג",
        r"פרומפט|קלט|בקש",
        r"ב(?:דקה|שעה|יום)\b|לדקה|ליום|מכסה",
        r"ארוך מדי|ארוכה מדי",
        r"פג תוקף|תוקף",
    ),
)


def words_for(what: str) -> str:
    """One pattern of what all languages have for `measure`, `bound`, `sent`, `rate`, `long` or `other`."""
    return "|".join(getattr(words, what) for words in LANGUAGES)
