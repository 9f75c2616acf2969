"""Every story of tests/scenarios ends as it says on the embedded server, in virtual time; the page about them is true."""

import re
from pathlib import Path

import pytest

from defib.simulate.virtual_time import VirtualClock, run
from testbed.scenario.embedded import EmbeddedStage
from testbed.scenario.errors import StoryFailed
from testbed.scenario.grammar import Several, sentence_of
from testbed.scenario.parse import HEADER_SENTENCES, STEP_SENTENCES, parse
from testbed.scenario.runner import Told, expect_story, tell
from testbed.scenario.story import Check, Phrase, Policy, PowerTemplate

ROOT = Path(__file__).parents[3]
STORIES = sorted((ROOT / "tests" / "scenarios").glob("*.story"))
PAGE = (ROOT / "docs" / "scenarios.md").read_text()


def told(text: str, path: str = "tests/scenarios/a-story.story", *, seed: int = 0) -> Told:
    story = parse(text, path)

    async def main(clock: VirtualClock) -> Told:
        return await tell(story, EmbeddedStage(clock))

    return run(main, seed=seed)


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_story_ends_as_it_says(path: Path, seed: int) -> None:
    how = told(path.read_text(), path.relative_to(ROOT).as_posix(), seed=seed)
    assert not how.failure, how.transcript()


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_a_story_says_what_it_is_about_and_its_name_can_be_a_namespace(path: Path) -> None:
    story = parse(path.read_text(), path.name)
    assert len(story.title.split()) >= 5
    assert re.fullmatch(r"[a-z][a-z0-9-]{1,61}[a-z0-9]", story.name)


def test_the_same_seed_tells_the_same_story() -> None:
    text = (ROOT / "tests" / "scenarios" / "drained-node.story").read_text()
    assert told(text, seed=7).transcript() == told(text, seed=7).transcript()


WRONG = """
# Somebody hopes for too much.
timers compressed
nodes n1 n2
statefulset db replicas 1 volume RWO

at 2s  power off node of db-0
       expect pod db-0 Ready elsewhere within 20s
"""


def test_a_failed_story_shows_its_log_book_the_line_and_how_things_stood() -> None:
    how = told(WRONG)
    assert how.failure == (
        "tests/scenarios/a-story.story:8: expect pod db-0 Ready elsewhere within 20s: not seen within 20 s"
    )
    lines = how.transcript().splitlines()
    assert lines[:2] == [
        "tests/scenarios/a-story.story on the embedded server, compressed timers",
        "Somebody hopes for too much.",
    ]
    assert "     2.0s  deed                          power off node of db-0" in lines
    assert any(re.fullmatch(r" +\d+\.\ds  node n\d +Ready True -> Ready Unknown", line) for line in lines)
    assert any(re.fullmatch(r" +\d+\.\ds  pod db-0 +Running on n\d -> Terminating on n\d", line) for line in lines)
    ending = lines[lines.index("As it was then:") :]
    assert any(re.fullmatch(r"  volume of db-0: attached to n\d", line) for line in ending)
    assert any(re.fullmatch(r"  disk disk-\S+ \(ReadWriteOnce\): intact", line) for line in ending)


def test_a_failed_story_is_a_failed_test() -> None:
    story = parse(WRONG)

    async def main(clock: VirtualClock) -> None:
        await expect_story(story, EmbeddedStage(clock))

    with pytest.raises(StoryFailed) as failed:
        run(main)
    assert "FAILED" in str(failed.value)


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ("delete pod db-0\nexpect never pod db-0 gone for 5s", "expect never pod db-0 gone for 5s: seen after"),
        ("hang n2\nexpect always n2 Ready for 20s", "expect always n2 Ready for 20s: no longer so after"),
        ("expect disk of db-0 corrupt", "expect disk of db-0 corrupt: it is not so"),
        ("delete attachment of web", "the volume of web is not attached anywhere"),
        ("delete node n1\nexpect n1 gone within 1s\ncordon n1", "not found"),
        ("scale web to 0\nexpect pod web gone within 5s\nforce delete pod web", "there is no pod web now"),
        ("scale web to 0\nexpect pod web gone within 5s\nhang node of web", "there is no node of web now"),
        ("drain n1 within 3s", "n1 was not drained within 3 s"),
    ],
)
def test_each_way_to_fail_is_told_in_its_own_words(steps: str, why: str) -> None:
    budget = "budget db max-unavailable 0\n"
    header = (
        f"timers compressed\nnodes n1 n2\nstatefulset db replicas 2 volume RWO\n{budget}deployment web replicas 1\n"
    )
    assert why in told(header + steps).failure


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ("remediator foo finishes n1", "there is no remediation of n1 by foo now"),
        ("start operator", "Defib runs already"),
        ("stop operator\nrestart operator", "Defib does not run now"),
        ("create template foo", "already exists"),
        ("brake off", "not found"),
        ("release lock n1", "not found"),
        ("create remediation of n1 by foo\nexpect no remediation of n1 within 2s", "not seen within 2 s"),
        ("lock n1 held by me for 5s\nexpect lock n1 free", "it is not so"),
        ("lock n1 held by me for 5s\nexpect always lock n1 held by me for 1m", "no longer so after 5"),
        ("expect check workers Disabled", "it is not so"),
        ('expect check workers says "no such words"', "it is not so"),
        ("report Ready False on n1\nexpect never check workers healthy 1 of 2 for 9s", "seen after"),
        ("expect event Enabled times 2", "it is not so"),
        ("stop operator\nreport Ready False on n1\nexpect remediation of n1 within 1m", "not seen within 60 s"),
    ],
)
def test_each_way_to_fail_with_defib_is_told_in_its_own_words(steps: str, why: str) -> None:
    header = "timers compressed\nnodes n1 n2\noperator\ntemplate foo\ncheck workers after 5s with foo\n"
    assert why in told(header + steps).failure


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ("confirm n1 off by anna", "not found"),
        ("expect machine n1 off", "it is not so"),
        ("power off n1\nexpect always machine n1 on for 1s", "no longer so after"),
        ("expect incident n1 Closed", "it is not so"),
        ("expect proof n1 A", "it is not so"),
        ("delete remediation of n1 by power", "there is no remediation of n1 by power now"),
        ("create remediation of n1 by power-gentle", "not found"),
        ("create remediation of n1 by power\nexpect always no trace on n1 for 5s", "no longer so after"),
        ("create remediation of n1 by power\nexpect never proof n1 for 30s", "seen after"),
        ("bmc of n1 hangs\ncreate remediation of n1 by power\nexpect machine n1 off within 30s", "not seen within"),
        ('create remediation of n1 by power\nexpect incident n1 PoweringOff says "tea" within 9s', "not seen within"),
    ],
)
def test_each_way_to_fail_with_machines_is_told_in_its_own_words(steps: str, why: str) -> None:
    assert why in told(f"timers compressed\nnodes n1 n2\noperator\ntemplate power\n{steps}").failure


