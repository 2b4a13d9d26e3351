/** The published JSON Schema is the one that the decoder's table gives, and judges as the decoder does. */
import { readFileSync } from "node:fs";
import { Ajv2020 } from "ajv/dist/2020.js";
import { networkSchema } from "../../../../doctor/validate/json-schema.ts";
import { knownKeys } from "../../../support/known-keys.ts";

const FILE = "docs/reference/schema/network-configuration.json";

describe(FILE, () => {
  it("is what tortiectl validate --print-schema prints", () => {
    expect(readFileSync(FILE, "utf8")).toBe(`${JSON.stringify(networkSchema(), undefined, 2)}\n`);
  });

  const schema: object = JSON.parse(readFileSync(FILE, "utf8"));
  const isValid = new Ajv2020({ strict: false }).compile(schema);
  const list = (plugin: object) => ({ cniVersion: "1.0.0", name: "pods", plugins: [{ type: "tortie", ...plugin }] });

  it("knows every key of the decoder", () => {
    const text = JSON.stringify(schema);
    const keys = knownKeys().map(({ path }) => path);
    expect(keys.length).toBeGreaterThan(80);
    expect(keys.filter((path) => !text.includes(JSON.stringify(/(?:cni\.dev\/)?[^.]+$/.exec(path)?.[0])))).toEqual([]);
  });

  it.each([
    [list({ mtu: 1400, ipam: { type: "tortie-ipam", pools: [{ cidr: "10.0.0.0/16" }] } }), true],
    [list({ mtu: "1400" }), false],
    [list({ ipam: { pools: [{ cidr: 1 }] } }), false],
    [{ ...list({}), plugins: [{ type: "portmap", mtu: "anything" }] }, true],
    [{ ...list({}), plugins: [{}] }, false],
    [{ cniVersion: "1.0.0", name: "one", type: "calico", gro_max_size: -1 }, false],
    [{ cniVersion: "1.0.0", name: "one", type: "calico", gro_max_size: 1 }, true],
    [{ cniVersion: "1.0.0", type: "calico" }, false],
  ])("of %j says %p", (value, expected) => {
    expect(isValid(value)).toBe(expected);
  });
});
