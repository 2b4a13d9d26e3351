/** Builds a world of nodes with pools and agents, and runs Cyclonus' generated cases in it (test/policy/cyclonus). */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { TestCluster } from "../support/kubernetes/test-cluster.ts";
import { ThreeNodes } from "../support/three-nodes.ts";
import { PodService } from "./pod-service.ts";

/** "all": every generated case; else how many a run has (CONTRIBUTING.md). */
const CASES = process.env.TORTIE_POLICY_CASES ?? "";
export const IS_WHOLE = CASES === "all";
const SEED = process.env.TORTIE_POLICY_SEED ?? "1";
const LIMIT_MS = 3_600_000;

export interface Run {
  /** Nodes that pods are spread over. */
  readonly nodes: readonly string[];
  /** What is dialled, and what blocks of addresses in policies are made of. */
  readonly family: 4 | 6;
  /** How many cases, when not every one is wanted. */
  readonly sample: number;
  readonly isEnforced: boolean;
}

export interface Report {
  readonly generated: number;
  readonly cases: number;
  readonly passed: number;
  readonly failed: readonly string[];
  readonly dials: number;
}

/** What came of changing objects and dialling at the same time. */
export interface ChurnReport {
  readonly changes: number;
  readonly dials: number;
  /** Dials for which all states that may have been in force say the same. */
  readonly certain: number;
  readonly passed: number;
  readonly wrong: readonly string[];
}

/** Runs the cases and prints each with its verdict. @throws Error when they could not be run to the end */
export function runCyclonus(cluster: TestCluster, run: Run): Promise<Report> {
  const sample = IS_WHOLE ? 0 : Number(CASES || run.sample);
  const only = process.env.TORTIE_POLICY_ONLY ?? "";
  return runDriver<Report>(cluster, run, [`--sample=${sample}`, `--only=${only}`, `--verbose=${run.isEnforced}`]);
}

/** Changes objects 50 times a second for so long, on one node, beside many pods and policies of others. */
export function runChurn(cluster: TestCluster, seconds: number, pods: number, policies: number): Promise<ChurnReport> {
  const run = { nodes: ["node1"], family: 4, isEnforced: true } as const;
  return runDriver<ChurnReport>(cluster, run, [`--churn=${seconds}s`, `--far-pods=${pods}`, `--far-policies=${policies}`]);
}

async function runDriver<T>(cluster: TestCluster, run: Omit<Run, "sample">, settings: readonly string[]): Promise<T> {
  await using world = await ThreeNodes.create(cluster);
  await world.pool("pool4", "10.70.0.0/24", { vxlanMode: "CrossSubnet" });
  await world.pool("pool6", "fd70::/112", { vxlanMode: "CrossSubnet" });
  const args = run.isEnforced ? [] : ["--policy", "off"];
  const machines = world.machines.filter(({ name }) => run.nodes.includes(name));
  await Promise.all(machines.map((machine) => machine.startAgent({ args })));
  await using pods = new PodService(world, machines, run.isEnforced);
  const report = join(cluster.dir, "cyclonus.json");
  const common = [`--kubeconfig=${cluster.adminKubeconfig}`, `--attacher=${pods.socket}`, `--report=${report}`, `--seed=${SEED}`];
  const child = Bun.spawn([program(), ...common, `--nodes=${run.nodes.join(",")}`, `--family=${run.family}`, ...settings], {
    stdio: ["ignore", "inherit", "inherit"],
    timeout: LIMIT_MS,
  });
  const exit = await child.exited;
  if (exit !== 0) throw new Error(`cyclonus ended with ${exit}`);
  return JSON.parse(readFileSync(report, "utf8"));
}

export interface MatcherVerdict {
  readonly egress: boolean;
  readonly ingress: boolean;
}

/** Asks Cyclonus' matcher about flows in clusters, without packets. @param clusters as test/policy/cyclonus/judge.go reads them */
export function askMatcher(clusters: readonly object[]): readonly (readonly MatcherVerdict[])[] {
  const output = execFileSync(program(), ["--judge"], { input: JSON.stringify(clusters), maxBuffer: 1 << 28, encoding: "utf8" });
  return JSON.parse(output);
}

/** The driver; scripts/jest has built it. */
function program(): string {
  const folder = execFileSync("bash", [resolve("scripts/cluster-servers"), "cyclonus"], { encoding: "utf8" }).trim();
  return join(folder, "cyclonus");
}
