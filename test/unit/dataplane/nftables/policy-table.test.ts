/** When the policy's table is read again before it is changed, without a kernel. */
import type { Message } from "../../../../dataplane/netlink/message.ts";
import type { Netlink } from "../../../../dataplane/netlink/socket.ts";
import { PolicyTable } from "../../../../dataplane/nftables/policy/policy-table.ts";
import { changeOf, policyOf } from "../../../support/packet-policy-text.ts";

const A = "aaaaaaaaaaaa";
const B = "bbbbbbbbbbbb";

/** Accepts everything, and has no table whenever it is asked. */
class EmptyKernel implements Netlink {
  readonly calls: string[] = [];

  request(): Message[] {
    this.calls.push("request");
    return [];
  }

  dump(): Message[] {
    this.calls.push("dump");
    return [];
  }

  batch(): void {
    this.calls.push("batch");
  }
}

function tableIn(netfilter: Netlink): PolicyTable {
  return new PolicyTable({ netfilter }, { prefixes: ["cali"], logGroup: 7 });
}

describe("A change of the policy's table", () => {
  it("is sent without reading the table, as long as all went well", async () => {
    const kernel = new EmptyKernel();
    const table = tableIn(kernel);
    await table.replace(policyOf({ addresses: { "10.0.0.1": A } }));
    kernel.calls.length = 0;
    await table.apply(changeOf({ addresses: { "10.0.0.1": B } }));
    await table.apply(changeOf({ addresses: { "10.0.0.2": A } }));
    expect(kernel.calls).toEqual(["batch", "batch"]);
  });

  it("that failed half way has the next one compare the table", async () => {
    const kernel = new EmptyKernel();
    const table = tableIn(kernel);
    await table.replace(policyOf({}));
    kernel.calls.length = 0;
    const addresses = new Map([
      ["10.0.0.1", A],
      ["web", A],
    ]);
    await expect(table.apply({ endpoints: new Map(), addresses, blocks: undefined })).rejects.toThrow('"web" is no address');
    expect(kernel.calls).toEqual([]);
    await table.apply(changeOf({ addresses: { "10.0.0.2": A } }));
    // The generation, the table that is missing, and all of it made.
    expect(kernel.calls).toEqual(["request", "request", "batch"]);
  });
});
