"""A harness for Hearth in Python's standard library: `python3 runtime.py serve -- COMMAND…`. Read SPEC.md beside it."""
import contextlib, ctypes, hmac, json, os, re, secrets, signal, socket, sqlite3, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote

from book import Book
from contract import API, CHALLENGE, DELIVERY, MAX_BODY, Refusal, decode, digest, key, mac, malformed, valid_challenge

WHO, RUNS, BOOT = "/hearth.dev/v1alpha1/challenge", "/hearth.dev/v1alpha1/agent-runs", secrets.token_urlsafe(16)

class Server(ThreadingHTTPServer):
    """Of 128 connections the oldest on which nothing was proven makes room for the next; where there is none, the next one goes."""
    daemon_threads, request_queue_size, inside = True, 128, {}  # a connection, and whether it is a stranger's
    def process_request(self, request, client_address):
        if len(self.inside) >= 128:
            leaves = next((one for one, stranger in list(self.inside.items()) if stranger), request)
            with contextlib.suppress(OSError): leaves.shutdown(socket.SHUT_RDWR)  # it may have left by itself
            self.inside.pop(leaves, None)
        self.inside[request] = True
        super().process_request(request, client_address)
    def shutdown_request(self, request):
        self.inside.pop(request, None)
        super().shutdown_request(request)
    def handle_error(self, *args): pass  # a caller that left

