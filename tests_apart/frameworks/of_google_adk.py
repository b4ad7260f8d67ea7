"""Google's Agent Development Kit."""

from __future__ import annotations

from google import genai
from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.models import Gemini
from google.adk.runners import InMemoryRunner
from google.genai import types

from tests_apart.frameworks.work import SYSTEM, TASK, Wrap, in_modes, read_log, wait


def work(wrap: Wrap, mode: str) -> None:
    """Have an agent read the logs."""
    streaming = StreamingMode.SSE if mode == "async stream" else StreamingMode.NONE

    async def run() -> None:
        client = genai.Client()
        model = Gemini(model="gemini-2.5-flash", client=wrap(client))
        agent = LlmAgent(name="reader", model=model, instruction=SYSTEM, tools=[read_log])
        runner = InMemoryRunner(agent=agent, app_name="reader")
        begun = await runner.session_service.create_session(app_name="reader", user_id="u")
        async for _ in runner.run_async(
            user_id="u",
            session_id=begun.id,
            new_message=types.Content(role="user", parts=[types.Part(text=TASK)]),
            run_config=RunConfig(streaming_mode=streaming),
        ):
            pass
        client.close()
        await client.aio.aclose()

    wait(run())


WORKS = in_modes(
    "google-adk", "google-genai", work, {mode: mode for mode in ("async", "async stream")}
)
