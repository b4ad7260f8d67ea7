"""Names told once: lists of names lose what newer messages say, and no name leaves the view."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.window.stepping import holds_for_every_window, texts, windows
from windlass.messages import Message, ToolCall, assistant, tool, user
from windlass.window.entries import Fold
from windlass.window.names import names_in
from windlass.window.options import Policy
from windlass.window.policies.digest import Digest, DigestOptions
from windlass.window.policies.listed import Listed
from windlass.window.policies.rare.folding import Folding
from windlass.window.steps import steps

FILLER = "nothing of this is a name that anybody would quote later on. " * 8


def turn(number: int, result: str, said: str = "I look.", arguments: str = "{}") -> list[Message]:
    call = ToolCall(f"c{number}", "look", arguments)
    return [assistant(said, calls=[call]), tool(call, result)]


def test_a_folded_call_keeps_its_line_and_the_names_that_nothing_newer_says() -> None:
    said = [user("Go."), *turn(1, f"a heading\nREF_1 REF_2 {FILLER}"), *turn(2, "short")]
    said += turn(3, "REF_2 is it")
    seen = windows(said, Folding(fold_after=1), Listed())
    line = texts(seen[2])[1]
    assert line.startswith("I look.\n[Turn 1] look() -> a heading (2 lines); result_")
    assert line.endswith("\nAlso named: REF_1 REF_2")
    assert texts(seen[3])[1] == line.removesuffix(" REF_2")
    (edit,) = [edit for edit in seen[3].edits if isinstance(edit, Fold) and "id1" in edit.ids]
    assert edit.because == "fold"
    assert edit.reason == "tool pair seen by 1 calls, less names that a newer message said"


def test_a_result_full_of_names_is_no_reason_to_look() -> None:
    """Its own digest may not hold all of them: then they would be in no list."""
    many = " ".join(f"NAME_{number:03}" for number in range(60))
    said = [user("Go."), *turn(1, f"a heading\nREF_1 {FILLER}"), *turn(2, "short")]
    for result, told in (("REF_1", False), (f"{many} REF_1", True)):
        shown = windows([*said, *turn(3, result)], Folding(fold_after=1), Listed())[-1]
        assert ("\nAlso named: REF_1" in texts(shown)[1]) == told


def test_a_digest_stays_as_it_was_written() -> None:
    said = [user("Go."), *turn(1, f"REF_1 REF_2 {FILLER}"), *turn(2, "short"), *turn(3, "REF_2")]
    assert texts(
        windows(said, Digest(options=DigestOptions(digest_above_chars=200)), Listed())[-1]
    )[2].endswith("\nREF_1 REF_2")


def test_it_is_asked_where_the_prices_have_no_cache() -> None:
    for policy, caches, asked in (
        (Policy(), False, True),
        (Policy(), True, False),  # it would write old messages anew at every call
        (Policy(repeats=False), False, False),
        (Policy(enabled=False), False, False),
    ):
        assert any(isinstance(one, Listed) for one in steps(policy, caches=caches)) == asked


NAMES = st.lists(st.sampled_from([f"REF_{number:02}" for number in range(12)]), max_size=6)
TURNS = st.lists(st.tuples(NAMES, NAMES, st.booleans()), min_size=1, max_size=7)


@settings(max_examples=60)
@given(TURNS)
def test_no_name_leaves_the_view(turns: list[tuple[list[str], list[str], bool]]) -> None:
    said = [user("Go.")]
    for number, (spoken, found, is_long) in enumerate(turns):
        result = f"{' '.join(found)} {FILLER if is_long else 'short'}"
        said += turn(number, result, f"I look. {' '.join(spoken)}")
    for policies in (
        (Digest(), Folding(fold_after=3), Listed()),
        (Folding(fold_after=2), Listed()),
    ):
        seen = holds_for_every_window(said, *policies)
        for window in seen:
            until = max(int(entry.item.id.removeprefix("id")) for entry in window.entries) + 1
            shown = frozenset().union(*map(names_in, window.messages))
            assert frozenset().union(*map(names_in, said[:until])) <= shown
        assert len(texts(seen[-1])) <= len(said)
