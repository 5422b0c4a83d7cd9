//! Reference of the configuration files: every key with its values, default and meaning.
//!
//! It is the source of the manual pages of section 5 (`mpbond man`) and of docs/configuration.md.
//! Tests compare it with the parsers (`*File`): every key that they accept is here and no other,
//! and a default that is written as a value is the one in effect.

mod primary_links;

use mpbond_command::{FileKey, FilePage, FileSection, KeyDefault};

use super::{example, reload};

/// The files of primary, helper and proxy, and of a device with several roles.
pub const PAGES: [FilePage; 4] = [PRIMARY, HELPER, PROXY, DEVICE];

const LOOKED_FOR: &str = "It is a TOML file. `--config` names it. Otherwise it is looked for in \
    `/etc/mpbond` if the user is root, else in `~/.config/mpbond`; a service of systemd uses \
    `/etc/mpbond`.";

const NOTATION: &str = "Sizes are text with a unit: B, kB, MB, GB and TB are powers of 1000; KiB, MiB \
    and GiB are powers of 1024. Spans of time are text with a unit: ns, us, ms, s, min or h. An \
    unknown key, a wrong value and a value out of range are errors that name the line; the daemon \
    then does not start. `--check` checks a file without starting. A change takes effect when the \
    daemon starts again; `mpbond reload` (or SIGHUP) applies a change of the keys that say so to one \
    that runs, and leaves what is open as it is.";

const ROOT_OR_NOT: &str =
    "A path that does not begin with a slash starts at the folder of this file.";

const ID_PATH: KeyDefault = KeyDefault::Words("`identity.pem` in the folder of the configuration");

const IDENTITY: FileKey = FileKey {
    name: "identity",
    values: "path",
    default: ID_PATH,
    meaning: "File with the key of this device, from which its id is derived. It is made at the \
              first start. The devices that are trusted are listed beside it, in the file with the \
              ending `.trusted`.",
};

const METRICS: FileKey = FileKey {
    name: "metrics",
    values: "address and port",
    default: KeyDefault::Words("none"),
    meaning: "Listening address of an HTTP server with metrics for Prometheus. It asks for no \
              password: use a loopback address, or a firewall.",
};

const SANDBOX: FileKey = FileKey {
    name: "sandbox",
    values: "true or false",
    default: KeyDefault::Value("true"),
    meaning: "Whether the daemon gives up capabilities, files and system calls that it does not \
              need, once it is set up.",
};

const CONGESTION: FileKey = FileKey {
    name: "congestion",
    values: "name of an algorithm",
    default: KeyDefault::Words("that of the system"),
    meaning: "Congestion control of TCP for the daemon's connections to other mpbond devices, such \
              as `cubic` or `bbr`. Algorithms that are not in the system's \
              `tcp_allowed_congestion_control` need the capability CAP_NET_ADMIN.",
};

const REINJECTION: FileKey = FileKey {
    name: "reinjection",
    values: "\"ours\", \"published\" or \"none\"",
    default: KeyDefault::Value("\"ours\""),
    meaning: "Whether bytes that a slow path still owes are sent again on a faster one. `ours`: \
              where that saves time, within an allowance for copies. `published`: as in the MPBond \
              paper, section 4.3.4. `none`: only bytes of a path that is silent or lost.",
};

const FEEDBACK: FileKey = FileKey {
    name: "feedback",
    values: "\"helper-radio\", \"flexible\", \"fixed-always\" or \"fixed-on-demand\"",
    default: KeyDefault::Value("\"helper-radio\""),
    meaning: "Path of the reports about a helper's pipe. `helper-radio`: with acknowledgements, \
              over a radio that is awake. The others are the rules of the MPBond paper, section \
              6.2. Write the same at the primary and at the proxy. For experiments.",
};

const BUFFER_DELAY: FileKey = FileKey {
    name: "buffer_delay",
    values: "\"estimated\" or \"measured\"",
    default: KeyDefault::Value("\"estimated\""),
    meaning: "Source of the time that bytes wait at a helper. `estimated`: from the bytes that \
              wait and the throughput behind them. `measured`: by the helper. Write the same at \
              the primary and at the proxy. For experiments.",
};

