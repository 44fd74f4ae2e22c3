"""Helm's command line as pages type it, over Helm's own SDK: there is no helm here."""

import argparse
import os
import sys

import helm_python

DEADLINE = 120


def main() -> None:
    parser = argparse.ArgumentParser(prog="helm")
    parser.add_argument("action", choices=("install", "uninstall"))
    parser.add_argument("name")
    parser.add_argument("chart", nargs="?")
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--create-namespace", action="store_true")
    given = parser.parse_args()
    kubeconfig = os.environ["KUBECONFIG"]
    with helm_python.Config(kubeconfig_path=kubeconfig, namespace=given.namespace) as config:
        if given.action == "uninstall":
            config.uninstall(given.name, timeout=DEADLINE)
        else:
            made = {"create_namespace": given.create_namespace, "timeout": DEADLINE}
            config.install(given.chart, given.name, {}, **made)


if __name__ == "__main__":
    sys.exit(main())
