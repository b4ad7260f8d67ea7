"""Pictures and files of a session: what there is, what was said of it, and showing it again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from windlass.engine.injecting.injected import Injected
from windlass.engine.turn.record import Recorder
from windlass.errors import ToolError, did_you_mean
from windlass.history.decisions import PictureDescribed
from windlass.injectors.base import Artifact
from windlass.messages import Picture
from windlass.safety.files import UnreadableError, in_root
from windlass.tools.base import ToolOutput
from windlass.window.entries import Entry, Item

PICTURE = "picture_"
"""The prefix of references to pictures; the beginning of their SHA-256 follows."""
_DIGITS = 12
_SAID = 160
_LONGEST = 12_000
"""Characters of a file that `look_again` shows."""


def artifacts(
    born: Sequence[Item], injected: Injected, shown: Sequence[Entry] = ()
) -> tuple[Artifact, ...]:
    """Return the pictures of the session and the files that tools wrote, newest first, each once.

    `born` is what was said in the session, `shown` what the next call sees of it.
    """
    in_sight = {one.sha256 for entry in shown for one in entry.message.pictures}
    by_name: dict[str, Artifact] = {}
    for item in reversed(born):
        about = item.message.text.strip().partition("\n")[0][:_SAID]
        for picture in item.message.pictures:
            ref = reference_of(picture)
            description = injected.described.get(ref)
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
    for name in reversed(injected.files):
        description = injected.described.get(name)
        by_name.setdefault(
            name, Artifact(name, "file", description or "", described=description is not None)
        )
    return tuple(by_name.values())


def reference_of(picture: Picture) -> str:
    """Return the reference to a picture."""
    return f"{PICTURE}{(picture.sha256 or picture.url)[:_DIGITS]}"


def look_callback(record: Recorder, injected: Injected, root: Path) -> Callable[[str], ToolOutput]:
    """Answers the tool `look_again`: a picture comes as a picture, a file as its text."""

    def look(ref: str) -> ToolOutput:
        pictures = _pictures(record.born)
        name = _meant(ref, pictures, injected.files)
        if name in injected.files:
            try:
                held = in_root(root.resolve()).read_bytes(name)
            except UnreadableError as error:
                raise ToolError(f"{name!r} {error}") from error
            text = held.decode("utf-8", "replace")
            left = f"\n[{len(text) - _LONGEST:,} characters more]" if len(text) > _LONGEST else ""
            return ToolOutput(f"{name}:\n{text[:_LONGEST]}{left}")
        picture = pictures[name]
        data = record.store.picture(picture.sha256) if picture.sha256 else None
        description = injected.described.get(name, "")
        caption = f"{name}: {picture.describe()}{'. ' if description else ''}{description}"
        return ToolOutput(caption, (replace(picture, data=data),))

    return look


def describe_callback(
    record: Recorder, injected: Injected, phase: str
) -> Callable[[str, str], str]:
    """Answers the tool `describe_picture`: the words are kept and recorded."""

    def describe(ref: str, text: str) -> str:
        name = _meant(ref, _pictures(record.born), injected.files)
        description = " ".join(text.split())
        if not description:
            raise ToolError("say in words what it shows")
        injected.described[name] = description
        record.decide(phase, f"{name}: {description}", PictureDescribed(name))
        return f"kept for {name}"

    return describe


def _pictures(born: Sequence[Item]) -> dict[str, Picture]:
    pictures = [one for item in born for one in item.message.pictures]
    return {reference_of(one): one for one in pictures}


def _meant(ref: str, pictures: Mapping[str, Picture], files: Sequence[str]) -> str:
    """The reference that is meant: itself, its beginning, or the name of a picture's file."""
    target, names = ref.strip(), [*pictures, *files]
    matches = [name for name in names if name == target or (target and name.startswith(target))]
    matches += [
        name for name, one in pictures.items() if target and one.describe().startswith(target)
    ]
    if not matches:
        raise ToolError(f"there is no picture or file {ref!r} here; {did_you_mean(ref, names)}")
    return matches[0]
