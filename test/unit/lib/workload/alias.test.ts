import { attachmentAlias, attachmentAliasPrefix, parseAttachmentAlias } from "../../../../lib/workload/alias.ts";

const attachment = { network: "net1", containerId: "0123abc", interfaceName: "eth0" };

describe("the alias of a host end", () => {
  it("names network, container and interface", () => {
    expect(attachmentAlias(attachment)).toBe("tortie:net1/0123abc/eth0");
  });

  it.each([
    attachment,
    { network: "a.b_c-d", containerId: "x".repeat(64), interfaceName: "net:1" },
    { ...attachment, interfaceName: "ethé" },
  ])("is read back: %j", (one) => {
    const alias = attachmentAlias(one);
    expect(alias.startsWith(attachmentAliasPrefix(one.network))).toBe(true);
    expect(parseAttachmentAlias(alias)).toEqual(one);
  });

  it("begins so that no other network's begins alike", () => {
    expect(attachmentAlias({ ...attachment, network: "net10" }).startsWith(attachmentAliasPrefix("net1"))).toBe(false);
  });

  it("fits into what the kernel keeps, to the last byte", () => {
    const fitting = { ...attachment, containerId: "c".repeat(255 - "tortie:net1/".length - "/eth0".length) };
    expect(attachmentAlias(fitting)).toHaveLength(255);
    expect(parseAttachmentAlias(attachmentAlias(fitting))).toEqual(fitting);
  });

  it("becomes a digest when it would not fit, different for every attachment, the same every time", () => {
    const long = { ...attachment, containerId: "c".repeat(255 - "tortie:net1/".length - "/eth0".length + 1) };
    const alias = attachmentAlias(long);
    expect(alias).toMatch(/^tortie:sha256:[0-9a-f]{64}$/);
    expect(attachmentAlias({ ...long })).toBe(alias);
    expect(attachmentAlias({ ...long, interfaceName: "eth1" })).not.toBe(alias);
    expect(parseAttachmentAlias(alias)).toBeUndefined();
  });

  it("counts bytes, not characters", () => {
    expect(attachmentAlias({ ...attachment, network: "é".repeat(130) })).toMatch(/^tortie:sha256:/);
  });

  it.each(["", "tortie:", "tortie:net1", "tortie:net1/c", "tortie:net1/c/", "other:net1/c/eth0", "tortie:n/c/e/x", "wan uplink"])(
    "is not read from %j",
    (text) => {
      expect(parseAttachmentAlias(text)).toBeUndefined();
    },
  );
});
