"""Sends from the first moment on in which a pod has a way out, and says what came of it. Reads one command a line, in JSON.

first-packets.py pods SERVER FORBIDDEN ALLOWED LISTENED SECONDS
    {"netns": path, "address": address} begins a process in that network namespace and prints {"address": address, "ready": true}.
    As soon as it has the address, it sends a datagram to SERVER:FORBIDDEN again and again and opens a TCP connection to SERVER:ALLOWED
    (a socket that connects between the route and the address keeps 0.0.0.0 as its source for ever); it counts datagrams that come to
    port LISTENED. SECONDS after the first packet could leave, a moment after the connection is there, or at {"end": true}, prints
    {"address": address, "isConnected": whether, "retransmissions": how often the SYN was sent again, "late": how often of these after
    {"opened": address} came, "sent": datagrams, "got": datagrams}.
first-packets.py flood PORT
    A list of addresses gets datagrams until another list comes; prints "ok" for each list.
"""
import ctypes
import json
import os
import select
import signal
import socket
import sys
import threading
import time

PAUSE = 0.0003
MOMENT = 0.2
CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1
# Of struct tcp_info (include/uapi/linux/tcp.h).
TOTAL_RETRANSMISSIONS = 100

ending = threading.Event()
libc = ctypes.CDLL(None, use_errno=True)


def say(value):
    # One write keeps the lines of several processes apart.
    os.write(1, (json.dumps(value) + "\n").encode())


def flood(port):
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    addresses = []
    while True:
        if select.select([sys.stdin], [], [], PAUSE)[0]:
            line = sys.stdin.readline()
            if not line:
                return
            addresses = json.loads(line)
            say("ok")
        for address in addresses:
            try:
                out.sendto(b"flood", (address, port))
            except OSError:
                pass


def bound(kind, address):
    """Returns a socket with that address, as soon as there is one."""
    made = socket.socket(socket.AF_INET, kind)
    while not ending.is_set():
        try:
            made.bind((address, 0))
            break
        except OSError:
            # Lets the next pod look.
            os.sched_yield()
    return made


def retransmissions(connection):
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    return int.from_bytes(info[TOTAL_RETRANSMISSIONS:], sys.byteorder)


def pod(address, server, forbidden, allowed, listened, seconds):
    result = {"address": address, "isConnected": False, "retransmissions": 0, "late": 0, "sent": 0, "got": 0}
    first = threading.Event()
    ends = []
    clients = []
    opened = []
    signal.signal(signal.SIGUSR1, lambda *_: opened.append(retransmissions(clients[0]) if clients else 0))
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind(("0.0.0.0", listened))

    def connect():
        first.wait()
        client = bound(socket.SOCK_STREAM, address)
        clients.append(client)
        client.settimeout(seconds)
        try:
            client.connect((server, allowed))
            result["isConnected"] = True
            ends.append(time.monotonic() + MOMENT)
        except OSError as error:
            result["error"] = str(error)

    def receive():
        try:
            while receiver.recv(100, socket.MSG_DONTWAIT):
                result["got"] += 1
        except BlockingIOError:
            pass

    threading.Thread(target=connect, daemon=True).start()
    say({"address": address, "ready": True})
    out = bound(socket.SOCK_DGRAM, address)
    while not ending.is_set() and (not ends or time.monotonic() < min(ends)):
        try:
            out.sendto(b"first", (server, forbidden))
            result["sent"] += 1
            if not ends:
                ends.append(time.monotonic() + seconds)
                first.set()
        except OSError:
            pass
        receive()
        time.sleep(PAUSE)
    receive()
    if clients:
        result["retransmissions"] = retransmissions(clients[0])
        result["late"] = result["retransmissions"] - (opened + [0])[0]
    say(result)


def enter(netns):
    with open(netns) as file:
        if libc.setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"setns {netns}")


def pods(server, forbidden, allowed, listened, seconds):
    children = {}
    while line := sys.stdin.readline():
        wanted = json.loads(line)
        if wanted.get("end"):
            for child in children.values():
                os.kill(child, signal.SIGTERM)
                os.waitpid(child, 0)
            children = {}
        elif "opened" in wanted:
            os.kill(children[wanted["opened"]], signal.SIGUSR1)
        else:
            child = os.fork()
            if child == 0:
                signal.signal(signal.SIGTERM, lambda *_: ending.set())
                libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
                enter(wanted["netns"])
                pod(wanted["address"], server, forbidden, allowed, listened, seconds)
                os._exit(0)
            children[wanted["address"]] = child


if sys.argv[1] == "flood":
    flood(int(sys.argv[2]))
else:
    pods(sys.argv[2], *(int(text) for text in sys.argv[3:6]), float(sys.argv[6]))
