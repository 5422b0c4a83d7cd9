"""An application of MPBond section 4.4, which goes between two links by its rate.

    by_rate.py SLOW FAST BYTES_PER_S [SOCKET]

SLOW is the link whose radio takes less power, such as Bluetooth; FAST the one with the higher rate,
such as WiFi. FAST is used from a rate of BYTES_PER_S on, else SLOW. The rate is that of all
connections which the primary carries over the two, by the samples of its API.
"""

import sys

import mpbond

EVERY_MS = 500

# Number of samples in a row below the rate after which SLOW is used: the radio of FAST would stay
# awake for a while anyway, and applications pause.
SAMPLES_BELOW = 4


def use(client, link, other):
    """Sets a link to carry the data, and another one only while the first does not work."""
    client.set_mode(link, "bonded")
    client.set_mode(other, "standby")


def follow(client, slow, fast, bytes_per_s):
    """Sets the modes of two links by the rate, until the primary ends."""
    used, below, before = slow, 0, None
    use(client, slow, fast)
    for sample in client.samples(EVERY_MS):
        links = [link for link in sample["links"] if link["name"] in (slow, fast)]
        now = sample["at_s"], sum(link["bytes_in"] + link["bytes_out"] for link in links)
        if before is not None:
            rate = (now[1] - before[1]) / (now[0] - before[0])
            below = below + 1 if rate < bytes_per_s else 0
            if below == 0 and used == slow:
                used = fast
                use(client, fast, slow)
            elif below >= SAMPLES_BELOW and used == fast:
                used = slow
                use(client, slow, fast)
        before = now


def main():
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__.strip())
    slow, fast, bytes_per_s, *socket = sys.argv[1:]
    follow(mpbond.Client(*socket), slow, fast, float(bytes_per_s))


if __name__ == "__main__":
    main()
