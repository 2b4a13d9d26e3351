import { attachmentAlias, hasWorkload, namesAttachment, namesWorkload, parseAttachmentAlias } from "../../../dataplane/alias.ts";

const attachment = { network: "net1", containerId: "0123abc", ifname: "eth0" };

describe("the alias of a host end", () => {
  it("names network, container and interface", () => {
    expect(attachmentAlias(attachment)).toBe("tortie:net1/0123abc/eth0");
  });

  it.each([
    attachment,
    { network: "a.b_c-d", containerId: "x".repeat(64), ifname: "net:1" },
    { ...attachment, ifname: "ethé" },
    { ...attachment, workload: "shop/cart-0.web" },
  ])("is read back: %j", (one) => {
    const alias = attachmentAlias(one);
    expect(parseAttachmentAlias(alias)).toEqual(one);
  });

  it("names the pod where there is one, and is still the attachment's where an older version left it out", () => {
    const pod = { ...attachment, workload: "shop/cart" };
    expect(attachmentAlias(pod)).toBe("tortie:net1/0123abc/eth0/shop/cart");
    for (const alias of [attachmentAlias(pod), attachmentAlias(attachment)]) {
      expect([namesAttachment(alias, pod), namesAttachment(alias, attachment)]).toEqual([true, true]);
      expect(namesAttachment(alias, { ...pod, containerId: "other" })).toBe(false);
    }
    expect([hasWorkload(attachmentAlias(pod)), hasWorkload(attachmentAlias(attachment))]).toEqual([true, false]);
  });

  it.each([
    ["short", "c1", "shop/cart"],
    ["of the longest pod", "c".repeat(64), `${"n".repeat(63)}/${"p".repeat(253)}`],
    ["of a network too long for the kernel", "c".repeat(260), "shop/cart"],
    ["of a pod whose name is no pod's", "c1", "a/b/c"],
  ])("tells one pod from another: %s", (_, containerId, workload) => {
    const alias = attachmentAlias({ ...attachment, containerId, workload });
    expect(new TextEncoder().encode(alias).length).toBeLessThanOrEqual(255);
    expect([namesWorkload(alias, workload), namesWorkload(alias, `${workload}x`), hasWorkload(alias)]).toEqual([true, false, true]);
    expect(namesAttachment(alias, { ...attachment, containerId })).toBe(true);
    expect(namesAttachment(alias, { ...attachment, containerId: `${containerId}x` })).toBe(false);
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
    expect(attachmentAlias({ ...long, ifname: "eth1" })).not.toBe(alias);
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
