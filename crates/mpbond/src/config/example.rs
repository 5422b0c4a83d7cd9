//! A complete configuration of each role, and that of a device with two, as shown by `--help`.
//! Commented lines are defaults. Lines fit a terminal of 80 columns.

/// `proxy.toml`.
pub const PROXY: &str = r#"listen = "0.0.0.0:4433"            # or a list of addresses
trust = ["DEVICE-ID"]              # who may connect; or `mpbond trust ID`
scheduler = "mpbond"               # pams, min-pad, min-rtt, round-robin,
                                   # redundant, single, fixed-ratio=0.5
reinjection = "ours"               # copies of what slow paths still owe;
                                   # or published, none
congestion = "cubic"               # of TCP; left out: the system's
resume_for = "60s"                 # sessions are kept so long without a path
stop_within = "2s"                 # open connections go on so long at a stop
drain = "10min"                    # and so long after an upgrade
metrics = "127.0.0.1:9090"         # Prometheus; left out: none
# identity = "/etc/mpbond/identity.pem"
# status_socket = "/run/mpbond/proxy.sock"
# sandbox = true                   # false: give no privileges up
# feedback = "helper-radio"        # as at the primary
# buffer_delay = "estimated"       # or measured: how long bytes wait at a
                                   # helper (both for experiments)
# serve = "127.0.0.1:80"           # end every stream at this one service
# workers = 2                      # threads; left out: one a core
# memory = "512 MiB"               # of all sessions; left out: half of the
                                   # machine's

[destinations]                     # public addresses are allowed, no others
allow = ["192.168.7.0/24 80-443"]  # exceptions; ports if not all
deny = ["198.51.100.9"]            # refused in any case
"#;

/// `helper.toml`.
pub const HELPER: &str = r#"name = "watch"
listen = "192.168.49.2:4434"       # on the network shared with the primary
proxies = ["203.0.113.1:4433"]     # the only places it relays to
trust = ["DEVICE-ID"]              # who may use it; or `mpbond trust ID`
uplink = { interface = "wwan0" }   # or source = "10.0.0.2"; left out: as
                                   # routes say
max_bytes_per_month = "2 GB"       # left out: no cap
battery_floor = "20%"              # below it nothing is lent
enabled = true                     # the off switch
announce = true                    # primaries that it trusts find it on
                                   # the local network; left out: not
buffer = "4 MiB"                   # what may wait here, each way and relay
# ethernet_frames = true           # in place of TCP, where primaries ask
congestion = "cubic"               # of TCP; left out: the system's
metrics = "127.0.0.1:9091"         # Prometheus; left out: none
# identity = "/etc/mpbond/identity.pem"
# status_socket = "/run/mpbond/helper.sock"
# sandbox = true                   # false: give no privileges up
"#;

/// `primary.toml`.
pub const PRIMARY: &str = r#"scheduler = "mpbond"               # for the uplink; see proxy.toml
reinjection = "ours"               # copies of what slow paths still owe;
                                   # or published, none
feedback = "helper-radio"          # or flexible, fixed-always,
                                   # fixed-on-demand, here and at the proxy
congestion = "cubic"               # of TCP; left out: the system's
resume_for = "60s"                 # open connections wait so long for a path
                                   # when none is left; see proxy.toml
on_proxy_loss = "direct"           # or "fail": new connections meanwhile
metrics = "127.0.0.1:9092"         # Prometheus; left out: none
# buffer_delay = "estimated"       # or measured, here and at the proxy
# identity = "/etc/mpbond/identity.pem"
# status_socket = "/run/mpbond/primary.sock"
# sandbox = true                   # false: give no privileges up

[proxy]
address = "203.0.113.1:4433"       # or a list, IPv6 and names among them
# fallback_port = 443              # tried where the port above is blocked
id = "PROXY-ID"                    # what `mpbond id` prints there

[[path]]                           # one for every own link
name = "lte"
interface = "wwan0"                # or source = "10.0.0.2"
backup = false                     # true: only when nothing else is left
# proxy = "[2001:db8::1]:4433"     # addresses of the proxy on this path

[[helper]]                         # one for every device that lends its link
name = "watch"
address = "192.168.49.2:4434"      # or "discover", if it announces itself
id = "HELPER-ID"                   # what `mpbond id` prints there
interface = "wlan0"                # the network shared with it; left out:
                                   # as routes say
# ethernet_frames = true           # in place of TCP, if both are on one link

[socks5]                           # without any of these three sections:
listen = "127.0.0.1:1080"          # SOCKS5 on this address

# credentials = "socks5.password"  # file with `user:password`, mode 600;
                                   # needed beyond loopback, or open = true

[http]
listen = "127.0.0.1:8080"          # credentials and open: as for [socks5]

[transparent]                      # no settings in applications; needs root
enabled = true
mode = "redirect"                  # or "tproxy"
resolvers = ["9.9.9.9", "1.1.1.1"] # for name look-ups, over the session;
                                   # left out: those of the proxy
exclude = ["192.168.0.0/16"]       # reached directly; left out: all private
                                   # networks
forwarded = []                     # interfaces whose hosts are served too
udp = "pass"                       # or "reject": what is not DNS or QUIC
ipv6 = "intercept"                 # or "reject"
kill_switch = "off"                # or "until-stop", "permanent": no network
                                   # for applications without the primary;
                                   # implies "fail" above, and udp = "reject"
"#;

/// `device.toml`: short, since its sections have the keys of the files above.
pub const DEVICE: &str = r#"# identity = "identity.pem"        # the key of this device
# sandbox = true                   # false: give no privileges up

[primary.proxy]                    # what primary.toml has
address = "203.0.113.1:4433"
id = "PROXY-ID"                    # what `mpbond id` prints there

[[primary.path]]
interface = "wwan0"

[[primary.helper]]
name = "tablet"
address = "192.168.49.2:4434"
id = "HELPER-ID"

[helper]                           # what helper.toml has
name = "laptop"
listen = "192.168.49.1:4434"
proxies = ["203.0.113.1:4433"]
uplink = { interface = "wwan0" }   # the same link: used and lent
"#;
