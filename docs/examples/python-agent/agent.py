#!/usr/bin/env python3
"""A Muster terminal of its own: docs/protocol/terminal.md in Python 3.11, unsigned. README.md beside it says what it leaves out.
Usage: agent.py HOST:PORT STORE TERMINAL WORKFOLDER JOB VERSION PROGRAM [ARGUMENT...]
The program does the job: input on standard input, one JSON value on standard output."""
import collections, datetime, fcntl, hashlib, json, os, pathlib, random, re, shutil, signal, subprocess, sys, tempfile, time
import paho.mqtt.client as mqtt

INLINE, LARGEST, NEVER = 8192, 262144, float("inf")  # bytes of a result that goes at once, and of any
BROKER, STORE, TERMINAL, WORK, JOB, VERSION, *PROGRAM = sys.argv[1:]
WORK = pathlib.Path(WORK)  # what was started, and results without receipt
ME, TASKS = f"muster/v1/stores/{STORE}/terminals/{TERMINAL}/", f"muster/v1/stores/{STORE}/tasks/"
offers, running, results, seq, ahead_ms = {}, {}, {}, 0, 0  # the first three by task id
marks = collections.defaultdict(lambda: {"fence": 0, "open": 0})  # highest attempt known, and the one started and not answered for
hello = {"due": NEVER, "wait": 1, "id": "", "sent": 0.0}  # due: NEVER once it is answered

def now_ms(): return time.time_ns() // 1_000_000
def soon(): return time.monotonic() + random.uniform(15, 30)
def sha256(text): return hashlib.sha256(text.encode()).hexdigest()

