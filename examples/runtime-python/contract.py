"""The contract without I/O: keys and MACs, refusals, strict decoding (SPEC.md, Strictness to Challenge, Codes, Digest)."""
import base64, hashlib, hmac, json, re

API, MAX_BODY = "hearth.dev/delivery/v1alpha1", 1 << 20

def lp(text): return len(text.encode()).to_bytes(4, "big") + text.encode()
def b64(raw): return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()

def key(root, role, pod_uid):
    """HKDF-SHA256 (RFC 5869); 32 bytes are one block of its output."""
    return hmac.digest(hmac.digest(API.encode(), root.encode(), "sha256"), lp(role) + lp(pod_uid) + b"\x01", "sha256")

def mac(secret, parts, body):
    return b64(hmac.digest(secret, b"".join(map(lp, parts)) + hashlib.sha256(body).digest(), "sha256"))

def digest(uid, attempt, goal):
    return b64(hashlib.sha256(b"".join(map(lp, ("hearth-digest-v1", uid, str(attempt), goal)))).digest())

def valid_challenge(text):
    return re.fullmatch(r"[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]", text) is not None  # no stray bits in the last character

STATUS = {
    "malformed": 400, "unauthenticated": 401, "unknown": 404, "not_found": 404, "method_not_allowed": 405, "unsupported_version": 406,
    "digest_mismatch": 409, "attempt_active": 409, "started": 409, "voided": 410, "forgotten": 410, "superseded": 410, "boot_changed": 412,
    "journal_changed": 412, "too_large": 413, "unsupported_media": 415, "misdirected": 421, "busy": 429, "internal": 500, "draining": 503, "journal_full": 507,
}

class Refusal(Exception):
    """An answer that is a problem document (RFC 9457). Its detail never repeats what was sent."""
    def __init__(self, code, detail, **more):
        self.status, self.headers = STATUS[code], {"Content-Type": "application/problem+json"}
        self.body = {"status": self.status, "code": code, "detail": detail, **more}
        if code in ("busy", "draining"): self.headers["Retry-After"] = "2"

def malformed(field, expected): return Refusal("malformed", f"{field}: expected {expected}", field=field)

# A rule is a dict of fields, or what is expected and a function that tells whether a value is that.
def text(limit): return f"text of 1 to {limit} bytes", lambda v: isinstance(v, str) and 0 < len(v.encode()) <= limit
def number(limit): return f"a number from 1 to {limit}", lambda v: type(v) is int and 1 <= v <= limit
def like(pattern): return f"text like {pattern}", lambda v: isinstance(v, str) and re.fullmatch(pattern, v)

OPTIONAL = {"session", "limits", "startWithinSeconds", "activeSeconds", "tokens", "cost"}  # may be absent or null
CHALLENGE = {"apiVersion": text(128), "target": {"name": text(253), "uid": text(128)}}
DELIVERY = {
    **CHALLENGE, "run": {"namespace": text(253), "name": text(253), "uid": text(128)}, "attempt": number(2**30), "journal": text(128),
    "goal": text(MAX_BODY), "session": like("fresh|standing"), "limits": {
        "startWithinSeconds": number(10**9), "activeSeconds": number(10**9), "tokens": number(2**53),
        "cost": {"amount": like(r"(?=.*[1-9])[0-9]{1,15}(\.[0-9]{1,9})?"), "currency": like("[A-Z]{3}")}}}

class Object(dict):
    """A JSON object that remembers a field it had twice."""
    def __init__(self, pairs):
        super().__init__()
        self.twice = next((name for name, value in pairs if name in self or self.update({name: value})), None)

def refuse(name): raise ValueError(name)  # NaN and Infinity are Python's, not JSON's

def decode(body, rule):
    """A request, read strictly; its version before all else."""
    try:
        value = json.loads(body.decode("utf-8"), object_pairs_hook=Object, parse_constant=refuse)
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # half of an escaped pair is no text
    except (ValueError, RecursionError):
        raise malformed("body", "one JSON object in UTF-8 and nothing after it") from None
    if isinstance(value, Object) and not value.twice and isinstance(value.get("apiVersion"), str) and value["apiVersion"] not in ("", API):
        raise Refusal("unsupported_version", f"apiVersion: expected {API}", versions=[API])
    check(value, rule, "")
    return value

def check(value, rule, path):
    expected, fits = rule if isinstance(rule, tuple) else ("an object", lambda v: isinstance(v, Object))
    if not fits(value): raise malformed(path or "body", expected)
    if isinstance(rule, tuple): return
    below = lambda name: path + "/" + name[:128].replace("~", "~0").replace("/", "~1")  # a JSON pointer
    if value.twice is not None: raise malformed(below(value.twice), "the field once")
    for name in set(value) - set(rule):
        raise malformed(below(name), "no such field")
    for name, inner in rule.items():
        if value.get(name) is not None or name not in OPTIONAL: check(value.get(name), inner, below(name))
