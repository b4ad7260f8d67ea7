"""The local model, in this process. Loaded only where a run names it; needs the extra `local`."""

from windlass_local._provider import INSTALL, MODEL, LocalProvider, weights

__all__ = ["INSTALL", "MODEL", "LocalProvider", "weights"]
