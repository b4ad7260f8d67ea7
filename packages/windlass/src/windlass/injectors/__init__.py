"""Injectors: what goes into a prompt besides the history, by tier, in order, under caps.

One file a family. The room knows texts, files and memory banks; it knows no session, no model
and no request: `engine/injecting/begin.py` places what is rendered here.
"""

from windlass.injectors.base import BlockItem as Item
from windlass.injectors.base import Injector, Rendered, Situation, Tier

__all__ = ["Injector", "Item", "Rendered", "Situation", "Tier"]
