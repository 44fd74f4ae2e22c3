"""A command as a person types it into a shell."""

import shlex


def folded(argv: list[str]) -> str:
    """Return one command, each flag on a line of its own."""
    parts: list[str] = []
    for word in argv:
        quoted = shlex.quote(word)
        if word.startswith("--") or not parts:
            parts.append(quoted)
        else:
            parts[-1] += f" {quoted}"
    return " \\\n  ".join(parts)
