"""`windlass chat`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from windlass.cli.command import command
from windlass.cli.options import (
    ApprovalOptions,
    Budget,
    Input,
    Lenient,
    MaxTokens,
    SettingOptions,
    Trust,
)
from windlass.errors import UsageError


@command(has_json=False, has_verbose=True)
def chat(
    cascade: Annotated[
        Path | None, Argument(help="A cascade in JSON or YAML, which is run first.")
    ] = None,
    *,
    given: Input = None,
    session: Annotated[str | None, Option(help="A session (as in show) to go on with.")] = None,
    budget: Budget = None,
    max_tokens: MaxTokens = None,
    setting: SettingOptions,
    approvals: ApprovalOptions,
    lenient: Lenient = False,
    trust: Trust = False,
) -> None:
    """Talk with a model, or go on with a session: one line, one reply.

    /show [CALL] shows what calls saw, /cost what they cost, /exit ends it. Ctrl-C ends a reply.
    """
    from windlass.cli.chat_loop import Chat
    from windlass.cli.ending import run_interruptibly
    from windlass.cli.run_input import read_input
    from windlass.cli.untrusted import read_trusted_settings, retry_with_trust
    from windlass.providers.spending import Allowance

    if session is not None and (cascade is not None or given):
        raise UsageError(
            "--session continues with the cascade that it ran; leave out CASCADE and --input"
        )
    if cascade is None and given:
        raise UsageError("--input is the input of a cascade; give the cascade, too")
    values = read_input(given or ())
    flags = setting.flags()
    settings = read_trusted_settings(flags, trusted=trust)
    if session is None and cascade is None and settings["model"].origin == "default":
        raise UsageError(
            "give a cascade, --model to talk to, or --session to go on with; `model` in"
            " windlass.toml or WINDLASS_MODEL names the usual one"
        )
    options = {
        **flags,
        "allowances": [Allowance("the chat", budget=budget, max_tokens=max_tokens)],
        "approve": approvals.by_tool(),
        "lenient": lenient,
        "trust": trust,
    }
    retry_with_trust(
        lambda: run_interruptibly(Chat(settings, options).talk(cascade, session, values))
    )
