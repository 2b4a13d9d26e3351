/** The call socket of a real agent, called by a program that knows nothing but the contract's table of bytes (A§11.3). */
import { execFileSync } from "node:child_process";
import { Agent } from "../../support/agent.ts";
import { HAS_OTHER_USERS, watchingModes } from "../../support/agent-as-user.ts";
import { localConf } from "../../support/conf.ts";
import { fresh } from "../../support/fixtures.ts";
import { BIN_DIR, Node } from "../../support/node.ts";
import { expectNothingLeft, readStore } from "../../support/store.ts";

/** Arguments: socket, flags, sandbox or "", standard input, variables. Prints the answer's status, a line end and the output. */
const CALLER = `
import os, socket, struct, sys
path, flags, sandbox, stdin, *variables = sys.argv[1:]
fd, dev, ino = -1, 0, 0
if sandbox:
    fd = os.open(sandbox, os.O_RDONLY)
    seen = os.fstat(fd)
    dev, ino = seen.st_dev, seen.st_ino
texts = [b"9.9", b"".join(v.encode() + b"\\0" for v in variables), stdin.encode()]
call = struct.pack("<4sHHIIIIIiQQ", b"TCNI", 1, 0, int(flags), *map(len, texts), 0, fd, dev, ino) + b"".join(texts)
one = socket.socket(socket.AF_UNIX)
one.settimeout(60)
one.connect(path)
one.sendall(call)
answer = b""
while chunk := one.recv(65536): answer += chunk
magic, version, status, length, endpoint, warnings = struct.unpack("<4sHHIII", answer[:20])
assert (magic, version, length) == (b"TCNI", 1, len(answer) - 20)
print(status)
sys.stdout.write(answer[20:].decode())
`;

interface Asked {
  readonly command: string;
  readonly conf: unknown;
  readonly flags?: number;
  readonly sandbox?: string;
  readonly as?: readonly string[];
}

/** @returns status, and the output */
async function ask(agent: Agent, { command, conf, flags = 0, sandbox = "", as = [] }: Asked): Promise<[string, string]> {
  const variables = [
    `CNI_COMMAND=${command}`,
    "CNI_CONTAINERID=cid1",
    "CNI_IFNAME=eth0",
    `CNI_NETNS=${sandbox}`,
    `CNI_PATH=${BIN_DIR}`,
    `TORTIE_SOCK=${agent.socket}`,
  ];
  const call = [agent.calls, String(flags), sandbox, JSON.stringify(conf), ...variables];
  const { stdout, stderr } = await agent.node.run([...as, "/usr/bin/python3", "-c", CALLER, ...call]);
  expect(stderr).toBe("");
  const [status = "", ...output] = stdout.split("\n");
  return [status, output.join("\n")];
}

const node = fresh(Node.create);
const agent = fresh(() => Agent.start(node));

describe("The call socket", () => {
  it("adds, checks and deletes for a caller that reads no configuration", async () => {
    const pod = await node.addPod();
    const conf = localConf(node, { cniVersion: "1.1.0", agent: "require" });
    const sandbox = pod.netnsPath;
    const ownIpam = 4 + 8;

    const [added, result] = await ask(agent, { command: "ADD", conf, flags: ownIpam, sandbox });
    expect([added, JSON.parse(result)]).toEqual(["200", expect.objectContaining({ cniVersion: "1.1.0", ips: [expect.anything()] })]);
    expect(await node.podIp(pod, "-j", "link", "show", "eth0")).toHaveLength(1);
    expect((await readStore(node)).allocated).toHaveLength(1);
    const check = { ...conf, prevResult: JSON.parse(result) };
    expect(await ask(agent, { command: "CHECK", conf: check, flags: ownIpam, sandbox })).toEqual(["200", ""]);

    expect(await ask(agent, { command: "DEL", conf, flags: ownIpam, sandbox })).toEqual(["200", ""]);
    await expectNothingLeft(node);
  });

  it("hands a call back that its caller must serve, and does nothing", async () => {
    const sandbox = (await node.addPod()).netnsPath;
    const conf = localConf(node, { agent: "require" });
    for (const change of [
      { agent: undefined },
      { agent: "off" },
      { agent_socket: "/elsewhere/tortie.sock" },
      { agent_timeout_seconds: 1 },
      { ipam: { type: "host-local" } },
    ]) {
      expect([change, await ask(agent, { command: "ADD", conf: { ...conf, ...change }, sandbox })]).toEqual([change, ["421", ""]]);
    }
    expect(await ask(agent, { command: "MAKE", conf, sandbox })).toEqual(["421", ""]);
    expect(await ask(agent, { command: "ADD", conf: [], sandbox })).toEqual(["421", ""]);
    await node.expectClean();
    expect((await agent.request("GET", "/endpoint")).json).toEqual([]);
  });

  (HAS_OTHER_USERS ? it : it.skip)("is root's alone, whatever rights its file has", async () => {
    execFileSync("chmod", ["755", node.dir]);
    // A host has one agent.
    await agent.stop();
    const start = () => Agent.start(node, { runDir: "other" });
    const [other, wider] = await watchingModes(`${node.dir}/other/cni.sock`, 0o600, start);
    await using _ = other;
    expect(wider).toEqual([]);
    expect(execFileSync("stat", ["-c", "%a %u %g", other.calls], { encoding: "utf8" })).toBe("600 0 0\n");

    execFileSync("chmod", ["666", other.calls]);
    const as = ["/usr/bin/setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups", "--"];
    const [status, output] = await ask(other, { command: "DEL", conf: localConf(node), as });
    expect([status, JSON.parse(output)]).toEqual(["403", expect.objectContaining({ word: "access-denied" })]);
  });
});
