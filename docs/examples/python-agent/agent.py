#!/usr/bin/env python3
"""A Muster terminal of its own: docs/protocol/terminal.md in Python 3.11, unsigned.
Usage: agent.py HOST:PORT STORE TERMINAL WORKFOLDER JOB VERSION PROGRAM [ARGUMENT...]
The program does the job: input on standard input, one JSON value on standard output."""
import datetime, fcntl, hashlib, itertools, json, os, pathlib, queue, random
import shutil, signal, subprocess, sys, tempfile, time, types
import paho.mqtt.client as mqtt

INLINE, LARGEST, NEVER = 8192, 262144, float("inf")  # bytes of a result that goes at once, of any
BROKER, STORE, TERMINAL, WORK, JOB, VERSION, *PROGRAM = sys.argv[1:]
WORK, VERSION, TASKS = pathlib.Path(WORK), int(VERSION), f"muster/v1/stores/{STORE}/tasks/"
ME = f"muster/v1/stores/{STORE}/terminals/{TERMINAL}/"
tasks, heard, seq = {}, queue.SimpleQueue(), itertools.count(time.time_ns() // 1000)
hello = types.SimpleNamespace(due=NEVER, wait=1, id="", sent=0, ahead=0)  # NEVER: it is answered

class Task:
    fence = open = 0  # the highest attempt known; the one started, until its answer has a receipt
    answer, body = None, ""  # of that attempt; body is the value, the very text that is sent
    offer = run = None  # from here on in memory alone
    stale, due, claim = False, 0, 0  # due: the next progress or answer; claim: the next claim

    def __init__(self, name):
        self.id = name

    def phase(self):
        answers = self.answer and not self.stale
        return "running" if self.run else "done" if answers else "offered" if self.offer else ""

    def save(self, **what):
        """Lets nothing go on before it is on the disk, its name too."""
        vars(self).update(what)
        with open(WORK / "new", "w") as f:
            json.dump([self.fence, self.open, self.answer, self.body], f)
            f.flush()
            os.fsync(f.fileno())
        os.replace(WORK / "new", WORK / f"{self.id}.task")
        os.fsync(folder)

    def keep(self, body, **members):  # duty 3: the result is on disk until its receipt
        times = {"startedAt": now_ms(), "finishedAt": now_ms(), "durationMs": 0, "executed": False}
        names = {"taskId": self.id, "attempt": self.open, "sha256": sha256(body)}
        self.save(run=None, stale=False, due=0, body=body, answer=times | members | names)

    def fail(self, code, message, **members):
        outcome = "cancelled" if code == "CANCELLED" else "failed"
        body = json.dumps({"code": code, "message": message}, ensure_ascii=False)
        self.keep(body, outcome=outcome, **members)

    def say(self, kind, **members):
        send(kind, taskId=self.id, attempt=self.open, **members)

    def say_answer(self, slot):
        size = len(self.body.encode())
        if size > INLINE and not slot:
            return self.say("ready", bytes=size, sha256=self.answer["sha256"])
        name = "result" if self.answer["outcome"] == "succeeded" else "error"
        send("result", f',"{name}":{self.body}', **self.answer)

def now_ms():
    return time.time_ns() // 1_000_000

def task(name):
    return tasks.setdefault(name, Task(name))

def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()

def send(kind, raw="", **members):
    n, digits = now_ms() << 80 | random.getrandbits(80), "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
    ulid = "".join(digits[n >> shift & 31] for shift in range(125, -1, -5))
    at = datetime.datetime.now().astimezone().isoformat(timespec="milliseconds")
    text = json.dumps({"id": ulid, "at": at, "seq": next(seq), **members}, ensure_ascii=False)
    client.publish(ME + kind, text[:-1] + raw + "}", qos=1)
    return ulid

def offered(t, offer, text):
    at = text.index('"input":') + len('"input":')
    raw = text[at:json.JSONDecoder().raw_decode(text, at)[1]]  # bytes, not values, are hashed
    moment = datetime.datetime.fromisoformat(offer["scheduledFor"]).timestamp()
    work = [offer[name] for name in ("taskId", "parentId", "storeId", "type", "typeVersion")]
    work = sha256("\n".join(map(str, [*work, round(moment * 1000), raw])))
    if offer.get("terminalId", TERMINAL) == TERMINAL:
        t.claim, t.offer = 0, offer | {"raw": raw, "hash": work, "came": time.monotonic()}

def granted(t, o):
    if o["attempt"] == t.open:  # it has this grant already
        t.due = 0
    elif t.run or o["attempt"] <= t.fence:
        return
    elif t.answer and t.answer["outcome"] == "succeeded":  # duty 4: a stored result answers
        t.fence = t.open = o["attempt"]
        t.keep(t.body, **t.answer | {"executed": False})
    elif t.offer and o.get("offerSha256", t.offer["hash"]) == t.offer["hash"]:
        t.save(fence=o["attempt"], open=o["attempt"], answer=None)  # duty 2: before the start
        start(t, t.offer, o["runTimeoutMs"] / 1000, o["leaseMs"] / 3000)

def start(t, offer, limit, third):
    if (offer["type"], offer["typeVersion"]) != (JOB, VERSION) or offer.get("requires"):
        return t.fail("REFUSED", f"{TERMINAL} executes {JOB} version {VERSION} alone")
    env = {"MUSTER_TASK_ID": t.id, "MUSTER_ATTEMPT": str(t.open), "MUSTER_STORE_ID": STORE,
           "MUSTER_TERMINAL_ID": TERMINAL, "MUSTER_SCHEDULED_FOR": offer["scheduledFor"]}
    given, out, err = (tempfile.TemporaryFile(dir=WORK) for _ in range(3))
    given.write(offer["raw"].encode())
    given.seek(0)
    # The ward leads the process group, and kills it when its pipe closes, as when this agent ends.
    kill = ["sh", "-c", "read x; kill -9 0"]
    ward = subprocess.Popen(kill, stdin=subprocess.PIPE, process_group=0)
    program = subprocess.Popen(PROGRAM, stdin=given, stdout=out, stderr=err, env=os.environ | env,
                               process_group=ward.pid)
    t.due, t.run = 0, types.SimpleNamespace(
        ward=ward, program=program, out=out, err=err, hash=offer["hash"], why=(), at=now_ms(),
        began=time.monotonic(), until=time.monotonic() + limit, third=third)

def stop(run, *why):
    run.why = run.why or why
    os.killpg(run.ward.pid, signal.SIGKILL)  # the program, and all that it started

def ended(t, run):
    code, took = run.program.wait(), round((time.monotonic() - run.began) * 1000)
    stop(run, *(("EXECUTION", f"the program ended with exit status {code}") if code else ()))
    run.ward.communicate()
    tail = os.pread(run.err.fileno(), 1000, max(0, run.err.seek(0, os.SEEK_END) - 1000))
    members = {"startedAt": run.at, "finishedAt": run.at + took, "durationMs": took,
               "executed": True, "offerSha256": run.hash, "exitCode": code,
               "outputTail": tail.decode("utf-8", "replace")}
    try:
        body = os.pread(run.out.fileno(), LARGEST, 0).decode().strip()  # cut, it is no JSON
        json.loads(body, parse_constant=int)  # nor is NaN, which is no integer
    except (ValueError, RecursionError) as e:
        run.why = run.why or ("EXECUTION", f"the program wrote no JSON of up to 256 KiB: {e}")
    if run.why:
        t.fail(*run.why, **members)
    else:
        t.keep(body, outcome="succeeded", **members)

def receipt(t, o):
    good = t.answer["outcome"] == "succeeded"
    t.stale = good and o.get("code") == "STALE"
    if not t.stale:
        if good and o["accepted"] or t.offer and t.offer["attempt"] < t.open:
            t.offer = None
        t.save(open=0, answer=None, body="")

def cancel(t, attempt, reason):
    if attempt > t.fence:
        t.save(fence=attempt)
    if not attempt:
        t.offer = None
    if t.run and (not attempt or t.open <= attempt):
        stop(t.run, "CANCELLED", reason)

def sync(o):
    if "helloId" not in o:
        hello.due, hello.wait = 0, 1
    elif o["helloId"] == hello.id:
        hello.due, hello.ahead = NEVER, o["serverTimeMs"] - now_ms()
        known = {one["taskId"] for one in o.get("open", [])}
        for t in tasks.values():
            t.due = t.claim = 0
            newer = t.offer and t.offer["came"] > hello.sent
            if t.id not in known and not newer and not o.get("partial"):
                cancel(t, 0, "headquarters has no such task")

def hear(topic, payload):
    o = json.loads(payload or "{}")
    t = task(o.get("taskId") or topic.removeprefix(TASKS))
    mine = t.answer and o.get("attempt") == t.open
    match o["order"] if topic == ME + "orders" else "offer" if payload else "withdrawal":
        case "offer":
            offered(t, o, payload.decode())
        case "withdrawal":
            t.offer = None
        case "sync":
            sync(o)
        case "grant":
            granted(t, o)
        case "deny" if o["code"] in ("SETTLED", "NOT_FOUND"):
            t.offer = None
        case "deny" if "retryAfterMs" in o:
            t.claim = time.monotonic() + o["retryAfterMs"] / 1000
        case "send" if mine:
            t.say("progress", percent=100)
            t.say_answer(slot=True)
        case "receipt" if mine and o.get("sha256") == t.answer["sha256"]:
            receipt(t, o)
        case "cancel":
            cancel(t, o.get("attempt", 0), o.get("reason", "stopped by order"))

def say_hello(now):
    held = sorted((t for t in tasks.values() if t.phase()), key=lambda t: -t.open)
    listed = [{"taskId": t.id, "attempt": t.open, "phase": t.phase()} for t in held[:1000]]
    hello.id = send("hello", agentVersion="python-example", protocols=[1], clockMs=now_ms(),
                    jobs=[{"type": JOB, "version": VERSION}], open=listed, partial=len(held) > 1000)
    hello.sent, hello.due = now, now + hello.wait * random.uniform(1, 1.5)
    hello.wait = min(hello.wait * 2, 20)

def look():
    """What is due: hello, ends of programs, signs of life, results without receipt, claims."""
    now = time.monotonic()
    if client.is_connected() and now >= hello.due:
        say_hello(now)
    answered = client.is_connected() and hello.due == NEVER
    for t in tasks.values():
        phase, again = t.phase(), now + random.uniform(15, 30)
        if t.run and t.run.program.poll() is not None:
            ended(t, t.run)
        elif t.run and now > t.run.until:
            stop(t.run, "TIME_LIMIT", "the program was killed after its time limit")
        elif not answered or now < (t.claim if phase == "offered" else t.due):
            continue
        elif phase == "running":
            t.due = now + t.run.third
            t.say("progress", percent=0)
        elif phase == "done":
            t.due = again
            t.say_answer(slot=False)
        elif phase == "offered" and now_ms() + hello.ahead >= t.offer["notBefore"]:
            t.claim = again  # duty 1: an offer starts nothing, it is claimed
            send("claim", taskId=t.id, condition={}, storedAttempt=t.open)

def connected(_client, _data, _flags, _code, _properties):
    client.subscribe(ME + "orders", qos=1)
    client.subscribe(TASKS + "+", qos=1)
    heard.put((ME + "orders", b'{"order": "sync"}'))  # one without helloId: say hello

WORK.mkdir(parents=True, exist_ok=True)
folder = os.open(WORK, os.O_RDONLY)
fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)  # two would start an attempt twice
if not shutil.which(PROGRAM[0]):
    sys.exit(f"there is no program {PROGRAM[0]}")
for path in WORK.glob("*.task"):
    t = task(path.stem)
    t.fence, t.open, t.answer, t.body = json.loads(path.read_text())
    if t.open and not t.answer:
        t.fail("INTERRUPTED", "the terminal stopped in the middle of it", executed=True)
api = (mqtt.CallbackAPIVersion.VERSION2,) if hasattr(mqtt, "CallbackAPIVersion") else ()  # paho 2
client = mqtt.Client(*api, client_id=f"{STORE}/{TERMINAL}", protocol=mqtt.MQTTv5)
client.username_pw_set(f"{STORE}/{TERMINAL}", os.environ.pop("MUSTER_BROKER_PASSWORD", None))
client.on_connect = connected
client.on_message = lambda _client, _data, message: heard.put((message.topic, message.payload))
client.reconnect_delay_set(1, random.randint(5, 15))
host, _, port = BROKER.rpartition(":")
client.connect_async(host, int(port), keepalive=30, clean_start=True)
client.loop_start()
while True:  # one thread decides: what is due, what is heard
    look()
    try:
        hear(*heard.get(timeout=0.1))
    except queue.Empty:
        continue
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as e:
        print("not understood:", repr(e))
