import { explain, hostEndNamed, type Question } from "../../../../agent/policy/explain.ts";
import type { PolicyView } from "../../../../agent/policy/view.ts";
import { type Address, formatAddress } from "../../../../lib/addresses/address.ts";
import type { Flow } from "../../../../policy/model.ts";
import { address } from "../../../support/addresses.ts";
import { ALLOWS, DENIED, DENIES, DROP, ENDPOINTS, policyView } from "../../../support/policy-view.ts";

const nobody = () => false;
const ask = (question: Partial<Question>, given: Partial<PolicyView> = {}, isOwn: (address: Address) => boolean = nobody) =>
  explain(policyView(given), { from: "shop/db", to: "shop/web", protocol: "TCP", port: 8081, ...question }, isOwn);

describe("an explanation", () => {
  it("asks the engine for each pair of addresses of a family, with the protocol's number", async () => {
    const flows: Flow[] = [];
    const judge = (flow: Flow) => {
      flows.push(flow);
      return DENIED;
    };
    const { from, to, pairs } = await ask({}, { judge });
    expect([from, to]).toEqual([
      { ...ENDPOINTS[1], identity: undefined },
      { ...ENDPOINTS[0], identity: 4711 },
    ]);
    expect(pairs.map(({ family, source, destination, verdict }) => [family, source, destination, verdict])).toEqual([
      [4, "10.0.0.1", "10.0.0.2", "deny"],
      [6, "fd00::1", "fd00::2", "deny"],
    ]);
    await ask({ protocol: "ICMP", port: undefined }, { judge });
    expect(flows.map(({ protocol, port }) => [protocol, port])).toEqual([
      [6, 8081],
      [6, 8081],
      [1, undefined],
      [58, undefined],
    ]);
  });

  it.each([
    ["shop/web", "caliweb"],
    ["web", "caliweb"],
    ["caliweb", "caliweb"],
    ["10.0.0.2", "caliweb"],
    ["fd00:0::2", "caliweb"],
    ["calibare", "calibare"],
    ["10.0.0.3", "calibare"],
  ])("finds an end of this node as %s", async (name, hostInterface) => {
    expect((await ask({ from: "10.0.0.1", to: name === "fd00:0::2" ? "10.0.0.2" : name })).to.hostInterface).toBe(hostInterface);
    expect(hostEndNamed(policyView(), name)).toBe(hostInterface);
  });

  it("finds pods of other nodes and addresses of nobody, and says why an end is not judged", async () => {
    const judge = () => ({ verdict: "allow", egress: ALLOWS, ingress: undefined }) as const;
    const [far] = (await ask({ to: "shop/far" }, { judge })).pairs;
    expect(far?.notes).toEqual(["the labels of shop/far are not known yet: nothing here judges its ingress"]);
    const outside = await ask({ to: "203.0.113.7" }, { judge });
    expect(outside.to).toEqual({ pod: undefined, hostInterface: undefined, addresses: [address("203.0.113.7")], identity: undefined });
    expect(outside.pairs[0]?.notes).toEqual(["203.0.113.7 is no pod that is known: nothing here judges its side"]);
  });

  it("does not ask about what the host sends", async () => {
    const isOwn = (address: Address) => formatAddress(address) === "192.0.2.1";
    const { pairs } = await ask({ from: "192.0.2.1" }, { judge: () => fail("asked") }, isOwn);
    expect(pairs).toEqual([expect.objectContaining({ verdict: "allow", egress: undefined, ingress: undefined })]);
  });

  it("is refused for ends that nobody knows, that could be several, or that have no family in common", async () => {
    await expect(ask({ to: "shop/nobody" })).rejects.toMatchObject({ word: "policy-end-unknown" });
    await expect(ask({ to: "nobody" })).rejects.toMatchObject({ word: "policy-end-unknown" });
    await expect(ask({ from: "fd00::9", to: "calibare" })).rejects.toMatchObject({ word: "call-invalid" });
    const twice = [...ENDPOINTS, { hostInterface: "caliother", pod: "test/web", addresses: [] }];
    await expect(ask({ to: "web" }, { endpoints: () => twice })).rejects.toMatchObject({ word: "endpoint-ambiguous" });
    await expect(ask({ to: "test/web" }, { endpoints: () => twice })).rejects.toMatchObject({ word: "call-invalid" });
  });

  it("does not grow with the addresses of its ends, nor with their names", async () => {
    const many = Array.from({ length: 50 }, (_, i) => address(`10.1.0.${i}`));
    const addressesOf = () => many;
    expect((await ask({ from: "a/b", to: "c/d" }, { addressesOf })).pairs).toHaveLength(16);
    await expect(ask({ to: `a/${"\u0007".repeat(5_000)}` })).rejects.toThrow(/^.{1,2500}$/);
  });
});