class Handler(BaseHTTPRequestHandler):
    protocol_version, timeout, log_message = "HTTP/1.1", 30, lambda *_: None

    def one(self, name, otherwise=""):
        values = self.headers.get_all(name, [otherwise])
        return values[0] if len(values) == 1 else ""

    def serve(self):
        """Answer one request, and sign the answer when the challenge was well-formed."""
        self.target = self.requestline.split()[1]  # as sent: the proof covers it
        self.nonce, self.boot = self.one("Hearth-Challenge"), self.one("Hearth-Boot")
        try:
            if not valid_challenge(self.nonce): raise malformed("Hearth-Challenge", "one challenge of 43 characters")
            status, body, headers = self.answer()
        except Exception as problem:
            code = "journal_full" if isinstance(problem, sqlite3.Error) else "internal"
            refusal = problem if isinstance(problem, Refusal) else Refusal(code, "the harness failed, or its disk")
            status, body, headers = refusal.status, refusal.body, refusal.headers
        raw = b"" if body is None or self.command == "HEAD" else json.dumps(body).encode()
        self.send_response(status)
        if status != 204: headers = {"Content-Type": "application/json", "Content-Length": str(len(raw)), **headers}
        parts = "hearth-answer-v1", self.nonce, self.command, self.target, str(status), POD["uid"], self.boot
        if valid_challenge(self.nonce): headers = {**headers, "Hearth-Answer": mac(KEYS["answer"], parts, raw)}
        for name, value in headers.items(): self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw)
    def __getattr__(self, name): return self.serve if name.startswith("do_") else object.__getattribute__(self, name)  # any method

    def answer(self):
        """The checks, in the contract's order."""
        if re.sub(r":\d+$", "", self.one("Host")) != POD["name"]: raise Refusal("misdirected", "Host: expected the name of this Pod")
        body = self.body()
        parts = "hearth-request-v1", self.command, self.target, POD["name"], POD["uid"], self.boot, self.nonce
        if body is None or not hmac.compare_digest(mac(KEYS["request"], parts, body).encode(), self.one("Hearth-Proof").encode()):
            raise Refusal("unauthenticated", "expected a proof of this request, all of it")
        self.server.inside[self.request] = False
        path, _, query = self.target.partition("?")
        if path == WHO and self.boot: raise malformed("Hearth-Boot", "none on a challenge")
        if path != WHO and self.boot != BOOT: raise Refusal("boot_changed", "another boot: challenge again, then look")
        methods = self.route(path)
        if self.command not in methods:
            raise Refusal("method_not_allowed", "no such method here") if methods else Refusal("not_found", "no such endpoint")
        handle, rule, known = methods[self.command]
        if rule and self.one("Content-Type").partition(";")[0].strip().lower() != "application/json":
            raise Refusal("unsupported_media", "Content-Type: expected application/json")
        if body and not rule: raise malformed("body", "none")
        request, given = decode(body, rule) if rule else None, parse_qsl(query, keep_blank_values=True)
        if len(dict(given)) != len(given) or not set(dict(given)) <= set(known): raise malformed("query", "only " + ", ".join(known) + ", each once")
        if request and request["target"] != POD: raise Refusal("misdirected", "the target is another Pod")
        with BOOK.lock: return handle(request or dict(given))

    def route(self, path):
        if path == WHO: return {"POST": (self.who, CHALLENGE, ())}
        if path == RUNS: return {"POST": (self.deliver, DELIVERY, ()), "GET": (self.changes, None, ("since",))}
        if match := re.fullmatch(re.escape(RUNS) + "/([^/]+)(/recorded)?", path):
            self.uid = unquote(match[1])
            one = {"GET": (self.look, None, ("attempt",)), "DELETE": (self.cancel, None, ("attempt", "ifNotStarted"))}
            return {"POST": (self.recorded, None, ("attempt",))} if match[2] else one
        return {}

    def body(self):
        """The body; None when not all of it came. Too much of it is read, up to a bound, or its sender would not see the 413."""
        chunked, body, more, whole = "Transfer-Encoding" in self.headers, b"", True, True
        while more and whole and len(body) <= MAX_BODY:
            line = self.rfile.readline(32).strip() if chunked else self.one("Content-Length", "0").encode()
            size = int(line, 16 if chunked else 10) if re.fullmatch(b"[0-9a-fA-F]{1,8}" if chunked else b"[0-9]{1,9}", line) else -1
            part = self.rfile.read(min(max(0, size), 2 * MAX_BODY))
            body, more, whole = body + part, chunked and size > 0, len(part) == min(size, 2 * MAX_BODY)
            if chunked: self.rfile.readline(8)
        self.close_connection = self.close_connection or not whole or len(body) > MAX_BODY
        if whole and len(body) > MAX_BODY: raise Refusal("too_large", f"body: expected at most {MAX_BODY} bytes")
        return body if whole else None

    def hold(self, over):
        """Wait as long as the caller prefers (RFC 7240), at most 30 s, for something to be so."""
        match = re.search(r'(?:^|[,\s])wait="?(\d{1,9})', self.headers.get("Prefer", ""))
        until = time.monotonic() + min(int(match[1]) if match else 0, 30)
        while not over() and time.monotonic() < until:
            BOOK.lock.wait(max(0, until - time.monotonic()))

    def who(self, _):
        identity = {"namespace": os.environ["POD_NAMESPACE"], "podName": POD["name"], "podUID": POD["uid"]}
        me = {"apiVersion": API, "identity": identity, "boot": BOOT, "journal": BOOK.id, "harness": {"version": "example"}, "versions": [API]}
        return 200, {**me, **self.present()}, {}
    def present(self):
        return {"agent": {"name": BOOK.command[0], "state": "draining" if BOOK.draining else "ready"}, "capacity": BOOK.capacity()}

    def deliver(self, request):
        uid, attempt = one = request["run"]["uid"], request["attempt"]
        content, entry, capacity = digest(uid, attempt, request["goal"]), BOOK.entries.get(one, {}), BOOK.capacity()
        others = {} if entry else {n: e["state"] for (u, n), e in BOOK.entries.items() if u == uid}
        for holds, code, detail in (
            (request["journal"] != BOOK.id, "journal_changed", "another journal: challenge again, then look"),
            (entry.get("state") == "voided", "voided", "voided before it started"),
            (entry and entry["digest"] != content, "digest_mismatch", "known with other content"),
            (entry.get("recorded"), "forgotten", "ended, recorded and dropped"),
            (max(others, default=0) > attempt, "superseded", "a later attempt was seen"),
            ({"accepted", "running"} & set(others.values()), "attempt_active", "an earlier attempt is not over"),
            (not entry and BOOK.draining, "draining", "no new work is taken"),
            (not entry and capacity["running"] + capacity["queued"] >= BOOK.concurrency + BOOK.queue, "busy", "at capacity"),
        ):
            if holds: raise Refusal(code, detail, capacity=capacity, journal=BOOK.id)
        if not entry:
            BOOK.accept(one, request, content)
            self.hold(lambda: BOOK.entries[one]["state"] in ("finished", "voided"))
        known = entry or BOOK.entries[one]["state"] == "finished"
        return 200 if known else 202, BOOK.shown(one), {"Location": f"{RUNS}/{uid}?attempt={attempt}"}

    def changes(self, query):
        since = query.get("since", "0")
        if not re.fullmatch("[0-9]{1,18}", since) or int(since) > BOOK.revision: raise malformed("since", "a revision of this boot, or 0")
        self.hold(lambda: BOOK.revision > int(since))
        return 200, {**self.present(), **BOOK.page(int(since))}, {}

    def key(self, query, seen=True):
        attempt = query.get("attempt", "")
        if not 0 < len(self.uid.encode()) <= 128: raise malformed("uid", "text of 1 to 128 bytes in the path")
        if not re.fullmatch("[0-9]{1,10}", attempt) or not 1 <= int(attempt) <= 2**30: raise malformed("attempt", "a number from 1 to 2^30")
        if seen and (self.uid, int(attempt)) not in BOOK.entries: raise Refusal("unknown", "no such attempt", journal=BOOK.id)
        return self.uid, int(attempt)
    def look(self, query): return 200, BOOK.shown(self.key(query)), {}

    def cancel(self, query):
        one, condition = self.key(query, seen=False), query.get("ifNotStarted")
        state = BOOK.entries.get(one, {}).get("state", "accepted")
        if condition not in (None, "", "true"): raise malformed("ifNotStarted", "no value, or true")
        if condition is not None and state in ("running", "finished"): raise Refusal("started", "the attempt has started")
        if state == "accepted": BOOK.void(one)  # or never seen: a delivery still under way will find a tombstone
        if state == "running":
            BOOK.write(one, cancelRequested=True)
            BOOK.stop.setdefault(one, ("Cancelled", "Cancelled", "the run was cancelled"))
        return 202 if state == "running" else 200, BOOK.shown(one), {}

    def recorded(self, query):
        one = self.key(query)
        if BOOK.entries[one]["state"] in ("accepted", "running"): raise Refusal("attempt_active", "the attempt is not over")
        if not BOOK.entries[one].get("recorded"): BOOK.write(one, recorded=True, envelope=None)
        return 204, None, {}

