"""The local model behind its own OpenAI-compatible server: a provider that a user defines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import xllamacpp

from windlass.errors import ContextTooLong
from windlass.messages import Message, assistant, system, user
from windlass.providers._hosted import HostedProvider
from windlass.providers.catalog import catalog
from windlass.settings.fields import ProviderSettings
from windlass.wire.base import Request
from windlass_local import weights

pytestmark = pytest.mark.local

SYSTEM = system("You answer in a few words. " + "Facts: prices rose, wages fell. " * 40)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    params = xllamacpp.CommonParams()
    params.model.path = str(weights())
    params.n_ctx = 2_048
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.verbosity = -1
    params.warmup = params.ui = params.endpoint_slots = False
    params.offline = True
    server = xllamacpp.Server(params)
    yield server.listening_address + "/v1"
    del server


async def test_answers_streams_and_reports_what_its_cache_held(address: str) -> None:
    warned: list[str] = []
    entry = catalog({"mine": ProviderSettings(base_url=address, window=2_048)})["mine"]
    provider = HostedProvider(entry, warn=warned.append)
    pieces: list[str] = []

    def request(*messages: Message) -> Request:
        return Request("smollm2", (SYSTEM, *messages), max_output_tokens=8, temperature=0.0)

    try:
        asked = user("What rose?")
        first = await provider.send(request(asked), pieces.append)
        assert "".join(pieces) == first.message.text != ""
        assert len(pieces) > 1
        assert 0 < first.usage.tokens_out <= 8
        assert first.model == "mine/smollm2"
        more = (asked, assistant(first.message.text), user("What fell?"))
        second = await provider.send(request(*more), pieces.append)
        assert second.usage.tokens_in > first.usage.tokens_in
        assert second.usage.tokens_cached >= 0.8 * first.usage.tokens_in
        with pytest.raises(ContextTooLong, match=r"answered 400: .*context"):
            await provider.send(request(user("again and " * 3_000)), pieces.append)
    finally:
        await provider.close()
    assert warned == []
