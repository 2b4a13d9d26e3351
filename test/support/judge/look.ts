/** How the judge looks: iproute2 and nft inside a namespace of the test's own, and the rows of the store's file read by SQLite itself. */
import { Database } from "bun:sqlite";
import { spawn } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { isIPv6 } from "node:net";
import ipaddr from "ipaddr.js";
import { DEFAULT_ROUTES, type SeenGrant, type SeenLink, type SeenNamespace, type SeenRoute, type SeenStore } from "./world.ts";

const QUESTIONS = ["ip -j -d address", "ip -j route", "ip -j -6 route", "cat /proc/sys/net/ipv4/ip_forward", "nft list tables"];
const SEPARATOR = "=====";

/**
 * One look at a namespace that a test has made.
 * @throws Error when it is this process's own: the judge has no business there
 */
export async function lookAtNamespace(path: string): Promise<SeenNamespace> {
  const own = statSync("/proc/self/ns/net");
  const { dev, ino } = statSync(path);
  if (dev === own.dev && ino === own.ino) throw new Error(`${path} is the judge's own namespace`);
  const text = await output(["/usr/bin/nsenter", `--net=${path}`, "/bin/sh", "-c", QUESTIONS.join(` && printf '${SEPARATOR}' && `)]);
  const [links = "", routes4 = "", routes6 = "", forwarding = "", tables = ""] = text.split(SEPARATOR);
  return {
    links: listOf(links)
      .filter(({ ifname }) => ifname !== "lo")
      .map(seenLink),
    routes: [
      ...listOf(routes4)
        .filter(isOfSomebody)
        .map((route) => seenRoute(route, DEFAULT_ROUTES[4])),
      ...listOf(routes6)
        .filter(isOfSomebody)
        .map((route) => seenRoute(route, DEFAULT_ROUTES[6])),
    ],
    isForwarding: forwarding.trim() === "1",
    tables: [...tables.matchAll(/^table (.+)$/gm)].map(([, name = ""]) => name),
  };
}

/** The rows of an embedded store; nothing at all when there is no file yet. */
export function lookAtStore(path: string): SeenStore {
  if (!existsSync(path)) return { grants: [], handles: new Map(), endpoints: [] };
  using database = new Database(path, { readonly: true });
  const rows = (kind: string) =>
    database.query<{ value: string; detail: string | null }, [string]>("SELECT value, detail FROM objects WHERE kind = ?").all(kind);
  return {
    grants: rows("block").flatMap(({ value, detail }) => grantsOfBlock(recordOf(JSON.parse(value)), recordOf(JSON.parse(detail ?? "{}")))),
    handles: new Map(
      rows("handle").map(({ value }) => {
        const { id, blocks } = recordOf(JSON.parse(value));
        return [String(id), Object.values(recordOf(blocks)).reduce<number>((sum, count) => sum + Number(count), 0)];
      }),
    ),
    endpoints: rows("endpoint").map(({ value }) => {
      const { containerID, endpoint } = recordOf(JSON.parse(value));
      return `${containerID} ${endpoint}`;
    }),
  };
}

/** What `allocations` and `attributes` of a raw block hold; an address that cools down belongs to nobody (I§2.4). */
export function grantsOfBlock(head: JsonRecord, detail: JsonRecord): SeenGrant[] {
  const [base = "", length = ""] = String(head.cidr).split("/");
  if (base === "" || length === "") throw new Error(`block without CIDR: ${JSON.stringify(head)}`);
  const attributes = Array.isArray(detail.attributes) ? detail.attributes.map(recordOf) : [];
  const allocations = Array.isArray(detail.allocations) ? detail.allocations : [];
  return allocations.flatMap((index, ordinal) => {
    const attribute = index === null ? undefined : attributes[Number(index)];
    if (attribute === undefined || attribute.releasedAt !== undefined) return [];
    return [{ address: addressAt(base, ordinal), handle: String(attribute.handle_id ?? "") }];
  });
}

/** Blocks begin at a multiple of their size, and no ordinal is above 65535: it goes into the last two bytes, with their carries. */
function addressAt(base: string, ordinal: number): string {
  const bytes = ipaddr.parse(base).toByteArray();
  for (let place = bytes.length - 1, rest = ordinal; rest > 0 && place >= 0; place--) {
    rest += bytes[place] ?? 0;
    bytes[place] = rest & 0xff;
    rest >>= 8;
  }
  return canonical(ipaddr.fromByteArray(bytes).toString());
}

/** As iproute2 prints it (RFC 5952). */
function canonical(address: string): string {
  return isIPv6(address) ? new URL(`http://[${address}]/`).hostname.slice(1, -1) : address;
}

type JsonRecord = Readonly<Record<string, unknown>>;

function seenLink({ ifname, ifalias, addr_info }: JsonRecord): SeenLink {
  const addresses = (Array.isArray(addr_info) ? addr_info : []).map(recordOf).filter(({ scope }) => scope === "global");
  return { name: String(ifname), alias: String(ifalias ?? ""), addresses: addresses.map(({ local }) => String(local)) };
}

/** Routes that an address or a link brings with it are no work of anybody. */
function isOfSomebody({ dst, protocol }: JsonRecord): boolean {
  return protocol !== "kernel" && !/^(fe80|ff00|169\.254\.)/.test(String(dst));
}

function seenRoute({ dst, dev }: JsonRecord, everywhere: string): SeenRoute {
  return { destination: dst === "default" ? everywhere : String(dst), device: String(dev) };
}

function listOf(text: string): JsonRecord[] {
  // It prints nothing at all for some empty lists.
  const list: unknown = text.trim() === "" ? [] : JSON.parse(text);
  return Array.isArray(list) ? list.map(recordOf) : [];
}

function recordOf(value: unknown): JsonRecord {
  return typeof value === "object" && value !== null ? { ...value } : {};
}

/** @throws Error when the command fails */
function output(argv: readonly string[]): Promise<string> {
  const [file = "", ...args] = argv;
  return new Promise((done, failed) => {
    const child = spawn(file, args, { stdio: ["ignore", "pipe", "pipe"] });
    const texts = { out: "", err: "" };
    child.stdout.on("data", (chunk: Buffer) => {
      texts.out += chunk.toString();
    });
    child.stderr.on("data", (chunk: Buffer) => {
      texts.err += chunk.toString();
    });
    child.on("error", failed);
    child.on("close", (exit) => (exit === 0 ? done(texts.out) : failed(new Error(`${argv.join(" ")}: exit ${exit}: ${texts.err}`))));
  });
}
