/** How the agent starts, is told things by signals, and ends (A§0.2, A§0.3, A§2.1). */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Agent } from "../../support/agent.ts";
import { addByAgent, callAgent } from "../../support/agent-calls.ts";
import { localConf, podArgs } from "../../support/conf.ts";
import { fresh } from "../../support/fixtures.ts";
import { BIN_DIR, Node } from "../../support/node.ts";

const node = fresh(Node.create);

describe("The agent's process", () => {
  it("is the only one of its run directory: a second one ends at once, naming the first", async () => {
    await using agent = await Agent.start(node);
    const second = await node.run([join(BIN_DIR, "tortie-node"), "--run-dir", agent.runDir, "--health-port", "0"], { env: {} });
    expect(second).toMatchObject({
      exit: 1,
      stderr: expect.stringMatching(new RegExp(`agent\\.lock is held by pid ${agent.pid}.*agent-running`, "s")),
    });
    expect(await agent.request("GET", "/config")).toMatchObject({ status: 200 });
  });

  it("is the only one of its host, whatever its run directory: a second one ends at once, naming the first", async () => {
    await using agent = await Agent.start(node);
    const start = () =>
      node.run([join(BIN_DIR, "tortie-node"), "--run-dir", join(node.dir, "other"), "--health-port", "0"], { env: {}, timeoutMs: 20_000 });
    expect(await start()).toMatchObject({
      exit: 1,
      stderr: expect.stringMatching(new RegExp(`another agent serves this host: pid ${agent.pid} .*agent-running`, "s")),
    });
    expect(await agent.request("GET", "/config")).toMatchObject({ status: 200 });
    await agent.kill();
    await using _other = await Agent.start(node, { runDir: "other" });
  });

  it("starts beside an agent of another network namespace", async () => {
    await using elsewhere = await Node.create();
    await using _first = await Agent.start(elsewhere);
    await using _second = await Agent.start(node);
  });

  it("starts although a user who can be no agent keeps its name", async () => {
    const script = 'Bun.listen({ unix: "\\0tortie-node", socket: { data() {} } }); console.log("listening")';
    const [file = "", ...args] = node.commandLine([
      "/usr/bin/setpriv",
      "--reuid",
      "65534",
      "--clear-groups",
      process.execPath,
      "-e",
      script,
    ]);
    const squatter = spawn(file, args, { stdio: ["ignore", "pipe", "inherit"] });
    await once(squatter.stdout, "data");
    await using agent = await Agent.start(node);
    expect(agent.log).toContain("keeps the name that tells agents of one host apart");
    squatter.kill("SIGKILL");
  });

  it("ends with status 0 at SIGTERM: the socket goes, agent.json says so and stays", async () => {
    await using agent = await Agent.start(node);
    expect(await agent.stop()).toBe(0);
    expect(existsSync(agent.socket)).toBe(false);
    expect(agent.file()).toMatchObject({ phase: "stopped", pid: agent.pid });
  });

  it("answers calls that run when SIGTERM comes, before it ends", async () => {
    await using agent = await Agent.start(node);
    const pods = await Promise.all(Array.from({ length: 8 }, () => node.addPod()));
    const conf = localConf(node);
    const calls = pods.map((pod, index) =>
      callAgent(agent, "add", conf, { containerId: `cid${index}`, pod }).then(
        ({ status }) => status,
        // Came too late: the runtime calls again.
        () => "refused",
      ),
    );
    await agent.until("the first ADD", () => agent.log.includes("ADD begins"));
    expect(await agent.stop()).toBe(0);
    const answers = await Promise.all(calls);
    expect(answers.filter((answer) => answer === 200).length).toBeGreaterThan(0);
    expect(answers.filter((answer) => answer !== 200 && answer !== 503 && answer !== "refused")).toEqual([]);
    await agent.restart();
    const links = (await node.ip("-j", "link", "show", "type", "veth")).length;
    expect(((await agent.request("GET", "/endpoint")).json as unknown[]).length).toBe(links);
  });

  it("reads its configuration and opens its log file anew at SIGHUP, and keeps the old one where the new is wrong", async () => {
    const file = join(node.dir, "agent.json");
    const logFile = join(node.dir, "agent.log");
    writeFileSync(file, JSON.stringify({ "log-level": "error", "log-file": logFile }));
    await using agent = await Agent.start(node, { args: ["--config", file] });
    expect(agent.log).toBe("");
    writeFileSync(file, '{"log-level": "loud"}');
    agent.signal("SIGHUP");
    await agent.until("the complaint", () => agent.log.includes("the configuration was not read again"));
    writeFileSync(file, JSON.stringify({ "log-level": "debug", "log-file": logFile, "max-endpoints": 7 }));
    agent.signal("SIGHUP");
    await agent.until("the new level", () => agent.log.includes("the configuration was read again"));
    await agent.until("the file", () => readFileSync(logFile, "utf8").includes("the configuration was read again"));
    // What cannot be taken over is named, and shown as it is.
    expect(agent.log).toMatch(/needs a restart\W+max-endpoints/);
    const { json } = await agent.request("GET", "/config");
    expect(json).toMatchObject({ spec: { options: { "log-level": "debug", "max-endpoints": "4095" } } });
  });

  it("drops the state of an earlier boot, and keeps that of this one", async () => {
    await using agent = await Agent.start(node);
    await addByAgent(agent, localConf(node), { pod: await node.addPod(), args: podArgs("web") });
    await agent.kill();
    await agent.restart();
    expect((await agent.request("GET", "/endpoint")).json).toEqual([expect.objectContaining({ id: expect.any(Number) })]);
    expect((await agent.request("GET", "/history")).json).toEqual([expect.objectContaining({ event: "add" })]);

    await agent.kill();
    writeFileSync(join(agent.runDir, "state", "boot-id"), "11111111-2222-3333-4444-555555555555\n");
    mkdirSync(join(agent.runDir, "deletequeue"), { recursive: true });
    writeFileSync(join(agent.runDir, "deletequeue", `${"0".repeat(64)}.json`), "{}");
    await agent.restart();
    expect([(await agent.request("GET", "/endpoint")).json, (await agent.request("GET", "/history")).json]).toEqual([[], []]);
    await agent.until("the old state to go", () => !readdirSync(agent.runDir).some((name) => name.startsWith("old-")));
    expect(existsSync(join(agent.runDir, "deletequeue", `${"0".repeat(64)}.json`))).toBe(false);
  });

  it.each([
    [["--health-port", "x"], 1, /--health-port: "x" must be integer/],
    [["--bogus"], 2, /there is no option --bogus/],
    [["--config", "/absent.json"], 1, /--config \/absent\.json/],
  ])("ends at once where %j makes no sense", async (args, exit, message) => {
    const run = await node.run([join(BIN_DIR, "tortie-node"), "--run-dir", join(node.dir, "run"), ...args], { env: {} });
    expect(run).toMatchObject({ exit, stderr: expect.stringMatching(message) });
  });

  it.each([
    ["an ordinary user", ["--reuid=65534", "--regid=65534", "--clear-groups"], "user 65534 without CAP_NET_ADMIN and CAP_SYS_ADMIN"],
    ["root without CAP_NET_ADMIN", ["--bounding-set=-net_admin", "--inh-caps=-all"], "user 0 without CAP_NET_ADMIN:"],
    ["root without CAP_SYS_ADMIN", ["--bounding-set=-sys_admin", "--inh-caps=-all"], "user 0 without CAP_SYS_ADMIN:"],
  ])("W3: started as %s it ends before it touches anything, and says what it lacks", async (_, drop, message) => {
    const runDir = join(node.dir, "run");
    mkdirSync(runDir);
    chmodSync(node.dir, 0o755);
    chmodSync(runDir, 0o777);
    // The project's folder may be closed to others.
    const program = join(node.dir, "tortie-node");
    copyFileSync(join(BIN_DIR, "tortie-node"), program);

    // The limit ends an agent that starts all the same.
    const argv = ["/usr/bin/timeout", "30", "/usr/bin/setpriv", ...drop, program, "--run-dir", runDir, "--health-port", "0"];
    const run = await node.run(argv, { env: {}, cwd: "/" });

    expect(run).toMatchObject({ exit: 1, stdout: "", stderr: expect.stringContaining(message) });
    expect(run.stderr).toMatch(/next {2}run this as root .* CAP_NET_ADMIN and CAP_SYS_ADMIN \(privilege-missing\)\n$/);
    expect(readdirSync(runDir)).toEqual([]);
  });

  it("prints its options, its version and the schema of its file", async () => {
    const run = (flag: string) => node.run([join(BIN_DIR, "tortie-node"), flag], { env: {} });
    expect((await run("--help")).stdout).toMatch(/--run-dir .*TORTIE_RUN_DIR/);
    expect((await run("--version")).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
    expect(JSON.parse((await run("--print-schema")).stdout)).toMatchObject({
      type: "object",
      properties: { "run-dir": { type: "string" } },
    });
  });
});

describe("tortiectl node", () => {
  it("shows status, endpoints, one endpoint, configuration and figures, as tables and as JSON", async () => {
    await using agent = await Agent.start(node);
    await addByAgent(agent, localConf(node), { pod: await node.addPod(), args: podArgs("web") });
    const tortiectl = (...args: string[]) =>
      node.run([join(BIN_DIR, "tortiectl"), "node", ...args], { env: { TORTIE_SOCK: agent.socket } });
    expect(await tortiectl("status")).toMatchObject({ exit: 0, stdout: expect.stringContaining("phase ready") });
    expect((await tortiectl("endpoints")).stdout).toMatch(/^ID +STATE .*\n\d+ +ready +10\.244\.\S+ +cali\w+ +default\/web +cid1:eth0\n$/);
    expect((await tortiectl("endpoint", "pod-name:default/web")).stdout).toMatch(/workload +default\/web\n(.*\n)*history\n/);
    expect((await tortiectl("config")).stdout).toMatch(/phase +ready\n/);
    expect(JSON.parse((await tortiectl("config", "--json")).stdout)).toMatchObject({ status: { phase: "ready" } });
    expect(JSON.parse((await tortiectl("endpoints", "--json")).stdout)).toHaveLength(1);
    expect((await tortiectl("metrics")).stdout).toContain("tortie_endpoint_count 1");
    expect(await tortiectl("endpoint", "9999")).toMatchObject({ exit: 1, stderr: expect.stringContaining("endpoint not found: 9999") });
    await agent.stop();
    expect(await tortiectl("status")).toMatchObject({ exit: 1, stderr: expect.stringContaining("agent-unreachable") });
  });
});
