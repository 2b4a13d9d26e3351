"""Sends from the first moment on in which a pod has a way out, and says what came of it.

first-packets.py pod ADDRESS SERVER FORBIDDEN ALLOWED LISTENED SECONDS
    As soon as it has ADDRESS, sends a datagram to SERVER:FORBIDDEN again and again and opens a TCP connection to SERVER:ALLOWED (a socket
    that connects between the route and the address keeps 0.0.0.0 as its source for ever); counts datagrams that come to port LISTENED. SECONDS after the first packet could leave, or a moment after
    the connection is there, prints
    {"retransmissions": how often the SYN was sent again, or null without a connection, "sent": datagrams, "got": datagrams}.
first-packets.py flood ADDRESS PORT
    Sends datagrams until it is killed.
"""
import json
import socket
import sys
import threading
import time

PAUSE = 0.0002
MOMENT = 0.2
# Of struct tcp_info (include/uapi/linux/tcp.h).
TOTAL_RETRANSMISSIONS = 100


def flood(address, port):
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    while True:
        try:
            out.sendto(b"flood", (address, port))
        except OSError:
            pass
        time.sleep(PAUSE)


def bound(kind, address):
    """Returns a socket with that address, as soon as there is one."""
    while True:
        made = socket.socket(socket.AF_INET, kind)
        try:
            made.bind((address, 0))
            return made
        except OSError:
            made.close()


def pod(address, server, forbidden, allowed, listened, seconds):
    result = {"retransmissions": None, "sent": 0, "got": 0}
    first = threading.Event()
    ends = []
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind(("0.0.0.0", listened))

    def receive():
        while True:
            receiver.recv(100)
            result["got"] += 1

    def connect():
        first.wait()
        with bound(socket.SOCK_STREAM, address) as client:
            client.settimeout(seconds)
            try:
                client.connect((server, allowed))
                info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
                result["retransmissions"] = int.from_bytes(info[TOTAL_RETRANSMISSIONS:], sys.byteorder)
                ends.append(time.monotonic() + MOMENT)
            except OSError as error:
                result["error"] = str(error)

    threading.Thread(target=receive, daemon=True).start()
    threading.Thread(target=connect, daemon=True).start()
    print("ready", flush=True)
    out = bound(socket.SOCK_DGRAM, address)
    while not ends or time.monotonic() < min(ends):
        try:
            out.sendto(b"first", (server, forbidden))
            result["sent"] += 1
            if not ends:
                ends.append(time.monotonic() + seconds)
                first.set()
        except OSError:
            pass
        time.sleep(PAUSE)
    print(json.dumps(result), flush=True)


if sys.argv[1] == "flood":
    flood(sys.argv[2], int(sys.argv[3]))
else:
    pod(sys.argv[2], sys.argv[3], *(int(text) for text in sys.argv[4:7]), float(sys.argv[7]))
