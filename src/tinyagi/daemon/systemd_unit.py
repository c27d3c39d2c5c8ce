"""The systemd unit for the daemon: as locked down as agents' work allows."""

import getpass
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tinyagi.daemon.control import stop_timeout
from tinyagi.settings.home import Home
from tinyagi.settings.model import Settings

NAME: Final = "tinyagi.service"
SECRETS: Final = "service.env"
"""In the home: variables such as keys and tokens, one `NAME=value` per line, readable by the owner only."""

_MARGIN_SECONDS: Final = 5

# No MemoryDenyWriteExecute, RestrictNamespaces or ProtectSystem=strict: agent programs use JIT compilers, create
# their own sandboxes, and write wherever their workspace is.
_EVERYWHERE: Final = (
    "UMask=0077",
    "NoNewPrivileges=yes",
    "LockPersonality=yes",
    "RestrictSUIDSGID=yes",
    "RestrictRealtime=yes",
    "SystemCallArchitectures=native",
)
# These need privileges or user namespaces that a user's service manager may lack.
_SYSTEM_ONLY: Final = (
    "ProtectSystem=full",
    "ProtectKernelTunables=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelLogs=yes",
    "ProtectControlGroups=yes",
    "ProtectClock=yes",
    "ProtectHostname=yes",
    "PrivateDevices=yes",
    "PrivateTmp=yes",
    "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
    "CapabilityBoundingSet=",
)


def unit_text(home: Home, settings: Settings, environment: Mapping[str, str], *, for_system: bool) -> str:
    """The unit for this home and this Python."""
    stop_seconds = round(stop_timeout(settings).total_seconds()) + _MARGIN_SECONDS
    path = environment.get("PATH") or "/usr/local/bin:/usr/bin:/bin"
    command = [sys.executable, "-m", "tinyagi", "run", "--home", str(home.path)]
    lines = [
        "[Unit]",
        "Description=TinyAGI, teams of agents on one queue",
        *(("After=network-online.target", "Wants=network-online.target") if for_system else ()),
        "StartLimitIntervalSec=300",
        "StartLimitBurst=5",
        "",
        "[Service]",
        "Type=exec",
        f"ExecStart={' '.join(_quoted(word) for word in command)}",
        # "-": the first start creates the folder.
        f"WorkingDirectory=-{_escaped(str(home.path))}",
        *((f"User={getpass.getuser()}",) if for_system else ()),
        # Agent programs are found on the PATH of this shell.
        f"Environment={_quoted(f'PATH={path}', is_command=False)}",
        f"EnvironmentFile=-{_escaped(str(home.path / SECRETS))}",
        "Restart=on-failure",
        "RestartSec=5",
        "KillMode=mixed",
        f"TimeoutStopSec={stop_seconds}",
        *_EVERYWHERE,
        *(_SYSTEM_ONLY if for_system else ()),
        "",
        "[Install]",
        f"WantedBy={'multi-user' if for_system else 'default'}.target",
    ]
    return "\n".join([*lines, ""])


def unit_path(environment: Mapping[str, str], *, for_system: bool) -> Path:
    """Where systemd looks for the unit."""
    if for_system:
        return Path("/etc/systemd/system") / NAME
    base = environment.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "systemd" / "user" / NAME


def next_steps(path: Path, *, for_system: bool) -> tuple[str, ...]:
    """The commands to run next."""
    manager = "sudo systemctl" if for_system else "systemctl --user"
    first = f"{manager} daemon-reload && {manager} enable --now tinyagi"
    logs = "sudo journalctl -u tinyagi -f" if for_system else "journalctl --user -u tinyagi -f"
    linger = () if for_system else ("To keep it running while you are logged out: loginctl enable-linger",)
    return (f"Put the unit in {path}", f"Then: {first}", f"Read its log: {logs}, or tinyagi logs -f", *linger)


def _quoted(word: str, *, is_command: bool = True) -> str:
    text = _escaped(word).replace("\\", "\\\\").replace('"', '\\"')
    # In a command, systemd expands variables after a dollar sign.
    return f'"{text.replace("$", "$$") if is_command else text}"'


def _escaped(text: str) -> str:
    """Escape percent signs, which systemd expands."""
    return text.replace("%", "%%")
