"""Columns that look like personal data, by their names and by their values.

Their values are never stored as samples. The lists err on the side of caution: a sample that is
missing costs a little retrieval quality, one that should not be there is a breach.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_WORDS = frozenset(
    """
    address addresses age bank bic biometric birth birthday birthdate born card cell citizenship
    contact credit cvv diagnosis disability dob email emails ethnicity face fax fingerprint
    firstname forename fullname gender givenname health iban income insurance ip latitude license
    login longitude lastname maiden mail mobile nationality passphrase passport password passwd
    patient phone phones pin plate postal postcode race religion salary secret sex signature ssn
    street surname swift tax telephone tel token username vat vin wage zip zipcode
    """.split()
)
_PAIRS = re.compile(
    r"\b(?:first|last|middle|full|given|family|user|nick|display) ?name\b|\baccount (?:no|number)\b"
    r"|\bapi ?key\b|\bnational id\b|\bsocial security\b|\bdate of birth\b"
)
_PEOPLE = frozenset(
    """
    account accounts author authors buyer buyers candidate candidates client clients contact
    contacts customer customers doctor doctors driver drivers employee employees guest guests lead
    leads member members passenger passengers patient patients people person persons player players
    staff student students subscriber subscribers teacher teachers user users visitor visitors
    """.split()
)
_VALUES = re.compile(
    r"[^\s@]+@[^\s@]+\.[a-z]{2,}"  # an e-mail address
    r"|\+?\(?\d[\d ().\-/]{7,18}\d"  # a telephone or a card number
    r"|[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,4})?"  # an IBAN
    r"|\d{1,3}(?:\.\d{1,3}){3}"  # an IP address
    r"|\d{3}-\d{2}-\d{4}",  # a social security number
    re.IGNORECASE,
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d.*|\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d{4}[-/]\d{2,4}")
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")


def split_words(name: str) -> str:
    """The words of a name: ``customerEmail_address`` becomes ``customer Email address``."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return " ".join(re.split(r"[_\W]+", spaced)).strip() or name


def is_personal_name(table: str, column: str) -> bool:
    """Whether a column's name says that it holds data about a person."""
    words = split_words(column).lower()
    if _WORDS & set(words.split()) or _PAIRS.search(words):
        return True
    about_people = bool(_PEOPLE & set(split_words(table).lower().split()))
    return about_people and "name" in words.split()


def has_personal_values(values: Iterable[str]) -> bool:
    """Whether a value has the form of an address, a number or a name of one person."""
    return any(
        _VALUES.fullmatch(value.strip())
        and not _DATE.fullmatch(value.strip())
        and not (_NUMBER.fullmatch(value.strip()) and len(value.strip()) < 9)
        for value in values
    )
