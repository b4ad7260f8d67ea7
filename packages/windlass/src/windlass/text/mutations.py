"""What attempts at one task are asked in addition, or in other words, so that they differ."""

from __future__ import annotations

from typing import Final

from windlass.text.prompts import VARIATIONS, fence_line, fence_of, fenced

AUGMENTATIONS: Final = (
    "You know this field well, and you have done such tasks many times.",
    "What follows is used as it is: nobody will correct it.",
    "Read what follows twice, and note what it asks for before you begin.",
    "Whoever reads the result is new to the matter.",
    "Whoever reads the result knows the matter and has little time.",
    "The usual answer to what follows is not good enough.",
    "An expert will look for mistakes in what you write.",
    "Think of a good example of such a result, and aim to do better.",
)
"""What stands before the instructions of soundings with `augment`, in turn."""

REWRITES: Final = (
    "Say exactly what a good result has, and what it does not have.",
    "Divide it into steps in the order in which they are best done.",
    "Say it in half as many words, without losing anything that is asked.",
    "Begin with the purpose of the result and who it is for.",
    "Say what often goes wrong with such a task, and how it is avoided.",
    "Ask for a plan before the result, and for a look back at the end.",
    "Put what matters most first, and say why it does.",
    "Write it as an expert would who hands the task to a colleague.",
)
"""What a model is asked to do with the instructions of soundings with `rewrite`, in turn."""

OF_MODES: Final = {"approach": VARIATIONS, "augment": AUGMENTATIONS, "rewrite": REWRITES}
"""The built-in texts of each way in which soundings vary."""

REWRITE_SYSTEM: Final = (
    "You write the instructions of a task anew, so that somebody else does it in another way. All"
    " that they ask for, every name, number and quotation, and every form that is asked of the"
    " answer stays. Answer with the new instructions alone, and do not do the task."
)


def rewrite_text(instructions: str, order: str) -> str:
    """Return the instructions that a model is to write anew, and how."""
    fence = fence_of(instructions, order)
    asked = f"{fence_line('How To Write Them', fence)}\n{order}"
    return f"{fenced('Instructions', instructions, fence)}\n\n{asked}"
