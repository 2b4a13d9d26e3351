/** `tortiectl validate` and `completion` as people run them: the real executable, real plugins asked for their versions, a real bash. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fresh } from "../support/fixtures.ts";
import { BIN_DIR, Node, REFERENCE_PLUGINS_DIR } from "../support/node.ts";

const ENV = { PATH: `${BIN_DIR}:/usr/sbin:/usr/bin:/sbin:/bin` };

function list(cniVersion: string, ...others: readonly object[]): string {
  return JSON.stringify(
    { cniVersion, name: "pods", plugins: [{ type: "tortie", ipam: { type: "tortie-ipam" } }, ...others] },
    undefined,
    2,
  );
}

async function validate(node: Node, text: string, ...args: readonly string[]) {
  return validateNamed("pods.conflist", node, text, ...args);
}

async function validateNamed(name: string, node: Node, text: string, ...args: readonly string[]) {
  const file = join(node.dir, name);
  writeFileSync(file, text);
  const run = await node.run([join(BIN_DIR, "tortiectl"), "validate", file, ...args], { env: ENV });
  return { ...run, stdout: run.stdout.replaceAll(node.dir, "DIR") };
}

const PLUGINS = ["--cni-bin-dir", `${BIN_DIR}:${REFERENCE_PLUGINS_DIR}`];

const node = fresh(Node.create);

describe("tortiectl validate", () => {
  it("passes a chain whose plugins all speak its version", async () => {
    const run = await validate(node, list("1.0.0", { type: "portmap", capabilities: { portMappings: true } }), ...PLUGINS);

    expect(run).toMatchObject({ exit: 0, stdout: "1 file: 0 errors, 0 warnings\n", stderr: "" });
  });

  it.each([
    ["pods.conf", list("1.0.0")],
    ["pods.json", list("1.0.0")],
    ["pods.conflist", JSON.stringify({ cniVersion: "1.0.0", name: "pods", type: "tortie" })],
  ])("refuses in %s the form that runtimes do not read there", async (name, text) => {
    const run = await validateNamed(name, node, text);

    expect(run).toMatchObject({ exit: 1, stdout: expect.stringMatching(/which runtimes read from .* alone/) });
  });

  it("finds the plugin that does not speak the list's version, and the one that is not there", async () => {
    writeFileSync(join(node.dir, "old"), '#!/bin/sh\necho \'{"cniVersion":"0.4.0","supportedVersions":["0.3.1","0.4.0"]}\'\n', {
      mode: 0o755,
    });
    writeFileSync(join(node.dir, "mute"), "#!/bin/sh\nexit 3\n", { mode: 0o755 });

    const text = list("1.0.0", { type: "old" }, { type: "absent" }, { type: "mute" });
    const run = await validate(node, text, "--cni-bin-dir", `${BIN_DIR}:${node.dir}`, "--json");

    expect(run).toMatchObject({ exit: 1, stderr: "" });
    expect(JSON.parse(run.stdout)).toMatchObject({
      errors: 2,
      warnings: 1,
      findings: [
        {
          code: "plugin-version",
          severity: "error",
          path: "plugins[1].type",
          line: 12,
          message: expect.stringContaining("only 0.3.1, 0.4.0"),
        },
        { code: "plugin-missing", severity: "warning", path: "plugins[2].type" },
        { code: "plugin-version", severity: "error", path: "plugins[3].type" },
      ],
    });
  });

  it("reads standard input and says file, line, column, code, key and what was meant", async () => {
    const file = join(node.dir, "in");
    writeFileSync(file, '{\n  "cniVersion": "1.0.0", "name": "pods", "type": "tortie",\n  "num_queue": 2, "mtu": "x"\n}');

    const run = await node.run(["/bin/sh", "-c", `tortiectl validate - --cni-bin-dir '' < ${file}`], { env: ENV });

    expect(run).toMatchObject({ exit: 1, stderr: "" });
    expect(run.stdout).toBe(
      '/dev/stdin:3:3: warning key-unknown num_queue: the key "num_queue" is not known, and ignored (did you mean num_queues?)\n' +
        '/dev/stdin:3:19: error netconf-type mtu: failed to load netconf: mtu must be an integer, not the string "x"\n' +
        "1 file: 1 error, 1 warning\n",
    );
  });

  it("says line and column in each document of a YAML file, and of what is no YAML", async () => {
    const file = join(node.dir, "pools.yaml");
    const pool = (name: string, spec: string) =>
      `---\napiVersion: crd.projectcalico.org/v1\nkind: IPPool\nmetadata: {name: ${name}}\nspec: ${spec}\n`;
    writeFileSync(
      file,
      pool("one", "\n  cidr: 10.0.0.0/16\n  blocksize: 26") + pool("two", "{cidr: 10.1.0.1/16}") + pool("three", "{cidr: }}"),
    );

    const run = await node.run(["tortiectl", "validate", file], { env: ENV });

    expect(run).toMatchObject({ exit: 1, stderr: "" });
    const lines = run.stdout.replaceAll(node.dir, "DIR").split("\n");
    expect(lines).toEqual([
      expect.stringMatching(/^DIR\/pools.yaml:7:3: warning key-unknown document 1, spec.blocksize: .* \(did you mean blockSize\?\)$/),
      expect.stringMatching(/^DIR\/pools.yaml:12:8: error netconf-value document 2, spec.cidr: /),
      expect.stringMatching(/^DIR\/pools.yaml:17:15: error document-unreadable document 3: neither JSON nor YAML: /),
      "1 file: 2 errors, 1 warning",
      "",
    ]);
  });

  it("takes a missing plugin whose name is nearly ours for a mistake, since nothing of its entry was judged", async () => {
    const torti = JSON.stringify({ cniVersion: "1.0.0", name: "pods", plugins: [{ type: "torti", mttu: 1 }] });

    const run = await validate(node, torti);

    expect(run.exit).toBe(1);
    expect(run.stdout).toMatch(
      / error plugin-missing plugins\[0\]\.type: .*"torti".* \(did you mean tortie\?\)\n1 file: 1 error, 0 warnings\n$/,
    );
  });

  it("looks for plugins where tortiectl cni does", async () => {
    expect(await validate(node, list("1.0.0", { type: "portmap" }))).toMatchObject({ exit: 0, stdout: "1 file: 0 errors, 0 warnings\n" });
  });

  it("without a file is a wrong command line", async () => {
    const run = await node.run([join(BIN_DIR, "tortiectl"), "validate"], { env: ENV });

    expect(run).toMatchObject({
      exit: 2,
      stdout: "",
      stderr: expect.stringMatching(/^tortiectl: validate: which files\? .*\n.*\(argument-missing\)\n$/),
    });
  });
});
