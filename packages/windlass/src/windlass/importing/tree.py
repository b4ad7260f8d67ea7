"""The tree of what a program recorded: each node says what came after its parent.

The readers of the formats add nodes, and hooks read a transcript that grows with one of these
readers. Pieces of an answer are joined, whatever stood between them in the file. Each path to an
end on which calls were made is a conversation: what two of them share is one node, and a call
belongs to the first that has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TypeAlias

from windlass.importing.base import COUNTED, UNRECORDED, UNSENT, Answers, ItemReader
from windlass.importing.json_files import MemoryLimit, NamedFile
from windlass.importing.recording import Grade, Kind, RecordedCall, Recording
from windlass.messages import Message, assistant
from windlass.wire.forms import FormName, ListReading
from windlass.wire.openai_responses import joined

Order: TypeAlias = tuple[bool, int, int]


@dataclass(slots=True, eq=False)
class Node:
    """One step of a conversation: an answer with its pieces, or messages that came together."""

    parent: Node | None
    lane: str
    """The side chain that it belongs to; empty: the session itself."""
    root: int
    """The number of the first node on its path."""
    depth: int
    messages: list[Message] = field(default_factory=list[Message])
    call: RecordedCall | None = None
    """The call that made it, wherever that says it stands."""
    claim: tuple[str, str] = ("", "")
    """By what the answer is counted once, and its request: the id of the call, if empty."""
    last: int = 0
    """When it was reached last, by the tree's count of steps."""
    is_compacted: bool = False
    """Whether it begins with what was said before in short."""
    is_whole: bool = True
    """Whether the usage of its call is that of the whole answer."""
    is_open: bool = False
    """Whether the next piece of an answer belongs to it."""
    is_end: bool = True
    """Whether no node follows."""
    known: set[str] = field(default_factory=set[str])
    """What a reader knows the pieces by that it has."""

    @property
    def said(self) -> list[Message]:
        """Return its messages, the pieces of an answer as one."""
        pieces = list(takewhile(lambda one: one.role == "assistant", self.messages))
        if len(pieces) > 1:
            self.messages[: len(pieces)] = [joined(*pieces)]
        return self.messages

    def path(self) -> list[Node]:
        """Return the nodes from its root to it."""
        nodes: list[Node] = []
        at: Node | None = self
        while at is not None:
            nodes.append(at)
            at = at.parent
        return nodes[::-1]


@dataclass(slots=True)
class TreePath:
    """A path through the tree, and the calls that no other path counts."""

    nodes: list[Node]
    messages: list[Message]
    calls: list[RecordedCall]

    @property
    def lane(self) -> str:
        """The side chain at its end."""
        return self.nodes[-1].lane


