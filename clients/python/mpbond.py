"""Client of mpbond's API (docs/api.md): one file, standard library only, Python 3.9 or later."""

import http.client
import json
import socket
import urllib.parse

DEFAULT_SOCKET = "/run/mpbond/primary.api"


class Error(Exception):
    """A request that was refused: HTTP status, reason and place in the body, if there is one."""

    def __init__(self, status, reason, place=None):
        super().__init__(f"{status}: {reason}")
        self.status = status
        self.reason = reason
        self.place = place


class _Connection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("mpbond", timeout=timeout)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Client:
    """A primary, by the socket of its API. Times are in seconds."""

    def __init__(self, path=DEFAULT_SOCKET, timeout=10):
        self._path = path
        self._timeout = timeout

    def _open(self, method, resource, body=None, headers=None, timeout=None):
        connection = _Connection(self._path, timeout or self._timeout)
        try:
            connection.request(method, resource, body, headers or {})
            response = connection.getresponse()
            if response.status == 200:
                return connection, response
            text = response.read().decode(errors="replace")
        except BaseException:
            connection.close()
            raise
        connection.close()
        try:
            answer = json.loads(text)
            reason, place = answer["error"], answer.get("place")
        except (ValueError, KeyError, TypeError):
            reason, place = text.strip(), None
        raise Error(response.status, reason, place)

    def _text(self, method, resource, body=None, headers=None):
        connection, response = self._open(method, resource, body, headers)
        try:
            return response.read().decode(), response.headers
        finally:
            connection.close()

    def _json(self, method, resource, value=None):
        body = None if value is None else json.dumps(value).encode()
        return json.loads(self._text(method, resource, body)[0])

    def status(self):
        """The status, as `mpbond status --json` prints it."""
        return self._json("GET", "/v1/status")

    def streams(self, page=100, **only):
        """All open streams of applications, read in pages; with `app` or `destination`, if it is not
        None, those only."""
        after = 0
        only = {key: value for key, value in only.items() if value is not None}
        only = "".join(f"&{key}={urllib.parse.quote(value, safe='')}" for key, value in only.items())
        while True:
            answer = self._json("GET", f"/v1/streams?after={after}&limit={page}{only}")
            yield from answer["streams"]
            if "next" not in answer:
                return
            after = answer["next"]

    def stream(self, stream):
        """An open connection, by its id or the address of the application's socket."""
        return self._json("GET", "/v1/streams/" + urllib.parse.quote(str(stream), safe=""))

    def explain_stream(self, stream):
        """Why an open connection is treated as it is: its rule, and the links that it may use."""
        stream = urllib.parse.quote(str(stream), safe="")
        return self._json("GET", f"/v1/streams/{stream}/explain")

    def set_class(self, stream, name):
        """Sets the class of an open connection. Returns the connection."""
        resource = "/v1/streams/" + urllib.parse.quote(str(stream), safe="")
        return self._json("PATCH", resource, {"class": name})

    def mark_chunk_end(self, stream, download=None, upload=None):
        """A chunk of an open connection ends after so many bytes. Returns the connection."""
        ends = {"download": download, "upload": upload}
        ends = {way: end for way, end in ends.items() if end is not None}
        resource = "/v1/streams/" + urllib.parse.quote(str(stream), safe="")
        return self._json("PATCH", resource, {"chunk_end": ends})

    def links(self):
        """Paths and helpers."""
        return self._json("GET", "/v1/links")["links"]

    def link(self, name):
        """A path or helper."""
        return self._json("GET", "/v1/links/" + urllib.parse.quote(name, safe=""))

    def set_mode(self, name, mode):
        """Sets a link's mode: "bonded", "standby" or "off". Returns the link."""
        resource = "/v1/links/" + urllib.parse.quote(name, safe="")
        return self._json("PATCH", resource, {"mode": mode})

    def set_facts(self, name, **facts):
        """Tells what is known of a link: metered and roaming, each True, False or None (unknown).

        metered_guessed=True says that metered is a guess.
        signal_dbm is the strength of its radio's signal, an int or None; it lasts 5 s.
        Returns the link."""
        resource = "/v1/links/" + urllib.parse.quote(name, safe="")
        return self._json("PATCH", resource, facts)

    def devices(self):
        """The proxy, and the devices that lend their links."""
        return self._json("GET", "/v1/devices")["devices"]

    def unpair(self, device):
        """Takes a helper out of use, by its id. Returns the devices that are left."""
        resource = "/v1/devices/" + urllib.parse.quote(device, safe="")
        return self._json("DELETE", resource)["devices"]

    def pairing(self):
        """The pairing that was begun last."""
        return self._json("GET", "/v1/pairing")

    def begin_pairing(self, **options):
        """Begins a pairing, with `listen`, `wait_s` and `name`. Returns it, with its code."""
        return self._json("POST", "/v1/pairing", options)

    def answer_pairing(self, device, trust):
        """Whether the device with this id, which has called, is trusted. Returns the pairing."""
        return self._json("PATCH", "/v1/pairing", {"device": device, "trust": trust})

    def cancel_pairing(self):
        """Cancels a pairing, or forgets its result."""
        return self._json("DELETE", "/v1/pairing")

    def policy(self):
        """The policy in force, and its tag for `put_policy`."""
        text, headers = self._text("GET", "/v1/policy")
        return text, headers["ETag"]

    def check_policy(self, text):
        """Errors of a policy: a list, empty if it is right."""
        answer, _ = self._text("POST", "/v1/policy:check", text.encode())
        return json.loads(answer)["errors"]

    def put_policy(self, text, tag):
        """Puts a policy in force, unless that with this tag has changed. Returns the new tag."""
        headers = {"If-Match": tag}
        return self._text("PUT", "/v1/policy", text.encode(), headers)[1]["ETag"]

    def policy_mode(self):
        """The mode of the policy: "auto", "fastest", "balanced" or "saver"."""
        return self._json("GET", "/v1/mode")["mode"]

    def set_policy_mode(self, mode):
        """Sets the mode of the policy, whose rest stays. Returns it."""
        return self._json("PUT", "/v1/mode", {"mode": mode})["mode"]

    def explain(self, **facts):
        """What the policy decides about a connection with these facts, and why: `port`, and those
        of `domain`, `ip`, `app`, `uid`, `cgroup`, `dscp` and `source` that are known."""
        return self._json("POST", "/v1/explain", facts)

    def events(self, since=None, timeout=None):
        """Events after the one with this id; without it, those from now on. Ends with the daemon,
        or by `TimeoutError` when none comes for `timeout`; without that it waits for a day."""
        query = "" if since is None else f"?since={since}"
        yield from self._lines("/v1/events" + query, timeout or 86_400)

    def samples(self, every_ms=1000):
        """Counters of all links, at this interval. Ends with the daemon."""
        resource = f"/v1/samples?every_ms={every_ms}"
        yield from self._lines(resource, self._timeout + every_ms / 1000)

    def _lines(self, resource, timeout):
        connection, response = self._open("GET", resource, timeout=timeout)
        try:
            for line in response:
                yield json.loads(line)
        except socket.timeout as error:
            # Before Python 3.10 it is no TimeoutError.
            raise TimeoutError(str(error)) from error
        finally:
            connection.close()
