# BEFORE P1 P2 P3 PROGRAM ARGUMENT...: runs the program while the host's network is handed over.
set -eu
before=$1 p1=$2 p2=$3 p3=$4
shift 4
address=$(ip -o -4 addr show dev wifi | sed 's/.* inet \([^ ]*\).*/\1/')
ip link set wifi down
ip addr flush dev wifi
# The traffic server has only just been started.
sleep 0.5
"$@" &
program=$!
{
    sleep "$before"
    # P1: nothing passes any more, and nobody is told.
    nft -f - <<'RULES'
table inet silent {
    chain away {
        type filter hook output priority 0; policy accept;
        oifname "bt" drop
    }
    chain arriving {
        type filter hook input priority 0; policy accept;
        iifname "bt" drop
    }
}
RULES
    sleep "$p1"
    # P2: it is off.
    ip link set bt down
    sleep "$p2"
    # P3: the other one is up, and has no address yet.
    ip link set wifi up
    sleep "$p3"
    # P4: it is connected.
    ip addr add "$address" dev wifi
    ip route add default dev wifi
} >&2
wait "$program"