class ConversationTree:
    """The nodes of a file, in the order in which they were added."""

    def __init__(self, file: NamedFile, recorded: str, form: FormName) -> None:
        self._file = file
        self._recorded = recorded
        self._form = form
        self._readers: dict[str, ItemReader] = {}
        self._limit = MemoryLimit(file.path)
        self._steps = 0
        self.nodes: list[Node] = []
        self.tails: dict[str, Node] = {}
        """The last node of each lane: a step that names no parent follows it."""

    # ---- in -------------------------------------------------------------------------

    def add(
        self,
        messages: Iterable[Message] = (),
        parent: Node | None = None,
        lane: str = "",
        call: RecordedCall | None = None,
    ) -> Node:
        """Return a new node after `parent` (None: a conversation begins with it)."""
        root = len(self.nodes) if parent is None else parent.root
        depth = 0 if parent is None else parent.depth + 1
        node = Node(parent, lane, root, depth, call=call)
        self.nodes.append(node)
        if parent is not None:
            parent.is_end = False
        for message in messages:
            self.extend(node, message)
        self.reach(node)
        return node

    def extend(self, node: Node, message: Message, key: str = "") -> None:
        """Add a message, or a piece of an answer; once, if it has a `key`."""
        if key and key in node.known:
            return
        self._limit.take(message)
        node.known.add(key)
        node.messages.append(message)

    def reach(self, node: Node) -> None:
        """Make a node the last of its lane."""
        self._steps += 1
        node.last = self._steps
        self.tails[node.lane] = node

    def read(self, item: object, lane: str = "", form: FormName | None = None) -> ListReading:
        """Return the messages of the next object of a lane; what cannot be read is counted."""
        if lane not in self._readers:
            self._readers[lane] = ItemReader(form or self._form, self._file.skipped)
        return self._readers[lane].read(item, len(self.nodes))

    def say(
        self,
        item: object,
        call: RecordedCall | None = None,
        lane: str = "",
        form: FormName | None = None,
    ) -> Node | None:
        """Read what comes next in a lane; `call` made it. None: there is nothing to read in it."""
        reading = self.read(item, lane, form)
        node = self.tails.get(lane)
        for message in reading.messages:
            is_awaited = node is not None and node.call is not None and not node.messages
            is_awaited = is_awaited and call is None  # which would be another one
            is_piece = reading.joins and node is not None and node.is_open
            if node is not None and (is_piece or (is_awaited and message.role == "assistant")):
                self.extend(node, message)
            else:
                node = self.add([message], node, lane)
            node.is_open = reading.joins
        if call is not None:
            node = self.add((), node, lane) if node is None or not reading.messages else node
            node.call = call
        return node if reading.messages or call is not None else None

    # ---- out ------------------------------------------------------------------------

    def paths(
        self, answers: Answers | None = None, order: Callable[[Node], Order] | None = None
    ) -> list[TreePath]:
        """Return the paths with calls that no path before has, sorted by their ends.

        With `answers`, a call that another file has, too, is not counted here, and a word stands
        for an answer of which nothing can be read: it was paid for.
        """
        ends = [node for node in self.nodes if node.is_end]
        if order is not None:
            ends.sort(key=order)
        met: set[Node] = set()
        shown: set[Node] = set()
        paths: list[TreePath] = []
        for end in ends:
            path, is_new = end.path(), False
            messages: list[Message] = []
            calls: list[RecordedCall] = []
            for node in path:
                call = node.call
                if call is not None and not node.messages and answers is not None:
                    node.messages.append(assistant(UNRECORDED))
                if call is not None and node not in met:
                    met.add(node)
                    is_new = True
                    if counted := call if answers is None else self._counted(node, call, answers):
                        calls.append(replace(counted, at=len(messages)))
                messages += node.said
            shown.update(path if is_new else ())  # if not here, then where its calls are counted
            if calls:
                self._limit.take_again(len(messages))
                paths.append(TreePath(path, messages, calls))
        if unsent := sum(len(node.messages) for node in self.nodes if node not in shown):
            self._file.skipped[UNSENT] += unsent
        return paths

    def _counted(self, node: Node, call: RecordedCall, answers: Answers) -> RecordedCall | None:
        """Return the call of a node; None where it was counted before."""
        ident, request = node.claim if node.claim[0] else (call.id, "")
        if ident:
            answer = answers.claim(ident, request)
            if answer is None:
                self._file.skipped[COUNTED] += 1
                return None
            call = replace(call, usage=answer.usage or call.usage)
        return call if node.is_whole else call.with_output(node.said[0])

    def recording(
        self, one: TreePath, name: str, kind: Kind = "session", parent: str | None = None
    ) -> Recording:
        """Return a conversation as a recording, a transcript."""
        return Recording(
            name,
            self._recorded,
            "C",
            one.calls[0].model,
            tuple(one.messages),
            tuple(one.calls),
            kind=kind,
            parent=parent,
            skipped=self._file.take_skipped(),
            source=str(self._file.path),
        )

    def recordings(
        self,
        answers: Answers,
        session: str,
        parent: str | None = None,
        project: str = "",
        commands: Grade | None = None,
    ) -> Iterator[Recording]:
        """Yield the conversations of a session in their order, numbered from the second on.

        The first is a side chain of `parent`, if there is one (empty: its name is not known). An
        agent may write `commands` into its text: then results are words of the user, it is known
        that there were no tools, and the evidence is of that grade.
        """
        for number, one in enumerate(self.paths(answers), 1):
            kind: Kind = "session" if parent is None else "side chain"
            name, above = session, parent or None
            if number > 1:
                kind = "after compaction" if one.nodes[0].is_compacted else "branch"
                name, above = f"{session}/{number}", session
            recording = replace(self.recording(one, name, kind, above), project=project)
            if commands is not None:
                has_results = any(message.role == "tool" for message in one.messages)
                recording = replace(recording, results_as_words=not has_results)
                if not any(message.tool_calls for message in one.messages):
                    recording = replace(recording, grade=commands, tools=())
            yield recording
