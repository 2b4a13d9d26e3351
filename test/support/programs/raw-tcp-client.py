"""Speaks TCP in Ethernet frames of its own making (AF_PACKET), so that no routing table and no firewall of its own namespace matters.

Usage: raw-tcp-client.py INTERFACE OWN_ADDRESS GATEWAY_MAC ADDRESS PORT
Prints what the other side sends after the handshake, or "nothing" when no SYN-ACK comes.
"""
import random
import socket
import struct
import sys
import time

interface, own, gateway, address, port = sys.argv[1:]
WAIT_S = 1.0
TRIES = 3
IPPROTO_TCP = 6
FIN, SYN, PSH, ACK = 1, 2, 8, 16


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
link.bind((interface, 0))
own_mac = link.getsockname()[4]
source, destination = socket.inet_aton(own), socket.inet_aton(address)
own_port = random.randrange(20000, 60000)


def send(sequence, acknowledged, flags, data=b""):
    def header(check):
        return struct.pack("!HHIIBBHHH", own_port, int(port), sequence, acknowledged, 5 << 4, flags, 64240, check, 0)

    pseudo = source + destination + struct.pack("!BBH", 0, IPPROTO_TCP, 20 + len(data))
    segment = header(checksum(pseudo + header(0) + data)) + data

    def packet(check):
        return struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(segment), 1, 0, 64, IPPROTO_TCP, check) + source + destination

    frame = bytes.fromhex(gateway.replace(":", "")) + own_mac + b"\x08\x00"
    link.send(frame + packet(checksum(packet(0))) + segment)


def receive(until):
    """The next segment of the connection: flags, sequence number and data; None when there is none in time."""
    while (left := until - time.monotonic()) > 0:
        link.settimeout(left)
        try:
            frame = link.recv(65535)
        except socket.timeout:
            return None
        packet = frame[14:]
        if packet[9] != IPPROTO_TCP or packet[12:16] != destination or packet[16:20] != source:
            continue
        segment = packet[(packet[0] & 15) * 4 : struct.unpack("!H", packet[2:4])[0]]
        source_port, destination_port, sequence, _, offset, flags = struct.unpack("!HHIIBB", segment[:14])
        if (source_port, destination_port) == (int(port), own_port):
            return flags, sequence, segment[(offset >> 4) * 4 :]
    return None


def introduce():
    """Lets the node learn this MAC: its own question would come from a loopback address, which this kernel does not answer."""
    request = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + own_mac + source + bytes(6) + destination
    link.send(bytes.fromhex(gateway.replace(":", "")) + own_mac + b"\x08\x06" + request)


first = random.randrange(2**31)
introduce()
for _ in range(TRIES):
    send(first, 0, SYN)
    answer = receive(time.monotonic() + WAIT_S)
    if answer and answer[0] & (SYN | ACK) == SYN | ACK:
        break
else:
    print("nothing")
    sys.exit(0)

expected = (answer[1] + 1) & 0xFFFFFFFF
send(first + 1, expected, ACK)
send(first + 1, expected, PSH | ACK, b"hello\n")
end = time.monotonic() + WAIT_S
while segment := receive(end):
    flags, sequence, data = segment
    if data and sequence == expected:
        print(data.decode(), end="")
        sys.exit(0)
print("no data")
