"""The sessions: each a cascade, the tools it calls, and what the scripted model answers.

The model answers the n-th request with the n-th reply, whatever it sees, so that
every variant makes the same calls and what it saw can be compared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.scenarios import content

from windlass.messages import Message, ToolCall, assistant
from windlass.tools.base import ToolOutput


@dataclass(frozen=True)
class Session:
    """One scenario.

    `documented` are the input tokens that the document tells: of each call, or the
    sum alone. `tools` are functions; `replies` answer the requests in order.
    """

    name: str
    title: str
    cascade: dict[str, Any]
    tools: Sequence[Callable[..., Any]]
    replies: Sequence[Message | str]
    documented: tuple[int, ...]


def _call(number: int, tool: str, **arguments: Any) -> ToolCall:
    return ToolCall(f"call_{number:03d}", tool, json.dumps(arguments))


SCHEMA_CHARACTERS: Final = 37_936
PROPERTY_CHARACTERS: Final = 221_143
ANALYSIS_CHARACTERS: Final = 8_969
PICTURE_BYTES: Final = 159_750
"""Two pictures of this size are 426,000 characters of base64 together."""


def five_phases() -> Session:
    """The session of `context-accumulation-analysis.md`: 11 calls in five phases."""
    schema = content.schema(SCHEMA_CHARACTERS)
    properties = content.properties(PROPERTY_CHARACTERS)
    result = content.rows(2_700)
    analysis = content.page(ANALYSIS_CHARACTERS, 20)
    tables = content.tables_of(schema)[5:50:20]
    records = json.loads(properties)[120:600:160]
    first = json.loads(result)
    query = (
        f"SELECT a.city, date_trunc('quarter', a.sold_on), median(a.sold_price) FROM {tables[0]} a"
        f" JOIN {tables[1]} b ON b.owner_id = a.owner_id JOIN {tables[2]} c USING (region_code)"
        f" WHERE c.status IN ('{records[0]['property_id']}', '{records[1]['property_id']}')"
        f" AND b.{records[2]['column']} IS NOT NULL GROUP BY 1, 2 -- {records[2]['property_id']}"
    )
    said = [
        f"In {one['city']} the median of {one['quarter']} is {one['median_price']}."
        for one in first[:4]
    ]

    def sql_search(query: str) -> str:
        """Search the catalogue of tables and columns.

        Args:
            query: Words to look for.
        """
        return properties if "propert" in query else schema

    def query_homes(query: str) -> str:
        """Run a query and answer its rows.

        Args:
            query: One SELECT.
        """
        assert query
        return result

    def create_figure(code: str) -> ToolOutput:
        """Draw a figure by code and answer it as a picture.

        Args:
            code: The program that draws.
        """
        number = 2 if "version_2" in code else 1
        figure = content.chart(PICTURE_BYTES, number, f"figure_{number}.png")
        drawn = content.rows(4_400, 30 + number)
        return ToolOutput(f"figure_{number}.png shows:\n{drawn}", (figure,))

    def analyse_figure(name: str) -> str:
        """Say what a figure shows, at length.

        Args:
            name: The figure.
        """
        assert name
        return analysis

    def say(text: str) -> str:
        """Speak a text.

        Args:
            text: What is said.
        """
        assert text
        return "Said."

    code = [
        f"import matplotlib.pyplot as plt  # version_{number}\nrows = "
        + json.dumps(first[:6])
        + "\n# "
        + content.prose(characters, 6 + number)
        for number, characters in ((1, 9_400), (2, 6_900))
    ]
    phases: list[dict[str, Any]] = [
        {
            "name": "discover_schema",
            "instructions": "Find the tables and their properties that tell the price of homes by"
            " city and quarter, for the question: {{ input.question }} Call the catalogue once for"
            " the tables and once for the properties, then name what you will use. "
            + content.prose(1_260, 40),
            "tackle": ["sql_search"],
        },
        {
            "name": "write_query",
            "instructions": "Write one query that answers the question, and run it. "
            + content.prose(1_900, 41),
            "tackle": ["query_homes"],
        },
        {
            "name": "analyze_results",
            "instructions": "Say what the result means. " + content.prose(1_110, 42),
        },
        {
            "name": "create_initial_chart",
            "instructions": "Draw the result, look at the figure, mend it and describe it. "
            + content.prose(1_500, 43),
            "tackle": ["create_figure", "analyse_figure"],
        },
        {
            "name": "say_summary_summarize",
            "instructions": "Say a summary aloud. " + content.prose(1_300, 44),
            "tackle": ["say"],
        },
    ]
    return Session(
        name="five_phases",
        title="the five-phase session",
        cascade={
            "cascade_id": "five_phases",
            "model": "scripted/function",
            "system": "You are an analyst. Use the tools; answer briefly.",
            "phases": phases,
        },
        tools=(sql_search, query_homes, create_figure, analyse_figure, say),
        replies=(
            assistant(
                calls=[
                    _call(1, "sql_search", query="tables of sold homes"),
                    _call(2, "sql_search", query="properties of their columns"),
                ]
            ),
            f"I will use {', '.join(tables)}. " + content.prose(2_800, 50),
            assistant(content.prose(4_600, 51), calls=[_call(3, "query_homes", query=query)]),
            " ".join(said) + content.prose(500, 52),
            content.prose(4_280, 53),
            assistant(calls=[_call(4, "create_figure", code=code[0])]),
            assistant(calls=[_call(5, "create_figure", code=code[1])]),
            assistant(
                content.prose(21_500, 54), calls=[_call(6, "analyse_figure", name="figure_2.png")]
            ),
            content.prose(16_300, 55),
            assistant(content.prose(1_070, 56), calls=[_call(7, "say", text=" ".join(said))]),
            "Done.",
        ),
        documented=(
            345, 71_545, 72_452, 74_266, 74_622, 75_739, 80_371, 84_385, 89_945, 93_029, 93_301,
        ),
    )  # fmt: skip


RESULT_CHARACTERS: Final = 6_670
"""Of one search or page in the research phase, so that 15 turns sum up to 170K tokens."""


def research() -> Session:
    """One phase of 15 turns: searches, and pages that they named, some of them much earlier."""
    searches = {f"question {n}": content.found(RESULT_CHARACTERS, n) for n in range(1, 8)}
    pages: dict[str, str] = {}
    replies: list[Message | str] = []
    # The page of a search is read at the next turn; three are read again by way of an old list.
    urls = {n: [row["url"] for row in json.loads(searches[f"question {n}"])] for n in range(1, 8)}
    for turn in range(1, 15):
        number = (turn + 1) // 2
        if turn % 2:
            call = _call(turn, "search_notes", query=f"question {number}")
        else:
            url = urls[max(1, number - 3)][2] if number in (4, 6, 7) else urls[number][0]
            pages[url] = content.page(RESULT_CHARACTERS, 100 + turn)
            call = _call(turn, "read_page", url=url)
        replies.append(assistant(content.prose(260, 200 + turn), calls=[call]))
    studies = [re.findall(r"ST-\d+", text)[1] for text in pages.values()]
    replies[-1] = assistant(
        content.prose(260, 299),
        calls=[_call(14, "note", text="Compare " + ", ".join(studies[:5]) + ".")],
    )
    replies.append("Findings: " + content.prose(1_200, 300))

    def search_notes(query: str) -> str:
        """Search the web.

        Args:
            query: What to look for.
        """
        return searches[query]

    def read_page(url: str) -> str:
        """Read a page.

        Args:
            url: Its address, as a search gave it.
        """
        return pages[url]

    def note(text: str) -> str:
        """Keep a note.

        Args:
            text: What is kept.
        """
        assert text
        return content.page(RESULT_CHARACTERS, 400)

    return Session(
        name="research",
        title="the 15-turn research phase",
        cascade={
            "cascade_id": "research",
            "model": "scripted/function",
            "system": "You research and cite. " + content.prose(1_200, 60),
            "phases": [
                {
                    "name": "research",
                    "instructions": "Find out what moves the price of homes. "
                    + content.prose(2_400, 61),
                    "tackle": ["search_notes", "read_page", "note"],
                    "rules": {"max_turns": 20},
                }
            ],
        },
        tools=(search_notes, read_page, note),
        replies=replies,
        documented=(170_000,),
    )


LOG_CHARACTERS: Final = 3_880
"""Of one test run in the loop, so that 10 attempts sum up to 200K tokens."""

ATTEMPTS: Final = 10


def loop() -> Session:
    """One phase of 10 attempts: run the tests, answer with a patch, be refused by the validator."""
    logs = [content.log(LOG_CHARACTERS, run, ATTEMPTS) for run in range(1, ATTEMPTS + 1)]
    replies: list[Message | str] = []
    for number in range(1, ATTEMPTS + 1):
        places = re.findall(r"src/\S+?\.py:\d+", logs[number - 2]) if number > 1 else []
        replies += [
            assistant(calls=[_call(number, "run_tests", run=number, focus=" ".join(places[:3]))]),
            f"Attempt {number}: {content.prose(2_900, 500 + number)}",
        ]

    def run_tests(run: int, focus: str = "") -> str:
        """Run the tests.

        Args:
            run: The number of the run.
            focus: Places to look at, as a run before printed them.
        """
        assert focus is not None
        return logs[run - 1]

    def all_pass(output: str) -> dict[str, Any]:
        """Whether the patch makes all tests pass: the last attempt's does.

        Args:
            output: The patch.
        """
        valid = output.startswith(f"Attempt {ATTEMPTS}:")
        return {"valid": valid, "reason": "" if valid else content.prose(300, len(output))}

    return Session(
        name="loop",
        title="the 10-attempt loop",
        cascade={
            "cascade_id": "loop",
            "model": "scripted/function",
            "system": "You mend programs. " + content.prose(1_200, 70),
            "phases": [
                {
                    "name": "mend",
                    "instructions": "Make the tests pass. " + content.prose(2_400, 71),
                    "tackle": ["run_tests"],
                    "rules": {
                        "loop_until": "all_pass",
                        "loop_until_silent": True,
                        "max_attempts": ATTEMPTS,
                    },
                }
            ],
        },
        tools=(run_tests, all_pass),
        replies=replies,
        documented=(200_000,),
    )


SOUNDINGS: Final = 5
REFINEMENTS: Final = 2
STEPS: Final = 4
"""Turns of each sounding that read a page, before it answers."""
PAGE_CHARACTERS: Final = 12_050
"""Of one page that soundings share or read, so that all calls sum up to 500K tokens."""


def five_soundings() -> Session:
    """Pages are read; then five soundings look up studies in them and read pages of their own."""
    return _soundings("five_soundings", "the 5-way soundings")


def refined_soundings() -> Session:
    """The same, and the best is refined in a round of two."""
    reforge = {"honing_prompt": "Add a study that it lacks.", "factor_per_step": REFINEMENTS}
    return _soundings("refined_soundings", "the 5-way soundings with reforge", reforge)


def _soundings(name: str, title: str, reforge: dict[str, Any] | None = None) -> Session:
    """One sounding runs after the other, so that the replies have an order."""
    shared = [content.page(PAGE_CHARACTERS, 700 + number) for number in range(6)]
    studies = [re.findall(r"ST-\d+", page) for page in shared]
    own: dict[str, str] = {}
    replies: list[Message | str] = [
        assistant(content.prose(200, 800 + number), calls=[_call(number, "read_page", name=name)])
        for number, name in enumerate(f"report {number}" for number in range(len(shared)))
    ]
    pages = {f"report {number}": page for number, page in enumerate(shared)}
    replies.append("Read: " + content.prose(600, 810))
    attempts = SOUNDINGS + (REFINEMENTS if reforge else 0)
    for sounding in range(attempts):
        if sounding == SOUNDINGS:
            replies.append('{"winner": 3}')
        for step in range(STEPS):
            study = studies[(sounding + step) % len(shared)][2]
            own[study] = own.get(study) or content.page(PAGE_CHARACTERS // 3, 900 + len(own))
            number = 100 * (sounding + 1) + step
            text = content.prose(200, number)
            replies.append(assistant(text, calls=[_call(number, "read_study", name=study)]))
        replies.append(f"Draft {sounding}: " + content.prose(2_000, 600 + sounding))
    winner = attempts - 1 if reforge else 3
    replies += [f'{{"winner": {winner}}}', "Report: " + content.prose(900, 650)]

    def read_page(name: str) -> str:
        """Read a report.

        Args:
            name: What it is called.
        """
        return pages[name]

    def read_study(name: str) -> str:
        """Read a study.

        Args:
            name: Its number, as a report gives it.
        """
        return own[name]

    return Session(
        name=name,
        title=title,
        cascade={
            "cascade_id": name,
            "model": "scripted/function",
            "system": "You research and cite. " + content.prose(1_200, 90),
            "phases": [
                {
                    "name": "collect",
                    "instructions": "Read the reports. " + content.prose(600, 91),
                    "tackle": ["read_page", "read_study"],
                },
                {
                    "name": "draft",
                    "instructions": "Draft the answer. " + content.prose(600, 92),
                    "tackle": ["read_page", "read_study"],
                    "soundings": {
                        "factor": SOUNDINGS,
                        "max_parallel": 1,
                        "mutate": True,
                        "evaluator_instructions": "The draft with most evidence.",
                        **({"reforge": reforge} if reforge else {}),
                    },
                },
                {"name": "report", "instructions": "Write it up. " + content.prose(600, 93)},
            ],
        },
        tools=(read_page, read_study),
        replies=replies,
        documented=() if reforge else (500_000,),
    )


SESSIONS: Final = (five_phases, research, loop, five_soundings, refined_soundings)
