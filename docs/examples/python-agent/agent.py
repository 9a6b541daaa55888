#!/usr/bin/env python3
"""A Muster terminal of its own: docs/protocol/terminal.md in Python, unsigned. README.md beside it says what it leaves out."""
import argparse, datetime, fcntl, hashlib, json, os, pathlib, queue, random, re, signal, subprocess, threading, time
import paho.mqtt.client as mqtt

INLINE, LARGEST = 8192, 262144  # bytes of a result that goes at once, and of any
ap = argparse.ArgumentParser(description=__doc__)
ap.add_argument("--broker", default="127.0.0.1:1883")
ap.add_argument("--store", required=True)
ap.add_argument("--terminal", default="pos1")
ap.add_argument("--work", required=True, type=pathlib.Path, help="folder of the journal and of results without receipt")
ap.add_argument("--job", required=True, help="the job this terminal can do, as NAME:VERSION")
ap.add_argument("command", nargs=argparse.REMAINDER, help="does it, with its arguments: input on standard input, one JSON value on standard output")
cfg = ap.parse_args()
job, version = cfg.job.rsplit(":", 1)
ME, STORE = f"muster/v1/stores/{cfg.store}/terminals/{cfg.terminal}/", f"muster/v1/stores/{cfg.store}/tasks/"
(cfg.work / "results").mkdir(parents=True, exist_ok=True)
lock = open(cfg.work / "lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # two processes with one journal would start an attempt twice
events = queue.Queue()  # everything that happens comes through here: one thread decides
offers, running, results, fence, claim_at, send_at, said, seq = {}, {}, {}, {}, {}, {}, {}, 0
synced, hello_id, hello_at, hello_next, hello_wait, ahead_ms = False, "", 0.0, None, 1, 0

def now_ms(): return time.time_ns() // 1_000_000
def again(): return time.monotonic() + random.uniform(15, 30)
def skip(text, at): return re.compile(r"[\s,:]*").match(text, at).end()

def raw_member(text, name):
    """The value of a member as its bytes stand in the document: numbers keep their spelling, hashes fit."""
    at, scan = skip(text, text.index("{") + 1), json.JSONDecoder().raw_decode
    while text[at] != "}":
        key, at = scan(text, at)
        start = skip(text, at)
        _, end = scan(text, start)
        if key == name: return text[start:end]
        at = skip(text, end)

def send(kind, raw="", **members):
    global seq
    seq = max(seq + 1, time.time_ns() // 1000)
    n, ulid = now_ms() << 80 | random.getrandbits(80), ""
    for shift in range(125, -1, -5): ulid += "0123456789ABCDEFGHJKMNPQRSTVWXYZ"[n >> shift & 31]
    at = datetime.datetime.now().astimezone().isoformat(timespec="milliseconds")
    client.publish(ME + kind, json.dumps({"id": ulid, "at": at, "seq": seq, **members}, ensure_ascii=False)[:-1] + raw + "}", qos=1)
    return ulid

def durable(path, text, flags):
    """Writes and lets nothing go on before it is on the disk, name included."""
    for target, data in ((path, text.encode()), (path.parent, b"")):
        fd = os.open(target, flags if data else os.O_RDONLY, 0o600)
        while data: data = data[os.write(fd, data):]
        os.fsync(fd)
        os.close(fd)

def journal(task, attempt, phase):
    durable(cfg.work / "journal", json.dumps({"task": task, "attempt": attempt, "phase": phase}) + "\n", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    fence[task] = max(fence.get(task, 0), attempt)

def keep(task, result, body):
    """Duty 3: the result is on disk until its receipt. body is its value, as text."""
    result.update(taskId=task, sha256=hashlib.sha256(body.encode()).hexdigest())
    held, path = {"members": result, "body": body, "stale": False}, cfg.work / "results" / task
    durable(path.with_suffix(".new"), json.dumps(held), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.replace(path.with_suffix(".new"), path)
    durable(path, "", 0)
    results[task], send_at[task] = held, 0

def failed(task, attempt, code, message, outcome="failed", **more):
    times = {"startedAt": now_ms(), "finishedAt": now_ms(), "durationMs": 0, "executed": False, **more}
    keep(task, {"attempt": attempt, "outcome": outcome, **times}, json.dumps({"code": code, "message": message}, ensure_ascii=False))

def answer(task, slot=False):
    held, send_at[task] = results[task], again()
    m, raw = held["members"], held["body"].encode()
    if len(raw) > INLINE and not slot:
        return send("ready", taskId=task, attempt=m["attempt"], bytes=len(raw), sha256=m["sha256"])
    if slot: send("progress", taskId=task, attempt=m["attempt"], percent=100)
    send("result", ',"%s":%s' % ("result" if m["outcome"] == "succeeded" else "error", held["body"]), **m)

def offer_hash(o, raw):
    moment = datetime.datetime.fromisoformat(o["scheduledFor"].replace("Z", "+00:00"))
    ms = (moment - datetime.datetime.fromtimestamp(0, datetime.timezone.utc)) // datetime.timedelta(milliseconds=1)
    return hashlib.sha256("\n".join((o["taskId"], o["parentId"], o["storeId"], o["type"], str(o["typeVersion"]), str(ms), raw)).encode()).hexdigest()

def granted(o):
    task, attempt, held, offer = o["taskId"], o["attempt"], results.get(o["taskId"]), offers.get(o["taskId"])
    if attempt <= fence.get(task, 0):  # a grant it has already
        if held and held["members"]["attempt"] == attempt: send_at[task] = 0
    elif task in running: return
    elif held and held["members"]["outcome"] == "succeeded":  # duty 4: a stored result answers
        journal(task, attempt, "started")
        keep(task, {**held["members"], "attempt": attempt, "executed": False}, held["body"])
    elif offer and o.get("offerSha256", offer["hash"]) == offer["hash"]:
        journal(task, attempt, "started")  # duty 2: the start is on disk before the start
        if (offer["type"], str(offer["typeVersion"])) != (job, version) or offer.get("requires"):
            return failed(task, attempt, "REFUSED", f"this terminal cannot execute {offer['type']} version {offer['typeVersion']}")
        env = {**os.environ, "MUSTER_TASK_ID": task, "MUSTER_ATTEMPT": str(attempt), "MUSTER_STORE_ID": cfg.store, "MUSTER_SCHEDULED_FOR": offer["scheduledFor"]}
        process = subprocess.Popen(cfg.command, stdin=-1, stdout=-1, stderr=-1, env=env, start_new_session=True)
        running[task] = {"attempt": attempt, "process": process, "lease": o["leaseMs"] / 3000, "cancel": None, "hash": offer["hash"]}
        said[task] = 0
        threading.Thread(target=attend, args=(task, process, offer["input_raw"], o["runTimeoutMs"] / 1000), daemon=True).start()

def attend(task, process, text, limit):
    began, started, late = now_ms(), time.monotonic(), False
    try: out, err = process.communicate(text.encode(), timeout=limit)
    except subprocess.TimeoutExpired:
        kill(process)
        (out, err), late = process.communicate(), True
    events.put(("ended", (task, out, err, late, began, int((time.monotonic() - started) * 1000))))

def kill(process):
    try: os.killpg(process.pid, signal.SIGKILL)  # with all that it started
    except ProcessLookupError: pass

def ended(task, out, err, late, began, took):
    run = running.pop(task)
    code = run["process"].returncode
    m = {"startedAt": began, "finishedAt": began + took, "durationMs": took, "executed": True, "offerSha256": run["hash"],
         "exitCode": code, "outputTail": err[-1000:].decode("utf-8", "replace")}  # at most 4 KiB, whatever the bytes were
    if run["cancel"] is not None: return failed(task, run["attempt"], "CANCELLED", run["cancel"], "cancelled", **m)
    if late: return failed(task, run["attempt"], "TIME_LIMIT", "the program was killed after its time limit", **m)
    if code: return failed(task, run["attempt"], "EXECUTION", f"the program ended with exit status {code}", **m)
    try: body = out.decode().strip(); json.loads(body, parse_constant=lambda word: int(word))  # NaN is no JSON
    except ValueError as e: return failed(task, run["attempt"], "EXECUTION", f"the program wrote no JSON: {e}", **m)
    if len(out) > LARGEST: return failed(task, run["attempt"], "EXECUTION", f"the program wrote {len(out)} bytes, not {LARGEST} at most", **m)
    keep(task, {"attempt": run["attempt"], "outcome": "succeeded", **m}, body)

def receipt(o):
    task, held = o["taskId"], results.get(o["taskId"])
    if not held or (held["members"]["attempt"], held["members"]["sha256"]) != (o["attempt"], o.get("sha256")): return
    good = held["members"]["outcome"] == "succeeded"
    if not o["accepted"] and o.get("code") == "STALE" and good:
        held["stale"] = True  # it answers the next grant
        return
    journal(task, o["attempt"], "receipted")
    (cfg.work / "results" / task).unlink()
    del results[task]
    if o["accepted"] and good or offers.get(task, {}).get("attempt", 0) < o["attempt"]: offers.pop(task, None)

def cancel(o):
    task, attempt = o["taskId"], o.get("attempt", 0)
    if attempt: journal(task, attempt, "cancelled")
    else: offers.pop(task, None)
    run = running.get(task)
    if run and (not attempt or run["attempt"] <= attempt):
        run["cancel"] = o.get("reason") or "stopped by order"
        kill(run["process"])

def sync(o):
    global synced, ahead_ms, hello_next, hello_wait
    if "helloId" not in o: hello_next, hello_wait = 0, 1
    elif o["helloId"] == hello_id:
        synced, hello_next, ahead_ms = True, None, o["serverTimeMs"] - now_ms()
        listed = {t["taskId"] for t in o.get("open", [])}
        for task in [] if o.get("partial") else [t for t in {*offers, *running} - listed if offers.get(t, {}).get("came", 0) < hello_at]:
            offers.pop(task, None)  # over
            if task in running: cancel({"taskId": task})
        claim_at.clear()
        send_at.clear()

def deny(o):
    if o["code"] in ("SETTLED", "NOT_FOUND"): offers.pop(o["taskId"], None)
    elif "retryAfterMs" in o: claim_at[o["taskId"]] = time.monotonic() + o["retryAfterMs"] / 1000

def send_slot(o):
    held = results.get(o["taskId"])
    if held and held["members"]["attempt"] == o["attempt"]: answer(o["taskId"], slot=True)

def message(m):
    text = m.payload.decode()
    if m.topic.startswith(STORE):
        offer = json.loads(text) if text else None
        if not offer: offers.pop(m.topic[len(STORE):], None)
        elif offer.get("terminalId", cfg.terminal) == cfg.terminal:
            raw = raw_member(text, "input")
            offers[offer["taskId"]] = {**offer, "input_raw": raw, "hash": offer_hash(offer, raw), "came": time.monotonic()}
            claim_at.pop(offer["taskId"], None)
    else:
        o = json.loads(text)
        {"grant": granted, "deny": deny, "send": send_slot, "receipt": receipt, "cancel": cancel, "sync": sync}.get(o["order"], print)(o)

def look():
    """What is due: hello, claims, signs of life, results without receipt."""
    global hello_id, hello_at, hello_next, hello_wait
    now = time.monotonic()
    if hello_next is not None and now >= hello_next:
        phases = {**{t: (0, "offered") for t in offers}, **{t: (r["members"]["attempt"], "done") for t, r in results.items()}, **{t: (r["attempt"], "running") for t, r in running.items()}}
        held = [{"taskId": t, "attempt": a, "phase": p} for t, (a, p) in sorted(phases.items(), key=lambda x: -x[1][0])]
        hello_at, hello_next, hello_wait = now, now + hello_wait * random.uniform(1, 1.5), min(hello_wait * 2, 20)
        hello_id = send("hello", agentVersion="python-example", protocols=[1], jobs=[{"type": job, "version": int(version)}], open=held[:1000], partial=len(held) > 1000, clockMs=now_ms())
    if not (synced and client.is_connected()): return
    for task, offer in offers.items():  # duty 1: an offer starts nothing, it is claimed
        held = results.get(task)
        if task in running or held and not held["stale"] or now < claim_at.get(task, 0) or now_ms() + ahead_ms < offer["notBefore"]: continue
        claim_at[task] = again()
        send("claim", taskId=task, condition={}, storedAttempt=held["members"]["attempt"] if held else 0)
    for task, run in running.items():
        if now - said[task] >= run["lease"]:
            said[task] = now
            send("progress", taskId=task, attempt=run["attempt"], percent=0)
    for task in [t for t, r in results.items() if not r["stale"] and now >= send_at.get(t, 0)]: answer(task)

def connected():
    global synced, hello_next, hello_wait
    client.subscribe([(ME + "orders", mqtt.SubscribeOptions(qos=1)), (STORE + "+", mqtt.SubscribeOptions(qos=1))])
    synced, hello_next, hello_wait = False, 0, 1

def restart():
    for path in (cfg.work / "results").glob("*"):
        if path.suffix == ".new": path.unlink()
        else: results[path.name] = json.loads(path.read_text())
    open_starts = {}
    for line in (cfg.work / "journal").read_text().splitlines() if (cfg.work / "journal").exists() else []:
        try: e = json.loads(line)
        except ValueError: continue  # the power went while it was written: nothing came of it
        fence[e["task"]] = max(fence.get(e["task"], 0), e["attempt"])
        if e["phase"] == "started": open_starts[e["task"]] = e["attempt"]
        elif e["phase"] == "receipted" and open_starts.get(e["task"], 0) <= e["attempt"]: open_starts.pop(e["task"], None)
    for task, attempt in open_starts.items():
        if task not in results or results[task]["members"]["attempt"] < attempt: failed(task, attempt, "INTERRUPTED", "the terminal stopped in the middle of the attempt", executed=True)

restart()
api = (mqtt.CallbackAPIVersion.VERSION2,) if hasattr(mqtt, "CallbackAPIVersion") else ()  # paho 2, or 1.6
client = mqtt.Client(*api, client_id=f"{cfg.store}/{cfg.terminal}", protocol=mqtt.MQTTv5)
client.username_pw_set(f"{cfg.store}/{cfg.terminal}", os.environ.get("MUSTER_BROKER_PASSWORD"))
client.on_connect = lambda *_: events.put(("connected", ()))
client.on_message = lambda c, u, m: events.put(("message", (m,)))
client.reconnect_delay_set(1, 30)
host, _, port = cfg.broker.rpartition(":")
client.connect_async(host, int(port), keepalive=30, clean_start=True)
client.loop_start()
signal.signal(signal.SIGTERM, lambda *_: [kill(r["process"]) for r in running.values()] + [os._exit(0)])
while True:
    try:
        name, args = events.get(timeout=0.1)
        {"connected": connected, "message": message, "ended": ended}[name](*args)
    except queue.Empty: pass
    look()
