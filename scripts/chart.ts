/**
 * Makes the Helm chart as a folder or packaged: `bash scripts/chart FOLDER|ARCHIVE.tgz [REPOSITORY]`; templates come from the overlays, the
 * rest from manifests/chart. A repository (`registry.example/tortie`) becomes the default of the chart's image.
 */
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { execaSync } from "execa";
import { REPRODUCIBLE, VERSION_OF_PACKAGE } from "./image/archive.ts";
import { chartTemplates } from "./manifests/chart.ts";
import { readDocuments, renderFolder } from "./manifests/kustomization.ts";

const IMAGE = "tortie";

/** @param folder is replaced */
export function makeChart(folder: string, repository = IMAGE): void {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  cpSync(resolve("manifests/chart"), folder, { recursive: true });
  writeFileSync(join(folder, "Chart.yaml"), CHART);
  const values = join(folder, "values.yaml");
  writeFileSync(values, readFileSync(values, "utf8").replace(`repository: ${IMAGE}\n`, `repository: ${repository}\n`));
  const overlays = readdirSync(resolve("manifests/overlays")).toSorted();
  const source = {
    image: `${IMAGE}:${VERSION_OF_PACKAGE}`,
    overlays: overlays.map((name) => ({ name, objects: renderFolder(resolve("manifests/overlays", name)) })),
    monitoring: ["pod-monitors.yaml", "rules.yaml"].flatMap((name) => readDocuments(resolve("manifests/monitoring", name))),
  };
  for (const [name, text] of chartTemplates(source)) writeFileSync(join(folder, "templates", name), text);
}

/** Does `helm package`, but the same tree gives the same bytes. */
export function packageChart(archive: string, repository?: string): void {
  const parts = `${archive}.parts`;
  makeChart(join(parts, "tortie"), repository);
  const compressed = ["--use-compress-program", "gzip --no-name", "-cf", archive];
  execaSync("tar", [...REPRODUCIBLE, "--mode=u=rwX,go=rX", "-C", parts, ...compressed, "tortie"]);
  rmSync(parts, { recursive: true });
}

/** Demands Kubernetes 1.31 for `policy` (docs/how-to/install-cluster.md). */
const CHART = `apiVersion: v2
name: tortie
description: A routed container network for Kubernetes, a drop-in for Calico's CNI plugins
type: application
version: ${VERSION_OF_PACKAGE}
appVersion: ${VERSION_OF_PACKAGE}
kubeVersion: ">=1.31.0-0"
`;

if (import.meta.main) {
  const [folder, repository] = process.argv.slice(2);
  if (folder === undefined) throw new Error("usage: bash scripts/chart FOLDER|ARCHIVE.tgz [REPOSITORY]");
  if (folder.endsWith(".tgz")) packageChart(folder, repository);
  else makeChart(folder, repository);
}
