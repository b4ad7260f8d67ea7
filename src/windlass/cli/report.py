"""`windlass report`: what a session cost, and what of its requests the caches could hold."""

from __future__ import annotations

from collections.abc import Mapping

from windlass.caching.rates import money, override, rate, table_date
from windlass.cli.output import out, plain, print_table, printed_as_json
from windlass.cli.store import open_existing, open_marked, read_settings
from windlass.history.base import in_words
from windlass.importing.storing import evidence
from windlass.report.costs import SessionCost, session_cost
from windlass.report.journal import unbilled
from windlass.report.prefix import Prefix, prefix_of

_COLUMNS = ["call", "said in", "sent", "shared", "predicted", "reported", "broken at", "by"]


def show_costs(session: str, store: str | None) -> None:
    """Print what a session cost."""
    settings = read_settings(store)
    with open_marked(settings) as history:
        session = history.find_session(session)
        with override(settings.prices):
            costs = session_cost(history, session, settings.price_as)
        source = evidence(history.start(session).cascade)
        beside = unbilled(history, session)
    if printed_as_json({**plain(costs), "unbilled": beside}):
        return
    with override(settings.prices):
        print_costs(costs)
    if source:
        out.print(source)
    if beside.unanswered:
        text = "sent and never answered, so perhaps billed, and not counted here"
        out.print(f"calls {text}: {beside.unanswered}")
    if beside.inherited:
        paid = f"{beside.inherited} calls ({beside.inherited_tokens:,} tokens)"
        out.print(f"inherited from session {beside.origin}, which paid for them: {paid}")
    if costs.status != "completed":
        out.print(f"the session: {in_words(costs.status, costs.reason)}")
    out.print(f"\nwhat its caches could hold: windlass report {session} --prefix")
    out.print(f"what a call saw, and why: windlass show {session}, windlass explain")


def print_costs(costs: SessionCost) -> None:
    """Print what each phase sent, beside what a snowball would have."""
    money_columns = ["cost", "snowball's cost"]
    if costs.billed:
        money_columns = ["billed", "simulated", "snowball, simulated"]
    print_table(
        [
            "phase",
            "calls",
            "tokens sent",
            "reported cached",
            "snowball would send",
            "out",
            *money_columns,
        ],
        [
            [
                line.phase,
                str(line.calls),
                f"{line.tokens_in:,}",
                f"{line.tokens_cached:,}",
                f"{line.snowball:,}",
                f"{line.tokens_out:,}",
                money(line.dollars),
                *([money(line.simulated_dollars)] if costs.billed else []),
                money(line.snowball_dollars),
            ]
            for line in [*costs.phases, costs.total]
        ],
        right=range(1, 6 + len(money_columns)),
    )
    if costs.billed:
        out.print(
            "billed: the usage that was reported, at its price; simulated: these messages, and a"
            " snowball's, by our count and with the model's prompt cache"
            f"\n{price_text(costs.priced_as)} ({table_date()})"
        )
    elif not costs.priced_as:
        out.print("no call was answered, so there is nothing to bill")
    else:
        models = ", ".join(dict.fromkeys(costs.priced_as.values()))
        out.print(
            f"costs are what {models} would bill for these messages, pictures included and"
            f" its prompt cache counted ({table_date()})"
        )
    if windows := costs.windows:
        out.print(
            f"windows: saved {money(windows['saved'])} beside the same calls without them,"
            f" {money(windows['spent'])} spent on texts for them: net {money(windows['net'])}"
        )
    if (search := costs.search) is not None:
        out.print(
            f"beside them, searches of the web by {search.model}: {search.searches:,} searches,"
            f" {search.tokens_in:,} tokens sent, {search.tokens_out:,} out, {money(search.dollars)}"
        )


def price_text(names: Mapping[str, str]) -> str:
    """Whose prices hold for each model: `local/smollm2 at the prices of openai/gpt-4o`."""
    lines: list[str] = []
    for model, name in names.items():
        if rate(name) is None:
            lines.append(f"{name} has no price")
        elif model == name:
            lines.append(f"{model} at its own prices")
        else:
            lines.append(f"{model} at the prices of {name}")
    return "; ".join(lines)


def show_prefixes(session: str, store: str | None) -> None:
    """Print what each call of a session shares with the one before it."""
    with open_existing(store) as history:
        session = history.find_session(session)
        prefixes = prefix_of(history, session)
    if printed_as_json(prefixes):
        return
    print_table(_COLUMNS, [_row(each) for each in prefixes], right=range(2, 6), whole=[1, 6])
    later = [each for each in prefixes if each.call > 1]
    sent, shared = sum(each.sent for each in later), sum(each.shared for each in later)
    reported = sum(each.reported for each in later)
    if sent:
        out.print(
            f"\nafter the first call: {shared / sent:.1%} of {sent:,} tokens stand as in the call"
            f" before, {reported:,} tokens were reported as cached"
        )
    out.print(f"what a call saw: windlass show {session} --call 1")


def _row(prefix: Prefix) -> list[str]:
    place = "-"
    if prefix.broken_by:
        place = "tools" if prefix.message is None else f"message {prefix.message}"
        place += f", character {prefix.character}" if prefix.character is not None else ""
    return [
        str(prefix.call),
        f"{prefix.phase or '-'}:{prefix.turn or 0}",
        f"{prefix.sent:,}",
        f"{prefix.shared:,}",
        "-" if prefix.predicted is None else f"{prefix.predicted:,}",
        f"{prefix.reported:,}",
        place,
        prefix.broken_by or "-",
    ]