/// Keys that all roles have are described once; this one differs by the name of the file.
const fn status_socket(place: &'static str) -> FileKey {
    FileKey {
        name: "status_socket",
        values: "path",
        default: KeyDefault::Words(place),
        meaning: "Socket by which `mpbond status` and `mpbond reload` reach the daemon.",
    }
}

const SCHEDULERS: &str = "\"mpbond\", \"pams\", \"min-pad\", \"min-rtt\", \"round-robin\", \
                          \"redundant\", \"single\" or \"fixed-ratio=SHARE\"";

const fn scheduler(direction: &'static str) -> FileKey {
    FileKey {
        name: "scheduler",
        values: SCHEDULERS,
        default: KeyDefault::Value("\"mpbond\""),
        meaning: direction,
    }
}

const RESUME_FOR: FileKey = FileKey {
    name: "resume_for",
    values: "span of time, from 1s to 1h",
    default: KeyDefault::Value("\"60s\""),
    meaning: "Time for which open connections are kept when no path is left. Afterwards they are \
              reset. The shorter one of primary and proxy counts.",
};

const PRIMARY: FilePage = FilePage {
    name: "mpbond-primary.toml",
    about: "configuration of an mpbond primary",
    text: &[
        "`primary.toml` is the configuration of the device with the applications. Only `[proxy]` \
         and one `[[path]]` or `[[helper]]` must be there; mpbond-pair(1) writes `[proxy]` and \
         `[[helper]]`.",
        LOOKED_FOR,
        ROOT_OR_NOT,
        NOTATION,
    ],
    sections: &[
        FileSection {
            header: "",
            about: "The session and the daemon.",
            keys: &[
                scheduler(
                    "Distribution of the bytes that are sent (the uplink) over the paths; the \
                     proxy's configuration has that of the downlink. `mpbond`: Algorithm 1 \
                     of the MPBond paper, with short queues. `pams`: the same as published, which \
                     fills congestion windows. `min-pad` and `min-rtt`: the path with the least delay. \
                     `round-robin`: in turn. `redundant`: every byte on every path. `single`: one \
                     path, the next one when it is lost. `fixed-ratio=0.5`: this share over own \
                     links, the rest through helpers.",
                ),
                REINJECTION,
                RESUME_FOR,
                FileKey {
                    name: "on_proxy_loss",
                    values: "\"direct\" or \"fail\"",
                    default: KeyDefault::Value("\"direct\""),
                    meaning: "Treatment of new connections while no path to the proxy works. \
                              `direct`: they go without the proxy, over one path. `fail`: they \
                              are refused. With a kill switch, `fail` is the default.",
                },
                FileKey {
                    name: "policy",
                    values: "path",
                    default: KeyDefault::Words("none"),
                    meaning: "File with the rules for new connections, as docs/policy.md \
                              describes them. `mpbond policy check` checks one.",
                },
                CONGESTION,
                METRICS,
                IDENTITY,
                status_socket(
                    "`/run/mpbond/primary.sock`; without root `mpbond-primary.sock` in \
                     `$XDG_RUNTIME_DIR`",
                ),
                SANDBOX,
                FEEDBACK,
                BUFFER_DELAY,
            ],
        },
        FileSection {
            header: "[proxy]",
            about: "The proxy. The section must be there.",
            keys: &[
                FileKey {
                    name: "address",
                    values: "address and port, host name and port, or a list of them",
                    default: KeyDefault::Required,
                    meaning: "Where the proxy listens: 1 to 8 addresses, in the order of \
                              preference. Each path uses the first one that it reaches. With \
                              `[transparent]` and `on_proxy_loss = \"fail\"`, at least one must \
                              be an IP address.",
                },
                FileKey {
                    name: "fallback_port",
                    values: "port, from 1 to 65535",
                    default: KeyDefault::Words("none"),
                    meaning: "Port that is tried at the same hosts where none of the addresses \
                              answers: for networks that block unusual ports.",
                },
                FileKey {
                    name: "id",
                    values: "device id",
                    default: KeyDefault::Required,
                    meaning: "Id of the proxy, as `mpbond id` prints it there. A server with \
                              another id is refused.",
                },
            ],
        },
        primary_links::PATH,
        primary_links::HELPER,
        primary_links::PIPE,
        FileSection {
            header: "[socks5]",
            about: "SOCKS5 server for applications; without `credentials` it serves SOCKS 4 and 4A, \
                    too. Without this section, `[http]` and `[transparent]`, there is one at \
                    `127.0.0.1:1080`.",
            keys: &[
                FileKey {
                    name: "listen",
                    values: "address and port",
                    default: KeyDefault::Value("\"127.0.0.1:1080\""),
                    meaning: "Listening address.",
                },
                FRONT_CREDENTIALS,
                FRONT_OPEN,
            ],
        },
        FileSection {
            header: "[http]",
            about: "HTTP proxy for applications: CONNECT, and plain HTTP requests.",
            keys: &[
                FileKey {
                    name: "listen",
                    values: "address and port",
                    default: KeyDefault::Value("\"127.0.0.1:8080\""),
                    meaning: "Listening address.",
                },
                FRONT_CREDENTIALS,
                FRONT_OPEN,
            ],
        },
        FileSection {
            header: "[transparent]",
            about: "Interception of all TCP connections and name look-ups of this device by rules \
                    in the kernel. Applications need no settings. It needs nft(8), ip(8) and the \
                    capability CAP_NET_ADMIN.",
            keys: &[
                FileKey {
                    name: "enabled",
                    values: "true or false",
                    default: KeyDefault::Value("true"),
                    meaning: "Whether connections are intercepted.",
                },
                FileKey {
                    name: "mode",
                    values: "\"redirect\" or \"tproxy\"",
                    default: KeyDefault::Value("\"redirect\""),
                    meaning: "Mechanism of the kernel.",
                },
                FileKey {
                    name: "listen",
                    values: "address and port",
                    default: KeyDefault::Words("a free port at `127.0.0.1`"),
                    meaning: "Address that connections are redirected to.",
                },
                FileKey {
                    name: "resolvers",
                    values: "IP address, with or without port, or a list of them",
                    default: KeyDefault::Words("the resolvers of the proxy"),
                    meaning: "Servers that look up names, asked over the session. The proxy must \
                              reach them. While connections go direct, the network's own are \
                              asked. Local names (without a dot, `.local`, `.lan`, \
                              `home.arpa`, addresses of private networks) are asked of the \
                              local network's resolvers first.",
                },
                FileKey {
                    name: "exclude",
                    values: "network, or a list of them",
                    default: KeyDefault::Value(
                        "[\"10.0.0.0/8\", \"100.64.0.0/10\", \"172.16.0.0/12\", \
                         \"192.168.0.0/16\", \"fc00::/7\"]",
                    ),
                    meaning: "Destinations that are not intercepted; the default is the private \
                              networks.",
                },
                FileKey {
                    name: "forwarded",
                    values: "name of a network interface, or a list of them",
                    default: KeyDefault::Value("[]"),
                    meaning: "Interfaces whose hosts are intercepted, too: this device is their \
                              router. Needs /dev/net/tun.",
                },
                FileKey {
                    name: "udp",
                    values: "\"pass\" or \"reject\"",
                    default: KeyDefault::Value("\"pass\""),
                    meaning: "Treatment of UDP other than name look-ups and QUIC, which is always \
                              rejected. `pass`: it leaves directly, over one path. `reject`: it \
                              is answered with port unreachable. With a kill switch, `reject` is \
                              the default.",
                },
                FileKey {
                    name: "ipv6",
                    values: "\"intercept\" or \"reject\"",
                    default: KeyDefault::Value("\"intercept\""),
                    meaning: "Treatment of connections over IPv6. `intercept`: as those over \
                              IPv4; they are refused while the proxy has no IPv6, so that \
                              applications use IPv4. `reject`: they are always refused.",
                },
                FileKey {
                    name: "kill_switch",
                    values: "\"off\", \"until-stop\" or \"permanent\"",
                    default: KeyDefault::Value("\"off\""),
                    meaning: "Whether applications are kept from the network while no primary \
                              runs. `until-stop`: after a crash, until the daemon is started and \
                              stopped. `permanent`: until `mpbond kill-switch off`. Both \
                              imply `on_proxy_loss = \"fail\"` and `udp = \"reject\"`.",
                },
            ],
        },
    ],
    remark: reload::of_primary,
    example: example::PRIMARY,
    see_also: &["mpbond-primary(1)", "mpbond-pair(1)", "mpbond-doctor(1)"],
};

