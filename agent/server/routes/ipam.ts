/** Addresses of this node's range (A§2.5). */
import { TortieError } from "../../../lib/errors/errors.ts";
import type { Handlers } from "../handler.ts";
import type { IpamPort } from "../ports.ts";

type IpamOperations = "getIpam" | "postIpam" | "postIpamAddress" | "deleteIpamAddress";

/** @param ipam `undefined` where this node has no range: its addresses come from blocks */
export function ipamHandlers(ipam: IpamPort | undefined): Pick<Handlers, IpamOperations> {
  const port = (): IpamPort => {
    if (ipam !== undefined) return ipam;
    throw new TortieError("family-disabled", "this node has no range of its own: its addresses come from blocks of the pools");
  };
  return {
    getIpam: async () => ({ status: 200, body: await port().dump() }),
    postIpam: async ({ query: { family, owner }, headers }) => ({
      status: 201,
      body: await port().grant(family, owner, headers.expiration === "true"),
    }),
    postIpamAddress: async ({ params, query }) => ({ status: 200, body: await port().grantAddress(params.ip, query.owner) }),
    async deleteIpamAddress({ params, query: { owner, token, idempotent } }) {
      try {
        await port().release(params.ip, { ...(owner === undefined ? {} : { owner }), ...(token === undefined ? {} : { token }) });
      } catch (error) {
        if (!(idempotent === true && error instanceof TortieError && error.word === "address-not-assigned")) throw error;
      }
      return { status: 200 };
    },
  };
}
