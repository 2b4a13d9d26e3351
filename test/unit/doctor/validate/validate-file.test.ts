/** Files judged before they are used: the place of what is wrong, and what was perhaps meant. */
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import Ajv from "ajv/dist/2020";
import { validateFile } from "../../../../doctor/validate/validate-file.ts";
import { netconfSchema } from "../../../../lib/config/json-schema.ts";

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "tortie-validate-"));
});
afterEach(() => rmSync(dir, { recursive: true }));

function file(text: string, name = "file"): string {
  const path = join(dir, name);
  writeFileSync(path, text);
  return path;
}

/** "line:column severity subject: message" */
async function findings(text: string, pluginPath?: string): Promise<readonly string[]> {
  const found = await validateFile(file(text), pluginPath);
  return found.map(({ position, severity, subject, message }) => {
    const place = position === undefined ? "-" : `${position.line}:${position.column}`;
    return `${place} ${severity} ${subject}: ${message}`;
  });
}

const list = (entry: string) => `{"name": "n", "cniVersion": "1.1.0", "plugins": [\n  {"type": "tortie", ${entry}}\n]}`;

describe("a network configuration list", () => {
  it.each(readdirSync("manifests/conflist"))("%s of manifests/ is right", async (name) => {
    expect(await validateFile(join("manifests/conflist", name), undefined)).toEqual([]);
  });

  it("with a misspelled key names the place and what was perhaps meant", async () => {
    expect(await findings(list('"datastor_type": "local"'))).toEqual([
      '2:22 warning plugins[0].datastor_type: no key of this name is known, it has no effect; did you mean "datastore_type"?',
    ]);
    expect(await findings(list('"ipam": {"type": "tortie-ipam",\n "pools": [{"cidr": "10.0.0.0/16", "block_size": 26}]}'))).toEqual([
      '3:36 warning plugins[0].ipam.pools[0].block_size: no key of this name is known, it has no effect; did you mean "blockSize"?',
    ]);
  });

  it("may have keys in any letter case, comments, and whatever another IPAM plugin reads", async () => {
    expect(await findings(list('"MTU": 1400, "_comment": "x", "ipam": {"type": "host-local", "dataDir": "/x"}'))).toEqual([]);
  });

  it("with a value of the wrong type or out of range names the key's place", async () => {
    expect(await findings(list('"name": "n",\n  "mtu": "1500"'))).toEqual([
      '3:3 error plugins[0].mtu: failed to load netconf: mtu must be an integer, not the string "1500"',
    ]);
    expect(await findings(list('"device_type": "macvlan"'))).toEqual([
      expect.stringMatching(/^2:22 error plugins\[0\]\.device_type: unknown/),
    ]);
  });

  it("that is no JSON, or no list, says so", async () => {
    expect(await findings('{"name": "n",\n "plugins": [,]}')).toEqual([expect.stringMatching(/^2:14 error file: /)]);
    expect(await findings('{"name": "n", "plugins": []}')).toEqual(["- error list: plugins: the list is empty"]);
  });

  it("whose plugins know different versions is an error at the one that does not know the list's", async () => {
    for (const [name, versions] of [
      ["tortie", '["1.0.0","1.1.0"]'],
      ["older", '["0.4.0","1.0.0"]'],
    ]) {
      chmodSync(file(`#!/bin/sh\necho '{"cniVersion":"1.0.0","supportedVersions":${versions}}'\n`, name), 0o755);
    }
    const text = '{"name": "n", "cniVersion": "1.1.0", "plugins": [{"type": "tortie"},\n {"type": "older"}, {"type": "absent"}]}';
    expect(await findings(text, dir)).toEqual([
      `2:3 error plugins[1].type: the list has cniVersion 1.1.0, and ${join(dir, "older")} knows 0.4.0, 1.0.0; the newest that both know is 1.0.0`,
      expect.stringMatching(/^2:22 warning plugins\[2\]\.type: its versions cannot be asked for: failed to find plugin "absent"/),
    ]);
  });
});

describe("Kubernetes objects", () => {
  it("of the rendered manifest are right", async () => {
    expect(await validateFile("manifests/tortie.yaml", undefined)).toEqual([]);
  });

  it("pools: CIDR, block size, selectors and unknown fields are judged as by the allocator", async () => {
    const pool = (spec: string) => `apiVersion: crd.projectcalico.org/v1\nkind: IPPool\nmetadata: { name: p }\nspec: ${spec}\n`;
    expect(await findings(pool("{ cidr: 10.0.0.0/16, nodeSelector: all(), vxlanMode: Always }"))).toEqual([]);
    expect(await findings(pool("{ cidr: 10.0.0.1/16 }"))).toEqual([
      expect.stringMatching(/^- error IPPool p: spec\.cidr .* did you mean 10\.0\.0\.0\/16/),
    ]);
    expect(await findings(pool("{ cidr: 10.0.0.0/16, blockSize: 8 }"))).toEqual([
      expect.stringContaining("spec.blockSize 8 is outside of 20 to 32"),
    ]);
    expect(await findings(pool('{ cidr: 10.0.0.0/16, blockSize: "26" }'))).toEqual([
      expect.stringMatching(/^- error IPPool p: .*blockSize/),
    ]);
    expect(await findings(pool("{ cidr: 10.0.0.0/16, nodeSelector: a == }"))).toEqual([
      expect.stringMatching(/^- error IPPool p: spec\.nodeSelector: /),
    ]);
    expect(await findings(pool("{ cidr: 10.0.0.0/16, natOutgiong: true }"))).toEqual([
      expect.stringContaining('did you mean "natOutgoing"?'),
    ]);
  });

  it("annotations of pods and namespaces are judged as by an ADD", async () => {
    const pod = (annotation: string) =>
      `apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  namespace: d\n  annotations:\n    cni.projectcalico.org/${annotation}\n`;
    expect(await findings(pod(`ipAddrs: '["10.0.0.1"]'`))).toEqual([]);
    expect(await findings(pod("hwAddr: zz"))).toEqual([expect.stringMatching(/^- error Pod p: failed to parse MAC address zz/)]);
    expect(await findings(pod("ipAddr: x"))).toEqual([expect.stringContaining('did you mean "ipAddrs"?')]);
    const namespace = pod("ipv4pools: '[1]'").replace("kind: Pod", "kind: Namespace");
    expect(await findings(namespace)).toEqual([expect.stringMatching(/^- error Namespace p: .*ipv4pools/)]);
  });

  it("that Tortie does not read are passed over among others, and an error alone", async () => {
    expect(await findings("apiVersion: v1\nkind: Secret\nmetadata: { name: s }\n")).toEqual([
      expect.stringMatching(/^- error file: neither/),
    ]);
  });
});

describe("docs/schema/netconf.json", () => {
  const written: unknown = JSON.parse(readFileSync(resolve("docs/schema/netconf.json"), "utf8"));

  it("is what tortiectl validate --schema prints", () => {
    expect(written).toEqual(netconfSchema());
  });

  it("takes the lists of manifests/, and refuses a wrong type", () => {
    const check = new Ajv({ strict: false }).compile(netconfSchema());
    for (const name of readdirSync("manifests/conflist")) {
      const value: unknown = JSON.parse(readFileSync(join("manifests/conflist", name), "utf8"));
      expect([check(value), check.errors]).toEqual([true, null]);
    }
    expect(check(JSON.parse(list('"mtu": "1500"')))).toBe(false);
    expect(check(JSON.parse(list('"mtu": null')))).toBe(true);
  });
});