const FRONT_CREDENTIALS: FileKey = FileKey {
    name: "credentials",
    values: "path",
    default: KeyDefault::Words("none"),
    meaning: "File with `user:password` that clients must give, with no colon and no comma in the \
              user name; only its owner may read it (mode 600). An address that other hosts reach \
              needs it, or `open`.",
};

const FRONT_OPEN: FileKey = FileKey {
    name: "open",
    values: "true or false",
    default: KeyDefault::Value("false"),
    meaning: "Whether other hosts are served without a password.",
};

const HELPER: FilePage = FilePage {
    name: "mpbond-helper.toml",
    about: "configuration of an mpbond helper",
    text: &[
        "`helper.toml` is the configuration of a device that lends its link to primaries. Only \
         `proxies` must be there.",
        LOOKED_FOR,
        ROOT_OR_NOT,
        NOTATION,
    ],
    sections: &[
        FileSection {
            header: "",
            about: "The helper.",
            keys: &[
                FileKey {
                    name: "name",
                    values: "text of 1 to 64 octets",
                    default: KeyDefault::Words("the host name"),
                    meaning: "Name that primaries see.",
                },
                FileKey {
                    name: "listen",
                    values: "address and port, `unix:` and path, or a list of them",
                    default: KeyDefault::Value("\"0.0.0.0:4434\""),
                    meaning: "Listening addresses for primaries: one of TCP on the network shared \
                              with them, the default if none is listed, and up to four Unix \
                              sockets to which other processes bring pipes.",
                },
                FileKey {
                    name: "proxies",
                    values: "address and port, host name and port, or a list of them",
                    default: KeyDefault::Required,
                    meaning: "Proxies that this device relays to. It relays nowhere else. Each \
                              entry is one that the primary's `[proxy]` has; a name is looked up \
                              for each relay.",
                },
                FileKey {
                    name: "trust",
                    values: "device id, or a list of them",
                    default: KeyDefault::Value("[]"),
                    meaning: "Primaries that may use this device, besides those that \
                              mpbond-pair(1) and mpbond-trust(1) have added.",
                },
                FileKey {
                    name: "max_bytes_per_month",
                    values: "size",
                    default: KeyDefault::Words("no limit"),
                    meaning: "Bytes relayed in a calendar month, both directions together. When \
                              they are spent, the helper relays nothing until the next month.",
                },
                FileKey {
                    name: "battery_floor",
                    values: "whole percentage, from 1% to 100%",
                    default: KeyDefault::Words("no floor"),
                    meaning: "Level of this device's battery below which it accepts no new relays, \
                              and ends those that are open 30 s later. It lends again at 5 points \
                              more. Without a battery the key has no effect.",
                },
                FileKey {
                    name: "enabled",
                    values: "true or false",
                    default: KeyDefault::Value("true"),
                    meaning: "Whether this device lends its link.",
                },
                FileKey {
                    name: "announce",
                    values: "true or false",
                    default: KeyDefault::Value("false"),
                    meaning: "Whether it announces itself on the local network to primaries that \
                              it trusts, by multicast DNS.",
                },
                FileKey {
                    name: "ethernet_frames",
                    values: "true or false",
                    default: KeyDefault::Value("false"),
                    meaning: "Whether primaries may open relays over Ethernet frames in place of \
                              TCP. It needs CAP_NET_RAW at the start of the helper, and a primary \
                              on the same link.",
                },
                FileKey {
                    name: "buffer",
                    values: "size, from 64 KiB to 256 MiB",
                    default: KeyDefault::Value("\"4 MiB\""),
                    meaning: "Maximum of bytes that wait at this device, for each relay and \
                              direction. A relay carries up to about a half of it in a round trip.",
                },
                CONGESTION,
                METRICS,
                IDENTITY,
                status_socket(
                    "`/run/mpbond/helper.sock`; without root `mpbond-helper.sock` in \
                     `$XDG_RUNTIME_DIR`",
                ),
                SANDBOX,
            ],
        },
        FileSection {
            header: "[uplink]",
            about: "The link that is lent. The section may also be written in one line: `uplink = \
                    { interface = \"wwan0\" }`.",
            keys: &[
                FileKey {
                    name: "interface",
                    values: "name of a network interface",
                    default: KeyDefault::Words("none: routes decide"),
                    meaning: "Interface that connections to proxies are bound to.",
                },
                FileKey {
                    name: "source",
                    values: "IP address",
                    default: KeyDefault::Words("none"),
                    meaning: "Local address that connections to proxies are bound to.",
                },
                FileKey {
                    name: "capacity_down",
                    values: "data rate, from 1 Mbit/s to 100 Gbit/s",
                    default: KeyDefault::Words(
                        "none: own and lent traffic share the link as TCP does",
                    ),
                    meaning: "Capacity of the link towards this device. Beside own traffic of more \
                              than 3 % of it, all relays together have 94 % of it minus the own \
                              traffic, but never less than 2 % of it, nor than 16 kB/s for each \
                              relay with something to carry (for all of these up to a quarter of \
                              it). State what the link carries when it is alone: where it \
                              carries less, own traffic is not protected, and where it carries \
                              more, relays have too little beside own traffic. Needs \
                              `interface`.",
                },
                FileKey {
                    name: "capacity_up",
                    values: "data rate, from 1 Mbit/s to 100 Gbit/s",
                    default: KeyDefault::Words(
                        "none: own and lent traffic share the link as TCP does",
                    ),
                    meaning: "The same from this device.",
                },
                FileKey {
                    name: "metered",
                    values: "true or false",
                    default: KeyDefault::Words("unknown"),
                    meaning: "Whether the data of the link is charged by volume. Primaries are \
                              told; their policies decide by it, unless they state it themselves.",
                },
            ],
        },
    ],
    remark: reload::of_helper,
    example: example::HELPER,
    see_also: &["mpbond-helper(1)", "mpbond-pair(1)", "mpbond-doctor(1)"],
};

