#!/usr/bin/env python3
"""An agent that answers every call at once (docs/project/contract/agent.md, A§11.3): what remains is the time of the program that hands it over.

Usage: answer-at-once.py SOCKET. Says "ready" when it listens; ends with its standard input.
"""
import os
import socket
import struct
import sys
import threading

CALL_HEADER = struct.Struct("<4sHHIIII")
CALL_HEADER_BYTES = 48
ANSWER_HEADER = struct.Struct("<4sHHIII")
RESULT = b'{"cniVersion":"1.0.0","ips":[{"address":"10.98.0.2/32"}]}'
ANSWER = ANSWER_HEADER.pack(b"TCNI", 1, 200, len(RESULT), 0, 0) + RESULT


def serve(connection):
    received = b""
    wanted = CALL_HEADER_BYTES
    while len(received) < wanted:
        chunk = connection.recv(65536)
        if not chunk:
            return
        received += chunk
        if len(received) >= CALL_HEADER_BYTES:
            wanted = CALL_HEADER_BYTES + sum(CALL_HEADER.unpack_from(received)[4:])
    connection.sendall(ANSWER)


def listen(path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(path)
        server.listen(128)
        print("ready", flush=True)
        while True:
            connection, _ = server.accept()
            with connection:
                serve(connection)


threading.Thread(target=listen, args=(sys.argv[1],), daemon=True).start()
sys.stdin.read()
os.unlink(sys.argv[1])
