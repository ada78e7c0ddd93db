# SPDX-License-Identifier: Apache-2.0
"""What the facts of several hosts mean together: differences, connections, protection. Facts in, findings out."""

from typing import Dict, List, Mapping, Optional

from .judge import FAILED, OK, WARNING, Finding

_FIREWALL = (
    "let the firewalls between the hosts pass TCP to all ports above 1023, or name a network that works: "
    "--network-interfaces"
)


def versions(facts: Mapping[str, dict]) -> List[Finding]:
    """Hosts must agree on horovod, libhvd, Python 3.x and the machine; kernels and C libraries may differ."""
    there = {name: host for name, host in facts.items() if "problem" not in host["rank"]}
    compared = (
        (
            "horovod",
            {name: host["rank"]["horovod"]["version"] for name, host in there.items()},
            "install the same version of horovod on all hosts",
        ),
        (
            "libhvd",
            {name: _library(host["rank"]["libhvd"]) for name, host in there.items()},
            "install the same version of horovod on all hosts; HVD_LIBRARY may name another library",
        ),
        (
            "Python",
            {name: ".".join(host["python"].split(".")[:2]) for name, host in facts.items()},
            "start horovodrun with a Python that all hosts have at the same place",
        ),
        ("machine", {name: host["machine"] for name, host in facts.items()}, "use hosts of one kind"),
    )
    found = [finding for what, values, advice in compared for finding in _same(what, values, FAILED, advice)]
    for what, key in (("kernel", "kernel"), ("glibc", "glibc")):
        found += _same(
            what,
            {name: host[key] for name, host in facts.items()},
            WARNING,
            "nothing, as long as all works; if one host behaves differently, look here first",
        )
    return found


def _library(found: dict) -> Optional[str]:
    return f"{found['version']} (ABI {found['abi']})" if found["version"] else None


def _same(what: str, values: Dict[str, Optional[str]], level: str, advice: str) -> List[Finding]:
    names: Dict[str, List[str]] = {}
    for name, value in values.items():
        if value is not None:
            names.setdefault(value, []).append(name)
    if len(names) > 1:
        listed = "; ".join(f"{value} on {', '.join(hosts)}" for value, hosts in names.items())
        return [Finding("versions", level, None, f"{what} differs: {listed}", advice)]
    return [
        Finding("versions", OK, None, f"{what} {value}" + (f" on {len(names[value])} hosts" if len(values) > 1 else ""))
        for value in names
    ]


def shared_addresses(facts: Mapping[str, dict]) -> List[Finding]:
    """Addresses that several hosts have: of container bridges harmless, otherwise one machine named twice."""
    owners: Dict[str, Dict[str, dict]] = {}
    for name, host in facts.items():
        for entry in host["interfaces"]:
            if not entry["loopback"] and not _is_link_local(entry["address"]):
                owners.setdefault(entry["address"], {})[name] = entry
    found = []
    for address, entries in owners.items():
        if len(entries) < 2:
            continue
        hosts, interface = ", ".join(entries), next(iter(entries.values()))["interface"]
        if all(entry["bridge"] for entry in entries.values()):
            found.append(
                Finding(
                    "addresses",
                    OK,
                    None,
                    f"{address} ({interface}) is on {hosts}: a bridge for containers, of no "
                    "use between hosts, harmless",
                )
            )
        else:
            found.append(
                Finding(
                    "addresses",
                    FAILED,
                    None,
                    f"{address} ({interface}) is on {hosts}: one machine under several "
                    "names, or two machines with one address",
                    "name each machine once, with all its slots, and give each its own address",
                )
            )
    return found


def interfaces(wanted: Optional[List[str]], facts: Mapping[str, dict]) -> List[Finding]:
    """Interfaces that the user names must be on some host; addresses() judges whether each has one of them."""
    existing = {entry["interface"] for host in facts.values() for entry in host["interfaces"]}
    missing = [name for name in wanted or () if name not in existing]
    return (
        [
            Finding(
                "addresses",
                FAILED,
                None,
                f"network interface {', '.join(missing)}: on no host",
                f"there are {', '.join(sorted(existing))}",
            )
        ]
        if missing
        else []
    )


def links(results: List[dict], facts: Mapping[str, dict]) -> List[Finding]:
    """One finding for each direction between two hosts."""
    bridges = {
        name: {entry["address"] for entry in host["interfaces"] if entry["bridge"]} for name, host in facts.items()
    }
    pairs: Dict[tuple, List[dict]] = {}
    for link in results:
        pairs.setdefault((link["from"], link["to"]), []).append(link)
    found = []
    for (sender, receiver), ways in pairs.items():
        good = [link for link in ways if link["state"] == "connected"]
        # A bridge for containers is of no use from outside; but a network may also be behind a bridge.
        bad = [
            link
            for link in ways
            if link["state"] != "connected" and not (good and link["address"] in bridges[receiver])
        ]
        what = f"{sender} to {receiver}"
        troubles = "; ".join(_trouble(link) for link in bad)
        if not good:
            found.append(
                Finding("connections", FAILED, None, f"{what}: none" + (f": {troubles}" if troubles else ""), _FIREWALL)
            )
        elif bad:
            found.append(
                Finding(
                    "connections",
                    WARNING,
                    None,
                    f"{what}: works over {_ways(good)}, but {troubles}",
                    "name the network that works: --network-interfaces",
                )
            )
        else:
            found.append(Finding("connections", OK, None, f"{what}: {_ways(good)}"))
    return found


