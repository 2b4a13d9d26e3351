/** The password and the token of etcd's user, as a member, or a proxy before it, repeats them: no output of an executable shows them. */
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { startEtcd } from "../../support/etcd/etcd.ts";
import { EtcdNode } from "../../support/etcd/etcd-node.ts";
import { shared } from "../../support/fixtures.ts";
import { connectNode } from "../../support/kubernetes/connect-node.ts";

const PASSWORD = "correct-horse-battery-staple";
const TOKEN = "KFLqwTzUaPqvNkdB.1234567";
const USER = { ETCD_USERNAME: "plugins", ETCD_PASSWORD: PASSWORD };

let endpoint: string;
let givesTokens: boolean;

afterAll(() => member.closeAllConnections());
const etcd = shared(startEtcd);
const world = shared(() => EtcdNode.create(etcd));
const member = shared(() =>
  createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      response.setHeader("Content-Type", "application/json");
      if (givesTokens && request.url === "/v3/auth/authenticate") {
        return void response.end(JSON.stringify({ header: { revision: "5" }, token: TOKEN }));
      }
      const message = `you sent ${request.headers.authorization ?? ""} ${Buffer.concat(parts).toString()}`;
      response.writeHead(403);
      response.end(JSON.stringify({ code: 7, message, error: message }));
    });
  }),
);
beforeAll(async () => {
  await new Promise<void>((done) => member.listen(0, "127.0.0.1", done));
  const address = member.address();
  if (typeof address !== "object" || address === null) throw new Error("the member does not listen");
  endpoint = `http://127.0.0.1:${address.port}`;
  await connectNode(world.node, { port: address.port, dir: etcd.dir });
});

describe.each([
  ["password", PASSWORD, false],
  ["token", TOKEN, true],
])("The %s of a user, repeated by a member", (_, secret, withToken) => {
  beforeEach(() => {
    givesTokens = withToken;
  });

  it.each(["ADD", "DEL", "STATUS"])("is in no output and no log of %s", async (command) => {
    const log = `${world.node.dir}/${command}-${withToken}.log`;
    const keys = { cniVersion: "1.1.0", etcd_endpoints: endpoint, log_level: "debug", log_file_path: log };
    const { stdout, stderr } = await world.call(command, command === "STATUS" ? undefined : await world.node.addPod(), { keys, env: USER });
    expect(`${stdout}${stderr}`).toContain("you sent");
    const logged = readFileSync(log, "utf8");
    expect(logged).toContain("you sent");
    for (const text of [stdout, stderr, logged]) expect(text).not.toContain(secret);
  });

  it("is in no output of tortiectl", async () => {
    const env = { ...USER, ETCD_ENDPOINTS: endpoint, PATH: process.env.PATH ?? "" };
    const run = await world.node.run([`${world.node.binDir}/tortiectl`, "ipam", "show", "--datastore", "etcdv3"], { env });
    expect(run).toMatchObject({ exit: 1, stderr: expect.stringContaining("you sent") });
    expect(run.stdout + run.stderr).not.toContain(secret);
  });
});
