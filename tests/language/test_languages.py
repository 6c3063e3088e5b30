"""Index terms, detection, sentences, question words and names in other languages."""

import pytest

from packwise.documents import Block, BlockKind, Document, Section
from packwise.language.analyzer import fold, terms
from packwise.language.detection import detect, guess, question_language, with_language
from packwise.language.languages import languages
from packwise.language.names import name_key, names_in
from packwise.language.questions import AnswerKind, QuestionKind, parse_question
from packwise.language.sentences import sentence_spans
from packwise.language.word_classes import words_of

GERMAN = "Die Häuser am Fluss wurden im Jahr 1890 gebaut, weil die Stadt schnell wuchs."


@pytest.mark.parametrize(
    ("lang", "one", "other"),
    [
        ("de", "Häusern", "Haus"),
        ("de", "STRASSE", "Straßen"),
        ("fr", "l'école", "écoles"),
        ("fr", "l’école", "ecole"),
        ("es", "canciones", "canción"),
        ("ru", "ёлками", "елка"),
        ("tr", "Ankara'nın", "ANKARA"),
        ("tr", "IŞIK", "ışık"),
        ("tr", "isik", "ışık"),
        ("ar", "والمدرسة", "مَدْرَسَة"),
        ("ar", "أحمد", "احمد"),
        ("hi", "फ़िल्मों", "फिल्म"),
        ("el", "Αθήνα", "ΑΘΗΝΑ"),
        ("fa", "كتاب‌های", "کتاب"),
        ("ja", "ｶﾞｽ", "ガス"),
        ("ar", "٢٠٢٣", "2023"),
        ("ar", "جامعات", "الجامعة"),
        ("ar", "مستشفى", "مستشفي"),
        ("hi", "हिन्दी", "हिंदी"),
        ("hi", "सम्बन्ध", "संबंध"),
        ("th", "เเม่", "แม่"),
        ("tr", "seçimlerinden", "seçim"),
        ("tr", "Gizlenmiş", "gizlemek"),
        ("vi", "hoà", "hòa"),
        ("vi", "thuỷ", "thủy"),
    ],
)
def test_forms_of_a_word_have_one_term(lang, one, other):
    assert terms(one, lang) == terms(other, lang) != []


@pytest.mark.parametrize(
    ("lang", "one", "other"),
    [
        ("vi", "bán", "bạn"),
        ("vi", "quỳ", "qùy"),
        ("tr", "192168001", "192168002"),
        ("ja", "ガス", "カス"),
        ("ru", "йод", "иод"),
        ("hi", "बड़ा", "बडा"),
        ("th", "เสือ", "เสื่อ"),
    ],
)
def test_marks_that_change_the_word_stay(lang, one, other):
    assert terms(one, lang) != terms(other, lang)


def test_scripts_without_spaces_are_indexed_in_pairs_of_characters():
    assert terms("使用Python3构建数据库，于1999年", "zh") == [
        *("使用", "python3", "构建", "建数", "数据", "据库"),
        *("于", "1999", "年"),
    ]
    assert terms("서울의 한강, Python으로", "ko") == ["서울", "울의", "한강", "python", "으로"]
    assert terms("กรุงเทพ", "th") == ["กรุ", "รุง", "งเท", "เทพ"]


def test_words_keep_their_vowel_signs():
    assert terms("दिल्ली में", "mr") == ["दिल्ली", "में"]
    assert name_key("दिल्ली") == "दिल्ली"
    assert fold("한글 ガス Été") == "한글 ガス ete"


def test_stop_words_are_those_of_the_language():
    assert terms("die Stadt", "de") == ["stadt"]
    assert terms("did he die", "en") == ["did", "he", "die"]
    assert terms("Die the", "de") == ["the"]


def test_english_is_read_in_texts_of_other_scripts():
    assert terms("running servers", "zh") == terms("running servers", "en") == ["run", "server"]


def test_a_question_in_an_unclear_language_has_the_terms_of_each():
    found = terms("Häuser running", "de en")
    assert found == ["haus", "running", "hauser", "run"]


def test_every_stemmer_of_the_table_exists():
    import Stemmer

    named = {row.stemmer for row in languages().values() if row.stemmer}
    assert named <= set(Stemmer.algorithms())
    assert len(named) > 25


@pytest.mark.parametrize(
    ("lang", "text"),
    [
        ("de", GERMAN),
        ("en", "The houses by the river were built in 1890 because the city was growing quickly."),
        (
            "fr",
            "Les maisons au bord de la rivière furent construites vite : la ville grandissait.",
        ),
        ("zh", "河边的房子建于1890年。"),
        ("ja", "川沿いの家は1890年に建てられました。"),
        ("ko", "강가의 집들은 1890년에 지어졌다."),
        ("ru", "Дома у реки были построены в 1890 году, потому что город быстро рос."),
        ("ar", "بنيت البيوت على ضفاف النهر في عام 1890 لأن المدينة كانت تنمو بسرعة."),
        ("th", "บ้านริมแม่น้ำสร้างขึ้นในปี 1890"),
        ("hi", "नदी के किनारे के घर 1890 में बनाए गए थे क्योंकि शहर तेज़ी से बढ़ रहा था।"),
        ("tr", "Nehir kıyısındaki evler 1890 yılında şehir hızla büyüdüğü için inşa edildi."),
        ("vi", "Những ngôi nhà ven sông được xây dựng vào năm 1890 vì thành phố phát triển nhanh."),
        ("zh", "数据库 database 的迁移指南 guide，适用于 PostgreSQL。"),
        ("", "README"),
        ("", "Rack 4 17:30"),
        ("", ""),
    ],
)
def test_the_language_of_a_text_is_detected_or_left_open(lang, text):
    assert detect(text) == lang