def setting(variable, default): return os.environ.get("HEARTH_" + variable, default)
def number(variable, default): return int(setting(variable, default).rstrip("s"))
def address(variable, default): return setting(variable, default).rpartition(":")[0], int(setting(variable, default).rpartition(":")[2])

if __name__ == "__main__":
    POD, root = {"name": os.environ.get("POD_NAME", ""), "uid": os.environ.get("POD_UID", "")}, os.environ.pop("HEARTH_DELIVERY_TOKEN", "")
    for holds, expected in (
        (sys.argv[1:3] == ["serve", "--"] and sys.argv[3:], "serve -- COMMAND…"),
        (POD["name"] and POD["uid"] and os.environ.get("POD_NAMESPACE"), "POD_NAMESPACE, POD_NAME and POD_UID"),
        (socket.gethostname() == POD["name"][:63].rstrip("-."), "the hostname that kubelet derives from POD_NAME"),
        (len(root.encode()) >= 32, "HEARTH_DELIVERY_TOKEN of at least 32 bytes"),
        (setting("DELIVERY_SCHEME", "HTTP") == "HTTP", "runtime.delivery.scheme: HTTP, for this runtime speaks no TLS"),
    ):
        if not holds: sys.exit("runtime: expected " + expected)
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: the agent must not read the root secret from /proc
    KEYS = {role: key(root, role, POD["uid"]) for role in ("request", "answer")}
    BOOK = Book(setting("DATA_DIR", "/var/lib/hearth") + "/journal.sqlite", sys.argv[3:], number("CONCURRENCY", "1"), number("QUEUE", "1"))
    terms = []
    signal.signal(signal.SIGTERM, lambda *_: terms.append(1))
    server = Server(address("DELIVERY_LISTEN", ":4100"), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    door = socket.create_server(address("ACP_LISTEN", ":4000"))  # last: it says that goals are taken. There is no ACP behind it
    threading.Thread(target=lambda: [c.close() for c, _ in iter(door.accept, None)], daemon=True).start()
    while not terms:
        BOOK.tick()
        time.sleep(0.05)
    door.close()
    BOOK.drain(number("DRAIN", "55s"), lambda: len(terms) > 1)
    server.shutdown()
