"""A name for the user: torch 2.8 to 2.11 looks it up while it is imported, and fails without one.

Pods run as user 65532, which NVIDIA's images do not list in /etc/passwd.
"""

import getpass
from collections.abc import MutableMapping
from typing import Final

NAME: Final = "nonroot"


def name_user(environment: MutableMapping[str, str]) -> None:
    """Set USER where neither the environment nor /etc/passwd names the user of this process."""
    try:
        getpass.getuser()
    except (KeyError, OSError):  # the latter since Python 3.13
        environment["USER"] = NAME