def send(kind, raw="", **members):
    global seq
    seq, n = max(seq + 1, time.time_ns() // 1000), now_ms() << 80 | random.getrandbits(80)
    ulid = "".join("0123456789ABCDEFGHJKMNPQRSTVWXYZ"[n >> shift & 31] for shift in range(125, -1, -5))
    at = datetime.datetime.now().astimezone().isoformat(timespec="milliseconds")
    client.publish(ME + kind, json.dumps({"id": ulid, "at": at, "seq": seq, **members}, ensure_ascii=False)[:-1] + raw + "}", qos=1)
    return ulid

def save(folder, task, value):
    """Lets nothing go on before the value is on the disk, its name too."""
    with open(WORK / "new", "w") as f:
        json.dump(value, f)
        f.flush()
        os.fsync(f.fileno())
    os.replace(WORK / "new", WORK / folder / task)
    fd = os.open(WORK / folder, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)

def mark(task, **what):
    marks[task].update(what)
    save("marks", task, marks[task])

def keep(task, body, **members):
    """Duty 3: the result is on disk until its receipt. body is its value, the very text that is sent."""
    times = {"startedAt": now_ms(), "finishedAt": now_ms(), "durationMs": 0, "executed": False}
    held = {"members": {**times, **members, "taskId": task, "sha256": sha256(body)}, "body": body}
    save("results", task, held)
    results[task] = {**held, "due": 0, "stale": False}

def fail(task, code, message, **members):
    outcome, value = "cancelled" if code == "CANCELLED" else "failed", {"code": code, "message": message}
    keep(task, json.dumps(value, ensure_ascii=False), outcome=outcome, **members)

def answer(task, held, slot=False):
    m, raw = held["members"], held["body"].encode()
    held["due"] = soon()
    if len(raw) > INLINE and not slot:
        return send("ready", taskId=task, attempt=m["attempt"], bytes=len(raw), sha256=m["sha256"])
    if slot: send("progress", taskId=task, attempt=m["attempt"], percent=100)
    send("result", ',"%s":%s' % ("result" if m["outcome"] == "succeeded" else "error", held["body"]), **m)

def raw_member(text, name):
    """The value of a member as its bytes stand in the document: numbers keep their spelling, hashes fit."""
    def skip(at): return re.compile(r"[\s,:]*").match(text, at).end()
    scan, at = json.JSONDecoder().raw_decode, text.index("{") + 1
    while True:
        key, at = scan(text, skip(at))
        _, end = scan(text, start := skip(at))
        if key == name: return text[start:end]
        at = end

def offered(text):
    offer = json.loads(text)
    if offer.get("terminalId", TERMINAL) != TERMINAL: return
    raw, moment = raw_member(text, "input"), datetime.datetime.fromisoformat(offer["scheduledFor"])
    work = [offer[name] for name in ("taskId", "parentId", "storeId", "type", "typeVersion")] + [round(moment.timestamp() * 1000), raw]
    offers[offer["taskId"]] = {**offer, "raw": raw, "hash": sha256("\n".join(map(str, work))), "came": time.monotonic(), "due": 0}

def granted(o):
    task, attempt, held, offer = o["taskId"], o["attempt"], results.get(o["taskId"]), offers.get(o["taskId"])
    if attempt <= marks[task]["fence"]:  # it has this grant already
        if held and held["members"]["attempt"] == attempt: held["due"] = 0
    elif task in running: pass
    elif held and held["members"]["outcome"] == "succeeded":  # duty 4: a stored result answers
        mark(task, fence=attempt, open=attempt)
        keep(task, held["body"], **{**held["members"], "attempt": attempt, "executed": False})
    elif offer and o.get("offerSha256", offer["hash"]) == offer["hash"]:
        mark(task, fence=attempt, open=attempt)  # duty 2: the start is on disk before the start
        start(task, attempt, offer, o)

def start(task, attempt, offer, o):
    if (offer["type"], str(offer["typeVersion"])) != (JOB, VERSION) or offer.get("requires"):
        return fail(task, "REFUSED", f"this terminal cannot execute {offer['type']} version {offer['typeVersion']}", attempt=attempt)
    env = {**os.environ, "MUSTER_TASK_ID": task, "MUSTER_ATTEMPT": str(attempt), "MUSTER_STORE_ID": STORE,
           "MUSTER_TERMINAL_ID": TERMINAL, "MUSTER_SCHEDULED_FOR": offer["scheduledFor"]}
    given, out, err = (tempfile.TemporaryFile(dir=WORK) for _ in range(3))
    given.write(offer["raw"].encode())
    given.seek(0)
    # The ward leads the process group. Its pipe closes when this agent ends, by kill -9 too, and then the whole group does.
    ward = subprocess.Popen(["sh", "-c", "read x; kill -9 0"], stdin=subprocess.PIPE, process_group=0)
    running[task] = {"attempt": attempt, "offer": offer, "ward": ward, "out": out, "err": err, "began": now_ms(), "from": time.monotonic(),
                     "until": time.monotonic() + o["runTimeoutMs"] / 1000, "third": o["leaseMs"] / 3000, "due": 0, "why": ()}
    running[task]["program"] = subprocess.Popen(PROGRAM, stdin=given, stdout=out, stderr=err, env=env, process_group=ward.pid)

def stop(run, *why):
    run["why"] = run["why"] or why
    os.killpg(run["ward"].pid, signal.SIGKILL)  # the program, and all that it started

def ended(task, run):
    code, took = run["program"].wait(), int((time.monotonic() - run["from"]) * 1000)
    stop(run)
    run["ward"].communicate()
    run["out"].seek(0)
    run["err"].seek(max(0, run["err"].seek(0, os.SEEK_END) - 1000))
    out, tail = run["out"].read(LARGEST + 1), run["err"].read().decode("utf-8", "replace")
    m = {"attempt": run["attempt"], "startedAt": run["began"], "finishedAt": run["began"] + took, "durationMs": took, "executed": True,
         "offerSha256": run["offer"]["hash"], "exitCode": code, "outputTail": tail}
    try:
        if code: raise ValueError(f"it ended with exit status {code}")
        if len(out) > LARGEST: raise ValueError(f"it wrote more than {LARGEST} bytes")
        json.loads(out, parse_constant=int)  # NaN is no JSON, and no integer
    except ValueError as e: run["why"] = run["why"] or ("EXECUTION", f"the program failed: {e}")
    if run["why"]: fail(task, *run["why"], **m)
    else: keep(task, out.decode().strip(), outcome="succeeded", **m)

def receipt(o):
    task, held = o["taskId"], results.get(o["taskId"])
    if not held or (held["members"]["attempt"], held["members"]["sha256"]) != (o["attempt"], o.get("sha256")): return
    good = held["members"]["outcome"] == "succeeded"
    if good and not o["accepted"] and o.get("code") == "STALE":
        held["stale"] = True  # it answers the next grant
        return
    mark(task, open=0)
    (WORK / "results" / task).unlink()
    del results[task]
    if o["accepted"] and good or offers.get(task, {}).get("attempt", 0) < o["attempt"]: offers.pop(task, None)

def cancel(o):
    task, attempt, run = o["taskId"], o.get("attempt", 0), running.get(o["taskId"])
    if attempt: mark(task, fence=max(attempt, marks[task]["fence"]))
    else: offers.pop(task, None)
    if run and (not attempt or run["attempt"] <= attempt):
        stop(run, "CANCELLED", o.get("reason") or "stopped by order")

def sync(o):
    global ahead_ms
    if "helloId" not in o: hello.update(due=0, wait=1)
    elif o["helloId"] == hello["id"]:
        hello["due"], ahead_ms, known = NEVER, o["serverTimeMs"] - now_ms(), {t["taskId"] for t in o.get("open", [])}
        for task in set() if o.get("partial") else {*offers, *running} - known:
            if offers.get(task, {}).get("came", 0) < hello["sent"]: cancel({"taskId": task})  # it is over
        for one in (*offers.values(), *results.values()): one["due"] = 0

def deny(o):
    if o["code"] in ("SETTLED", "NOT_FOUND"): offers.pop(o["taskId"], None)
    elif o["taskId"] in offers and "retryAfterMs" in o: offers[o["taskId"]]["due"] = time.monotonic() + o["retryAfterMs"] / 1000

def send_slot(o):
    held = results.get(o["taskId"])
    if held and held["members"]["attempt"] == o["attempt"]: answer(o["taskId"], held, slot=True)

def heard(_client, _data, m):
    try:
        if m.topic == ME + "orders":
            o = json.loads(m.payload)
            {"grant": granted, "deny": deny, "send": send_slot, "receipt": receipt, "cancel": cancel, "sync": sync}.get(o["order"], print)(o)
        elif m.payload: offered(m.payload.decode())
        else: offers.pop(m.topic[len(TASKS):], None)  # withdrawn
    except (ValueError, KeyError) as e: print("not understood:", m.topic, repr(e))

def connected(_client, _data, _flags, code, _properties):
    if code.value: return print("refused:", code)
    client.subscribe([(ME + "orders", mqtt.SubscribeOptions(qos=1)), (TASKS + "+", mqtt.SubscribeOptions(qos=1))])
    hello.update(due=0, wait=1)

def say_hello(now):
    held = [(t, "running" if t in running else "done" if t in results else "offered") for t in {*offers, *running, *results}]
    tasks = [{"taskId": t, "attempt": marks[t]["open"], "phase": phase} for t, phase in held]
    tasks.sort(key=lambda t: -t["attempt"])
    hello.update(sent=now, due=now + hello["wait"] * random.uniform(1, 1.5), wait=min(hello["wait"] * 2, 20))
    hello["id"] = send("hello", agentVersion="python-example", protocols=[1], jobs=[{"type": JOB, "version": int(VERSION)}],
                       open=tasks[:1000], partial=len(tasks) > 1000, clockMs=now_ms())

def look():
    """What is due: programs that ended, hello, claims, signs of life, results without receipt."""
    now = time.monotonic()
    for task, run in list(running.items()):
        if run["program"].poll() is not None: ended(task, running.pop(task))
        elif now > run["until"]: stop(run, "TIME_LIMIT", "the program was killed after its time limit")
    if not client.is_connected(): return
    if now >= hello["due"]:
        say_hello(now)
    if hello["due"] != NEVER: return
    for task, offer in offers.items():  # duty 1: an offer starts nothing, it is claimed
        held = results.get(task)
        if task in running or held and not held["stale"] or now < offer["due"] or now_ms() + ahead_ms < offer["notBefore"]: continue
        offer["due"] = soon()
        send("claim", taskId=task, condition={}, storedAttempt=held["members"]["attempt"] if held else 0)
    for task, run in running.items():
        if now >= run["due"]:
            run["due"] = now + run["third"]
            send("progress", taskId=task, attempt=run["attempt"], percent=0)
    for task, held in results.items():
        if now >= held["due"] and not held["stale"]: answer(task, held)

for folder in ("marks", "results"): (WORK / folder).mkdir(parents=True, exist_ok=True)
if not shutil.which(PROGRAM[0]): sys.exit(f"there is no program {PROGRAM[0]}")
lock = open(WORK / "lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # two processes with one folder would start an attempt twice
for path in (WORK / "results").iterdir(): results[path.name] = {**json.loads(path.read_text()), "due": 0, "stale": False}
for path in (WORK / "marks").iterdir(): marks[path.name] = json.loads(path.read_text())
for task, m in marks.items():
    if m["open"] and (task not in results or results[task]["members"]["attempt"] < m["open"]):
        fail(task, "INTERRUPTED", "the terminal stopped in the middle of the attempt", attempt=m["open"], executed=True)
api = (mqtt.CallbackAPIVersion.VERSION2,) if hasattr(mqtt, "CallbackAPIVersion") else ()  # paho 2, or 1.6
client = mqtt.Client(*api, client_id=f"{STORE}/{TERMINAL}", protocol=mqtt.MQTTv5)
client.username_pw_set(f"{STORE}/{TERMINAL}", os.environ.pop("MUSTER_BROKER_PASSWORD", None))  # no program sees it
client.on_connect, client.on_message = connected, heard
host, _, port = BROKER.rpartition(":")
client.connect_async(host, int(port), keepalive=30, clean_start=True)
again = 0.0
while True:  # one thread decides: what is heard, what is due
    if client.loop(0.1) != mqtt.MQTT_ERR_SUCCESS:
        time.sleep(0.1)
        if time.monotonic() >= again:
            again = time.monotonic() + random.uniform(1, 10)
            try: client.reconnect()
            except OSError: pass  # headquarters is away
    look()