describe("an explanation of a port that a pod of another node names", () => {
  const http = [
    { name: "http", protocol: "TCP", port: 8080 },
    { name: "http", protocol: "UDP", port: 1 },
  ];
  const far = {
    judge: ({ destinationPorts }: Flow) =>
      ({ verdict: "deny", egress: ALLOWS, ingress: { ...DENIES, lacksPorts: destinationPorts === undefined } }) as const,
  };

  it("asks for the pod's ports where a rule names one, and not otherwise", async () => {
    const asked: string[] = [];
    const portsOf = async (pod: string) => {
      asked.push(pod);
      return http;
    };
    const { pairs } = await ask({ to: "shop/far" }, { ...far, portsOf });
    expect(pairs).toMatchObject([{ ingress: { lacksPorts: false }, notes: [] }]);
    await ask({ to: "10.9.0.1" }, { ...far, portsOf });
    await ask({ to: "shop/far" }, { portsOf });
    expect(asked).toEqual(["shop/far", "shop/far"]);
  });

  it("says why they are not known, and where to ask", async () => {
    const portsOf = () => Promise.reject(new Error("this node has no API server to ask"));
    const [pair] = (await ask({ to: "shop/far" }, { ...far, portsOf })).pairs;
    expect(pair?.notes).toEqual([
      "a rule names a port, and what shop/far calls its ports is not known here (this node has no API server to ask): the verdict may be another, so ask on its node",
    ]);
    await expect(ask({ to: "shop/far", port: "http" }, { portsOf })).rejects.toThrow(
      'port "http" of shop/far: its ports are not known here: this node has no API server to ask; ask with its number',
    );
  });

  it("takes the name in place of the number, for the destination's own port of that protocol", async () => {
    const flows: Flow[] = [];
    const judge = (flow: Flow) => {
      flows.push(flow);
      return DENIED;
    };
    expect(await ask({ to: "shop/far", port: "http" }, { judge, portsOf: async () => http })).toMatchObject({ port: 8080 });
    expect(flows).toMatchObject([{ protocol: 6, port: 8080 }]);
    await expect(ask({ port: "grpc" }, { portsOf: async () => http })).rejects.toThrow(
      'port "grpc" of shop/web: it names no port of TCP so, but http (8080/TCP), http (1/UDP); ask with its number',
    );
    const twice = [...http, { name: "http", protocol: "TCP", port: 9 }];
    await expect(ask({ port: "http" }, { portsOf: async () => twice })).rejects.toThrow(
      'port "http" of shop/web: it means 9 and 8080; ask with',
    );
    await expect(ask({ to: "203.0.113.7", port: "http" })).rejects.toThrow("it is no pod that is known, and only pods name ports");
  });
});

function fail(message: string): never {
  throw new Error(message);
}

describe("the host end of a list of drops", () => {
  it("may be one that is gone, if it had drops", () => {
    const drops = { ...policyView().drops, recent: (name?: string) => (name === "caligone" ? [DROP] : []) };
    expect(hostEndNamed(policyView({ drops }), "caligone")).toBe("caligone");
    expect(() => hostEndNamed(policyView({ drops }), "calinever")).toThrow('no endpoint of this node is called "calinever"');
  });
});