def test_a_failed_story_shows_its_incidents_and_what_became_of_its_machines() -> None:
    header = "timers compressed\nnodes n1 n2\noperator\ntemplate power\n"
    how = told(f"{header}create remediation of n1 by power\nexpect machine n1 off within 9s\nexpect proof n1 D")
    assert any(entry.subject == "machine n1" and entry.text == "on -> off" for entry in how.entries)
    assert "incident n1: PoweringOff, attempt 1" in how.transcript().partition("As it was then:")[2]


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ("expect policy web Moved", "it is not so"),
        ('expect policy web says "no such words"', "it is not so"),
        ("expect policy web lists n1", "it is not so"),
        ("expect policy web waiting 1", "it is not so"),
        ('expect policy web proofs "None"', "it is not so"),
        ("hang n1\nexpect never policy web lists n1 for 30s", "seen after"),
        ("hang n1\nexpect always policy web moved 0 for 30s", "no longer so after"),
        ("delete policy web\nhang n1\nexpect policy web lists n1 within 9s", "not seen within 9 s"),
        ("delete policy web\ndelete policy web", "not found"),
    ],
)
def test_each_way_to_fail_with_policies_is_told_in_its_own_words(steps: str, why: str) -> None:
    header = "timers compressed\nnodes n1 n2 n3\ndeployment web replicas 3\noperator\npolicy web for web\n"
    assert why in told(header + steps).failure


def test_a_failed_story_shows_what_the_policies_say() -> None:
    header = "timers compressed\nnodes n1 n2 n3\nstatefulset db replicas 3\noperator\npolicy db for db\n"
    how = told(f"{header}hang n1\nexpect policy db WaitingForProof within 9s\nexpect policy db moved 1")
    ending = how.transcript().partition("As it was then:")[2]
    assert "policy db: WaitingForProof, moved 0, waiting 1, lists n1 WaitingForProof" in ending
    assert "it says: node n1: 1 pod that must not run twice waits for a proof" in ending


def test_a_failed_story_shows_what_the_checks_say() -> None:
    header = "timers compressed\nnodes n1 n2\noperator\ncheck workers after 5s with foo\n"
    how = told(f"{header}report Ready False on n1\nexpect remediation of n1 by foo within 10s")
    ending = how.transcript().partition("As it was then:")[2]
    assert "check workers: Disabled, 1 of 2 healthy, lists n1" in ending
    assert "it says: failed to get FooRemediationTemplate" in ending


def parts_of(phrase: type[Phrase]) -> set[str]:
    several = next(piece for piece in sentence_of(phrase).pieces if isinstance(piece, Several))
    return {sentence.text for sentence in several.sentences}


def test_the_page_about_stories_lists_every_sentence() -> None:
    fenced = "\n".join(re.findall(r"^\| `([^`]+)` \|", PAGE, re.MULTILINE))
    sentences = {sentence.text for sentence in HEADER_SENTENCES} | parts_of(Check) | parts_of(PowerTemplate)
    sentences |= parts_of(Policy)
    sentences |= {sentence.text for sentence in STEP_SENTENCES if sentence.inner is None}
    sentences |= {sentence.inner.sentence for sentence in STEP_SENTENCES if sentence.inner}
    assert sorted(sentences - set(fenced.splitlines())) == []
    assert sorted(set(fenced.splitlines()) - sentences) == []


def test_the_example_of_the_page_is_one_of_the_stories() -> None:
    example = re.search(r"^```story\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert example
    assert example[1] in {path.read_text() for path in STORIES}
