/** `tortiectl bundle` on a host whose files, logs and environment are full of secrets, and of what may stop whoever reads them. */
import { execFileSync, spawn } from "node:child_process";
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Agent } from "../../support/agent.ts";
import { addByAgent } from "../../support/agent-calls.ts";
import { localConf, podArgs } from "../../support/conf.ts";
import { ending, fresh } from "../../support/fixtures.ts";
import { BIN_DIR, Node } from "../../support/node.ts";
import { commandsOf } from "../../support/page.ts";
import { type NamedSecrets, secretsIn } from "../../support/secret-search.ts";
import { words } from "../../support/words.ts";

jest.setTimeout(180_000);

const word = () => randomBytes(18).toString("base64url");
const pem = () => generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ type: "pkcs8", format: "pem" }).toString();
const jwt = () =>
  [`{"alg":"RS256","kid":"${word()}"}`, `{"sub":"${word()}"}`, word()].map((part) => Buffer.from(part).toString("base64url")).join(".");

const SECRETS = {
  token: jwt(),
  "service account token": jwt(),
  "opaque token": word(),
  password: word(),
  "client key": pem(),
  "etcd key": pem(),
  "etcd password": word(),
  "proxy password": word(),
  "foreign key": pem(),
  "foreign token": jwt(),
  "bootstrap token": "abcdef.0123456789abcdef",
  "foreign password": word(),
  "ui token": randomBytes(24).toString("base64url"),
} as const satisfies NamedSecrets;

const node = fresh(Node.create);

/** Configuration, kubeconfigs, and logs that repeat their secrets as proxies, curl and people do. */
function plantSecrets(): { readonly netDir: string; readonly log: string } {
  const netDir = join(node.dir, "net.d");
  const log = join(node.dir, "cni.log");
  mkdirSync(netDir);
  writeFileSync(join(node.dir, "etcd.key"), SECRETS["etcd key"]);
  writeFileSync(join(netDir, "token"), SECRETS["service account token"]);
  const base64 = (text: string) => Buffer.from(text).toString("base64");
  const user = { token: SECRETS["opaque token"], password: SECRETS.password, "client-key-data": base64(SECRETS["client key"]) };
  const kubeconfig = { apiVersion: "v1", kind: "Config", users: [{ name: "calico", user }], clusters: [] };
  writeFileSync(join(netDir, "calico-kubeconfig"), JSON.stringify(kubeconfig));
  const main = {
    type: "tortie",
    log_file_path: log,
    etcd_endpoints: `https://root:${SECRETS["etcd password"]}@10.0.0.1:2379`,
    etcd_key_file: join(node.dir, "etcd.key"),
    policy: { type: "k8s", k8s_auth_token: SECRETS.token },
    ipam: { type: "tortie-ipam" },
  };
  writeFileSync(join(netDir, "10-tortie.conflist"), JSON.stringify({ name: "pods", cniVersion: "1.0.0", plugins: [main] }));
  const lines = [
    "2030-01-01T10:00:00.000Z info ADD done container=c1 interface=eth0",
    `refused: Authorization: Bearer ${SECRETS["foreign token"]}`,
    `in base64 ${base64(SECRETS["opaque token"])} in hex ${Buffer.from(SECRETS.password).toString("hex")}`,
    `{"env":[{"name":"A"}],"client-key-data":"${base64(SECRETS["foreign key"])}"}`,
    SECRETS["foreign key"],
    JSON.stringify({ key: SECRETS["etcd key"] }),
    `curl -u admin https://admin:${SECRETS["foreign password"]}@registry.example/v2/ --token=${SECRETS.token}`,
    `joined with ${SECRETS["bootstrap token"]}`,
    `http://127.0.0.1:4321/${SECRETS["ui token"]}/events`,
    `password: "${SECRETS["foreign password"]}"`,
    `proxy http://me:${SECRETS["proxy password"]}@10.0.0.9:3128 refuses`,
    "2030-01-01T10:00:01.000Z info DEL done container=c1 interface=eth0",
  ];
  writeFileSync(log, `${lines.join("\n")}\n`);
  return { netDir, log };
}

async function bundle(netDir: string, options: readonly string[] = [], binds: Readonly<Record<string, string>> = {}) {
  const output = join(node.dir, `bundle-${options.length}.tar.gz`);
  const env = {
    PATH: "/usr/sbin:/usr/bin:/sbin:/bin",
    ETCD_PASSWORD: SECRETS["etcd password"],
    HTTPS_PROXY: `http://me:${SECRETS["proxy password"]}@10.0.0.9:3128`,
  };
  const run = await node.run([join(BIN_DIR, "tortiectl"), "bundle", "--net-dir", netDir, "--output", output, ...options], { env, binds });
  return { ...run, output };
}

