"""Questions of a conversation that leave something out: what they are understood as."""

import pytest

from packwise.serving.follow_ups import complete_question

SHADOW = "What is the group shadow for?"


@pytest.mark.parametrize(
    ("before", "question", "understood"),
    [
        (SHADOW, "and the group plugdev?", "What is the group plugdev for?"),
        (SHADOW, "what about utmp?", "What is utmp for?"),
        (SHADOW, "utmp?", "What is utmp for?"),
        (SHADOW, "Okay, and how about the utmp group?", "What is the utmp group for?"),
        # A name takes the place of a name; the noun beside it stays.
        ("What does the HUP signal do?", "and TERM?", "What does the TERM signal do?"),
        (
            "How do I back up a MariaDB database?",
            "InfluxDB?",
            "How do I back up an InfluxDB database?",
        ),
        ("How do I install it on Debian?", "and Ubuntu?", "How do I install it on Ubuntu?"),
        ("What does --bind do?", "and --reload?", "What does --reload do?"),
        ("Who owns /usr/src?", "what about /var/mail?", "Who owns /var/mail?"),
        # The verb stays where it is.
        ("Since when does it support ntfy?", "and Zabbix?", "Since when does it support Zabbix?"),
        ("What does max_line limit?", "and max_fields?", "What does max_fields limit?"),
        ("How does ufw handle IPv6?", "and IPv4?", "How does ufw handle IPv4?"),
        ("Where are the logs stored?", "and the backups?", "Where are the backups stored?"),
        ("What happens when I send USR1?", "and HUP?", "What happens when I send HUP?"),
        # What follows the same preposition.
        ("How long is a pass for a bicycle?", "and for a dog?", "How long is a pass for a dog?"),
        ("What runs as user www-data?", "and as user proxy?", "What runs as user proxy?"),
        ("How do I install gunicorn?", "and on Ubuntu?", "How do I install gunicorn on Ubuntu?"),
        # "How many users": what is counted is replaced if there is nothing else.
        ("How many users can log in?", "and guests?", "How many guests can log in?"),
    ],
)
def test_a_new_subject_takes_the_place_of_the_earlier_one(before, question, understood):
    assert complete_question(question, [before]) == understood


@pytest.mark.parametrize(
    ("before", "question", "understood"),
    [
        ("What does reload do?", "What is its default?", "What is reload's default?"),
        ("What does reload do?", "and how do I set it?", "How do I set reload?"),
        ("How do I enable LVM snapshots?", "Who added them?", "Who added LVM snapshots?"),
        ("What does the disk group do?", "Who is in that group?", "Who is in the disk group?"),
        ("What is max_jitter?", "How is that different?", "How is max_jitter different?"),
        ("What does reload do?", "and the default?", "What is the default of reload?"),
        ("What is the default of reload?", "the maximum?", "What is the maximum of reload?"),
    ],
)
def test_what_the_earlier_question_is_about_stands_in_for_a_pronoun(before, question, understood):
    assert complete_question(question, [before]) == understood


@pytest.mark.parametrize(
    ("before", "question"),
    [
        # The variable is in the answer, not in the question.
        ("Which variable turns on debugging?", "What is its default?"),
        ("Which variable turns on debugging?", "and how long is it?"),
        ("What port does the server listen on?", "Can I change it?"),
        ("Who was the last keeper?", "When did she leave?"),
        ("How is the cache cleared?", "How often does this happen?"),
        ("Does gunicorn run on Windows?", "Why not?"),
        ("How do I stop gunicorn?", "And how do I restart?"),
        ("How do I rotate the key?", "How long does that take?"),
        ("What is a backup?", "Why do they keep it?"),
        ("What does the adm group do?", "What about that one?"),
    ],
)
def test_where_it_is_not_clear_what_is_meant_both_are_asked(before, question):
    assert complete_question(question, [before]) == f"{before} {question}"


@pytest.mark.parametrize(
    "question",
    [
        "When did Debian 8 Jessie reach its end of life?",
        "How does the server store its keys?",
        "Where does FC_DEBUG send its output?",
        "Who wrote the manual?",
        "Is it safe to close a file twice?",
        "Thanks",
        "und die Gruppe plugdev?",
    ],
)
def test_a_complete_question_is_asked_alone(question):
    assert complete_question(question, [SHADOW]) == question
    assert complete_question(question, []) == question


def test_a_complete_question_with_a_lead_is_asked_without_it():
    asked = complete_question("And when did Debian 8 reach its end?", [SHADOW])
    assert asked == "When did Debian 8 reach its end?"


def test_each_question_is_completed_from_the_one_before_it():
    asked = complete_question("and dip?", ["Hello", SHADOW, "and the group adm?"])
    assert asked == "What is dip for?"
    assert complete_question("And what is its number?", [SHADOW, "and adm?"]) == (
        "What is adm's number?"
    )


def test_a_new_subject_goes_with_the_last_question_about_such_a_thing():
    between = "How do I run borgmatic every day?"
    asked = complete_question("and the group plugdev?", [SHADOW, between])
    assert asked == "What is the group plugdev for?"
    assert complete_question("and restic?", [SHADOW, between]) == "How do I run restic every day?"


def test_questions_asked_together_do_not_pile_up():
    why = ["Why?"] * 40
    assert len(complete_question("Why not?", [SHADOW, *why])) < 60
