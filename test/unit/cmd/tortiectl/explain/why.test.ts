/** Why an address of this pool and this block. */
import { whyThis } from "../../../../../cmd/tortiectl/explain/why.ts";
import { decodeNetworkConfig } from "../../../../../lib/config/decode.ts";

const GRANTED = { address: "10.0.0.1", node: "n1", owner: "host n1", pool: "10.0.0.0/16 (p)", standing: "used" };
const PREFIX = "cni.projectcalico.org/";

function user(annotations: Readonly<Record<string, string>> = {}, requested: readonly string[] = []) {
  const rest = { containerId: "a", ifname: "eth0", state: "ready", addresses: [], routes: [], sysctls: [], rules: [], chained: [] };
  return { shown: { ...rest, network: "net1", pod: "default/web", annotations }, requested, ofNamespace: {} };
}

function lists(ipam: object) {
  const config = decodeNetworkConfig({ name: "net1", type: "tortie", ipam: { type: "tortie-ipam", ...ipam } });
  return [
    {
      list: { file: "f", text: "", name: "net1", cniVersion: "1.0.0" as const, disableCheck: false, disableGc: false, plugins: [] },
      netconf: {},
      config,
    },
  ];
}

const NAMED = { ipv4_pools: ["10.0.0.0/16"] };
const FREE = "its block belongs to host n1, and this was the next free address of it";

it.each([
  [
    "nobody asked",
    GRANTED,
    user(),
    {},
    `pool 10.0.0.0/16 (p), the first enabled one of its family that the node and the namespace allow; ${FREE}`,
  ],
  ["the configuration names its pool", GRANTED, user(), NAMED, expect.stringContaining("the network configuration names (10.0.0.0/16);")],
  [
    "the namespace could not be read",
    GRANTED,
    { ...user(), ofNamespace: undefined },
    NAMED,
    expect.stringContaining("names (10.0.0.0/16), unless the namespace, which could not be read, names others;"),
  ],
  [
    "the namespace names its pool",
    GRANTED,
    { ...user(), ofNamespace: { [`${PREFIX}ipv4pools`]: '["p"]' } },
    NAMED,
    expect.stringMatching(/^pool .*, one of those that the namespace's annotation ipv4pools names: \["p"\];/),
  ],
  [
    "the pod names its pool, and its namespace others",
    GRANTED,
    { ...user({ [`${PREFIX}ipv4pools`]: '["p"]' }), ofNamespace: { [`${PREFIX}ipv4pools`]: '["q"]' } },
    NAMED,
    expect.stringMatching(/the pod's annotation ipv4pools names: \["p"\];/),
  ],
  [
    "the pod names its pool",
    GRANTED,
    user({ [`${PREFIX}ipv4pools`]: '["p"]' }),
    NAMED,
    expect.stringMatching(/annotation ipv4pools names: \["p"\];/),
  ],
  [
    "the pod asks for it",
    GRANTED,
    user({ [`${PREFIX}ipAddrs`]: '["10.0.0.1"]' }),
    NAMED,
    "the pod's annotation ipAddrs asks for it; its block belongs to host n1",
  ],
  ["the pod asks for another", GRANTED, user({ [`${PREFIX}ipAddrs`]: '["10.0.0.11"]' }), {}, expect.stringContaining(FREE)],
  [
    "the runtime asks for it",
    GRANTED,
    user({}, ["10.0.0.1"]),
    {},
    expect.stringMatching(/^the runtime asks for it.*; its block belongs to host n1$/),
  ],
  [
    "it is borrowed",
    { ...GRANTED, standing: "used, borrowed" },
    user(),
    {},
    expect.stringMatching(/; borrowed from a block of host n1: no block of n1 had/),
  ],
  [
    "its pool is gone",
    { ...GRANTED, pool: undefined, owner: undefined },
    user(),
    {},
    expect.stringMatching(/^no pool holds it any more.*no node$/),
  ],
  ["nobody here has it", GRANTED, undefined, NAMED, expect.stringContaining("the first enabled one")],
] as const)("is told where %s", (_, granted, of, ipam, why) => {
  expect(whyThis(granted, of, { lists: lists(ipam) })).toEqual(why);
});