/** @returns the one folder in it */
function unpacked(archive: string): string {
  const folder = `${archive}.d`;
  mkdirSync(folder);
  execFileSync("tar", ["-xzf", archive, "-C", folder]);
  const names = readdirSync(folder);
  expect(names).toEqual([expect.stringMatching(/^tortie-bundle-/)]);
  return join(folder, names[0] ?? "");
}

it("holds what a report needs, and none of the host's secrets in any form", async () => {
  const { netDir } = plantSecrets();
  const agent = ending(await Agent.start(node, { args: ["--datastore-type", "local", "--datastore-path", node.datastorePath] }));
  const { exit, stdout, stderr, output } = await bundle(netDir, ["--socket", agent.socket]);
  expect(`${exit} ${stderr}`).toBe("0 ");
  expect(statSync(output).mode & 0o777).toBe(0o600);
  const folder = unpacked(output);
  // A search that finds nothing anywhere would be worth nothing.
  expect(secretsIn(netDir, SECRETS).length).toBeGreaterThan(4);
  expect(secretsIn(folder, SECRETS)).toEqual([]);
  expect(Object.values(SECRETS).filter((secret) => stdout.includes(secret))).toEqual([]);

  const parts = words`versions.txt doctor.json agent/health.json agent/endpoints.json agent/metrics.txt kernel/links.txt kernel/sysctls.txt`;
  for (const path of parts) expect(statSync(join(folder, path)).size).toBeGreaterThan(0);
  const log = readFileSync(join(folder, "logs", node.dir, "cni.log"), "utf8");
  expect(log).toContain("ADD done container=c1");
  expect(log).toContain("DEL done container=c1");
  expect(log).toContain("[hidden]");
  expect(readFileSync(join(folder, "network/10-tortie.conflist"), "utf8")).toContain('"type": "tortie-ipam"');
  expect(existsSync(join(folder, "network/calico-kubeconfig"))).toBe(false);
  expect(readFileSync(join(folder, "files.txt"), "utf8")).toContain("calico-kubeconfig");
  expect(stdout).toMatch(/hidden {2}.*private key \d+ ×/);
});

/** What a node of a cluster has beside Tortie: kubelet's files, those of a control plane with etcd, and the agent's own settings. */
function plantNode(): NamedSecrets {
  const secrets = {
    "kubelet's key": pem(),
    "kubelet's token": word(),
    "pod's token": jwt(),
    "service accounts' key": pem(),
    "administrator's key": pem(),
    "etcd's password": word(),
    "calicoctl's password": word(),
  };
  const folder = (path: string) => {
    mkdirSync(join(node.dir, path), { recursive: true });
    return join(node.dir, path);
  };
  const [pki, etc] = [folder("kubelet/pki"), folder("etc/kubernetes/pki")];
  const pod = folder("kubelet/pods/0f1e/volumes/kubernetes.io~projected/kube-api-access-x/..data");
  const certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
  writeFileSync(join(pki, "kubelet-client-2030.pem"), `${certificate}${secrets["kubelet's key"]}`);
  symlinkSync("kubelet-client-2030.pem", join(pki, "kubelet-client-current.pem"));
  const users = (user: object) => JSON.stringify({ apiVersion: "v1", kind: "Config", users: [{ name: "u", user }] });
  writeFileSync(join(node.dir, "kubelet", "kubeconfig"), users({ token: secrets["kubelet's token"] }));
  writeFileSync(join(pod, "token"), secrets["pod's token"]);
  symlinkSync("..data/token", join(pod, "..", "token"));
  writeFileSync(join(etc, "sa.key"), secrets["service accounts' key"]);
  const key = Buffer.from(secrets["administrator's key"]).toString("base64");
  writeFileSync(join(etc, "..", "admin.conf"), users({ "client-key-data": key }));
  writeFileSync(join(folder("etc/tortie"), "tortie-node.env"), `TORTIE_LOG_LEVEL=debug\nETCD_PASSWORD="${secrets["etcd's password"]}"\n`);
  writeFileSync(join(folder("etc/calico"), "calicoctl.cfg"), `spec:\n  etcdPassword: ${secrets["calicoctl's password"]}\n`);
  return secrets;
}

/** In each form that its reader could take back: as it is, behind 0 to 2 bytes in base64, in hexadecimal digits. */
function encoded(secret: string): readonly string[] {
  const base64 = [0, 1, 2].map((before) => Buffer.from("-".repeat(before) + secret.trim()).toString("base64"));
  return [secret, `got ${Buffer.from(secret.trim()).toString("hex")}`, ...base64.map((text) => `got ${text}`)];
}

