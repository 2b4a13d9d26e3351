/**
 * Writes the tables of numbered cases in docs/project/test-map.md from the titles of tests, which begin with the case's number: "I4: gives …", "K6,
 * one pod CIDR", "K17, K18: a full pool …", "A-I05: …". `bash scripts/bun scripts/test-map.ts`; a unit test fails when the page is older.
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { listItem } from "./wrapped.ts";

interface Table {
  /** Names the mark `<!-- NAME -->` in the page. */
  readonly name: string;
  /** Lists the numbers of its cases, in order. */
  readonly cases: readonly string[];
  readonly files: (file: string) => boolean;
  /** Allows a case without a test. */
  readonly mayLack?: true;
}

/** Counts Calico's cases: I1, I2 … */
function counted(letter: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${letter}${index + 1}`);
}

/** Counts the agent's cases: A-C01, A-C02 … */
function agentTable(name: string, letter: string, count: number): Table {
  const cases = Array.from({ length: count }, (_, index) => `A-${letter}${String(index + 1).padStart(2, "0")}`);
  return { name, cases, files: () => true, mayLack: true };
}

/** Counts the cases of policy, whose tests leave the prefix out: P-L1, P-L2 … */
function policyTable(name: string, letter: string, count: number): Table {
  return { name, cases: counted(`P-${letter}`, count), files: isOfPolicy, mayLack: true };
}

/** Tells the cases of policy from others, which have the same letters. */
const isOfPolicy = (file: string) => /polic|identit/.test(file);

/** Tells the installer's cases from the IPAM plugin's, which have the same letter. */
const isInstaller = (file: string) => file.includes("/installer/");

/** Has the numbers of the contract's tables (I§11, C§11.1, C§11.2, C§11.4, A§10, P§7). */
export const TABLES: readonly Table[] = [
  { name: "executable", cases: counted("I", 18), files: (file) => !isInstaller(file) && !isOfPolicy(file) },
  { name: "installer", cases: counted("I", 25), files: isInstaller },
  { name: "kubevirt", cases: counted("K", 13), files: (file) => file.includes("/kubevirt") },
  { name: "pods", cases: counted("K", 44), files: (file) => /^cluster\/(main-plugin|etcd)\//.test(file) },
  { name: "containers", cases: counted("N", 24), files: (file) => !isOfPolicy(file) },
  agentTable("agent-ranges", "C", 11),
  agentTable("agent-api", "P", 11),
  agentTable("agent-attachments", "A", 19),
  agentTable("agent-deletions", "D", 7),
  agentTable("agent-addresses", "I", 10),
  agentTable("agent-restore", "R", 10),
  agentTable("agent-life", "L", 4),
  agentTable("agent-objects", "O", 5),
  agentTable("agent-upkeep", "G", 4),
  policyTable("policy-labels", "L", 7),
  policyTable("policy-identities", "I", 13),
  policyTable("policy-addresses", "A", 12),
  policyTable("policy-engine", "P", 23),
  policyTable("policy-packets", "N", 22),
];

/**
 * Returns the page with its tables as the tests of the working directory give them.
 *
 * @throws Error for a case without a test, unless it is the agent's
 */
export function testMap(page: string): string {
  const titles = readdirSync("test", { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".test.ts"))
    .sort()
    .flatMap(titlesOf);
  return TABLES.reduce((text, table) => {
    const rows = table.cases.map((name) => rowOf(name, table, titles));
    const place = new RegExp(`(<!-- ${table.name} -->\n).*?(<!-- end -->)`, "s");
    return text.replace(place, (_, begin: string, end: string) => `${begin}\n${rows.join("")}\n${end}`);
  }, page);
}

interface Title {
  readonly file: string;
  readonly cases: readonly string[];
  readonly text: string;
}

/** Reads a test's titles, and those of the tables of cases in test/support/ that it plays. */
function titlesOf(file: string): Title[] {
  const own = readFileSync(join("test", file), "utf8");
  const played = [...own.matchAll(/\btest\w*Cases\b.* from "((?:\.\.\/)+support\/[^"]+)";/g)];
  const tables = played.map(([, path = ""]) => join("test", dirname(file), path));
  const source = [own, ...tables.map((path) => readFileSync(path, "utf8"))].join("\n");
  return [...source.matchAll(/"((?:[A-Z]|A-[A-Z])\d+(?:, (?:[A-Z]|A-[A-Z])\d+)*)[:,] ([^"]+)"/g)].map(([, cases = "", text = ""]) => ({
    file,
    cases: cases.split(", ").map((one) => (isOfPolicy(file) && !one.startsWith("A-") ? `P-${one}` : one)),
    text,
  }));
}

/** Writes one item of the list: every title, with every file that has it. */
function rowOf(name: string, table: Table, titles: readonly Title[]): string {
  const files = new Map<string, string[]>();
  for (const { file, cases, text } of titles) {
    if (cases.includes(name) && table.files(file)) files.getOrInsert(text, []).push(`\`${file}\``);
  }
  if (files.size === 0 && table.mayLack) return `- ${name}: no test yet\n`;
  if (files.size === 0) throw new Error(`no test shows case ${name} of table ${table.name}`);
  return `${listItem(`${name}: ${[...files].map(([text, names]) => `${text}: ${names.join(", ")}`).join("; ")}`)}\n`;
}

const PAGE = "docs/project/test-map.md";
if (process.argv[1]?.endsWith("/scripts/test-map.ts")) writeFileSync(PAGE, testMap(readFileSync(PAGE, "utf8")));