const PROXY: FilePage = FilePage {
    name: "mpbond-proxy.toml",
    about: "configuration of an mpbond proxy",
    text: &[
        "`proxy.toml` is the configuration of the server at which all paths end. It may be absent; \
         no key must be there.",
        LOOKED_FOR,
        ROOT_OR_NOT,
        NOTATION,
    ],
    sections: &[
        FileSection {
            header: "",
            about: "The proxy.",
            keys: &[
                FileKey {
                    name: "listen",
                    values: "address and port, or a list of them",
                    default: KeyDefault::Value("\"0.0.0.0:4433\""),
                    meaning: "Listening addresses for primaries and helpers. Ports below 1024 need \
                              the capability CAP_NET_BIND_SERVICE.",
                },
                FileKey {
                    name: "trust",
                    values: "device id, or a list of them",
                    default: KeyDefault::Value("[]"),
                    meaning: "Primaries that may connect, besides those that mpbond-proxy-enrol(1) \
                              and mpbond-trust(1) have added.",
                },
                scheduler(
                    "Distribution of the bytes that primaries receive (the downlink) over the \
                     paths; the values are those of mpbond-primary.toml(5).",
                ),
                REINJECTION,
                RESUME_FOR,
                FileKey {
                    name: "stop_within",
                    values: "span of time, at most 1h",
                    default: KeyDefault::Value("\"2s\""),
                    meaning: "Time for which open connections go on when the daemon is stopped.",
                },
                FileKey {
                    name: "drain",
                    values: "span of time, at most 1h",
                    default: KeyDefault::Value("\"10min\""),
                    meaning: "Time for which open connections go on in the old process after an \
                              upgrade (mpbond-upgrade(1)).",
                },
                FileKey {
                    name: "serve",
                    values: "address and port",
                    default: KeyDefault::Words("none"),
                    meaning: "Service at which every connection ends, whatever destination it \
                              names: for a server that is its own proxy.",
                },
                FileKey {
                    name: "memory",
                    values: "size, at least 1 MiB",
                    default: KeyDefault::Words("half of the machine's memory"),
                    meaning: "Maximum memory of all sessions.",
                },
                FileKey {
                    name: "workers",
                    values: "number from 1 to 1024",
                    default: KeyDefault::Words("one for each processor core"),
                    meaning: "Threads that serve sessions.",
                },
                CONGESTION,
                METRICS,
                IDENTITY,
                status_socket(
                    "`/run/mpbond/proxy.sock`; without root `mpbond-proxy.sock` in \
                     `$XDG_RUNTIME_DIR`",
                ),
                SANDBOX,
                FEEDBACK,
                BUFFER_DELAY,
            ],
        },
        FileSection {
            header: "[destinations]",
            about: "Destinations of connections. Public addresses are allowed, all others are \
                    refused. A rule is a network, or an address, and a port or a range of ports \
                    if not all: `\"192.168.7.0/24 80-443\"`.",
            keys: &[
                FileKey {
                    name: "allow",
                    values: "rule, or a list of them",
                    default: KeyDefault::Value("[]"),
                    meaning: "Exceptions: destinations that are allowed although they are not \
                              public.",
                },
                FileKey {
                    name: "deny",
                    values: "rule, or a list of them",
                    default: KeyDefault::Value("[]"),
                    meaning: "Destinations that are refused in any case.",
                },
            ],
        },
    ],
    remark: reload::of_proxy,
    example: example::PROXY,
    see_also: &[
        "mpbond-proxy(1)",
        "mpbond-proxy-enrol(1)",
        "mpbond-doctor(1)",
    ],
};

