"""Documents that hold keys, tokens or passwords, recognised by name and by content.

Documentation shows many tokens that are no secrets: one with words such as EXAMPLE in it, with
few different characters, or cut short with dots does not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import log2

from packwise.lazy_pattern import lazy_pattern

_NAMES = lazy_pattern(
    r"(?i)(?:^|[/\\])(?:\.env(?:\.\w+)?|\.netrc|\.pypirc|\.npmrc|\.pgpass|id_(?:rsa|dsa|ecdsa|ed25519)"
    r"|(?:[\w.-]*[._-])?(?:credentials?|secrets?|service[-_]?account)"
    r"\.(?:json|ya?ml|toml|ini|cfg|conf|properties))$"
)
_KEY = lazy_pattern(
    r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----(?P<body>[^-]{60,20000})-----END"
)
_TOKENS = lazy_pattern(
    r"\b(?:(?P<AWS>(?:AKIA|ASIA)[0-9A-Z]{16})"
    r"|(?P<GitHub>gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{82})"
    r"|(?P<GitLab>glpat-[A-Za-z0-9_-]{20})"
    r"|(?P<Slack>xox[abprs]-[0-9]{8,}-[0-9]{8,}-[A-Za-z0-9-]{20,80})"
    r"|(?P<Google>AIza[0-9A-Za-z_-]{35})"
    r"|(?P<Stripe>[rs]k_live_[0-9A-Za-z]{24,99})"
    r"|(?P<Anthropic>sk-ant-[a-z0-9]{2,8}-[A-Za-z0-9_-]{40,120})"
    r"|(?P<OpenAI>sk-(?:proj-)?[A-Za-z0-9]{32,64}|sk-proj-[A-Za-z0-9_-]{60,200})"
    r"|(?P<npm>npm_[A-Za-z0-9]{36})"
    r"|(?P<PyPI>pypi-AgEI[A-Za-z0-9_-]{50,250})"
    r"|(?P<SendGrid>SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}))(?![A-Za-z0-9_-])"
)
_BEGINNINGS = (
    *("AKIA", "ASIA", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox"),
    *("AIza", "k_live_", "sk-", "npm_", "pypi-AgEI", "SG."),
)
"""Every token holds one of these, and most texts hold none."""
_PLACEHOLDER = lazy_pattern(
    r"(?i)example|sample|dummy|fake|placeholder|redacted|your|secret|token|test|x{4}|0{6}|\.{3}"
    r"|abcdef|qwerty|012345|123456"
)
_LEAST_BITS = {"key": 4.5, "token": 3.0}
_SMALL_PART = 0.01
"""Of a text, for which the rest is worth reading: a manual that shows keys."""
_MASK = "*"


def secret_in(location: str, text: str) -> str:
    """What secret a document holds, in a few words; empty if none is seen."""
    if _NAMES.search(location):
        return "is named like a file of credentials"
    return next((f"holds a {what}" for what, _ in _secrets(text)), "")


def masked(location: str, text: str) -> str:
    """The text with asterisks for its secrets, nothing else moved; empty if they are more than a
    small part of it, or if it is named like credentials."""
    if _NAMES.search(location):
        return ""
    characters = list(text)
    for _, (start, end) in _secrets(text):
        characters[start:end] = (c if c.isspace() else _MASK for c in text[start:end])
    hidden = sum(map(str.__ne__, characters, text))
    return "".join(characters) if hidden <= _SMALL_PART * len(text) else ""


def _secrets(text: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """What each secret is, and where."""
    for key in _KEY.finditer(text):
        body = "".join(line for line in key["body"].split("\n") if ":" not in line)
        if "..." not in body and _bits("".join(body.split())) >= _LEAST_BITS["key"]:
            yield "private key", key.span("body")
    for token in _TOKENS.finditer(text) if any(sign in text for sign in _BEGINNINGS) else ():
        if not _PLACEHOLDER.search(token[0]) and _bits(token[0]) >= _LEAST_BITS["token"]:
            yield f"token of {token.lastgroup}", token.span()


def _bits(text: str) -> float:
    """The entropy of a text's characters."""
    total = len(text) or 1
    return -sum(n / total * log2(n / total) for n in Counter(text).values())
