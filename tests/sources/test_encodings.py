"""Text in the encodings of the last century is read, and the build says which one it was."""

import pytest

from packwise.errors import SourceError
from packwise.sources.decoding import decode

GERMAN = "Die Übergabe der Schlüssel erfolgt am Montag. Größere Änderungen müssen früh beginnen."
POLISH = "Zażółć gęślą jaźń. Klucze należy oddać przed końcem miesiąca."
SPANISH = "El señor Núñez cambió la contraseña en España. Mañana por la mañana hará más calor."
FINNISH = (
    "Heinäkuun päivänä menetti projekti erittäin rakkaan ystävän, joka oli lähes koko elämänsä."
)
CZECH = "Klíče se každý rok v březnu mění. Starý klíč zůstává ještě třicet dní v platnosti."
TURKISH = "Şirketin anahtarları her yıl mart ayında değiştirilir. Eski anahtar otuz gün geçerlidir."
RUSSIAN = "Ключи подписи меняются каждый год в марте. Старый ключ остаётся действительным."
GREEK = "Τα κλειδιά αλλάζουν κάθε χρόνο τον Μάρτιο. Το παλιό κλειδί παραμένει έγκυρο."
JAPANESE = "署名鍵は毎年三月に交換されます。古い鍵は三十日間有効です。"
CHINESE = "签名密钥每年三月更换。旧密钥在三十天内仍然有效。紧急情况请联系值班人员。"
KOREAN = "서명 키는 매년 3월에 교체됩니다. 이전 키는 30일 동안 유효합니다."


@pytest.mark.parametrize(
    ("text", "encoding", "name"),
    [
        (GERMAN, "latin-1", "Windows-1252"),
        (SPANISH, "latin-1", "Windows-1252"),
        (FINNISH, "latin-1", "Windows-1252"),
        (TURKISH, "cp1254", "Windows-1254"),
        (POLISH, "cp1250", "Windows-1250"),
        (POLISH, "iso8859_2", "ISO-8859-2"),
        (CZECH, "cp1250", "Windows-1250"),
        (RUSSIAN, "cp1251", "Windows-1251"),
        (RUSSIAN, "koi8_r", "KOI8-R"),
        (GREEK, "cp1253", "Windows-1253"),
        (JAPANESE, "shift_jis", "CP932"),
        (JAPANESE, "euc_jp", "EUC-JP"),
        (CHINESE, "gbk", "GB18030"),
        (CHINESE.translate({}), "gb18030", "GB18030"),
        (KOREAN, "euc_kr", "EUC-KR"),
        ("a café in Zürich", "latin-1", "Windows-1252"),
        ("“quoted” – it costs 5 €", "cp1252", "Windows-1252"),
    ],
)
def test_the_encoding_is_recognised_and_named(text, encoding, name):
    mostly_ascii = "Plain words before it.\n" * 50 + text
    for whole in (text, mostly_ascii):
        assert decode(whole.encode(encoding)) == (whole, f"not UTF-8: read as {name}")


@pytest.mark.parametrize("few", ["© 1998 Skåne/Sjælland, Årets ø", "Núñez, 1998: año, señal, niño"])
def test_a_few_letters_are_those_of_the_language_around_them(few):
    text = "A dictionary of words that are often written wrong.\n" * 9 + few
    assert decode(text.encode("latin-1")) == (text, "not UTF-8: read as Windows-1252")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "iso2022_jp"])
def test_bytes_that_show_their_encoding_need_no_mark(encoding):
    text = "Plain words. " + (JAPANESE if encoding == "iso2022_jp" else "More of them.")
    assert decode(text.encode(encoding)) == (text, "")


def test_noise_is_not_taken_for_an_encoding():
    with pytest.raises(SourceError, match="not UTF-8"):
        decode(bytes(range(128, 192)) * 40)