const DEVICE: FilePage = FilePage {
    name: "mpbond-device.toml",
    about: "configuration of an mpbond device with several roles",
    text: &[
        "`device.toml` is the configuration of a device with several roles in one process, which \
         mpbond-up(1) starts. A role runs if the file has a section of its name; one section must \
         be there. Two keys are written before the sections, since they are those of the whole \
         process.",
        "Where `primary.toml`, `helper.toml` or `proxy.toml` is missing, all commands use the \
         section of this file in its place.",
        LOOKED_FOR,
        ROOT_OR_NOT,
        NOTATION,
    ],
    sections: &[
        FileSection {
            header: "",
            about: "The process.",
            keys: &[IDENTITY, SANDBOX],
        },
        FileSection {
            header: "[primary]",
            about: "Every other key of mpbond-primary.toml(5). Its sections are written \
                    `[primary.proxy]`, `[[primary.path]]`, `[[primary.helper]]` and so on.",
            keys: &[],
        },
        FileSection {
            header: "[helper]",
            about: "Every other key of mpbond-helper.toml(5).",
            keys: &[],
        },
        FileSection {
            header: "[proxy]",
            about: "Every other key of mpbond-proxy.toml(5).",
            keys: &[],
        },
    ],
    remark: |_, _| "",
    example: example::DEVICE,
    see_also: &[
        "mpbond-up(1)",
        "mpbond-primary.toml(5)",
        "mpbond-helper.toml(5)",
        "mpbond-proxy.toml(5)",
    ],
};

#[cfg(test)]
mod tests;
