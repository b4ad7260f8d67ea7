"""Pictures and files of a session: what there is, what was said of it, and showing it again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from windlass.engine._state import PhaseRun, Run
from windlass.errors import ToolError, did_you_mean
from windlass.history.decisions import PictureDescribed
from windlass.injectors.base import LOOK, Artifact
from windlass.messages import Picture
from windlass.tools.base import ToolOutput
from windlass.window.entries import Entry

PICTURE = "picture_"
"""What references of pictures begin with; the beginning of their SHA-256 follows."""
_DIGITS = 12
_SAID = 160
_LONGEST = 12_000
"""Characters of a file that `look_again` shows."""


def artifacts(run: Run, phase_run: PhaseRun, shown: Sequence[Entry] = ()) -> tuple[Artifact, ...]:
    """The pictures of the session and the files that tools wrote, newest first, each once."""
    if LOOK not in phase_run.progress.tools:
        return ()
    in_sight = {one.sha256 for entry in shown for one in entry.message.pictures}
    by_name: dict[str, Artifact] = {}
    for item in reversed(run.record.born):
        about = item.message.text.strip().partition("\n")[0][:_SAID]
        for picture in item.message.pictures:
            ref = reference_of(picture)
            description = run.injected.described.get(ref)
            by_name.setdefault(
                ref,
                Artifact(
                    ref,
                    picture.describe(),
                    description or about,
                    described=description is not None,
                    in_sight=picture.sha256 in in_sight,
                ),
            )
    for name in reversed(run.injected.files):
        description = run.injected.described.get(name)
        by_name.setdefault(
            name, Artifact(name, "file", description or "", described=description is not None)
        )
    return tuple(by_name.values())


def reference_of(picture: Picture) -> str:
    """What a picture is called."""
    return f"{PICTURE}{(picture.sha256 or picture.url)[:_DIGITS]}"


def look_callback(run: Run) -> Callable[[str], ToolOutput]:
    """What the tool `look_again` asks: a picture comes as a picture, a file as its text."""

    def look(ref: str) -> ToolOutput:
        name = _known(run, ref)
        if name in run.injected.files:
            text = (run.settings.root.resolve() / name).read_text("utf-8", errors="replace")
            left = f"\n[{len(text) - _LONGEST:,} characters more]" if len(text) > _LONGEST else ""
            return ToolOutput(f"{name}:\n{text[:_LONGEST]}{left}")
        picture = _pictures(run)[name]
        data = run.record.store.picture(picture.sha256) if picture.sha256 else None
        description = run.injected.described.get(name, "")
        caption = f"{name}: {picture.describe()}{'. ' if description else ''}{description}"
        return ToolOutput(caption, (replace(picture, data=data),))

    return look


def describe_callback(run: Run, phase: str) -> Callable[[str, str], str]:
    """What the tool `describe_picture` asks: the words are kept, and recorded."""

    def describe(ref: str, text: str) -> str:
        name, description = _known(run, ref), " ".join(text.split())
        if not description:
            raise ToolError("say in words what it shows")
        run.injected.described[name] = description
        run.record.decide(phase, f"{name}: {description}", PictureDescribed(name))
        return f"kept for {name}"

    return describe


def _pictures(run: Run) -> dict[str, Picture]:
    pictures = [one for item in run.record.born for one in item.message.pictures]
    return {reference_of(one): one for one in pictures}


def _known(run: Run, ref: str) -> str:
    """The reference that is meant: itself, its beginning, or the name of a picture's file."""
    pictures, target = _pictures(run), ref.strip()
    names = [*pictures, *run.injected.files]
    matches = [name for name in names if name == target or (target and name.startswith(target))]
    matches += [
        name for name, one in pictures.items() if target and one.describe().startswith(target)
    ]
    if not matches:
        raise ToolError(f"there is no picture or file {ref!r} here; {did_you_mean(ref, names)}")
    return matches[0]
