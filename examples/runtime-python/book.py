"""What was promised and what came of it, durable in SQLite, and carried out: a process of the agent's command for each goal."""
import contextlib, json, os, secrets, signal, sqlite3, subprocess, tempfile, threading, time
from datetime import datetime, timezone

MAX_OUTPUT, FOREVER = 128 << 10, 10**9  # bytes that an agent may print; seconds

def now(): return datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")

class Book:
    """Attempts by (uid, number); what is under "private" is not shown. `lock` guards all of it and is notified of every change."""
    def __init__(self, path, command, concurrency, queue):
        self.command, self.concurrency, self.queue, self.draining = command, concurrency, queue, False
        self.lock, self.stop, self.start_by = threading.Condition(threading.RLock()), {}, {}  # by key: why to stop, until when to start
        self.db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)  # each statement is a transaction
        for sql in ("PRAGMA locking_mode=EXCLUSIVE", "PRAGMA synchronous=EXTRA",  # one harness a file; fsync before a write returns
                          "CREATE TABLE IF NOT EXISTS attempts (uid TEXT, attempt INTEGER, entry TEXT, PRIMARY KEY (uid, attempt))",
                          "CREATE TABLE IF NOT EXISTS journal (one INTEGER PRIMARY KEY, id TEXT)"):
            self.db.execute(sql)
        self.db.execute("INSERT OR IGNORE INTO journal VALUES (1, ?)", (secrets.token_urlsafe(16),))
        self.id = self.db.execute("SELECT id FROM journal").fetchone()[0]
        rows = self.db.execute("SELECT uid, attempt, entry FROM attempts ORDER BY rowid")
        self.entries = {(uid, attempt): json.loads(entry) for uid, attempt, entry in rows}
        self.changed = {key: i + 1 for i, key in enumerate(self.entries)}
        self.revision = len(self.entries) + 1  # of this boot: grows with every change
        for key in self.having("running"):  # settle what the last boot left
            self.finish(key, "Interrupted", "Interrupted", "the harness ended while the attempt ran", 0)
        for key in self.having("accepted"):
            accepted = datetime.fromisoformat(self.entries[key]["acceptedAt"].replace("Z", "+00:00"))
            self.await_start(key, max(0, time.time() - accepted.timestamp()))

    def write(self, key, **fields):
        """Change an attempt, on disk first."""
        entry = {"run": {"namespace": "", "name": "", "uid": key[0]}, "attempt": key[1], "digest": "", **self.entries.get(key, {}), **fields}
        sql = "INSERT INTO attempts VALUES (?, ?, ?) ON CONFLICT (uid, attempt) DO UPDATE SET entry = excluded.entry"  # keeps its place
        self.db.execute(sql, (*key, json.dumps(entry)))
        self.revision += 1
        self.entries[key], self.changed[key] = entry, self.revision
        with self.lock: self.lock.notify_all()

    def void(self, key): self.write(key, state="voided", private=None)
    def having(self, state): return [key for key, entry in self.entries.items() if entry["state"] == state]
    def unrecorded(self): return [key for key, entry in self.entries.items() if not entry.get("recorded")]
    def shown(self, key, without=("private",)): return {n: value for n, value in self.entries[key].items() if n not in without}

    def capacity(self):
        return {"concurrency": self.concurrency, "queue": self.queue, "running": len(self.having("running")), "queued": len(self.having("accepted"))}

    def page(self, since, limit=900_000):
        """What changed after a revision and was not recorded, the oldest change first, in at most so many bytes."""
        runs, last = [], since
        for key in sorted((k for k in self.unrecorded() if self.changed[k] > since), key=self.changed.get):
            state = self.shown(key, without=("private", "envelope"))
            limit -= len(json.dumps(state))
            if limit < 0: return {"runs": runs, "revision": last, "more": True}
            runs, last = runs + [state], self.changed[key]
        return {"runs": runs, "revision": self.revision, "more": False}

    def accept(self, key, request, digest):
        private = {"goal": request["goal"], "limits": request.get("limits") or {}}
        self.write(key, run=request["run"], digest=digest, state="accepted", acceptedAt=now(), private=private)
        self.await_start(key)
        self.tick()
    def await_start(self, key, waited=0):
        self.start_by[key] = time.monotonic() + self.entries[key]["private"]["limits"].get("startWithinSeconds", FOREVER) - waited

    def tick(self):
        """Start what may start, and void what has not started in time."""
        with self.lock:
            for key in [] if self.draining else self.having("accepted")[: self.concurrency - len(self.having("running"))]:
                if self.stored(self.write, key, state="running", startedAt=now()):  # durable before the agent has the goal
                    threading.Thread(target=self.run, args=[key], daemon=True).start()
            for key in self.having("accepted"):
                if time.monotonic() > self.start_by[key]: self.stored(self.void, key)

    def run(self, key):
        """Carry out one goal. An agent that has to stop is asked to, and after 5 s made to."""
        private, began, asked, output = self.entries[key]["private"], time.monotonic(), None, b""
        environ = {k: v for k, v in os.environ.items() if not k.startswith("HEARTH_")}  # without the root secret
        try:
            with tempfile.TemporaryFile() as goal, tempfile.TemporaryFile() as out:
                goal.write(private["goal"].encode())
                goal.seek(0)
                agent = subprocess.Popen(self.command, stdin=goal, stdout=out, env=environ, start_new_session=True)
                while agent.poll() is None:
                    if time.monotonic() > began + private["limits"].get("activeSeconds", FOREVER):
                        self.stop.setdefault(key, ("Failed", "DeadlineExceeded", "its own time was over"))
                    if key in self.stop:
                        asked = asked or time.monotonic()
                        os.killpg(agent.pid, signal.SIGKILL if time.monotonic() > asked + 5 else signal.SIGTERM)
                    time.sleep(0.05)
                out.seek(0)
                output = out.read(MAX_OUTPUT + 1)
            how = self.stop.get(key, ("Failed", "AgentCrashed", f"the agent ended with status {agent.returncode}"))
            if agent.returncode == 0:  # the real end came first
                how = ("Succeeded", "Completed", "") if len(output) <= MAX_OUTPUT else ("Failed", "ResultTooLarge", f"more than {MAX_OUTPUT} bytes")
        except OSError as error:
            how = "Failed", "AgentError", f"the agent could not be started: {error.strerror}"
        value = output[:MAX_OUTPUT].decode("utf-8", "replace").replace("\0", "\ufffd")
        result = (key, *how, time.monotonic() - began)
        with self.lock:
            while not self.stored(self.finish, *result, output={"mediaType": "text/plain", "value": value}): self.lock.wait(1)
            self.stop.pop(key, None)
        self.tick()
    def stored(self, write, *args, **fields):  # what the disk does not take is not told, and is tried again
        with contextlib.suppress(sqlite3.Error): return write(*args, **fields) or True

    def finish(self, key, outcome, reason, message, seconds, **result):
        timing = {"startedAt": self.entries[key]["startedAt"], "finishedAt": now(), "durationMillis": int(seconds * 1000)}
        envelope = {"apiVersion": "hearth.dev/result/v1alpha1", "outcome": outcome, "reason": reason, "message": message, "timing": timing,
                    "tools": {"calls": 0, "failed": 0}, **result}
        self.write(key, state="finished", finishedAt=timing["finishedAt"], private=None, envelope=envelope)

    def drain(self, limit, cancelled):
        """Nothing new; what has not started never will; what runs may end; then results are handed over (SPEC.md, Drain)."""
        with self.lock:
            self.draining, until = True, time.monotonic() + limit
            for key in self.having("accepted"): self.void(key)
            while self.having("running"):
                for key in self.having("running") if cancelled() or time.monotonic() > until else ():
                    self.stop.setdefault(key, ("Cancelled", "Cancelled", "the harness was drained before the run ended"))
                self.lock.wait(0.05)
            until = time.monotonic() + 10
            while self.unrecorded() and time.monotonic() < until: self.lock.wait(0.05)