def _ways(good: List[dict]) -> str:
    return ", ".join(f"{link['address']} in {link['round_trip'] * 1e6:.0f} us" for link in good)


def _trouble(link: dict) -> str:
    text = f"{link['address']}: {link['error']}"
    return text + f", packets from {link['lost'][0]} to {link['lost'][1]} do not arrive" if link["lost"] else text


def bandwidth(results: List[dict]) -> List[Finding]:
    """Only what could not be measured is told here; the numbers are in a table."""
    return [
        Finding(
            "bandwidth",
            WARNING,
            None,
            f"{one['from']} to {one['to']} over {one['address']}: {one['error']}",
            "try again; if it stays, small packets pass and large ones do not: compare the MTU of the interfaces",
        )
        for one in results
        if one["error"]
    ]


def launch(found: dict) -> Finding:
    """What hvd.init() would find in this shell."""
    if found["missing"]:
        set_ = " ".join(found["variables"]) or "HOROVOD_RENDEZVOUS"
        return Finding(
            "launch",
            WARNING,
            None,
            f"hvd.init() in this shell would fail: missing {' '.join(found['missing'])}, although set: {set_}",
            f"unset what is left over from {found['launcher'] or 'elsewhere'}; horovodrun sets all by itself",
        )
    if found["launcher"] is None:
        return Finding("launch", OK, None, "hvd.init() in this shell would find no launcher: a job of one rank")
    return Finding(
        "launch",
        OK,
        None,
        f"hvd.init() in this shell would find {found['launcher']}: rank {found['rank']} of {found['size']}",
    )


_LEVELS = {
    "auth": "connections are authenticated, control messages encrypted, data is not",
    "encrypt": "connections are authenticated, everything is encrypted",
    "none": "nothing is protected",
}
_SECRET = "secret: horovodrun makes a new one for each job and passes it in a file that only its user can read"


def protection(found: dict, several_hosts: bool) -> List[Finding]:
    """The level of protection of connections between hosts, and the secret."""
    return [_level(found, several_hosts), Finding("security", OK, None, _SECRET), *_stray_secrets(found)]


def _level(found: dict, several_hosts: bool) -> Finding:
    level, operations = found["level"], found["cpu_operations"]
    if not found["level_known"]:
        advice = "set it to auth, encrypt or none, or unset it"
        return Finding("security", FAILED, None, f'HOROVOD_SECURITY is "{level[:40]}"', advice)
    if level == "encrypt" and operations != "native":
        fact = f"level encrypt, but HOROVOD_CPU_OPERATIONS={operations} sends in plain text"
        return Finding("security", FAILED, None, fact, "unset HOROVOD_CPU_OPERATIONS, or set HOROVOD_SECURITY to auth")
    origin = "HOROVOD_SECURITY" if found["from_environment"] else "the default"
    fact = f"level {level} ({origin}): {_LEVELS[level]}"
    if level == "none" and several_hosts:
        return Finding("security", WARNING, None, fact, "unset HOROVOD_SECURITY")
    return Finding("security", OK, None, fact)


def _stray_secrets(found: dict) -> List[Finding]:
    """What the environment says about secrets and horovodrun does not use."""
    result = []
    if found["secret_file_problem"]:
        fact = f"HOROVOD_SECRET_FILE, {found['secret_file']}: {found['secret_file_problem']}"
        advice = "only ranks started without horovodrun read it; unset it, or make it a file of mode 0600 of this user"
        result.append(Finding("security", WARNING, None, fact, advice))
    names = found["secret_in_environment"]
    if names:
        fact = f"{', '.join(names)} is set: other programs of this user can read it; hvd does not use it"
        result.append(Finding("security", WARNING, None, fact, f"unset {' '.join(names)}"))
    return result


def engine(result: dict) -> Finding:
    """The job of two ranks on this machine."""
    if result["problem"]:
        return Finding(
            "engine",
            FAILED,
            None,
            f"allreduce of 2 ranks here: {result['problem']}",
            "see it happen: horovodrun --verbose -np 2 python -c 'import horovod as hvd; hvd.init()'",
        )
    return Finding(
        "engine",
        OK,
        None,
        f"allreduce of {result['bytes']} bytes by {result['ranks']} ranks here: {result['latency'] * 1e6:.0f} us",
    )


def _is_link_local(text: str) -> bool:
    return text.startswith("169.254.") or text[:3] in ("fe8", "fe9", "fea", "feb") and ":" in text
