import { isNamed } from "../../../../../lib/kubernetes/client/tls.ts";

describe("the name of a server in its certificate", () => {
  it.each([
    ["kubernetes.default.svc", "DNS:kubernetes, DNS:kubernetes.default.svc"],
    ["Kubernetes.Default.svc", "DNS:KUBERNETES.default.svc"],
    ["kubernetes.default.svc.", "DNS:kubernetes.default.svc"],
    ["a.example.org", "DNS:*.example.org"],
    ["10.96.0.1", "DNS:kubernetes, IP Address:10.96.0.1"],
    ["2001:db8::1", "IP Address:2001:DB8:0:0:0:0:0:1"],
  ])("is %s in %s", (wanted, names) => {
    expect(isNamed(wanted, names)).toBe(true);
  });

  it.each([
    ["kubernetes", ""],
    ["kubernetes.default.svc", "DNS:kubernetes.default.svc.evil.example"],
    ["kubernetes.default.svc", "DNS:evil.kubernetes.default.svc"],
    ["kubernetes", "URI:kubernetes, email:kubernetes, IP Address:kubernetes"],
    ["a.b.example.org", "DNS:*.example.org"],
    ["example.org", "DNS:*.example.org"],
    [".example.org", "DNS:*.example.org"],
    ["example.org", "DNS:*.org"],
    ["kubernetes", "DNS:*"],
    ["abc.example.org", "DNS:a*.example.org"],
    ["a.example.org", "DNS:*.*.org"],
    ["10.96.0.1", "DNS:10.96.0.1"],
    ["10.96.0.1", "DNS:*.96.0.1"],
    ["10.96.0.1", "IP Address:10.96.0.10"],
    // A comma inside of a name is escaped, and the name is in quotes.
    ["kubernetes", 'DNS:"a\\u002c DNS:kubernetes"'],
    ["kubernetes", 'DNS:"kubernetes"'],
  ])("is not %s in %s", (wanted, names) => {
    expect(isNamed(wanted, names)).toBe(false);
  });
});