def document(text, code="", lang=""):
    block = Block(BlockKind.TEXT, 0, len(text))
    more = Block(BlockKind.CODE, len(text), len(text) + len(code))
    whole = text + code
    section = Section((), 0, (block, more), 0, len(whole))
    return Document("d", "", whole, (section,), lang=lang)


def test_code_does_not_decide_the_language_and_a_declared_one_wins():
    code = "\nfor the_name in the_list:\n    print('and then it was not')\n" * 20
    assert with_language(document(GERMAN, code)).lang == "de"
    assert with_language(document(GERMAN, lang="fr-CA")).lang == "fr"


def test_a_question_is_read_in_a_language_of_the_store():
    held = {"en": 50, "de": 40, "ru": 5}
    assert question_language("Wann wurde das Haus gebaut?", held) == "de"
    assert question_language("When was the house built?", held) == "en"
    assert question_language("Когда построен дом?", held) == "ru"
    assert question_language("Zugspitze 2962", held) == "en de"
    assert question_language("Zugspitze 2962", {"de": 3}) == "de"
    assert question_language("anything at all", {"": 3}) == "en"
    assert question_language("Wann wurde das Haus gebaut?", {"ru": 5}) == "de"
    assert guess("¿Cuándo se fundó la ciudad?") == "es"
    assert guess("foo bar") == ""


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("今天下雨。我们在家！你呢？", 3),
        ("यह पहला है। यह दूसरा है।", 2),
        ("هذا أول. هل هذا ثان؟ نعم.", 3),
        ("Er kam am 3. März an. Das war gut, z. B. für ihn.", 2),
        ("Это было в 1999 г. в Москве. Потом он уехал.", 2),
        (f"{'ก' * 70} {'ข' * 70} {'ค' * 5} {'ง' * 5}", 3),
    ],
)
def test_sentences_end_where_the_script_ends_them(text, count):
    assert len(sentence_spans(text)) == count


@pytest.mark.parametrize(
    ("lang", "question", "kind"),
    [
        ("de", "Wie viele Einwohner hat Bremen?", QuestionKind.HOW_MANY),
        ("de", "Wie lange dauert die Fahrt?", QuestionKind.HOW_LONG),
        ("fr", "Qui a construit la tour ?", QuestionKind.WHO),
        ("es", "¿Dónde está el museo?", QuestionKind.WHERE),
        ("ru", "В каком году основан город?", QuestionKind.WHEN),
        ("zh", "这座桥是哪一年建成的？", QuestionKind.WHEN),
        ("ja", "駅はどこにありますか。", QuestionKind.WHERE),
        ("ko", "누가 이 책을 썼습니까?", QuestionKind.WHO),
        ("ar", "كم عدد الطلاب؟", QuestionKind.HOW_MANY),
        ("hi", "पुल कब बना?", QuestionKind.WHEN),
        ("th", "ใครเขียนหนังสือเล่มนี้", QuestionKind.WHO),
        ("vi", "Cây cầu dài bao nhiêu mét?", QuestionKind.HOW_MANY),
        ("tr", "Fotosentez nedir?", QuestionKind.WHAT_IS),
    ],
)
def test_question_words_say_what_is_asked_for(lang, question, kind):
    assert parse_question(question, lang).kind is kind


def test_question_words_are_not_looked_for():
    assert set(parse_question("Wann wurde Bremen gegründet?", "de").weights) == {
        "brem",
        "gegrund",
    }
    assert "什么" not in parse_question("数据库是什么？", "zh").weights
    assert parse_question("Who wrote it?", "en").answer is AnswerKind.PERSON


@pytest.mark.parametrize(
    ("lang", "question", "other"),
    [
        ("de", "Darf man jemanden foltern?", "Foltern"),
        ("fr", "Peut-on torturer quelqu'un ?", "torturer"),
        ("es", "¿Puede alguien torturar?", "torturar"),
        ("ru", "Можно ли пытать?", "ли пытать"),
        ("ar", "هل يجوز تعذيب؟", "تعذيب"),
        ("zh", "是否 酷刑", "酷刑"),
    ],
)
def test_words_that_only_make_a_question_are_not_looked_for(lang, question, other):
    assert list(parse_question(question, lang).weights) == terms(other, lang)


def test_a_german_noun_is_not_a_sure_name():
    found = {name.text: name.sure for name in names_in("Ich sah das Haus und Anna Berg.", "de")}
    assert found == {"Ich": False, "Haus": False, "Anna Berg": True}


def test_scripts_without_capitals_have_no_made_up_names():
    for text in (
        "东京是日本的首都。",
        "القاهرة عاصمة مصر.",
        "नई दिल्ली राजधानी है।",
        "กรุงเทพเป็นเมืองหลวง",
    ):
        assert names_in(text) == []


def test_words_without_spaces_are_characters_with_the_terms_of_pairs():
    words = words_of("于1999年建成", "zh")
    assert [word.text for word in words] == ["于", "1999", "年", "建", "成"]
    assert [word.term for word in words] == ["于", "1999", "年建", "建成", "成"]
    assert [word.text for word in words_of("नई दिल्ली", "hi")] == ["नई", "दिल्ली"]


def test_words_that_only_ask_leave_no_pairs_at_their_borders():
    assert list(parse_question("可以把人当作奴隶吗？", "zh").weights) == [
        "人当",
        "当作",
        "作奴",
        "奴隶",
    ]
    assert list(parse_question("초등교육은 무상인가?", "ko").weights)[-1] == "무상"
    assert list(parse_question("Darf man rauchen?", "de").weights) == ["rauch"]
