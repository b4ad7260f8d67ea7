"""Importing what others wrote, without what their imports do to logging and warnings.

Logging belongs to the program that Windlass is a part of. Some libraries configure it when
they are imported: one calls `logging.basicConfig`, one gives its loggers handlers that write
to the terminal, and from then on records of the whole program are printed.
"""

from __future__ import annotations

import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_ONE_AT_A_TIME: Final = threading.RLock()


@contextmanager
def logging_unchanged(*packages: str) -> Iterator[None]:
    """Import `packages` in here: logging and warnings are configured afterwards as before.

    Loggers that the imports made get no level and no handler that prints: their records go
    to the handlers of the program. Where it has none, they are not printed either.
    """
    if all(package in sys.modules for package in packages):
        yield
        return
    with _ONE_AT_A_TIME, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nobody who runs this can act on them
        show_warning, disabled = warnings.showwarning, logging.root.manager.disable
        logger_class, record_factory = logging.getLoggerClass(), logging.getLogRecordFactory()
        raising, last_resort = logging.raiseExceptions, logging.lastResort
        before = {name: _settings(logger) for name, logger in _loggers().items()}
        try:
            yield
        finally:
            if warnings.showwarning is not show_warning:
                logging.captureWarnings(capture=False)
            logging.disable(disabled)
            logging.setLoggerClass(logger_class)
            logging.setLogRecordFactory(record_factory)
            logging.raiseExceptions, logging.lastResort = raising, last_resort
            for package in packages:
                logging.getLogger(package)
            for name, logger in _loggers().items():
                _restore(logger, before.get(name) or _plain(name))


def _loggers() -> dict[str, logging.Logger]:
    entries = dict(logging.root.manager.loggerDict)
    named = {name: logger for name, logger in entries.items() if isinstance(logger, logging.Logger)}
    return {"": logging.root, **named}


def _settings(logger: logging.Logger) -> dict[str, Any]:
    return {
        "handlers": list(logger.handlers),
        "filters": list(logger.filters),
        "propagate": logger.propagate,
        "disabled": logger.disabled,
        "level": logger.level,
    }


def _plain(name: str) -> dict[str, Any]:
    """Return what a new logger has."""
    # Under a handler that does nothing, Python's last resort, which prints warnings, is not used.
    handlers = [] if "." in name else [logging.NullHandler()]
    return {
        "handlers": handlers,
        "filters": [],
        "propagate": True,
        "disabled": False,
        "level": logging.NOTSET,
    }


def _restore(logger: logging.Logger, settings: dict[str, Any]) -> None:
    if _settings(logger) != settings:
        for name, value in settings.items():
            if name == "level":
                logger.setLevel(value)  # forgets what it has worked out of levels
            else:
                setattr(logger, name, value)
