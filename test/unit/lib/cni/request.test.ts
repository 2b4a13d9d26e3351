import { renderError } from "../../../../lib/cni/error-output.ts";
import type { CniRequest } from "../../../../lib/cni/protocol.ts";
import { CNI_VERSIONS } from "../../../../lib/cni/protocol.ts";
import { readCall } from "../../../../lib/cni/request.ts";
import { thrownBy } from "../../../support/thrown.ts";

const ENV = { CNI_COMMAND: "ADD", CNI_CONTAINERID: "c1", CNI_NETNS: "/run/netns/x", CNI_IFNAME: "eth0", CNI_PATH: "/opt/cni/bin" };
const NETCONF = '{"name": "net1", "cniVersion": "1.0.0", "big": 12345678901234567890}';

function call(env: Record<string, string | undefined>, stdin: string | Uint8Array = NETCONF): CniRequest {
  return readCall({ ...ENV, ...env }, () => (typeof stdin === "string" ? Buffer.from(stdin) : stdin));
}

const refusal = (env: Record<string, string | undefined>, stdin?: string | Uint8Array) => thrownBy(() => call(env, stdin));

describe("readCall", () => {
  it("hands on what the runtime said, standard input byte for byte", () => {
    expect(call({ CNI_ARGS: "IP=10.0.0.1", CNI_NETNS_OVERRIDE: "true" })).toEqual({
      command: "ADD",
      containerId: "c1",
      netns: "/run/netns/x",
      interfaceName: "eth0",
      args: "IP=10.0.0.1",
      path: "/opt/cni/bin",
      netnsOverride: true,
      stdin: Buffer.from(NETCONF),
      netconf: { name: "net1", cniVersion: "1.0.0", big: { text: "12345678901234567890" } },
      network: "net1",
      cniVersion: "1.0.0",
    });
  });

  it.each(["", undefined, "VERSION"])("finds no operation of an attachment in CNI_COMMAND %p", (command) => {
    expect(() => call({ CNI_COMMAND: command })).toThrow(expect.objectContaining({ word: "command-unknown" }));
  });

  it.each([
    ["ADD", ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"]],
    ["CHECK", ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"]],
    ["DEL", ["CNI_CONTAINERID", "CNI_IFNAME", "CNI_PATH"]],
    ["STATUS", ["CNI_PATH"]],
    ["GC", ["CNI_PATH"]],
  ])("%s needs %p and lists all that are missing or empty (recordings env-missing, env-none)", (command, names) => {
    const none = { CNI_COMMAND: command, CNI_CONTAINERID: "", CNI_NETNS: undefined, CNI_IFNAME: "", CNI_PATH: undefined };
    const stdin = '{"name": "net1", "cniVersion": "1.1.0"}';
    expect(refusal(none, stdin)).toMatchObject({
      word: "environment-missing",
      message: `required env variables [${names.join(",")}] missing`,
    });
    const enough = Object.fromEntries(names.map((name) => [name, ENV[name as keyof typeof ENV]]));
    expect(call({ ...none, ...enough }, stdin)).toMatchObject({ command });
  });

  it("leaves container and interface out of STATUS and GC, whatever they hold", () => {
    expect(call({ CNI_COMMAND: "GC", CNI_CONTAINERID: "-x", CNI_IFNAME: "a/b" }, '{"name": "n", "cniVersion": "1.1.0"}')).toMatchObject({
      containerId: "",
      interfaceName: "",
      netns: "",
    });
  });

  it.each(["-x", "a/b", "a b", ".a", "é", "a\n"])("refuses the container id %j (recording env-values)", (id) => {
    for (const command of ["ADD", "DEL"]) {
      expect(refusal({ CNI_COMMAND: command, CNI_CONTAINERID: id })).toMatchObject({
        word: "environment-invalid",
        code: 4,
        message: "invalid characters in containerID",
        details: id,
      });
    }
  });

  it.each([
    [".", "interface name is . or .."],
    ["..", "interface name is . or .."],
    ["a/b", "interface name contains / or : or whitespace characters"],
    ["a:b", "interface name contains / or : or whitespace characters"],
    ["a b", "interface name contains / or : or whitespace characters"],
    ["a\t", "interface name contains / or : or whitespace characters"],
    ["abcdefghijklmnop", "interface name is too long"],
    ["éééééééé", "interface name is too long"],
  ])("refuses the interface name %j (recording env-values)", (name, message) => {
    for (const command of ["ADD", "DEL", "CHECK"]) {
      expect(refusal({ CNI_COMMAND: command, CNI_IFNAME: name })).toMatchObject({ word: "environment-invalid", code: 4, message });
    }
  });

  it("accepts an interface name of 15 characters", () => {
    expect(call({ CNI_IFNAME: "abcdefghijklmno" })).toMatchObject({ interfaceName: "abcdefghijklmno" });
  });

  it.each([
    ["", "unexpected end of JSON input"],
    ["{", "unexpected end of JSON input"],
    ['{"name":"net1"} {}', "invalid character '{' after top-level value"],
    ["\ufeff{}", "invalid character 'ï' looking for beginning of value"],
    ["[]", "expected an object, found an array"],
    ['"x"', "expected an object, found a string"],
    ["5", "expected an object, found a number"],
    ['{"name": 5}', "name: expected a string, found a number"],
    ['{"name": "n", "cniVersion": 1.0}', "cniVersion: expected a string, found a number"],
    ['{"name": "n", "cniVersion": {}}', "cniVersion: expected a string, found an object"],
  ])("refuses the configuration %j with code 6 (recordings stdin-*, conf-not-json, conf-trailing)", (stdin, message) => {
    for (const command of ["ADD", "DEL"]) {
      expect(refusal({ CNI_COMMAND: command }, stdin)).toMatchObject({
        word: "netconf-not-json",
        code: 6,
        message: expect.stringContaining(`error unmarshall network config: ${message}`),
      });
    }
  });

  it.each([
    ["null", "missing network name"],
    ["{}", "missing network name"],
    ['{"name": ""}', "missing network name"],
    ['{"name": null}', "missing network name"],
    ['{"name": "a b"}', "invalid characters found in network name"],
    ['{"name": "-a"}', "invalid characters found in network name"],
    ['{"name": "a/b"}', "invalid characters found in network name"],
  ])("refuses the configuration %j with code 7 (recording conf-name)", (stdin, message) => {
    expect(refusal({}, stdin)).toMatchObject({ word: "network-name-invalid", code: 7, message });
  });

  it("finds keys in any letter case and tolerates a final newline", () => {
    expect(call({}, '{"NAME": "A.b-c", "CniVersion": "0.3.1"}\n')).toMatchObject({ network: "A.b-c", cniVersion: "0.3.1" });
  });

  it.each(CNI_VERSIONS)("speaks version %s", (version) => {
    expect(call({}, JSON.stringify({ name: "n", cniVersion: version }))).toMatchObject({ cniVersion: version });
  });

  it.each(['{"name": "n"}', '{"name": "n", "cniVersion": ""}', '{"name": "n", "cniVersion": null}'])(
    "takes %s as having no version",
    (stdin) => {
      expect(call({}, stdin)).toMatchObject({ cniVersion: undefined });
    },
  );

  it.each(["0.9.9", "x", "2.0.0", "9.9", "v1.0.0"])("refuses version %s on ADD and DEL with code 1", (cniVersion) => {
    for (const command of ["ADD", "DEL"]) {
      expect(refusal({ CNI_COMMAND: command }, JSON.stringify({ name: "n", cniVersion }))).toMatchObject({
        word: "version-unsupported",
        message: "incompatible CNI versions",
        details: `config is "${cniVersion}", plugin supports ["0.1.0" "0.2.0" "0.3.0" "0.3.1" "0.4.0" "1.0.0" "1.1.0"]`,
      });
    }
  });

  it.each([
    ["CHECK", "0.3.1", "0.4.0"],
    ["STATUS", "1.0.0", "1.1.0"],
    ["GC", "1.0.0", "1.1.0"],
  ])("allows %s not in version %s but from %s on (recordings check, status-gc)", (command, tooOld, first) => {
    const conf = (cniVersion: string | undefined) => JSON.stringify({ name: "n", cniVersion });
    const expected = { word: "operation-unsupported", code: 1, message: `config version does not allow ${command}` };
    expect(refusal({ CNI_COMMAND: command }, conf(tooOld))).toMatchObject(expected);
    expect(refusal({ CNI_COMMAND: command }, conf(undefined))).toMatchObject(expected);
    expect(call({ CNI_COMMAND: command }, conf(first))).toMatchObject({ command });
    expect(call({ CNI_COMMAND: command }, conf("1.1.0"))).toMatchObject({ command });
  });

  it.each(["FOO", "add", "BOGUS", "__proto__"])("refuses the command %s, after looking at standard input", (command) => {
    expect(refusal({ CNI_COMMAND: command })).toMatchObject({
      word: "command-unknown",
      code: 4,
      message: `unknown CNI_COMMAND: ${command}`,
    });
    expect(refusal({ CNI_COMMAND: command }, "{")).toMatchObject({ word: "netconf-not-json" });
  });

  it("says that standard input could not be read", () => {
    const readStdin = () => {
      throw new Error("EBADF: bad file descriptor");
    };
    expect(() => readCall(ENV, readStdin)).toThrow(
      expect.objectContaining({ word: "stdin-unreadable", code: 5, message: "error reading from stdin: EBADF: bad file descriptor" }),
    );
  });
});

describe("hostile network configurations", () => {
  const deep = (open: string, depth: number) => `{"name": "n", "x": ${open.repeat(depth)}`;
  it.each([
    ["arrays a million deep", deep("[", 1_000_000), "exceeded max depth"],
    ["objects a million deep", deep('{"a":', 1_000_000), "exceeded max depth"],
    ["10 MB cut off in a string", `{"name": "${"a".repeat(10_000_000)}`, "unexpected end of JSON input"],
    ["10 MB of opening braces", "{".repeat(10_000_000), "looking for beginning of object key string"],
    ["10 MB of spaces", " ".repeat(10_000_000), "unexpected end of JSON input"],
    ["10 MB of zero bytes", new Uint8Array(10_000_000), "looking for beginning of value"],
    ["bytes that are not UTF-8 outside of strings", Buffer.from([0x7b, 0xc3, 0x28, 0x7d]), "looking for beginning of object key string"],
    ["UTF-16", Buffer.from('{"name": "n"}', "utf16le"), "looking for beginning of object key string"],
  ])("%s are refused with a stable code, naming the place", (_, stdin, message) => {
    const error = refusal({}, stdin);
    expect(error).toMatchObject({ word: "netconf-not-json", code: 6, message: expect.stringContaining(message) });
    expect(error).toMatchObject({ message: expect.stringMatching(/\(line \d+, column \d+\)$/) });
    expect(renderError(error).length).toBeLessThan(500);
  });

  it("10 MB of names of one network make one invalid name", () => {
    const stdin = `{"name": "a", "cniVersion": "1.0.0"${', "name": "-"'.repeat(800_000)}}`;
    expect(refusal({}, stdin)).toMatchObject({ word: "network-name-invalid", details: "-" });
  });

  it("bytes that are not UTF-8 in the name are refused as a name", () => {
    expect(refusal({}, Buffer.from([...Buffer.from('{"name": "n'), 0xff, ...Buffer.from('"}')]))).toMatchObject({
      word: "network-name-invalid",
    });
  });

  it("10 MB of unknown keys are read", () => {
    const stdin = `{"name": "n", "pad": [${"1234567,".repeat(1_250_000)}0]}`;
    expect(call({}, stdin)).toMatchObject({ network: "n" });
  });

  it("a __proto__ key changes nothing", () => {
    expect(refusal({}, '{"__proto__": {"name": "n"}}')).toMatchObject({ word: "network-name-invalid", message: "missing network name" });
  });
});
