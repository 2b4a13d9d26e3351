/**
 * Writes the tables of numbered cases in docs/test-map.md from the titles of tests, which begin with the case's number: "I4: gives …",
 * "K6, one pod CIDR", "K17, K18: a full pool …". `bash scripts/bun scripts/test-map.ts`; a unit test fails when the page is older.
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

interface Table {
  /** Of the mark `<!-- NAME -->` in the page. */
  readonly name: string;
  readonly letter: string;
  readonly count: number;
  readonly files: (file: string) => boolean;
}

/** The installer's cases have the letter of the IPAM plugin's. */
const isInstaller = (file: string) => file.includes("/installer/");

/** The numbers are those of the contract's tables (I§11, C§11.2, C§11.4). */
export const TABLES: readonly Table[] = [
  { name: "executable", letter: "I", count: 18, files: (file) => !isInstaller(file) },
  { name: "installer", letter: "I", count: 25, files: isInstaller },
  { name: "kubevirt", letter: "K", count: 13, files: (file) => file.includes("/kubevirt") },
  { name: "pods", letter: "K", count: 44, files: (file) => file.startsWith("cluster/main-plugin/") },
];

/**
 * The page with its tables as the tests of the working directory say them.
 *
 * @throws Error for a case that no test shows
 */
export function testMap(page: string): string {
  const titles = readdirSync("test", { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".test.ts"))
    .sort()
    .flatMap(titlesOf);
  return TABLES.reduce((text, table) => {
    const rows = Array.from({ length: table.count }, (_, index) => rowOf(`${table.letter}${index + 1}`, table, titles));
    const place = new RegExp(`(<!-- ${table.name} -->\n).*?(<!-- end -->)`, "s");
    return text.replace(place, (_, begin: string, end: string) => `${begin}| Case | Tests |\n| --- | --- |\n${rows.join("")}${end}`);
  }, page);
}

interface Title {
  readonly file: string;
  readonly cases: readonly string[];
  readonly text: string;
}

function titlesOf(file: string): Title[] {
  const source = readFileSync(join("test", file), "utf8");
  return [...source.matchAll(/"((?:[IK]\d+)(?:, [IK]\d+)*)[:,] ([^"]+)"/g)].map(([, cases = "", text = ""]) => ({
    file,
    cases: cases.split(", "),
    text,
  }));
}

/** One line a title, with every file that has it. */
function rowOf(name: string, table: Table, titles: readonly Title[]): string {
  const files = new Map<string, string[]>();
  for (const { file, cases, text } of titles) {
    if (cases.includes(name) && table.files(file)) files.set(text, [...(files.get(text) ?? []), `\`${file}\``]);
  }
  if (files.size === 0) throw new Error(`no test shows case ${name} of table ${table.name}`);
  return `| ${name} | ${[...files].map(([text, names]) => `${text}: ${names.join(", ")}`).join("; ")} |\n`;
}

const PAGE = "docs/test-map.md";
if (process.argv[1]?.endsWith("/scripts/test-map.ts")) writeFileSync(PAGE, testMap(readFileSync(PAGE, "utf8")));
