import { type CapabilityOptions, capabilityArgs } from "../../../../../lib/cni/runtime/plugin-call.ts";

const NONE: CapabilityOptions = { json: undefined, portMappings: [], bandwidth: undefined, mac: undefined, ips: [] };

describe("capability arguments", () => {
  it("are absent when no option asks for one", () => {
    expect(capabilityArgs(NONE)).toBeUndefined();
  });

  it.each([
    ["8080:80", { hostPort: 8080, containerPort: 80, protocol: "tcp" }],
    ["53:5353/udp", { hostPort: 53, containerPort: 5353, protocol: "udp" }],
    ["127.0.0.1:1:65535/sctp", { hostPort: 1, containerPort: 65535, protocol: "sctp", hostIP: "127.0.0.1" }],
    ["[fd00::1]:8080:80/tcp", { hostPort: 8080, containerPort: 80, protocol: "tcp", hostIP: "fd00::1" }],
  ])("hold the port mapping %s", (text, mapping) => {
    expect(capabilityArgs({ ...NONE, portMappings: [text] })).toEqual({ portMappings: [mapping] });
  });

  it.each([
    ["ingress=8M", { ingressRate: 8e6, ingressBurst: 800_000 }],
    ["egress=1.5k", { egressRate: 1500, egressBurst: 524_288 }],
    ["ingress=1G,egress=500000,egressBurst=2M", { ingressRate: 1e9, ingressBurst: 1e8, egressRate: 500_000, egressBurst: 2e6 }],
  ])("hold the rate limits %s in bits, with a burst where none is given", (text, bandwidth) => {
    expect(capabilityArgs({ ...NONE, bandwidth: text })).toEqual({ bandwidth });
  });

  it("hold a MAC, addresses and whatever else is given as JSON, options over JSON", () => {
    const args = capabilityArgs({
      ...NONE,
      json: '{"dns": {"servers": ["10.0.0.10"]}, "mac": "02:00:00:00:00:01"}',
      mac: "0a:58:0a:f4:00:05",
      ips: ["10.244.0.5", "fd44::5/128"],
    });

    expect(args).toEqual({ dns: { servers: ["10.0.0.10"] }, mac: "0a:58:0a:f4:00:05", ips: ["10.244.0.5", "fd44::5/128"] });
  });

  it.each([
    [{ portMappings: ["80"] }, "--port-mapping"],
    [{ portMappings: ["0:80"] }, "--port-mapping"],
    [{ portMappings: ["80:65536"] }, "--port-mapping"],
    [{ portMappings: ["80:80/icmp"] }, "--port-mapping"],
    [{ portMappings: ["300.1.1.1:80:80"] }, "--port-mapping"],
    [{ bandwidth: "8M" }, "--bandwidth"],
    [{ bandwidth: "up=8M" }, "--bandwidth"],
    [{ bandwidth: "ingress=fast" }, "--bandwidth"],
    [{ bandwidth: "ingressBurst=1M" }, "--bandwidth"],
    [{ mac: "0a:58" }, "--mac"],
    [{ ips: ["10.244.0.300"] }, "--ips"],
    [{ ips: ["10.244.0.3/33"] }, "--ips"],
    [{ json: "[]" }, "--capability-args"],
    [{ json: "{" }, "--capability-args"],
  ])("refuse %j, naming the option", (change, option) => {
    expect(() => capabilityArgs({ ...NONE, ...change })).toThrow(
      expect.objectContaining({ word: "option-invalid", message: expect.stringContaining(option) }),
    );
  });
});
