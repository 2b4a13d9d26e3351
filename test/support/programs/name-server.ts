/** Answers every question about a name with "no such name", over UDP. Usage: name-server.ts PORT */
import { createSocket } from "node:dgram";

const port = Number(process.argv[2]);
for (const type of ["udp4", "udp6"] as const) {
  const socket = createSocket(type === "udp4" ? { type } : { type, ipv6Only: true });
  socket.on("message", (question, { address, port: to }) => {
    const answer = Buffer.from(question);
    // A response to a query that asked for recursion, which is there; NXDOMAIN (RFC 1035, 4.1.1).
    answer.writeUInt16BE(0x8183, 2);
    socket.send(answer, to, address);
  });
  socket.bind(port, () => process.stdout.write(`${type} listens\n`));
}
