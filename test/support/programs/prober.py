"""Sends and receives in one network namespace, as it is told: one command a line on standard input, in JSON, each answered by a line.

{"id": 1, "do": "tcp", "to": "10.60.0.2", "port": 80}      → "ok", "timeout", "refused", or another error's text
Servers echo what they get, over IPv4 and IPv6. Commands run side by side.
"""
import errno
import json
import os
import socket
import struct
import sys
import threading
import time

SHORT = 0.7
ETH_P_ALL = 3
SO_BINDTODEVICE = 25

output = threading.Lock()
streams = {}
sniffers = []


def family_of(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def failure(error):
    if isinstance(error, socket.timeout):
        return "timeout"
    if error.errno == errno.ECONNREFUSED:
        return "refused"
    return os.strerror(error.errno or 0)


def dual(kind):
    server = socket.socket(socket.AF_INET6, kind)
    server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return server


def echo(connection):
    try:
        while True:
            data = connection.recv(65536)
            if not data:
                return
            connection.sendall(data)
    except OSError:
        pass
    finally:
        connection.close()


def serve(port, protocol, **_):
    if protocol == "udp":
        server = dual(socket.SOCK_DGRAM)
        server.bind(("::", port))

        def answer():
            while True:
                data, peer = server.recvfrom(65536)
                try:
                    server.sendto(data, peer)
                except OSError:
                    pass

        threading.Thread(target=answer, daemon=True).start()
        return "ok"
    server = dual(socket.SOCK_STREAM)
    server.bind(("::", port))
    server.listen(512)

    def accept():
        while True:
            connection, _ = server.accept()
            threading.Thread(target=echo, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return "ok"


def sender(port, every, **_):
    """Accepts, and sends for ever on what it has accepted."""
    server = dual(socket.SOCK_STREAM)
    server.bind(("::", port))
    server.listen(16)

    def send(connection):
        try:
            while True:
                connection.sendall(b"x" * 1000)
                time.sleep(every)
        except OSError:
            pass

    def accept():
        while True:
            connection, _ = server.accept()
            threading.Thread(target=send, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return "ok"


def tcp(to, port, within=SHORT, size=4, **_):
    with socket.socket(family_of(to), socket.SOCK_STREAM) as client:
        client.settimeout(within)
        try:
            client.connect((to, port))
            client.sendall(b"y" * size)
            left = size
            while left > 0:
                data = client.recv(65536)
                if not data:
                    return "closed"
                left -= len(data)
            return "ok"
        except OSError as error:
            return failure(error)


def udp(to, port, within=SHORT, size=4, source=0, **_):
    with socket.socket(family_of(to), socket.SOCK_DGRAM) as client:
        client.settimeout(within)
        try:
            if source:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                client.bind(("::" if ":" in to else "0.0.0.0", source))
            client.connect((to, port))
            client.send(os.urandom(size))
            return "ok" if len(client.recv(65536)) == size else "short"
        except OSError as error:
            return failure(error)


def connections(to, port, count, **_):
    """Connects again and again, each with an exchange. Returns how many went wrong."""
    return sum(tcp(to, port, within=60) != "ok" for _ in range(count))


def opens(name, to, port, **_):
    """Keeps a connection, and counts what comes."""
    client = socket.socket(family_of(to), socket.SOCK_STREAM)
    client.settimeout(SHORT)
    try:
        client.connect((to, port))
    except OSError as error:
        return failure(error)
    client.settimeout(None)
    state = {"socket": client, "got": 0}
    streams[name] = state

    def count():
        try:
            while True:
                data = client.recv(65536)
                if not data:
                    return
                state["got"] += len(data)
        except OSError:
            pass

    threading.Thread(target=count, daemon=True).start()
    return "ok"


def got(name, **_):
    return streams[name]["got"]


def sends(name, size=100, **_):
    streams[name]["socket"].send(b"z" * size)
    return "ok"


def udp_stream(name, to, port, every, **_):
    """Asks once, and then only listens; the server goes on (see udp_sender)."""
    client = socket.socket(family_of(to), socket.SOCK_DGRAM)
    client.connect((to, port))
    state = {"socket": client, "got": 0}
    streams[name] = state

    def count():
        while True:
            try:
                state["got"] += len(client.recv(65536))
            except OSError:
                pass

    threading.Thread(target=count, daemon=True).start()
    client.send(b"?")
    return "ok"


def udp_sender(port, every, **_):
    """Sends for ever to whoever has asked once."""
    server = dual(socket.SOCK_DGRAM)
    server.bind(("::", port))

    def send():
        _, peer = server.recvfrom(100)
        while True:
            try:
                server.sendto(b"x" * 100, peer)
            except OSError:
                pass
            time.sleep(every)

    threading.Thread(target=send, daemon=True).start()
    return "ok"


def raw(packet, to, **_):
    """Sends an IP packet with its header as it is."""
    data = bytes.fromhex(packet)
    if data[0] >> 4 == 4:
        with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as out:
            out.sendto(data, (to, 0))
    else:
        with socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW) as out:
            out.sendto(data, (to, 0))
    return "ok"


def frame(packet, device, **_):
    """Sends an Ethernet frame."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
        out.bind((device, 0))
        out.send(bytes.fromhex(packet))
    return "ok"


def capture(device, **_):
    """Lets every packet that comes in be kept by the kernel, from its IP header on, until it is taken."""
    sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
    sniffer.bind((device, ETH_P_ALL))
    sniffer.setblocking(False)
    sniffers.append(sniffer)
    return "ok"


def taken(**_):
    """Takes what has come in. A packet is here before anything that it caused: the kernel keeps it before it delivers it."""
    packets = []
    for sniffer in sniffers:
        try:
            while True:
                data, (_, _, kind, *_) = sniffer.recvfrom(65536)
                if kind != socket.PACKET_OUTGOING:
                    packets.append(data.hex())
        except BlockingIOError:
            pass
    return packets


COMMANDS = {
    function.__name__: function
    for function in (serve, sender, tcp, udp, connections, opens, got, sends, udp_stream, udp_sender, raw, frame, capture, taken)
}


def run(command):
    try:
        answer = {"value": COMMANDS[command["do"]](**command)}
    except Exception as error:  # Whatever it is, the test is told.
        answer = {"error": repr(error)}
    with output:
        sys.stdout.write(json.dumps({"id": command["id"], **answer}) + "\n")
        sys.stdout.flush()


for line in sys.stdin:
    threading.Thread(target=run, args=(json.loads(line),), daemon=True).start()
