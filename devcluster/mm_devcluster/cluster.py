"""Start, stop and feed clusters: the Python interface that the demo and the tests use."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
import fcntl

from mm_devcluster import packages
from mm_devcluster.addresses import NODE_PORTS, Network, network_of, ports_of
from mm_devcluster.binaries import CONTROL_PLANE, NODE, Progress, ensure_binaries
from mm_devcluster.blueprint import Blueprint, build_control_plane, build_whole_cluster
from mm_devcluster.bringup import await_api, set_up_node
from mm_devcluster.errors import AlreadyRunningError, MissingRequirementsError, NotRunningError
from mm_devcluster.images.load import Containerd, Loaded
from mm_devcluster.images.oci import Image
from mm_devcluster.launch import launch_supervisor, remove, spawn, stop
from mm_devcluster.layout import Layout
