"""In which order phases may run: one after the other, or as a graph.

A cascade is a graph once a phase of it says where it goes on. Then a phase without a way on ends
the run; else each phase goes on with the next in the file. Pure: this is about what may happen,
and the engine says what did.

Which keys of the state a phase may set, as far as that is known before a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from windlass.cascade.decision_points import DECISION_OF, HumanInput, asked_ways
from windlass.cascade.deterministic import DEFAULT, SQL
from windlass.cascade.handoffs import END, targets_of
from windlass.cascade.model import Cascade, Phase
from windlass.cascade.tools_named import chooses_tools, tools_of
from windlass.errors import WindlassError
from windlass.text.templates import LAST_ERROR
from windlass.tools.registry import Registry

MOST_VISITS: Final = 25
"""How often a phase may run in one session."""


def ways_on(phase: Phase) -> tuple[str, ...]:
    """Return what the phase says may come next, the default first; `end` may be among it."""
    on = targets_of(phase.handoffs)
    on += phase.routing.values()
    on += [phase.on_error] if isinstance(phase.on_error, str) else []
    return tuple(dict.fromkeys(on))


def leads_from(phase: Phase) -> tuple[str, ...]:
    """Return all that the phase says may come next: its handoffs, and where a person may lead."""
    return tuple(dict.fromkeys((*ways_on(phase), *asked_ways(phase.name, phase.decision_points))))


def is_graph(phases: Iterable[Phase]) -> bool:
    """Return whether a phase says where it goes on, so that the order of the file says nothing."""
    return any(map(ways_on, phases))


def may_jump(phases: Sequence[Phase]) -> bool:
    """Return whether phases may run in another order than that of the file."""
    return is_graph(phases) or any(asked_ways(each.name, each.decision_points) for each in phases)


def ways(phases: Sequence[Phase]) -> dict[str, tuple[str, ...]]:
    """Return the phases that may come next after each phase; none where the run ends there.

    >>> ways([Phase(name="a", instructions="A"), Phase(name="b", instructions="B")])
    {'a': ('b',), 'b': ()}
    """
    names = [phase.name for phase in phases]
    in_order = not is_graph(phases)
    names_in_file = {*names} - {END}
    found: dict[str, tuple[str, ...]] = {}
    for at, phase in enumerate(phases, start=1):
        after = names[at : at + 1] if in_order else []
        leads = dict.fromkeys((*after, *leads_from(phase)))
        found[phase.name] = tuple(name for name in leads if name in names_in_file)
    return found


def may_end(phase: Phase, phases: Sequence[Phase]) -> bool:
    """Return whether the run may be over with the phase."""
    if not is_graph(phases):
        return phase.name == phases[-1].name
    on = ways_on(phase)
    # A tool phase is over where its result is one that it says nothing of.
    says = phase.tool is None or phase.handoffs or DEFAULT in phase.routing
    return not on or END in on or not says


def ends(phase: Phase, phases: Sequence[Phase]) -> bool:
    """Return whether the run is over with the phase, whatever happens in it."""
    return not ways(phases).get(phase.name)


def reachable(phases: Sequence[Phase]) -> frozenset[str]:
    """Return the phases that may run: the first, and those to which a way leads from it."""
    return _from([phases[0].name], ways(phases))


def may_have_run(phases: Sequence[Phase], index: int) -> tuple[str, ...]:
    """Return the phases that may have run before the one at `index`, in the order of the file.

    It is among them where a way leads back to it. Of a phase that never runs all others are:
    nothing that it says of them is wrong. Behind the last index these are all that may run.
    """
    names = [phase.name for phase in phases]
    if not may_jump(phases):
        return tuple(names[:index])
    leads, run = ways(phases), reachable(phases)
    if index == len(names):
        return tuple(name for name in names if name in run)
    own = names[index]
    if own not in run:
        return tuple(name for name in names if name != own)
    return tuple(name for name in names if name in run and own in _from(leads[name], leads))


def most_visits(phases: Sequence[Phase], index: int) -> int:
    """Say how often the phase at `index` may run: never, once, or in a loop as often as any may."""
    name = phases[index].name
    if name not in reachable(phases):
        return 0
    return MOST_VISITS if name in may_have_run(phases, index) else 1


def certain(phases: Sequence[Phase]) -> frozenset[str]:
    """Return the phases that run on every way to the end."""
    leads = ways(phases)
    ending = {phase.name for phase in phases if may_end(phase, phases)}
    return frozenset(
        name for name in leads if _leads_to(name, phases[0].name, leads, ending - {name})
    )


def sure_after(phases: Sequence[Phase], name: str) -> tuple[Phase, ...]:
    """The phases that follow the one of that name for sure, in order, until a choice or a loop."""
    by_name = {phase.name: phase for phase in phases}
    leads, followed = ways(phases), [name]
    while len(on := leads.get(followed[-1], ())) == 1 and on[0] not in followed:
        if is_graph(phases) and END in ways_on(by_name[followed[-1]]):
            break
        followed += on
    return tuple(by_name[each] for each in followed[1:])


def _from(names: Iterable[str], leads: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """Return these phases, and all to which a way leads from them."""
    found: dict[str, None] = dict.fromkeys(names)
    waiting = list(found)
    while waiting:
        for name in leads.get(waiting.pop(), ()):
            if name not in found:
                found[name] = None
                waiting.append(name)
    return frozenset(found)


def _leads_to(
    name: str, first: str, leads: Mapping[str, Sequence[str]], ending: frozenset[str] | set[str]
) -> bool:
    """Return whether every way from the first phase leads to the one of that name."""
    sure = {name}
    grows = True
    while grows:
        new = {
            each
            for each, on in leads.items()
            if each not in sure and each not in ending and on and sure.issuperset(on)
        }
        sure |= new
        grows = bool(new)
    return first in sure


VALIDATED: Final = "validated_output"
"""The state key under which an output that its schema accepts stands as a value."""

_OURS: Final = "windlass."
_SETS_ANY: Final = "set_state"
_PLANS: Final = frozenset({"plan", "todo"})
_ASKS: Final = frozenset({"ask_human", "ask_human_custom", "request_decision"})


def sure_keys(cascade: Cascade, phase: Phase) -> frozenset[str]:
    """Return the keys that a phase sets whenever it ends well."""
    keys = set[str]()
    if phase.output_extraction is not None and phase.output_extraction.required:
        keys.add(phase.output_extraction.store_as)
    if cascade.settings_for(phase).output_schema is not None:
        keys.add(VALIDATED)
    asked = phase.human_input
    if isinstance(asked, HumanInput) and not (asked.condition or asked.timeout_seconds):
        keys.add(phase.name)
    key = phase.inputs.get("key") if phase.tool == _SETS_ANY else None
    return frozenset({*keys, key} if isinstance(key, str) else keys)


def keys_set(cascade: Cascade, phase: Phase, tools: Registry) -> frozenset[str] | None:
    """Return the keys that a phase may set itself (None: perhaps any)."""
    keys = {*sure_keys(cascade, phase)}
    if phase.output_extraction is not None:
        keys.add(phase.output_extraction.store_as)
    if phase.decision_points or phase.human_input:
        keys |= {phase.name, f"{DECISION_OF}{phase.name}"}
    if phase.on_error is not None:
        keys.add(LAST_ERROR)
    if chooses_tools(phase):
        return None
    for name in tools_of(phase):
        if name in _ASKS:
            keys.add(phase.name)
        elif name in _PLANS:
            keys.add("plan")
        elif _may_set_any(name, tools):
            return None
    return frozenset(keys)


def _may_set_any(name: str, tools: Registry) -> bool:
    """Return whether a tool may set any key.

    It has the state, and is none of ours that leave it alone.
    """
    if name == _SETS_ANY:
        return True
    try:
        tool = tools.get(name)
    except WindlassError:  # not known here: of a server, which has no state, or not trusted
        return ":" in name or "." not in name
    if tool.cascade or name.startswith(SQL):
        return False
    return tool.context_parameter is not None and not tool.origin.startswith(_OURS)
