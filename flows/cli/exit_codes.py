"""Exit codes that scripts can use.

==== =====================================================================
0    done
1    the run failed (a training that diverged, an evaluation with failed rows, a fault of ours: then with its traceback)
2    bad input: a wrong key, value, file, option or home; nothing was left half-written
130  interrupted (Ctrl-C); 143 ended by SIGTERM, when everything has been closed
==== =====================================================================
"""

from __future__ import annotations

import errno
import json
import sys
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typer import Typer

DONE, FAILED, BAD_INPUT, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143
_FULL = (errno.ENOSPC, errno.EDQUOT)


def exit_code_of(application: Typer, arguments: list[str] | None = None) -> int:
    """Run the application and return its exit code.

    An error ends in one message on stderr; with ``--json`` in one JSON object on stdout besides.
    """
    import typer

    # typer brings its own click, whose classes are not those of an installed one.
    usage_error: type[typer.BadParameter] = next(b for b in typer.BadParameter.__mro__ if b.__name__ == "ClickException")
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        result = application(arguments, standalone_mode=False)
        if result == INTERRUPTED:  # typer's answer to Ctrl-C
            raise KeyboardInterrupt
        return result if isinstance(result, int) else DONE
    except usage_error as error:
        error.show()
        return _answer(arguments, "UsageError", str(error), BAD_INPUT)
    except (typer.Abort, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        return _answer(arguments, "Interrupted", "interrupted", INTERRUPTED)
    except SystemExit as error:
        if error.code == TERMINATED:
            print("terminated", file=sys.stderr)
            return _answer(arguments, "Terminated", "terminated", TERMINATED)
        return _with_traceback(arguments, error)  # a user's part ended the process: with code 0, too, nothing was done
    except BrokenPipeError:
        # The reader of our output has gone (| head): nobody is left to be told.
        sys.stderr.close()
        return DONE
    except Exception as error:
        return _failure(arguments, error)


def _failure(arguments: list[str], error: Exception) -> int:
    from rlcore.foundation.errors import FillwrightError, InputError

    if isinstance(error, FillwrightError):
        print(f"error: {error}", file=sys.stderr)
        code = BAD_INPUT if isinstance(error, InputError) else FAILED
        return _answer(arguments, type(error).__name__, str(error), code)
    if isinstance(error, OSError) and error.errno in _FULL:
        where = f" for {error.filename}" if error.filename else ""
        message = f"the disk must have room{where}, it is full: free some (fillwright gc), and give the same command again"
        print(f"error: {message}", file=sys.stderr)
        return _answer(arguments, type(error).__name__, message, FAILED)
    return _with_traceback(arguments, error)


def _with_traceback(arguments: list[str], error: BaseException) -> int:
    traceback.print_exception(error)
    return _answer(arguments, type(error).__name__, str(error), FAILED)


def _answer(arguments: list[str], kind: str, message: str, code: int) -> int:
    if "--json" in arguments:
        print(json.dumps({"error": {"type": kind, "message": message, "exit_code": code}}, ensure_ascii=False))
    return code
