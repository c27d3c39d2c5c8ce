"""The systemd unit that keeps the daemon running: locked down as far as agents can still do their work."""

import getpass
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tinyagi.daemon.stopping import longest_stop
from tinyagi.settings.home import Home
from tinyagi.settings.model import Settings

NAME: Final = "tinyagi.service"
SECRETS: Final = "service.env"
"""In the home: variables such as keys and tokens, one `NAME=value` a line, for the owner's eyes only."""

_MARGIN: Final = 5

# No MemoryDenyWriteExecute, RestrictNamespaces or ProtectSystem=strict: agent programs compile at run time, build
# sandboxes of their own, and write wherever their workspace is.
_EVERYWHERE: Final = (
    "UMask=0077",
    "NoNewPrivileges=yes",
    "LockPersonality=yes",
    "RestrictSUIDSGID=yes",
    "RestrictRealtime=yes",
    "SystemCallArchitectures=native",
)
# These need rights, or user namespaces, that a person's own service manager may not have.
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


def unit(home: Home, settings: Settings, environment: Mapping[str, str], *, for_system: bool) -> str:
    """The text of the unit for this home and this installation of Python."""
    stop_seconds = round(longest_stop(settings).total_seconds()) + _MARGIN
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
        # The first start makes the folder.
        f"WorkingDirectory=-{_escaped(str(home.path))}",
        *((f"User={getpass.getuser()}",) if for_system else ()),
        # Agent programs are found the way they are found now.
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


def place(environment: Mapping[str, str], *, for_system: bool) -> Path:
    """Where the service manager looks for the unit."""
    if for_system:
        return Path("/etc/systemd/system") / NAME
    base = environment.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "systemd" / "user" / NAME


def advice(path: Path, *, for_system: bool) -> tuple[str, ...]:
    """What a person types next."""
    manager = "sudo systemctl" if for_system else "systemctl --user"
    first = f"{manager} daemon-reload && {manager} enable --now tinyagi"
    logs = "sudo journalctl -u tinyagi -f" if for_system else "journalctl --user -u tinyagi -f"
    linger = () if for_system else ("So that it runs while you are logged out: loginctl enable-linger",)
    return (f"The unit belongs to {path}", f"Then: {first}", f"See what it does: {logs}, or tinyagi logs -f", *linger)


def _quoted(word: str, *, is_command: bool = True) -> str:
    text = _escaped(word).replace("\\", "\\\\").replace('"', '\\"')
    # In a command a dollar would be replaced by a variable.
    return f'"{text.replace("$", "$$") if is_command else text}"'


def _escaped(text: str) -> str:
    """The service manager replaces what follows a percent sign."""
    return text.replace("%", "%%")
