"""Bugs planted in five small services: `friday compare` finds the messages that each is made of, and claims nothing where failures are dealt out at
random."""
import planted
import pytest
from planted import BUGS

pytestmark = pytest.mark.limit(700)
QUICK = {"lost_update", "publish_first"}


@pytest.fixture(scope="module")
def studies(friday, tmp_path_factory):
    known = {}

    def study(bug):
        if bug not in known:
            known[bug] = planted.study(friday, bug, tmp_path_factory.mktemp(bug))
        return known[bug]
    return study


def test_there_is_a_truth_for_each_bug():
    assert len(BUGS) == 12 and planted.CONTENT < set(BUGS)


@pytest.mark.parametrize("bug", [bug if bug in QUICK else pytest.param(bug, marks=pytest.mark.full) for bug in BUGS])
def test_the_bug_is_found(bug, studies, friday):
    answer = planted.compared(friday, studies(bug))
    assert 1 <= planted.place_of(bug, answer) <= 3, answer["text"] + "\n" + "\n".join(each["text"] for each in answer["orders"] + answer["contents"])


def test_nothing_is_invented(studies, friday, tmp_path):
    claims = []  # of one cause or the other
    for seed in range(10):
        answer = planted.compared(friday, planted.shuffled(studies("lost_update"), tmp_path / str(seed), seed))
        claims += [each["text"] for each in (answer["orders"] + answer["contents"])[:1]] if answer["verdict"] in ("order", "content") else []
    assert len(claims) <= 1, claims