it("hides what kubelet, a control plane, pods and the page of tortiectl have on this node, and has the history", async () => {
  const { netDir, log } = plantSecrets();
  const planted = plantNode();
  await using agent = await Agent.start(node, { args: ["--datastore-type", "local", "--datastore-path", node.datastorePath] });
  await addByAgent(agent, localConf(node), { pod: await node.addPod("web"), args: podArgs("web") });
  const [file = "", ...words] = node.commandLine([join(BIN_DIR, "tortiectl"), "ui", "--json", "--socket", agent.socket]);
  const page = spawn(file, words, { stdio: ["ignore", "pipe", "inherit"] });
  const [answer] = await once(page.stdout, "data");
  const { url }: { url: string } = JSON.parse(String(answer));
  const secrets: NamedSecrets = { ...planted, "page's token": new URL(url).pathname.replaceAll("/", "") };
  writeFileSync(log, `${Object.values(planted).flatMap(encoded).join("\n")}\nopen ${url} now\nthe end\n`);

  const binds = { "/var/lib/kubelet": join(node.dir, "kubelet"), "/etc": join(node.dir, "etc") };
  const { exit, output } = await bundle(netDir, ["--socket", agent.socket], binds);
  page.kill();

  expect([exit, Object.values(secrets).every(({ length }) => length >= 20)]).toEqual([0, true]);
  const folder = unpacked(output);
  expect(secretsIn(node.dir, secrets).length).toBeGreaterThan(30);
  expect(secretsIn(folder, secrets)).toEqual([]);
  const kept = readFileSync(join(folder, "logs", node.dir, "cni.log"), "utf8");
  expect(kept).toMatch(/open http:\/\/127\.0\.0\.1:\d+\/\[hidden\]\/ now\nthe end/);
  expect(JSON.parse(readFileSync(join(folder, "agent/history.json"), "utf8"))).toMatchObject([{ event: "add", pod: "default/web" }]);
});

it("is bounded, whatever lies where its parts should be", async () => {
  const { netDir } = plantSecrets();
  const huge = join(node.dir, "huge.log");
  const line = join(node.dir, "line.log");
  const pipe = join(node.dir, "pipe.log");
  const device = join(node.dir, "zero.log");
  writeFileSync(huge, "a line of a log that has gone on for years\n".repeat(100_000));
  writeFileSync(line, `${"x".repeat(3_000_000)}\u001b[2J<script>\0`);
  execFileSync("mkfifo", [pipe]);
  symlinkSync("/dev/zero", device);
  writeFileSync(join(netDir, "20-damaged.conflist"), "{");
  writeFileSync(join(netDir, "30-greedy.conflist"), JSON.stringify({ plugins: [{ type: "x", log_file_path: "/etc/shadow" }] }));
  const logs = [huge, line, pipe, device, "/nowhere.log"].flatMap((file) => ["--log", file]);
  const { exit, stdout, output } = await bundle(netDir, ["--json", "--max-size", "2", ...logs]);
  expect(exit).toBe(0);
  const { parts, hidden }: { parts: { path: string; bytes: number; isCut: boolean; missing?: string }[]; hidden: object } =
    JSON.parse(stdout);
  const partOf = (name: string) => parts.find(({ path }) => path.endsWith(name));
  expect(partOf("huge.log")).toEqual({ path: expect.anything(), bytes: expect.any(Number), isCut: true });
  expect(partOf("huge.log")?.bytes).toBeLessThanOrEqual(1024 * 1024);
  expect(partOf("pipe.log")?.missing).toMatch(/no regular file/);
  expect(partOf("zero.log")?.missing).toMatch(/no regular file/);
  expect(partOf("nowhere.log")?.missing).toMatch(/ENOENT/);
  expect(partOf("20-damaged.conflist")?.missing).toBeDefined();
  expect(partOf("shadow")).toBeUndefined();
  // No agent runs here.
  expect(partOf("agent/health.json")?.missing).toMatch(/agent/);
  expect(parts.reduce((sum, { bytes }) => sum + bytes, 0)).toBeLessThanOrEqual(2 * 1024 * 1024);
  expect(Object.keys(hidden)).toContain("private key");
  expect(secretsIn(unpacked(output), SECRETS)).toEqual([]);
});

it("is written and listed by the commands of docs/how-to/report-a-bug.md", async () => {
  const [block = ""] = commandsOf("how-to/report-a-bug.md", "# Report a bug");
  const env = { PATH: `${BIN_DIR}:/usr/sbin:/usr/bin:/sbin:/bin` };
  const { exit, stdout } = await node.run(["/bin/sh", "-euc", block], { cwd: node.dir, env });
  expect(exit).toBe(0);
  expect(stdout).toContain('"path": "kernel/links.txt"');
});

it("never overwrites a file, and refuses a size that makes no sense", async () => {
  const { netDir } = plantSecrets();
  const first = await bundle(netDir);
  const second = await bundle(netDir);
  expect([first.exit, second.exit]).toEqual([0, 2]);
  expect(second.stderr).toMatch(/is there already\n {2}next {2}remove it, or name another file with --output \(option-invalid\)/);
  expect((await bundle(netDir, ["--max-size", "0"])).stderr).toContain("option-invalid");
});
